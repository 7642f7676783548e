"""Preprocessing as model repositories write it down: open_clip's and transformers' JSON."""

from collections.abc import Mapping
from typing import Any

from .preprocessing import CLIP_MEAN, CLIP_STD, Preprocessing

PILLOW_FILTERS = {2: "bilinear", 3: "bicubic"}


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
        size=_square(config.get("size", 224)),
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
    if not config.get("do_resize", True) or not config.get("do_rescale", True):
        raise ValueError("do_resize and do_rescale must be true: without them images are not what CLIP takes.")
    if abs(config.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-6:
        raise ValueError(f"rescale_factor must be 1/255, not {config['rescale_factor']}.")
    resample = config.get("resample", 3)
    if resample not in PILLOW_FILTERS:
        raise ValueError(f"resample must be 2 (bilinear) or 3 (bicubic), not {resample!r}.")
    size, crops = config.get("size", 224), config.get("do_center_crop", "crop_size" in config)
    squashes = isinstance(size, Mapping) and "height" in size  # To just that size, so that cropping does nothing.
    if isinstance(size, Mapping) and "shortest_edge" in size:
        size = size["shortest_edge"]
        if not crops:
            raise ValueError("size has shortest_edge, but do_center_crop is false: the input would not be square.")
    side = _square(size)
    if crops and _square(config.get("crop_size", side)) != side:
        raise ValueError(f"crop_size {config['crop_size']} differs from size {size}: not supported.")
    normalises = config.get("do_normalize", True)
    return Preprocessing(
        size=side,
        mean=_three(config.get("image_mean") or CLIP_MEAN, "image_mean") if normalises else (0.0, 0.0, 0.0),
        std=_three(config.get("image_std") or CLIP_STD, "image_std") if normalises else (1.0, 1.0, 1.0),
        interpolation=PILLOW_FILTERS[resample],
        resize="shortest" if crops and not squashes else "squash",
    )


def _square(size: Any) -> int:
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
    values = (values,) * 3 if isinstance(values, int | float) else tuple(values)
    if len(values) != 3:
        raise ValueError(f"{name} must have three numbers, not {values}.")
    return float(values[0]), float(values[1]), float(values[2])
