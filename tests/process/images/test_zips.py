"""Zip files as sources: the same images as the folder they were made of, and nothing hostile gets through."""

import struct
import zipfile

import numpy as np
import pytest

from commands import complaint, lpp
from lpplusplus.encoders.pixels.decoding import ImageError, Limits
from lpplusplus.images import ImageClassifier, embed, open_images
from lpplusplus.images.sources import SourceError, folders
from lpplusplus.images.sources.folders import from_zip
from toy_encoder import ToyEncoder
from toy_images import contents, encoded, make_folder, toy_image

PICTURE = encoded(toy_image(), "PNG")


def zipped(path, members, **options):
    """A zip file with that content by name; None makes a folder."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = options.get("compression", zipfile.ZIP_STORED)
            archive.writestr(info, b"" if content is None else content)
    return path


def of_folder(folder, path, inside="", **options):
    return zipped(path, {inside + name: content for name, content in contents(folder).items()}, **options)


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"great_tit": 3, "robin": 4})


@pytest.mark.parametrize("inside", ["", "photos/", "a/b/"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_same_as_its_folder(photos, tmp_path, inside, compression):
    path = of_folder(photos, tmp_path / "photos.zip", inside, compression=compression)
    before = contents(tmp_path)
    images = open_images(path)
    assert images.labels.tolist() == ["great_tit"] * 3 + ["robin"] * 4
    assert images.names == ("great tit", "robin")
    assert images.paths()[0] == f"{path.as_posix()}/{inside}great_tit/000.png"
    found, expected = embed(images, ToyEncoder()), embed(open_images(photos), ToyEncoder())
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.hashes, expected.hashes)
    clf = ImageClassifier(ToyEncoder()).fit(path)
    np.testing.assert_array_equal(clf.predict_proba(path), clf.predict_proba(photos))
    assert clf.evaluate(path).accuracy == clf.evaluate(photos).accuracy
    assert contents(tmp_path) == before  # Nothing was unpacked.


def test_hidden_files_other_files_and_what_macos_adds(tmp_path):
    names = ("p/a/._1.png", "p/a/.DS_Store", "__MACOSX/p/a/._1.png", "p/notes.txt")
    folders = dict.fromkeys(("p/", "p/a/", "p/a/empty/", "__MACOSX/"))
    pictures = dict.fromkeys(("p/a/1.png", "p/b/deep/2.JPG"), PICTURE)
    path = zipped(tmp_path / "z.zip", {**folders, **dict.fromkeys(names, b"x"), **pictures})
    images = from_zip(path)
    assert images.classes == ("a", "b")
    assert images.ignored == 3


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_windows_names_and_doubles(tmp_path):
    """Backslashes are borders; of two files with one name the last counts; a folder is never replaced by a file."""
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for name, content in (("a\\1.png", b"old"), ("a\\1.png", PICTURE), ("b/1.png", PICTURE), ("b", PICTURE)):
            archive.writestr(name, content)
    images = from_zip(tmp_path / "z.zip")
    assert images.labels.tolist() == ["a", "b"]
    assert images.items[0].read_bytes(Limits()) == PICTURE


@pytest.mark.parametrize("name", ["../../x.png", "a/../../x.png", "/etc/x.png", "\\x.png", "C:\\x.png", "a\\..\\x.png"])
def test_names_that_lead_out(tmp_path, name):
    (tmp_path / "in").mkdir()
    path = zipped(tmp_path / "in" / "z.zip", {"a/1.png": PICTURE, "b/1.png": PICTURE, name: PICTURE})
    for labels in (True, False):
        with pytest.raises(SourceError, match="leads out of it"):
            from_zip(path, labels=labels)
    assert list(contents(tmp_path)) == ["in/z.zip"]


def test_odd_names_are_only_names(tmp_path):
    odd = ["<script>alert(1)", "{0.__class__}", "%s", "[red]", "naïve 鳥"]
    path = zipped(tmp_path / "z.zip", {f"{name}/1.png": PICTURE for name in odd})
    assert from_zip(path).classes == tuple(sorted(odd))
    long = zipped(tmp_path / "long.zip", {"a" * 600 + "/1.png": PICTURE, "b/1.png": PICTURE})
    with pytest.raises(SourceError, match="600 characters, more than 500"):
        from_zip(long)
    deep = zipped(tmp_path / "deep.zip", {"a/" * 40 + "1.png": PICTURE})
    with pytest.raises(SourceError, match="more than 32 folders"):
        from_zip(deep)


def test_encrypted(tmp_path):
    """The flag of an encrypted file, set by hand in both headers."""
    path = zipped(tmp_path / "z.zip", {"a/1.png": PICTURE, "b/1.png": PICTURE})
    content = bytearray(path.read_bytes())
    content[6] |= 1
    central = content.index(b"PK\x01\x02")
    content[central + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"is encrypted \('a/1.png'\): unzip it, and name the folder"):
        from_zip(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing(tmp_path, compression):
    path = zipped(tmp_path / "z.zip", {"a/1.png": PICTURE, "b/1.png": PICTURE}, compression=compression)
    with pytest.raises(SourceError, match="make it with plain zip"):
        from_zip(path)


def test_bombs(tmp_path, monkeypatch):
    """Refused from the headers, before a byte is unpacked."""
    monkeypatch.setattr(folders, "FREELY_UNPACKED", 2**20)
    members = {f"a/{i}.bmp": bytes(2**20) for i in range(3)} | {"b/1.png": PICTURE}
    path = zipped(tmp_path / "z.zip", members, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(SourceError, match="but would take 3,147,026 unpacked"):
        from_zip(path)
    monkeypatch.setattr(folders, "MOST_MEMBERS", 3)
    with pytest.raises(SourceError, match="has 4 files, more than 3"):
        from_zip(path)


def test_a_header_that_lies_about_the_size(tmp_path):
    """What is unpacked ends where the header says, and the checksum then fails."""
    big = zipped(tmp_path / "z.zip", {"a/1.bmp": bytes(2**20), "b/1.png": PICTURE}, compression=zipfile.ZIP_DEFLATED)
    content = bytearray(big.read_bytes())
    for at in (22, content.index(b"PK\x01\x02") + 24):
        content[at : at + 4] = struct.pack("<I", 100)
    big.write_bytes(content)
    images = from_zip(big)
    with pytest.raises(ImageError, match=r"z.zip/a/1.bmp: is damaged in the archive"):
        images.items[0].read_bytes(Limits())
    assert [problem.path for problem in embed(images, ToyEncoder(), on_error="skip").skipped] == [f"{big}/a/1.bmp"]


def test_an_image_that_is_too_large(tmp_path):
    images = from_zip(zipped(tmp_path / "z.zip", {"a/1.png": PICTURE, "b/1.png": PICTURE}))
    with pytest.raises(ImageError, match="more than 10 allowed"):
        embed(images, ToyEncoder(), limits=Limits(max_bytes=10))


def test_a_zip_in_a_zip_is_not_opened(tmp_path):
    inner = zipped(tmp_path / "inner.zip", {"a/1.png": PICTURE}).read_bytes()
    path = zipped(tmp_path / "z.zip", {"a/1.png": PICTURE, "b/1.png": PICTURE, "b/more.zip": inner})
    with pytest.warns(UserWarning, match=r"1 zip file is left out, .*more\.zip first"):
        assert len(from_zip(path)) == 2
    with pytest.raises(SourceError, match=r"no class folders.*zip file.*left out"):
        from_zip(zipped(tmp_path / "only.zip", {"more.zip": inner}))


@pytest.mark.parametrize("content", [b"", b"PK\3\4 not really", b"<html>", PICTURE])
def test_no_zip_at_all(tmp_path, content):
    (tmp_path / "z.zip").write_bytes(content)
    with pytest.raises(SourceError, match=r"z\.zip is damaged, or no zip file"):
        from_zip(tmp_path / "z.zip")


def test_on_the_command_line(photos, tmp_path):
    path = of_folder(photos, tmp_path / "p.zip")
    said = lpp("train", path, "-o", tmp_path / "m.lpp")
    assert "2 classes from 7 images" in said
    assert "p.zip/robin/000.png" in lpp("predict", tmp_path / "m.lpp", path)
    assert "Accuracy" in lpp("evaluate", tmp_path / "m.lpp", path)
    (tmp_path / "bad.zip").write_bytes(b"no")
    assert "bad.zip is damaged" in complaint("train", tmp_path / "bad.zip", "-o", tmp_path / "x.lpp")
