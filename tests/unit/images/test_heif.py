"""HEIC and AVIF images, as phones save them: read where that is possible, and never left out without a word."""

import warnings

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lpplusplus.cli.lpp import app
from lpplusplus.encoders.pixels import decoding
from lpplusplus.encoders.pixels.decoding import ImageError, extra_formats, open_image
from lpplusplus.images import ImageClassifier
from lpplusplus.images.sources import SourceError, from_folder, open_images
from toy_encoder import ToyEncoder
from toy_images import encoded, make_folder, toy_image

HEIC = b"\0\0\0\x1cftypheic\0\0\0\0mif1heic" + bytes(100)
"""The beginning of a file from a phone; enough to know it by."""
BOTH = [
    pytest.param(kind, suffix, marks=pytest.mark.skipif(kind not in extra_formats(), reason=f"no {kind} here"))
    for kind, suffix in (("HEIF", ".heic"), ("AVIF", ".avif"))
]


@pytest.fixture
def without(monkeypatch):
    """Neither package is installed."""
    monkeypatch.setattr(decoding, "extra_formats", lambda: ())


@pytest.fixture
def photos(tmp_path):
    """A folder of eight images, two of which are from a phone."""
    root = make_folder(tmp_path / "photos", {"a": 3, "b": 3})
    (root / "a" / "IMG_1.HEIC").write_bytes(HEIC)
    (root / "b" / "IMG_2.avif").write_bytes(HEIC.replace(b"heic", b"avif"))
    return root


def test_without_the_packages_it_says_how_many_and_what_to_install(without, photos):
    with pytest.warns(
        UserWarning, match=r'2 HEIC or AVIF images are left out, .*IMG_1\.HEIC first.*lpplusplus\[heif\]"'
    ):
        images = from_folder(photos)
    assert (len(images), images.ignored) == (6, 2)
    with pytest.warns(UserWarning, match="2 HEIC or AVIF"):
        assert len(open_images(photos, labels=False)) == 6


def test_a_class_of_nothing_else_is_not_empty_without_a_word(without, photos):
    for path in (photos / "a").glob("*.png"):
        path.unlink()
    with pytest.raises(SourceError, match=r'without images: \'a\'.* 2 HEIC or AVIF .*pip install "lpplusplus\[heif\]"'):
        from_folder(photos)
    with pytest.raises(SourceError, match=r"has no images .* 1 HEIC or AVIF image is left out"):
        from_folder(photos / "a", labels=False)


def test_one_that_is_named_is_refused_with_the_remedy(without, photos, tmp_path):
    for content in (HEIC, HEIC.replace(b"heic", b"avif"), HEIC.replace(b"ftypheic", b"ftypmif1")):
        with pytest.raises(ImageError, match=r'is a HEIC or AVIF image\. To read .*pip install "lpplusplus\[heif\]"'):
            open_image(content)
    with pytest.raises(ImageError, match="is not a JPEG"):
        open_image(HEIC.replace(b"ftypheic", b"ftypisom"))  # A film.
    clf = ImageClassifier(ToyEncoder()).fit(make_folder(tmp_path / "others", {"a": 2, "b": 2}))
    with pytest.raises(ImageError, match=r"IMG_1\.HEIC: is a HEIC or AVIF image"):
        clf.predict([photos / "a" / "IMG_1.HEIC"])


@pytest.mark.filterwarnings("default")
def test_the_command_line_says_it_in_a_line(without, photos, tmp_path):
    """In this process, where nothing is installed; its output has both streams."""
    done = CliRunner().invoke(app, ["embed", str(photos), "-o", str(tmp_path / "features")])
    assert done.exit_code == 0
    [line] = [line for line in done.output.splitlines() if "HEIC" in line]
    assert line.startswith("lpp: ")
    assert "2 HEIC or AVIF images are left out" in line
    assert "Warning" not in line


def test_no_warning_where_there_is_nothing_to_warn_of(without, tmp_path):
    make_folder(tmp_path / "photos", {"a": 2, "b": 2})
    (tmp_path / "photos" / "a" / ".hidden.heic").write_bytes(HEIC)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_folder(tmp_path / "photos").ignored == 1


@pytest.mark.parametrize(("kind", "suffix"), BOTH)
class TestWithThePackages:
    def test_in_a_folder(self, tmp_path, kind, suffix):
        root = make_folder(tmp_path / "photos", {"a": 3, "b": 3})
        (root / "a" / f"IMG{suffix.upper()}").write_bytes(encoded(toy_image(9), kind, quality=95))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            images = from_folder(root)
        assert (len(images), images.ignored) == (7, 0)
        clf = ImageClassifier(ToyEncoder()).fit(root)
        assert len(clf.support_) == 7
        assert clf.predict([root / "a" / f"IMG{suffix.upper()}"]).tolist() == ["a"]

    def test_pixels_and_transparency(self, kind, suffix):
        image = open_image(encoded(toy_image(9), kind, quality=95))
        assert image.mode == "RGB"
        assert np.abs(np.asarray(image, int) - np.asarray(toy_image(9), int)).mean() < 4
        clear = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
        assert min(open_image(encoded(clear, kind, quality=95)).getpixel((9, 9))) > 250

    def test_orientation(self, kind, suffix):
        exif = Image.Exif()
        exif[0x0112] = 6
        turned = open_image(encoded(toy_image(9), kind, quality=95, exif=exif.tobytes()))
        expected = toy_image(9).transpose(Image.Transpose.ROTATE_270)
        assert turned.size == expected.size
        assert np.abs(np.asarray(turned, int) - np.asarray(expected, int)).mean() < 6

    def test_damage(self, kind, suffix):
        content = encoded(toy_image(9), kind)
        for length in (20, 100, len(content) // 2, len(content) - 20):
            with pytest.raises(ImageError, match=r"truncated or damaged|is not a JPEG"):
                open_image(content[:length])
