"""Any image file as an upright RGB image, or an `ImageError` that says which file and why.

What is decided here, once:

- The content decides the format, never the name: JPEG, PNG, WebP, BMP, TIFF and GIF; with the packages of the extra
  `heif` also HEIC and AVIF. If there are several frames or pages, the first is taken.
- RAW photos are refused: many are TIFF files, of which Pillow would show only the thumbnail.
- Orientation from EXIF is applied, as every viewer does.
- Transparent parts become white. `convert("RGB")` would show the hidden colour of transparent pixels, usually black;
  cut-outs and logos are drawn for a light page.
- Grey of 16 bits is divided by 257 and rounded, so that 65535 is white. Pillow's own conversion clips at 255.
- Colour profiles are not applied, since encoders were trained without them.
- JPEG's fast half-size decoding (`draft`) is used only to show images: it changes pixels, and so embeddings.
"""

import errno
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from os import PathLike

import numpy as np
from PIL import Image, ImageChops, ImageFile, UnidentifiedImageError, features

from ..._core.files import open_regular
from ..._core.threads import fork_safe_lock
from . import RAW_ADVICE, RAW_SUFFIXES

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF"} | dict.fromkeys(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "HEIF"
)
"""Bytes 8 to 12 of a HEIC or AVIF file, after "ftyp"."""
CONVENTIONS = 2
"""Version of these rules, a part of the feature store's key. Increase it when a changed rule changes pixels."""

_ORIENTATION = 0x0112
_BITS, _PHOTOMETRIC = 258, 262  # Tags of TIFF.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_loading = fork_safe_lock()


@dataclass(frozen=True)
class Limits:
    """The largest image that is decoded. Checked on the file's size and header, before memory is used."""

    max_bytes: int = 256 * 2**20
    max_pixels: int = 150_000_000


DEFAULT_LIMITS = Limits()


