"""CLIP's preprocessing: from an image to the input of the image encoder.

The same pixels as open_clip's own transform: Pillow's antialiased resize of the shorter side, the longer side rounded
down, a centre crop whose odd pixel is rounded half to even, then [0, 1], mean and standard deviation.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .decoding import ImageError

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
PILLOW_FILTERS = {2: "bilinear", 3: "bicubic"}
RESIZES = ("shortest", "squash")
VIEW_AREA = (0.5, 1.0)
"""Smallest and largest part of an image's area in a random crop."""
VIEW_RATIO = (3 / 4, 4 / 3)
"""Smallest and largest ratio of width to height of a random crop."""
ELONGATION_LIMIT = 1000
"""Largest ratio of an image's sides. Beyond it the resized image would not fit in memory."""


class ElongatedError(ImageError):
    """An image whose sides differ by more than `ELONGATION_LIMIT`."""


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes an input of the encoder. Everything here changes embeddings.

    Parameters
    ----------
    size
        Side of the square that the encoder takes.
    mean, std
        Mean and standard deviation of the three channels, after scaling to [0, 1].
    interpolation
        "bicubic" or "bilinear", both antialiased.
    resize
        "shortest": shorter side to `size`, then the centre square; "squash": both sides to `size`.

    Examples
    --------
    >>> from PIL import Image
    >>> Preprocessing(size=32).centre(Image.new("RGB", (640, 427))).shape
    (3, 32, 32)
    """

    size: int = 224
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    interpolation: str = "bicubic"
    resize: str = "shortest"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be a positive number of pixels, not {self.size}.")
        if self.interpolation not in FILTERS:
            raise ValueError(f"interpolation must be one of {', '.join(FILTERS)}, not {self.interpolation!r}.")
        if self.resize not in RESIZES:
            raise ValueError(f"resize must be one of {', '.join(RESIZES)}, not {self.resize!r}.")
        if not len(self.mean) == len(self.std) == 3 or not all(value > 0 for value in self.std):
            raise ValueError(f"mean and std must be three numbers each, std positive: got {self.mean} and {self.std}.")

    def describe(self) -> str:
        """The same text for the same preprocessing; a part of the feature store's key."""
        return json.dumps(asdict(self), sort_keys=True)

    def centre(self, image: Image.Image) -> NDArray[np.float32]:
        """(3, size, size) input for the encoder from an upright RGB image."""
        _check_rgb(image)
        if self.resize == "squash":
            return self._standardise(self._square(image))
        width, height = image.size
        short, long = min(image.size), max(image.size)
        if long > ELONGATION_LIMIT * short:
            raise ElongatedError(
                "<image>",
                f"an image of {width}×{height} pixels is too elongated: its sides may differ by a factor of "
                f"{ELONGATION_LIMIT} at most. Crop it.",
            )
        if short != self.size:
            scaled = self.size * long // short
            shape = (self.size, scaled) if width <= height else (scaled, self.size)
            image = image.resize(shape, FILTERS[self.interpolation])
        left, top = (round((side - self.size) / 2) for side in image.size)
        return self._standardise(image, left, top)

    def seen(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the part of an image that `centre` shows to the encoder.

        Examples
        --------
        >>> Preprocessing().seen(640, 480)
        (80.0, 0.0, 560.0, 480.0)
        """
        if self.resize == "squash":
            return 0.0, 0.0, float(width), float(height)
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def random_view(self, image: Image.Image, rng: np.random.Generator) -> NDArray[np.float32]:
        """As `centre`, of a random crop of 50–100 % of the area, mirrored half of the time, as in the paper."""
        return self._standardise(self._square(random_crop(image, rng)))

    def _square(self, image: Image.Image) -> Image.Image:
        return image.resize((self.size, self.size), FILTERS[self.interpolation])

    def _standardise(self, image: Image.Image, left: int = 0, top: int = 0) -> NDArray[np.float32]:
        """The square at `left` and `top`. One array, in the order that the encoder reads, makes this twice as fast."""
        bands = np.asarray(image)[top : top + self.size, left : left + self.size].transpose(2, 0, 1)
        pixels = np.empty(bands.shape, np.float32)
        pixels[...] = bands
        pixels /= np.float32(255)
        pixels -= np.asarray(self.mean, np.float32)[:, None, None]
        pixels /= np.asarray(self.std, np.float32)[:, None, None]
        return pixels


def random_crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A random part of an upright RGB image, at its own scale, mirrored half of the time."""
    _check_rgb(image)
    view = image.crop(random_box(*image.size, rng))
    return view.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else view


def random_box(width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a random crop.

    The area is uniform in 50–100 % of the image's, the logarithm of the ratio of sides uniform from 3:4 to 4:3, the
    position uniform. A crop that does not fit is drawn again. If ten do not fit, as in very long images, the largest
    allowed crop in the centre is taken.
    """
    for _ in range(10):
        area = width * height * rng.uniform(*VIEW_AREA)
        ratio = math.exp(rng.uniform(math.log(VIEW_RATIO[0]), math.log(VIEW_RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
            return left, top, left + w, top + h
    w = min(width, max(1, round(height * VIEW_RATIO[1])))
    h = min(height, max(1, round(width / VIEW_RATIO[0])))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def _check_rgb(image: Image.Image) -> None:
    if image.mode != "RGB":
        raise ValueError(
            f"an RGB image is needed, not one of mode {image.mode}: decode it with lpplusplus.encoders.pixels."
        )
    if 0 in image.size:
        raise ValueError(f"an image of {image.width}×{image.height} pixels has nothing to encode.")


def from_open_clip(config: Mapping[str, Any]) -> Preprocessing:
    """Read `preprocess_cfg.json`, or the `preprocess_cfg` of an open_clip model.

    Raises
    ------
    ValueError
        For what would give other pixels than the model was trained on: modes and filters not implemented here.

    Examples
    --------
    >>> from_open_clip({"size": [224, 224], "interpolation": "bicubic", "resize_mode": "squash"}).resize
    'squash'
    """
    if config.get("mode", "RGB") != "RGB":
        raise ValueError(f"colour mode {config['mode']!r} is not supported, only RGB.")
    interpolation = config.get("interpolation") or "bicubic"
    return Preprocessing(
        size=_side(config.get("size", 224)),
        mean=_three(config.get("mean") or CLIP_MEAN, "mean"),
        std=_three(config.get("std") or CLIP_STD, "std"),
        # What "random" means in training is bicubic afterwards.
        interpolation="bicubic" if interpolation == "random" else interpolation,
        resize=config.get("resize_mode") or "shortest",
    )


def from_transformers(config: Mapping[str, Any]) -> Preprocessing:
    """Read `preprocessor_config.json` of a CLIP-like model in transformers' or transformers.js' layout.

    Raises
    ------
    ValueError
        For steps that CLIP's preprocessing does not have.

    Examples
    --------
    >>> from_transformers({"size": {"height": 384, "width": 384}, "resample": 3, "do_center_crop": False}).resize
    'squash'
    """
    if "resize_mode" in config:
        return from_open_clip(config)  # open_clip's settings under transformers' file name, as JinaCLIP has them.
    _check_steps(config)
    resample = config.get("resample", 3)
    if resample not in PILLOW_FILTERS:
        raise ValueError(f"resample must be 2 (bilinear) or 3 (bicubic), not {resample!r}.")
    size, crops = config.get("size", 224), config.get("do_center_crop", "crop_size" in config)
    squashes = isinstance(size, Mapping) and "height" in size  # To just that size, so that cropping does nothing.
    if isinstance(size, Mapping) and "shortest_edge" in size:
        size = size["shortest_edge"]
        if not crops:
            raise ValueError("size has shortest_edge, but do_center_crop is false: the input would not be square.")
    side = _side(size)
    if crops and _side(config.get("crop_size", side)) != side:
        raise ValueError(f"crop_size {config['crop_size']} differs from size {size}: not supported.")
    normalises = config.get("do_normalize", True)
    return Preprocessing(
        size=side,
        mean=_three((config.get("image_mean") or CLIP_MEAN) if normalises else 0, "image_mean"),
        std=_three((config.get("image_std") or CLIP_STD) if normalises else 1, "image_std"),
        interpolation=PILLOW_FILTERS[resample],
        resize="shortest" if crops and not squashes else "squash",
    )


def _check_steps(config: Mapping[str, Any]) -> None:
    """Refuse pixels that are not resized, or not divided by 255."""
    if not config.get("do_resize", True) or not config.get("do_rescale", True):
        raise ValueError("do_resize and do_rescale must be true: without them images are not what CLIP takes.")
    if abs(config.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-6:
        raise ValueError(f"rescale_factor must be 1/255, not {config['rescale_factor']}.")


def _side(size: Any) -> int:
    """The side of a square, given as a number, as two, or as height and width."""
    if isinstance(size, Mapping):
        size = (size.get("height"), size.get("width"))
    if isinstance(size, list | tuple):
        if len(size) not in (1, 2) or size[0] != size[-1]:
            raise ValueError(f"only square inputs are supported, not size {tuple(size)}.")
        size = size[0]
    if isinstance(size, bool) or not isinstance(size, int):
        raise ValueError(f"size must be a number of pixels, not {size!r}.")
    return size


def _three(values: Any, name: str) -> tuple[float, float, float]:
    values = [values] * 3 if isinstance(values, int | float) else values
    if not isinstance(values, list | tuple) or [isinstance(one, int | float) for one in values] != [True] * 3:
        raise ValueError(f"{name} must have three numbers, not {values!r}.")
    return float(values[0]), float(values[1]), float(values[2])
