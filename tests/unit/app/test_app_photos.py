"""Photos to the browser and from it: always decoded by us, never as they lie in the folder."""

import io
import os
import struct
import zlib
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from lpplusplus.encoders.pixels.decoding import quiet_pillow
from toy_images import encoded, toy_image
from toy_project import photos_of

pytest.importorskip("fastapi", reason="needs the extra app")
from starlette.applications import Starlette
from starlette.testclient import TestClient

from lpplusplus.app import photos
from lpplusplus.app.project import Project

PAGE = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb(side):
    """A PNG of a few bytes that says it has side × side pixels, and has them: zeros, compressed."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    rows = zlib.compress(bytes((side + 7) // 8 + 1) * min(side, 100), 9)
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def lying_jpeg():
    """A small JPEG whose header says 65 000 × 65 000 pixels."""
    content = bytearray(encoded(toy_image(), "JPEG"))
    place = content.index(b"\xff\xc0")
    content[place + 5 : place + 9] = struct.pack(">HH", 65_000, 65_000)
    return bytes(content)


def private_photo():
    """A JPEG that tells where it was taken, and says something in a comment."""
    exif = Image.Exif()
    exif[0x010E] = "my garden"
    exif.get_ifd(0x8825)[1] = "N"
    return encoded(toy_image(3, 400, 300), "JPEG", exif=exif, comment=b"SECRET <script>")


PHOTOS = {
    "robin/1.jpg": encoded(toy_image(1, 800, 600), "JPEG"),
    "robin/wet wren #2?.png": encoded(toy_image(2, 800, 600), "PNG", compress_level=1),
    "unsorted/größe.png": encoded(toy_image(3, 800, 600), "PNG", compress_level=1),
}


@pytest.fixture
def project(tmp_path):
    with Project(tmp_path / "birds") as opened:
        opened.add_class("robin")
        for name, content in PHOTOS.items():
            (opened.root / name).write_bytes(content)
        yield opened


@pytest.fixture
def client(project):
    with (
        quiet_pillow(),
        TestClient(Starlette(routes=photos.routes(project), exception_handlers=photos.FAILURES)) as made,
    ):
        yield made


def upload(client, *files, to="robin"):
    return client.post(f"/upload/{to}", files=[("files", file) for file in files])


@pytest.mark.parametrize(("size", "longest"), [("160", 160), ("640", 640), ("1", 160), ("99999999", 160), ("x", 160)])
@pytest.mark.parametrize("name", PHOTOS)
def test_a_photo_is_shown_small(client, size, longest, name):
    for _ in range(2):  # The second from what was kept.
        answer = client.get(f"/photo/{quote(name)}?size={size}")
        assert answer.headers["content-type"] == "image/jpeg"
        shown = Image.open(io.BytesIO(answer.content))
        assert shown.size == (longest, longest * 3 // 4)
        wanted = Image.open(io.BytesIO(PHOTOS[name])).resize(shown.size)
        assert np.abs(np.asarray(shown).astype(int) - np.asarray(wanted)).mean() < 3


def test_nothing_but_pixels_reaches_the_browser(client, project):
    (project.root / "robin" / "2.jpg").write_bytes(private_photo())
    for size in (160, 640):
        for _ in range(2):
            content = client.get(f"/photo/robin/2.jpg?size={size}").content
            assert b"garden" not in content
            assert b"SECRET" not in content
            shown = Image.open(io.BytesIO(content))
            assert not shown.getexif()
            assert "comment" not in shown.info
    assert not [path for path in (project.hidden / "thumbnails").rglob("*.jpg") if b"SECRET" in path.read_bytes()]


def test_a_turned_photo_stands_upright(client, project):
    exif = Image.Exif()
    exif[0x0112] = 6
    (project.root / "robin" / "2.jpg").write_bytes(encoded(toy_image(3, 800, 600), "JPEG", exif=exif))
    assert Image.open(io.BytesIO(client.get("/photo/robin/2.jpg").content)).size == (120, 160)


def test_what_is_kept_follows_a_move_and_not_a_change(client, project):
    client.get("/photo/robin/1.jpg")
    kept = project.hidden / "thumbnails"
    before = sorted(path.name for path in kept.rglob("*.jpg"))
    assert len(before) == 1
    project.move(["robin/1.jpg"], "unsorted")
    first = client.get("/photo/unsorted/1.jpg")
    assert sorted(path.name for path in kept.rglob("*.jpg")) == before
    again = client.get("/photo/unsorted/1.jpg", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    toy_image(9, 300, 300).save(project.root / "unsorted" / "1.jpg")
    other = client.get("/photo/unsorted/1.jpg", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200
    assert Image.open(io.BytesIO(other.content)).size == (160, 160)


def test_only_an_address_with_a_version_is_kept_for_ever(client):
    assert "immutable" in client.get("/photo/robin/1.jpg?v=7").headers["cache-control"]
    assert "no-cache" in client.get("/photo/robin/1.jpg").headers["cache-control"]


@pytest.mark.parametrize(
    "content", [PAGE, b"", bomb(60_000), lying_jpeg()], ids=["svg", "empty", "png bomb", "jpeg bomb"]
)
def test_a_small_photo_that_somebody_else_left_is_not_trusted(client, project, content):
    """A folder may come with a `.lpp` of its maker's."""
    good = client.get("/photo/robin/1.jpg").content
    (kept,) = (project.hidden / "thumbnails").rglob("*.jpg")
    kept.write_bytes(content)
    assert client.get("/photo/robin/1.jpg").content == good
    kept.write_bytes(private_photo())
    assert b"SECRET" not in client.get("/photo/robin/1.jpg").content


