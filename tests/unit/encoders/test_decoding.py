"""Every kind of image becomes the right upright RGB; everything else becomes an ImageError with its path."""

import copy
import io
import os
import pickle
import struct
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lpplusplus.encoders.pixels.decoding import ImageError, Limits, decode, open_image, read_bytes
from toy_images import encoded, toy_image

PICTURE = toy_image(1)
FILES = {
    "JPEG": encoded(PICTURE, "JPEG", quality=95, subsampling=0),
    "progressive JPEG": encoded(PICTURE, "JPEG", quality=95, subsampling=0, progressive=True),
    "CMYK JPEG": encoded(PICTURE.convert("CMYK"), "JPEG", quality=95),
    "PNG": encoded(PICTURE, "PNG"),
    "WebP": encoded(PICTURE, "WEBP", quality=95),
    "lossless WebP": encoded(PICTURE, "WEBP", lossless=True),
    "BMP": encoded(PICTURE, "BMP"),
    "TIFF": encoded(PICTURE, "TIFF"),
    "LZW TIFF": encoded(PICTURE, "TIFF", compression="tiff_lzw"),
    "GIF": encoded(PICTURE, "GIF"),
}


def pixels(image):
    return np.asarray(image).astype(int)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, depth, colour, rows, *extra):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(extra) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", FILES)
def test_every_format_from_bytes_and_from_a_file_whatever_its_name(kind, tmp_path):
    path = tmp_path / "picture.txt"
    path.write_bytes(FILES[kind])
    for image in (open_image(FILES[kind]), open_image(path), open_image(str(path))):
        assert image.mode == "RGB"
        assert image.size == PICTURE.size
        assert np.abs(pixels(image) - pixels(PICTURE)).mean() < 4


