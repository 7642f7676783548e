"""The guard before the page, asked by requests that should not pass. A real uvicorn, real sockets."""

import asyncio
import contextlib
import socket
import threading
import time
from types import SimpleNamespace

import httpx2
import pytest

pytest.importorskip("websockets")
uvicorn = pytest.importorskip("uvicorn")
from starlette.applications import Starlette  # noqa: E402
from starlette.responses import PlainTextResponse  # noqa: E402
from starlette.routing import Route, WebSocketRoute  # noqa: E402
from websockets.exceptions import InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from lpplusplus.app import guard  # noqa: E402

TOKEN, PASSWORD = "t" * 43, "correct horse"


class Inside:
    """An application that remembers who reached it."""

    def __init__(self):
        self.reached = []
        self.app = Starlette(
            routes=[Route("/{path:path}", self.http, methods=["GET", "POST", "DELETE"]), WebSocketRoute("/ws", self.ws)]
        )

    async def http(self, request):
        self.reached.append(request.method)
        return PlainTextResponse("inside")

    async def ws(self, socket):
        self.reached.append("websocket")
        await socket.accept()
        await socket.send_text("inside")
        await socket.close()


class Site:
    def __init__(self, inside, port):
        self.inside, self.port, self.address = inside, port, f"http://127.0.0.1:{port}"

    def client(self, **options):
        return httpx2.Client(base_url=self.address, trust_env=False, timeout=300, **options)

    @contextlib.contextmanager
    def known(self):
        """A client with the cookie."""
        with self.client() as client:
            assert client.get("/", params={"token": TOKEN}).status_code == 200
            yield client

    def say(self, *lines):
        """Send these lines as they are; the status."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=300) as connection:
            connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            return int(connection.makefile("rb").readline().split()[1])


@contextlib.contextmanager
def site(**options):
    inside = Inside()
    app = guard.protect(inside.app, token=TOKEN, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield Site(inside, server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def local():
    with site() as made:
        yield made


@pytest.fixture
def here(local):
    local.inside.reached.clear()
    return local


def cookie(client):
    ((name, value),) = client.cookies.items()
    return f"{name}={value}"


def test_the_token_becomes_a_cookie_and_leaves_the_address(here):
    with here.client() as client:
        answer = client.get("/", params={"token": TOKEN, "tab": 'try"><script>'})
        assert answer.status_code == 200
        assert here.inside.reached == []
        assert TOKEN not in answer.text
        assert "<script" not in answer.text
        assert answer.text.split()[:3] == ["<!doctype", "html>", "<html"]  # It was escaped, and shown as a text.
        assert "0;url=/?tab=try%22" in answer.text
        sent = answer.headers["set-cookie"]
        assert "HttpOnly" in sent
        assert "SameSite=strict" in sent
        assert TOKEN not in sent
        assert client.get("/anything").text == "inside"


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", f"?token={TOKEN}x", "?token=%F0%28", "?token[]=a"])
def test_without_the_token_nothing_is_shown(here, query):
    with here.client() as client:
        for path in ("/", "/photo/cats/a.jpg", "/lpp/page.js"):
            assert client.get(path + query).status_code == 401
        assert client.post("/" + query, headers={"Origin": here.address}).status_code == 401
    assert here.inside.reached == []


def test_a_wrong_token_beside_a_good_cookie_is_refused_too(here):
    with here.known() as client:
        assert client.get("/?token=wrong").status_code == 401


@pytest.mark.parametrize("value", ["wrong", "", '"', "\u00ff"])
def test_a_wrong_cookie(here, value):
    with here.known() as client:
        name = cookie(client).partition("=")[0]
    with here.client(headers={"Cookie": f"{name}={value}".encode("latin-1")}) as client:
        assert client.get("/").status_code == 401
    assert here.inside.reached == []


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:{}", "127.0.0.1.evil.example:{}", "localhost.evil.example", "192.168.0.7:{}",
             "evil.example@127.0.0.1", "localhost,evil.example", "[::1].evil.example", "[::1", ""]
)  # fmt: skip
def test_another_name_for_this_machine(here, name):
    """DNS rebinding: the page of another host, whose name leads here by now. Even with the cookie."""
    with here.known() as client:
        lines = [f"Host: {name.format(here.port)}", f"Cookie: {cookie(client)}"]
    assert here.say("GET / HTTP/1.1", *lines) in (400, 403)
    assert here.say("GET / HTTP/1.1", f"Host: 127.0.0.1:{here.port}", *lines) in (400, 403)  # Two of them.
    assert here.say("GET / HTTP/1.0", *lines[1:]) in (400, 403)  # None.
    assert here.inside.reached == []


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:80"])
def test_all_names_of_this_machine(here, name):
    with here.known() as client:
        assert here.say("GET / HTTP/1.1", f"Host: {name}", f"Cookie: {cookie(client)}") == 200


ELSEWHERE = [
    "http://evil.example",
    "null",
    "",
    "http://127.0.0.1:1",
    "http://localhost",
    "file://",
    "http://[",
    "https://",
]


@pytest.mark.parametrize("origin", ELSEWHERE)
def test_a_request_of_another_page(here, origin):
    with here.known() as client:
        for method in ("POST", "DELETE", "GET"):
            assert client.request(method, "/", headers={"Origin": origin}).status_code == 403, method
    assert here.inside.reached == []


def test_a_change_needs_an_origin(here):
    with here.known() as client:
        assert client.post("/").status_code == 403
        two = [("Origin", here.address), ("Origin", "http://evil.example")]
        assert client.post("/", headers=two).status_code == 403
        assert here.inside.reached == []
        assert client.post("/", headers={"Origin": here.address}).text == "inside"


def test_what_another_page_embeds(here):
    """Another port of this machine is the same site to a browser, which sends the cookie along."""
    with here.known() as client:
        for site in ("cross-site", "same-site"):
            embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
            framed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
            assert client.get("/photo/a.jpg", headers=embedded).status_code == 403
            assert client.get("/", headers=framed).status_code == 403
        assert here.inside.reached == []
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert client.get("/", headers=link).status_code == 200
        assert client.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def refused(here, name="127.0.0.1", **options):
    connection = socket.create_connection(("127.0.0.1", here.port), timeout=300)
    with connection, pytest.raises(InvalidStatus) as caught:
        connect(f"ws://{name}:{here.port}/ws", sock=connection, open_timeout=300, **options)
    assert here.inside.reached == []
    return caught.value.response.status_code


@pytest.mark.parametrize("origin", [None, *ELSEWHERE[:-1]])
def test_a_websocket_of_another_page(here, origin):
    """Browsers open websockets across origins and send cookies along: Starlette itself would let them in."""
    with here.known() as client:
        assert refused(here, origin=origin, additional_headers={"Cookie": cookie(client)}) == 403


def test_a_websocket_by_another_name_or_without_the_cookie(here):
    with here.known() as client:
        sent = {"Cookie": cookie(client)}
    assert refused(here, "evil.example", origin=f"http://evil.example:{here.port}", additional_headers=sent) == 403
    assert refused(here, origin=here.address) == 403
    assert refused(here, origin=here.address, additional_headers={"Cookie": "lpp=wrong"}) == 403


def test_a_websocket_of_the_page(here):
    with here.known() as client, connect(
        f"ws://127.0.0.1:{here.port}/ws", origin=here.address, additional_headers={"Cookie": cookie(client)}
    ) as opened:  # fmt: skip
        assert opened.recv() == "inside"


def test_every_answer_keeps_the_browser_careful(here):
    with here.known() as client:
        for answer in (client.get("/"), client.get("/", headers={"Origin": "null"}), client.get("/?token=x")):
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert "http" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            assert answer.headers["cache-control"] == "no-store"


def test_the_password(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with site(password=PASSWORD, hosts=guard.names_of("0.0.0.0")) as there, there.client() as client:
        sent = {"Origin": there.address}

        def guess(password):
            return client.post("/", data={"password": password}, headers=sent)

        assert 'type="password"' in client.get("/").text
        assert guess("wrong").status_code == 401
        assert guess(PASSWORD).status_code == 429  # At once: a program that guesses, not a person.
        assert there.inside.reached == []
        now[0] += guard.SECONDS_BETWEEN_GUESSES
        assert guess("x" * 5000).status_code == 413
        now[0] += guard.SECONDS_BETWEEN_GUESSES
        assert client.post("/", data={"password": PASSWORD}).status_code == 403  # A form of another page.
        assert client.post("/photo", data={"password": PASSWORD}, headers=sent).status_code == 401
        assert guess(PASSWORD).status_code == 200
        assert client.get("/").text == "inside"
        # An address in digits cannot be somebody's name for us; a name can.
        assert there.say("GET / HTTP/1.1", "Host: 192.168.0.7:8080", f"Cookie: {cookie(client)}") == 200
        assert there.say("GET / HTTP/1.1", "Host: evil.example", f"Cookie: {cookie(client)}") == 403


def test_two_pages_on_one_machine_keep_their_cookies():
    """Browsers do not tell ports apart when they keep cookies."""
    with site() as one, one.known() as client:
        other = guard.protect(one.inside.app, token="u" * 43)
        assert other._cookie not in client.cookies


def test_names_of_an_address():
    assert guard.names_of("192.168.0.7") >= {"localhost", "192.168.0.7"}
    assert "[fe80::1]" in guard.names_of("fe80::1")


def test_a_mistake_of_the_page_is_not_hidden():
    def failing(message):
        async def app(scope, receive, send):
            raise RuntimeError(message)

        return app

    async def ask(app):
        guarded = guard.protect(app, token=TOKEN, password=None, hosts={"127.0.0.1"})
        cookie = f"{guarded._cookie}={guarded._session}".encode()
        headers = [(b"host", b"127.0.0.1:1"), (b"cookie", cookie)]
        scope = {"type": "http", "method": "GET", "path": "/photo/x", "query_string": b"", "headers": headers,
                 "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2), "scheme": "http"}  # fmt: skip
        await guarded(scope, None, None)

    with pytest.raises(RuntimeError, match="a bug"):
        asyncio.run(ask(failing("a bug")))
