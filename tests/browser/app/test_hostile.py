"""`lpp app` as its user starts it, asked for what it must not give; and folders that somebody else has prepared."""

import os
import re
import socket
from urllib.parse import urlsplit

import httpx2
import pytest

from browsing import browser, running
from browsing import page as opened
from commands import run
from toy_images import encoded, make_folder, toy_image

pytest.importorskip("starlette", reason="needs the extra app")
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

NASTY = "<img src=x onerror=alert(1)>"


class Page:
    """A running page, as a program of its user sees it."""

    def __init__(self, address, root):
        self.whole, self.root = address, root
        parts = urlsplit(address)
        self.address, self.port = f"http://{parts.netloc}", parts.port
        self.client = httpx2.Client(
            base_url=self.address, trust_env=False, headers={"Origin": self.address}, timeout=600
        )
        assert self.client.get(address).status_code == 200
        ((name, value),) = self.client.cookies.items()
        self.cookie = f"{name}={value}"

    def raw(self, path):
        """Status and body for a path as it is: clients of today mend paths before they ask."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=300) as connection:
            lines = [
                f"GET {path} HTTP/1.1",
                f"Host: 127.0.0.1:{self.port}",
                f"Cookie: {self.cookie}",
                "Connection: close",
            ]
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            answer = connection.makefile("rb").read()
        return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("app") / "birds"
    make_folder(root, {"robin": 2, "wren": 2})
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(encoded(toy_image(9), "PNG"))
    (root / "robin" / "link.png").symlink_to(outside / "secret.png")
    (root / "linked").symlink_to(outside)
    (root / "robin" / "notes.txt").write_text("private")
    os.mkfifo(root / "robin" / "pipe.png")
    with running(root) as (address, _):
        made = Page(address, root)
        yield made
        made.client.close()


def test_it_shows_what_it_should(page):
    status, body = page.raw("/photo/robin/000.png?size=160")
    assert status == 200
    assert body.startswith(b"\xff\xd8")


PATHS = [
    "../outside/secret.png",
    "robin/../../outside/secret.png",
    "..%2foutside%2fsecret.png",
    "%2e%2e/outside/secret.png",
    "robin/..%2f..%2foutside%2fsecret.png",
    "..%5coutside%5csecret.png",
    "%252e%252e/outside/secret.png",
    "..;/outside/secret.png",
    "{outside}/secret.png",
    "/{outside}/secret.png",
    "%2f{outside}%2fsecret.png",
    "file:///etc/passwd",
    "C:/x.png",
    "robin/link.png",
    "linked/secret.png",
    "robin/notes.txt",
    "robin/pipe.png",
    "robin",
    "robin/",
    "%00",
    "robin/000.png%00",
    ".lpp/settings.json",
    "%ff%fe.png",
    "robin/../.lpp/settings.json",
    ".lpp/journal.jsonl",
    "classifier.lpp",
    "robin/%c0%ae%c0%ae/secret.png",
]


@pytest.mark.parametrize("path", [*PATHS, "", "x" * 5000])
def test_no_path_leaves_the_folder_or_shows_what_is_no_photo(page, path):
    outside = str(page.root.parent / "outside").lstrip("/")
    for size in ("", "?size=640"):
        status, body = page.raw(f"/photo/{path.format(outside=outside)}{size}")
        assert 400 <= status < 500
        assert b"\xff\xd8\xff" not in body
        assert b"\x89PNG" not in body
        assert str(page.root).encode() not in body


@pytest.mark.parametrize("path", ["/lpp/..%2f..%2fguard.py", "/lpp/../guard.py", "/lpp/%2e%2e/guard.py"])
def test_files_of_the_program_stay_inside(page, path):
    assert page.raw(path)[0] in (400, 404)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_there_is_no_description_for_programs(page, path):
    """FastAPI's page of it would load scripts from another host."""
    assert page.raw(path)[0] == 404


def test_without_the_cookie_nothing_answers(page):
    with httpx2.Client(base_url=page.address, trust_env=False) as stranger:
        text = page.client.get("/").text
        addresses = set(re.findall(r"""["'(](/[\w./-]+)["')]""", text))
        assert addresses == {"/lpp/icon.svg", "/lpp/page.css", "/lpp/page.js"}
        for path in (*addresses, "/", "/photo/robin/000.png", "/tab"):
            assert stranger.get(path).status_code == 401, path
        for path in ("/upload/robin", "/try", "/"):
            assert stranger.post(path, headers={"Origin": page.address}).status_code == 401


def test_another_page_can_neither_send_photos_nor_open_a_websocket(page):
    files = [("files", ("a.png", encoded(toy_image(), "PNG"), "image/png"))]
    before = sorted(os.listdir(page.root / "robin"))
    for origin in ("http://evil.example", "null", f"http://localhost:{page.port + 1}"):
        assert page.client.post("/upload/robin", files=files, headers={"Origin": origin}).status_code == 403
        with pytest.raises(InvalidStatus):
            connect(
                f"ws://127.0.0.1:{page.port}/tab",
                origin=origin,
                additional_headers={"Cookie": page.cookie},
            )
    assert page.client.post("/upload/robin", files=files, headers={"Host": "evil.example"}).status_code == 403
    assert sorted(os.listdir(page.root / "robin")) == before


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_only_with_a_password(tmp_path, host):
    done = run("app", tmp_path / "birds", "--host", host, "--no-open", "--port", "0")
    assert done.returncode in (1, 2)
    assert "--password" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("app", tmp_path / "birds", "--host", host, "--password", "short", "--no-open", "--port", "0")
    assert done.returncode in (1, 2)
    assert "8 or more" in done.stderr
    assert not (tmp_path / "birds").exists()


def test_names_in_a_folder_are_text_to_the_browser(tmp_path):
    """Names that are pieces of pages, and names that are no text at all."""
    root = tmp_path / "birds"
    make_folder(root, {NASTY: 2, "{{ 7 * 7 }}": 2, "wren": 2, "unsorted": 1})
    (root / "wren" / f"{NASTY}.png").write_bytes(encoded(toy_image(7), "PNG"))
    (root / "wren" / '" onload="alert(2).png').write_bytes(encoded(toy_image(8), "PNG"))
    with open(os.fsencode(root / "wren") + b"/\xff\xfe.png", "wb") as file:
        file.write(encoded(toy_image(9), "PNG"))
    os.mkdir(os.fsencode(root) + b"/\xff")
    with running(root) as (address, _), browser() as chromium, opened(chromium, address) as tab:
        said = []
        tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        tab.get_by_text(NASTY).first.wait_for()
        tab.get_by_text("{{ 7 * 7 }}").first.wait_for()
        for number in range(tab.get_by_role("tab").count()):
            tab.get_by_role("tab").nth(number).click()
            tab.wait_for_timeout(300)
        here = address.partition("/?")[0]
        assert said == []
        assert [url for url in tab.requested if not url.startswith((here, "data:", "blob:"))] == []