@pytest.mark.parametrize("kind", FILES)
def test_a_prefix_of_a_file_is_refused_or_is_the_same_image(kind):
    """Only padding and end marks may be missing."""
    whole, content = pixels(open_image(FILES[kind])), FILES[kind]
    refused = 0
    for cut in [*range(1, len(content), max(1, len(content) // 60)), *range(len(content) - 12, len(content))]:
        try:
            assert np.array_equal(pixels(open_image(content[:cut])), whole)
        except ImageError:
            refused += 1
    assert refused > 50


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_damage_gives_an_image_or_an_image_error_and_nothing_else(kind, data):
    content = bytearray(FILES[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        # Headers are where readers go wrong, so half of the damage goes there.
        last = data.draw(st.sampled_from([63, len(content) - 1]))
        content[data.draw(st.integers(0, last))] = data.draw(st.integers(0, 255))
    try:
        image = open_image(bytes(content), Limits(max_pixels=10**6))
    except ImageError:
        return
    assert image.mode == "RGB"


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(format, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if format == "WEBP" else {"quality": 95} if format == "JPEG" else {}
    content = encoded(PICTURE, format, exif=exif, **options)
    stored = pixels(PICTURE)
    expected = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.swapaxes(0, 1),
        6: np.rot90(stored, -1),
        7: stored[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(stored),
    }[orientation]
    with Image.open(io.BytesIO(content)) as lazy:
        shown = open_image(lazy)
    for image in (open_image(content), shown):
        assert pixels(image).shape == expected.shape
        assert np.abs(pixels(image) - expected).mean() < (4 if format == "JPEG" else 1e-9)


def test_an_image_turned_by_its_user_is_not_turned_again():
    exif = Image.Exif()
    exif[0x0112] = 6
    with Image.open(io.BytesIO(encoded(PICTURE, "PNG", exif=exif))) as raw:
        by_hand = raw.rotate(-90, expand=True)
        assert by_hand.getexif()[0x0112] == 6
        assert np.array_equal(pixels(open_image(by_hand)), pixels(by_hand))


def test_broken_exif_does_not_hide_a_good_image():
    content = encoded(PICTURE, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff garbage")
    assert open_image(content).size == PICTURE.size


def test_transparency_is_laid_on_white():
    hidden = Image.new("RGBA", (2, 1), (200, 0, 0, 0))
    hidden.putpixel((1, 0), (200, 0, 0, 128))
    for content in (encoded(hidden, "PNG"), encoded(hidden, "WEBP", lossless=True), encoded(hidden, "TIFF")):
        left, right = pixels(open_image(content))[0]
        assert left.tolist() == [255, 255, 255]
        assert np.abs(right - [227, 127, 127]).max() <= 1
    grey = open_image(encoded(Image.new("LA", (1, 1), (0, 0)), "PNG"))
    assert grey.getpixel((0, 0)) == (255, 255, 255)
    for mode in ("RGBa", "La"):
        assert open_image(Image.new("RGBA", (1, 1), (0, 0, 0, 0)).convert(mode if mode == "RGBa" else "LA").convert(
            mode)).getpixel((0, 0)) == (255, 255, 255)  # fmt: skip


def test_palettes():
    plain = PICTURE.quantize(64)
    assert np.array_equal(pixels(open_image(encoded(plain, "PNG"))), pixels(plain.convert("RGB")))
    two = Image.new("P", (2, 1))
    two.putpalette([10, 20, 30, 40, 50, 60])
    two.putpixel((1, 0), 1)
    for content in (
        encoded(two, "PNG", transparency=0),  # One clear colour.
        encoded(two, "PNG", transparency=bytes([0, 255])),  # An alpha for each colour.
        encoded(two, "GIF", transparency=0),
    ):
        assert pixels(open_image(content))[0].tolist() == [[255, 255, 255], [40, 50, 60]]


def test_one_clear_colour_without_a_palette():
    clear = chunk(b"tRNS", struct.pack(">3H", 1, 2, 3))
    assert pixels(open_image(png(2, 1, 8, 2, [bytes([1, 2, 3, 4, 5, 6])], clear)))[0].tolist() == [[255] * 3, [4, 5, 6]]
    clear = chunk(b"tRNS", struct.pack(">3H", 0x1234, 0x5678, 0x9ABC))
    row = struct.pack(">6H", 0x1234, 0x5678, 0x9ABC, 0x1134, 0x5678, 0x9ABC)
    assert pixels(open_image(png(2, 1, 16, 2, [row], clear)))[0].tolist() == [[255] * 3, [0x11, 0x56, 0x9A]]
    clear = chunk(b"tRNS", struct.pack(">H", 0x1234))
    assert pixels(open_image(png(2, 1, 16, 0, [struct.pack(">2H", 0x1234, 257 * 9)], clear)))[0, :, 0].tolist() == [
        255,
        9,
    ]


def test_sixteen_bits_of_grey_are_scaled_not_clipped():
    values = np.arange(0, 65536, 257, dtype=np.uint16)[None]
    image = Image.fromarray(values)
    for content in (encoded(image, "PNG"), encoded(image, "TIFF")):
        assert np.array_equal(pixels(open_image(content))[0], np.arange(256)[:, None].repeat(3, 1))
    assert np.array_equal(pixels(open_image(image.convert("I")))[0, :, 0], np.arange(256))
    big_endian = Image.frombytes("I;16B", (256, 1), values.astype(">u2").tobytes())
    assert np.array_equal(pixels(open_image(big_endian))[0, :, 0], np.arange(256))


def tiff(width, height, bits, photometric, data):
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1), (278, height),
            (279, len(data))]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(tags)) + entries + bytes(4)


def test_grey_of_twelve_bits_and_of_zero_for_white():
    """Pillow leaves the numbers of such TIFFs as they are."""
    values = np.arange(0, 65536, 257, dtype="<u2")
    assert pixels(open_image(tiff(256, 1, 16, 1, values.tobytes())))[0, :, 0].tolist() == list(range(256))
    assert pixels(open_image(tiff(256, 1, 16, 0, values.tobytes())))[0, :, 0].tolist() == list(range(255, -1, -1))
    pair = 0x800, 0xFFF  # Twelve bits each, in three bytes.
    packed = bytes([pair[0] >> 4, (pair[0] & 15) << 4 | pair[1] >> 8, pair[1] & 255])
    assert pixels(open_image(tiff(2, 1, 12, 1, packed)))[0, :, 0].tolist() == [128, 255]


def test_values_without_a_scale_are_refused():
    beyond = Image.fromarray(np.array([[0, 70_000]], np.int32))
    with pytest.raises(ImageError, match="0 to 70000, beyond 16 bits"):
        open_image(encoded(beyond, "TIFF"))
    with pytest.raises(ImageError, match="kind 'F'"):
        open_image(encoded(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF"))


def test_cmyk_with_and_without_adobes_inversion():
    inverted = FILES["CMYK JPEG"]
    mark = inverted.index(b"\xff\xee")
    (length,) = struct.unpack(">H", inverted[mark + 2 : mark + 4])
    assert inverted[mark + 4 : mark + 9] == b"Adobe"
    plain = inverted[:mark] + inverted[mark + 2 + length :]
    assert np.abs(pixels(open_image(inverted)) - pixels(PICTURE)).mean() < 4
    # Without Adobe's mark the same samples mean ink, so the image is the one of the inverted inks.
    opposite = Image.merge("CMYK", [band.point(lambda v: 255 - v) for band in PICTURE.convert("CMYK").split()])
    assert np.abs(pixels(open_image(plain)) - pixels(opposite.convert("RGB"))).mean() < 4
    tiff = encoded(PICTURE.convert("CMYK"), "TIFF")
    assert np.array_equal(pixels(open_image(tiff)), pixels(PICTURE))


def test_first_frame():
    frames = [toy_image(seed).quantize(32) for seed in range(3)]
    gif = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert np.array_equal(pixels(open_image(gif)), pixels(frames[0].convert("RGB")))
    pages = [toy_image(seed) for seed in range(2)]
    tiff = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert np.array_equal(pixels(open_image(tiff)), pixels(pages[0]))
    mpo = encoded(pages[0], "MPO", save_all=True, append_images=pages[1:], quality=95)  # What many phones call .jpg.
    assert np.abs(pixels(open_image(mpo)) - pixels(pages[0])).mean() < 4


@pytest.mark.parametrize(
    "mode", ["1", "L", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LA", "PA", "I", "I;16"]
)
def test_pillow_images_of_any_mode(mode):
    if mode == "PA":
        image = PICTURE.convert("P").convert("PA")
    elif mode == "I;16":
        image = Image.fromarray(np.asarray(PICTURE.convert("L")).astype(np.uint16) * 257)
    elif mode == "I":
        image = Image.fromarray(np.asarray(PICTURE.convert("L")).astype(np.int32) * 257)
    else:
        image = PICTURE.convert(mode)
    before = image.copy()
    result = open_image(image)
    assert result.mode == "RGB"
    if mode == "1":
        expected = PICTURE.convert("1").convert("RGB")
    else:
        expected = PICTURE.convert("L").convert("RGB") if mode in ("L", "LA", "I", "I;16") else PICTURE
    assert np.abs(pixels(result) - pixels(expected)).mean() < (20 if mode in ("P", "PA") else 3)
    assert image.mode == before.mode
    assert image.tobytes() == before.tobytes()


def test_limits():
    with pytest.raises(ImageError, match=r"40 × 30 pixels, more than the 1,199 allowed"):
        open_image(FILES["PNG"], Limits(max_pixels=1199))
    assert open_image(FILES["PNG"], Limits(max_pixels=1200)).size == (40, 30)
    with pytest.raises(ImageError, match="40 × 30"):
        open_image(PICTURE, Limits(max_pixels=1199))
    with pytest.raises(ImageError, match=r"bytes, more than the 100 allowed"):
        open_image(FILES["PNG"], Limits(max_bytes=100))


def test_size_of_a_file_is_checked_before_it_is_read(tmp_path):
    path = tmp_path / "huge.jpg"
    with open(path, "wb") as file:
        file.truncate(2**40)  # Sparse: takes no room, but reading it would never end.
    with pytest.raises(ImageError, match="1,099,511,627,776 bytes"):
        open_image(path)


@pytest.mark.parametrize("side", [13_000, 60_000])
def test_bombs_are_refused_by_their_header(side):
    """The first is over our limit and over Pillow's warning, the second over Pillow's error."""
    rows = [bytes((side + 7) // 8)] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ImageError, match="pixels"):
            open_image(png(side, side, 1, 0, rows))


def test_text_in_a_png_cannot_explode():
    bomb = chunk(b"zTXt", b"key\0\0" + zlib.compress(bytes(2**27)))
    with pytest.raises(ImageError):
        open_image(png(1, 1, 8, 0, [b"\0"], bomb))


def test_warnings_stay_inside_and_filters_are_restored():
    side = 9_600  # Over Pillow's warning, under our limit.
    content = png(side, side, 1, 0, [bytes(side // 8)] * side)
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_image(content).size == (side, side)
    assert warnings.filters == before


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: p.write_text("I am a letter, renamed."), "is not a JPEG, PNG"),
        (lambda p: p.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), "is not a JPEG, PNG"),
        (lambda p: p.write_bytes(b""), "is empty"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: p.symlink_to(p.parent / "nowhere.jpg"), "is a broken symbolic link"),
        (lambda p: p.symlink_to(p), "leads back to itself"),
        (lambda p: None, "does not exist"),
        (lambda p: os.mkfifo(p), "is not a regular file"),
    ],
)
def test_what_is_not_an_image_is_reported_with_its_path(make, reason, tmp_path):
    path = tmp_path / "cat.jpg"
    make(path)
    with pytest.raises(ImageError, match=reason) as caught:
        open_image(path)
    assert caught.value.path == str(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_that_takes_the_place_of_an_image_is_not_waited_for(tmp_path, monkeypatch):
    """Between a look at the file and its opening: what counts is the open file."""
    image, pipe, stat = tmp_path / "cat.jpg", tmp_path / "pipe.jpg", os.stat
    image.write_bytes(FILES["PNG"])
    os.mkfifo(pipe)
    monkeypatch.setattr(os, "stat", lambda path, **how: stat(image if path == pipe else path, **how))
    with pytest.raises(ImageError, match="is not a regular file"):
        read_bytes(pipe)


def test_permission_denied_by_the_system(tmp_path, monkeypatch):
    """The same for root, whom the file system does not stop."""
    path = tmp_path / "cat.jpg"
    path.write_bytes(FILES["PNG"])

    def refuse(*_, **how):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ImageError, match="permission denied"):
        read_bytes(path)


def test_a_path_that_cannot_be():
    with pytest.raises(ImageError, match="not a usable path"):
        open_image("a\0b.jpg")


def test_the_error_survives_copying():
    error = ImageError("a.jpg", "is empty.")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (twin.path, twin.reason, str(twin)) == ("a.jpg", "is empty.", "a.jpg: is empty.")


@pytest.mark.parametrize("name", ["a.CR2", "a.nef", "a.dng", "a.ARW"])
@pytest.mark.parametrize("content", [FILES["TIFF"], b"\0\0\0\x18ftypcrx " + bytes(64)], ids=["TIFF", "CR3"])
def test_raw_photos_are_refused_with_advice(tmp_path, name, content):
    """Many are TIFF files, of which Pillow would show the thumbnail; a JPEG by that name is still a JPEG."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ImageError, match=r"is a RAW photo\. Export them as JPEG"):
        open_image(tmp_path / name)
    (tmp_path / name).write_bytes(FILES["JPEG"])
    assert open_image(tmp_path / name).size == PICTURE.size


def test_a_glance_at_a_large_jpeg_is_smaller_and_no_way_around_the_limits():
    content = encoded(toy_image(1, 900, 600), "JPEG")
    whole, quick = decode(content, "a.jpg"), decode(content, "a.jpg", glance=140)
    assert quick.size == (225, 150)
    assert np.abs(pixels(quick) - pixels(whole.resize(quick.size))).mean() < 2
    assert decode(content, "a.jpg", glance=601).size == (900, 600)
    with pytest.raises(ImageError, match="pixels"):
        decode(content, "a.jpg", Limits(max_pixels=500_000), glance=140)