class ImageError(ValueError):
    """An image that cannot be used.

    Attributes
    ----------
    path : str
        Which one; "<bytes>" or "<image>" where it is not a file.
    reason : str
        What is wrong with it.
    """

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(os.fspath(path), reason)
        self.path = os.fspath(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


HOW_TO_READ_MORE = 'To read HEIC and AVIF images: pip install "lpplusplus[heif]".'


@cache
def extra_formats() -> tuple[str, ...]:
    """Which of "HEIF" and "AVIF" can be read here."""
    found = []
    with suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
        found.append("HEIF")
    if "avif" in features.modules and features.check("avif"):  # Pillow's own, from version 11.3.
        found.append("AVIF")
    return tuple(found)


def open_image(source: str | PathLike[str] | bytes | Image.Image, limits: Limits = DEFAULT_LIMITS) -> Image.Image:
    """Upright RGB image from a file, a file's bytes, or a Pillow image of any mode.

    EXIF orientation is applied only to a Pillow image as `Image.open` gave it. Pillow keeps the tag when a user rotates
    an image by hand, which would then be turned twice.

    Raises
    ------
    ImageError
        For everything that can be wrong with an image; no other exception is raised.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGBA", (3, 2), (255, 0, 0, 0)).save(file, "PNG")
    >>> open_image(file.getvalue()).getpixel((0, 0))
    (255, 255, 255)
    >>> open_image(b"not an image")
    Traceback (most recent call last):
    lpplusplus.encoders.pixels.decoding.ImageError: <bytes>: is not a JPEG, PNG, WebP, BMP, TIFF or GIF image.
    """
    with quiet_pillow():
        if isinstance(source, Image.Image):
            return convert(source, limits, "<image>")
        if isinstance(source, bytes):
            return decode(source, "<bytes>", limits)
        return decode(read_bytes(source, limits), source, limits)


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Hide Pillow's warnings (large images, odd EXIF). Those that matter become an `ImageError`.

    Warning filters belong to the whole process, so the thread that starts the work uses this, not its workers.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def read_bytes(path: str | PathLike[str], limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The content of an image file, or an `ImageError`. Never waits on a pipe, never reads more than allowed."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            _check_bytes(path, size, limits)
            content = file.read(size + 1)  # Python takes memory for all that is asked for.
    except (OSError, ValueError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(path, _why_unreadable(path, error)) from error
    _check_bytes(path, len(content), limits)
    return content


def decode(
    content: bytes, path: str | PathLike[str], limits: Limits = DEFAULT_LIMITS, *, glance: int | None = None
) -> Image.Image:
    """Upright RGB image from a file's bytes; `path` is for messages. For threads: see `quiet_pillow`.

    With `glance` a large JPEG is decoded at a half, a quarter or an eighth of its size, but no side shorter than
    `glance`: several times faster, and good enough to look at.
    """
    _check_bytes(path, len(content), limits)
    if not content:
        raise ImageError(path, "is empty.")
    try:
        extra = _BRANDS.get(content[8:12]) if content[4:8] == b"ftyp" else None
        image = Image.open(io.BytesIO(content), formats=extra_formats() if extra else FORMATS)
    except UnidentifiedImageError as error:
        _refuse_raw(path)
        if extra and extra not in extra_formats():
            raise ImageError(path, f"is a HEIC or AVIF image. {HOW_TO_READ_MORE}") from error
        raise ImageError(path, "is not a JPEG, PNG, WebP, BMP, TIFF or GIF image.") from error
    except Image.DecompressionBombError as error:
        raise ImageError(path, f"has more pixels than Pillow allows ({error}).") from error
    except Exception as error:  # Pillow's readers raise anything on a malformed header.
        raise ImageError(path, f"is truncated or damaged ({_brief(error)}).") from error
    with image:
        if image.format == "TIFF":
            _refuse_raw(path)
        if glance is not None:
            _check_pixels(image, limits, path)  # Before `draft` makes it smaller.
            image.draft(None, (glance, glance))
        return _upright_rgb(image, limits, path)


def _refuse_raw(path: str | PathLike[str]) -> None:
    if os.path.splitext(os.fspath(path))[1].lower() in RAW_SUFFIXES:
        raise ImageError(path, f"is a RAW photo. {RAW_ADVICE}")


def convert(image: Image.Image, limits: Limits, path: str | PathLike[str]) -> Image.Image:
    """Upright RGB image from a Pillow image; `path` is for messages. For threads: see `quiet_pillow`."""
    with _loading:  # A user may list one lazily opened image twice, and two threads would then read its file at once.
        return _upright_rgb(image, limits, path)


def _check_pixels(image: Image.Image, limits: Limits, path: str | PathLike[str]) -> None:
    width, height = image.size
    if width * height > limits.max_pixels:
        raise ImageError(path, f"has {width} × {height} pixels, more than the {limits.max_pixels:,} allowed.")
    if not width or not height:
        raise ImageError(path, f"has no pixels ({width} × {height}).")


def _upright_rgb(image: Image.Image, limits: Limits, path: str | PathLike[str]) -> Image.Image:
    _check_pixels(image, limits, path)
    try:
        image.load()
    except Exception as error:  # As in `decode`: zlib.error, struct.error, SyntaxError, EOFError, MemoryError, …
        raise ImageError(path, f"is truncated or damaged ({_brief(error)}).") from error
    orientation = _orientation(image) if isinstance(image, ImageFile.ImageFile) else None
    try:
        rgb = _rgb(image, path)
        return rgb.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else rgb
    except ImageError:
        raise
    except Exception as error:  # Such as a palette with fewer colours than its pixels use.
        raise ImageError(path, f"cannot be converted to RGB ({_brief(error)}).") from error


def _orientation(image: Image.Image) -> int | None:
    """EXIF orientation that has not been applied yet."""
    if image.format == "TIFF":  # Pillow has turned it while loading; early versions of 10 still keep the tag.
        return None
    try:
        value = image.getexif().get(_ORIENTATION)
    except Exception:  # Broken EXIF says nothing about the pixels; viewers show such images as they are.
        return None
    return value if isinstance(value, int) else None


def _rgb(image: Image.Image, path: str | PathLike[str]) -> Image.Image:
    mode, transparent = image.mode, image.info.get("transparency")
    if mode == "RGB" and transparent is None:
        return image
    if mode.startswith("I"):
        return _grey16(image, path)
    if mode == "CMYK" and getattr(image, "format", None) == "JPEG" and "adobe" not in image.info:
        return ImageChops.invert(image).convert("RGB")  # Pillow inverts every CMYK JPEG, but only Adobe's are inverted.
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or transparent is not None:
        return _on_white(image)
    if mode in ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV"):
        return image.convert("RGB")
    raise ImageError(path, f"has pixels of kind {mode!r}, which have no certain colours: save it as 8-bit RGB.")


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode == "La":  # Pillow converts premultiplied grey only to "LA".
        image = image.convert("LA")
    key = image.info.get("transparency")
    if image.mode == "RGB" and isinstance(key, tuple) and max(key) > 255:
        image = image.copy()  # Pillow reduces pixels from 16 bits per channel to 8, but not this colour.
        image.info["transparency"] = tuple(value >> 8 for value in key)
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, layer).convert("RGB")


def _grey16(image: Image.Image, path: str | PathLike[str]) -> Image.Image:
    """Grey of 16 bits, also in Pillow's 32-bit integers ("I"); a TIFF may have 12 bits, or be inverted."""
    values = np.asarray(image)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise ImageError(path, f"has grey values from {low} to {high}, beyond 16 bits: save it with 8 or 16 bits.")
    white, white_is_zero = _grey_of_tiff(image)
    grey = ((values.astype(np.uint32) * 255 + white // 2) // white).astype(np.uint8)
    if white_is_zero:
        grey = 255 - grey
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def _grey_of_tiff(image: Image.Image) -> tuple[int, bool]:
    """The largest value of a pixel, and whether it means black. Above 8 bits, Pillow does not handle either."""
    tags = getattr(image, "tag_v2", None) or {}
    bits = tags.get(_BITS, 16)
    bits = bits[0] if isinstance(bits, tuple) else bits
    return (1 << bits) - 1 if 8 < bits < 16 else 65535, tags.get(_PHOTOMETRIC) == 0


def _check_bytes(path: str | PathLike[str], size: int, limits: Limits) -> None:
    if size > limits.max_bytes:
        raise ImageError(path, f"has {size:,} bytes, more than the {limits.max_bytes:,} allowed.")


def _why_unreadable(path: str | PathLike[str], error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        if error.errno == errno.ELOOP:
            return "is a symbolic link that leads back to itself."
        if isinstance(error, FileNotFoundError):
            return "is a broken symbolic link." if os.path.islink(path) else "does not exist."
        if isinstance(error, IsADirectoryError):
            return "is a folder, not a file."
        if isinstance(error, PermissionError):
            return "cannot be read: permission denied."
        return f"cannot be read ({error.strerror or error})."
    return f"is not a usable path ({error})."


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())[:120] or type(error).__name__
    return text.rstrip(".")