def test_a_folder_of_small_photos_that_is_a_link_is_not_written(client, project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (project.hidden / "thumbnails").symlink_to(tmp_path / "elsewhere")
    assert client.get("/photo/robin/1.jpg").status_code == 404
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_photo_is_shown_though_nothing_can_be_kept(client, project):
    (project.hidden / "thumbnails").write_text("in the way")
    assert client.get("/photo/robin/1.jpg").status_code == 200


DISGUISED = {
    "svg": (PAGE, "is not a"),
    "html": (b"<!doctype html><script>alert(1)</script>", "is not a"),
    "empty": (b"", "is empty"),
    "truncated": (encoded(toy_image(1, 300, 300), "JPEG")[:900], "truncated"),
    "png bomb": (bomb(30_000), "pixels"),
    "larger bomb": (bomb(60_000), "pixels"),
    "jpeg bomb": (lying_jpeg(), "pixels"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a"),
    "pickle": (b"cos\nsystem\n(S'true'\ntR.", "is not a"),
    "zip": (b"PK\x03\x04" + bytes(100), "is not a"),
}


@pytest.mark.parametrize("kind", DISGUISED)
def test_what_is_no_photo_is_neither_taken_nor_shown(client, project, kind):
    content, reason = DISGUISED[kind]
    answer = upload(client, ("good.jpg", encoded(toy_image(), "JPEG"), "image/jpeg"), ("1.jpg", content, "image/jpeg"))
    assert answer.json()["added"] == ["robin/good.jpg"]
    (refused,) = answer.json()["refused"]
    assert refused["name"] == "'1.jpg'"
    assert reason in refused["reason"]
    assert list((project.hidden / "incoming").iterdir()) == []
    (project.root / "robin" / "2.jpg").write_bytes(content)
    for size in (160, 640):
        answer = client.get(f"/photo/robin/2.jpg?size={size}")
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/json"
        assert str(project.root) not in answer.text


def test_a_photo_with_a_page_behind_it_is_kept_as_a_photo(client, project):
    """A file that is both: the browser never gets its bytes, and its name says photo."""
    both = encoded(toy_image(), "JPEG") + PAGE
    (added,) = upload(client, ("both.html", both, "text/html")).json()["added"]
    assert added == "robin/both.html.jpg"
    assert b"script" not in client.get(f"/photo/{added}").content


def test_a_giant_file(client, monkeypatch):
    monkeypatch.setattr(photos, "LIMITS", photos.Limits(max_bytes=5000))
    answer = upload(client, ("big.png", encoded(toy_image(), "PNG") + bytes(5000), "image/png"))
    assert "bytes, more than" in answer.json()["refused"][0]["reason"]
    monkeypatch.setattr(photos, "MOST_BYTES", 4000)
    answer = upload(client, ("big.png", bytes(5000), "image/png"))
    assert answer.status_code == 413


def test_a_giant_file_in_the_folder_is_not_read(client, project):
    with open(project.root / "robin" / "2.jpg", "wb") as file:
        file.truncate(2**40)
    assert client.get("/photo/robin/2.jpg").status_code == 422


def test_too_many_files(client, project):
    many = [(f"{number}.png", b"x", "image/png") for number in range(photos.MOST_FILES + 1)]
    answer = upload(client, *many)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_many_images"
    assert len(photos_of(project, "robin")) == 2


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../evil.jpg", "evil.jpg"),
        ("/etc/passwd", "passwd.jpg"),
        ("C:\\Windows\\x.jpg", "x.jpg"),
        ("..", "photo.jpg"),
        (".bashrc", "bashrc.jpg"),
        ("a\x01\x1b[31mb\x7f.jpg", "a__[31mb_.jpg"),
        ("right\u202etxt.jpg", "right_txt.jpg"),
        ("nul\0.jpg", "nul_.jpg"),
        ("x" * 3000 + ".jpg", "x" * 96 + ".jpg"),
        ("NUL", "photo-NUL.jpg"),
        ("run.sh", "run.sh.jpg"),
    ],
)
def test_a_name_cannot_leave_the_folder(client, project, tmp_path, name, kept):
    before = {path for path in tmp_path.rglob("*") if ".lpp" not in path.parts}
    quoted = name.replace("\\", "\\\\").encode()
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="' + quoted + b'"\r\n\r\n'
    body += encoded(toy_image(), "JPEG") + b"\r\n--x--\r\n"
    answer = client.post("/upload/robin", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    after = {path for path in tmp_path.rglob("*") if ".lpp" not in path.parts}
    new = after - before
    if "\0" in name or "\x01" in name:  # The form's reader may refuse what no header may hold.
        assert answer.status_code in (200, 400)
    else:
        assert answer.status_code == 200
    assert new <= {project.root / "robin" / kept}
    assert answer.status_code == 400 or answer.json()["added"] == [f"robin/{kept}"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x\r\n",
        b"--x--",
        b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--",
        b"\xff" * 99,
        b"--x\r\n:\r\n\r\n",
    ],
)
def test_a_body_that_is_no_form(client, project, body):
    answer = client.post("/upload/robin", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert answer.status_code in (200, 400)
    assert answer.status_code == 400 or answer.json() == {"added": [], "refused": []}
    for kind in ("multipart/form-data", "text/plain", "application/json", ""):
        assert client.post("/upload/robin", content=body, headers={"Content-Type": kind}).status_code in (400, 415)
    assert len(photos_of(project, "robin")) == 2


@pytest.mark.parametrize(
    "name", ["owl", ".lpp", "..", "%2e%2e", "robin%2f..%2f..", "%2fetc", "robin%00", "a%5cb", "linked"]
)
def test_a_class_that_is_not_there(client, project, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    (project.root / "link").symlink_to(tmp_path / "elsewhere")
    answer = upload(client, ("1.png", encoded(toy_image(), "PNG"), "image/png"), to=name)
    assert answer.status_code in (404, 405)  # 405: the browser would have made another address of it.
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (project.hidden / "incoming").exists() or not os.listdir(project.hidden / "incoming")


def test_a_class_that_goes_while_photos_arrive(client, project, monkeypatch):
    real = photos.read_uploads

    async def slow(*arguments):
        found = await real(*arguments)
        project.remove_class("robin")
        return found

    monkeypatch.setattr(photos, "read_uploads", slow)
    assert upload(client, ("1.png", encoded(toy_image(), "PNG"), "image/png")).status_code == 404
    assert not os.listdir(project.hidden / "incoming")
