"""Our pixels are CLIP's pixels: compared with open_clip's own transform, and views with torchvision's crop."""

import json
from functools import cache

import numpy as np
import pytest
from PIL import Image

from lpplusplus.encoders import EncoderError
from lpplusplus.encoders.onnx_files import read_preprocessing
from lpplusplus.encoders.pixels.preprocessing import (
    CLIP_MEAN,
    CLIP_STD,
    Preprocessing,
    from_open_clip,
    from_transformers,
    random_box,
    random_crop,
)

SIZES = [
    (640, 427),
    (427, 640),
    (1023, 768),
    (1601, 1067),
    (224, 224),
    (225, 224),
    (224, 301),
    (500, 375),
    (40, 31),
    (1, 1),
    (5, 300),
]


@cache
def picture(width, height):
    """Smooth shades with edges and noise: something for which filters and offsets matter."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (7 + 3 * c)) * np.cos(y / (11 - 2 * c)) for c in range(3)]
    pixels = 127 + 90 * np.stack(waves, axis=-1) + 60 * ((x // 17 + y // 23) % 2)[..., None]
    return Image.fromarray(np.clip(pixels + rng.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8))


def in_pixels(values, preprocessing):
    return values * np.array(preprocessing.std)[:, None, None] + np.array(preprocessing.mean)[:, None, None]


@pytest.mark.parametrize("resize", ["shortest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_equals_open_clips_transform(resize, interpolation):
    open_clip = pytest.importorskip("open_clip", reason="compared with open_clip's transform")
    for side in (224, 97):
        ours = Preprocessing(size=side, interpolation=interpolation, resize=resize)
        theirs = open_clip.image_transform(
            side, is_train=False, mean=CLIP_MEAN, std=CLIP_STD, interpolation=interpolation, resize_mode=resize
        )
        for size in SIZES:
            image = picture(*size)
            mine, expected = ours.centre(image), theirs(image).numpy()
            assert mine.dtype == np.float32
            assert mine.shape == expected.shape == (3, side, side)
            assert np.abs(in_pixels(mine - expected, Preprocessing(mean=(0, 0, 0)))).max() <= 1e-6, size


def test_random_view_is_torchvisions_resized_crop():
    functional = pytest.importorskip("torchvision.transforms.functional", reason="compared with torchvision's crop")
    image, ours = picture(640, 427), Preprocessing(size=96)
    mirrored = 0
    for seed in range(8):
        view = in_pixels(ours.random_view(image, np.random.default_rng(seed)), ours)
        rng = np.random.default_rng(seed)
        left, top, right, bottom = random_box(*image.size, rng)
        bicubic = functional.InterpolationMode.BICUBIC
        expected = functional.resized_crop(image, top, left, bottom - top, right - left, [96, 96], bicubic)
        if rng.random() < 0.5:
            expected, mirrored = functional.hflip(expected), mirrored + 1
        assert np.abs(view - np.asarray(expected).transpose(2, 0, 1) / 255).max() < 1e-6
    assert 0 < mirrored < 8


def test_boxes_have_the_drawn_areas_and_ratios():
    rng = np.random.default_rng(0)
    boxes = np.array([random_box(400, 300, rng) for _ in range(3000)])
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert boxes.min() >= 0
    assert boxes[:, 2].max() <= 400
    assert boxes[:, 3].max() <= 300
    area, ratio = width * height / 120_000, width / height
    assert area.min() > 0.49
    assert area.max() <= 1
    assert area.std() > 0.1
    assert ratio.min() > 0.74
    assert ratio.max() < 1.35
    assert abs(np.mean(boxes[:, 0] / np.maximum(400 - width, 1)) - 0.5) < 0.03


@pytest.mark.parametrize(("size", "expected"), [((2000, 20), (27, 20)), ((20, 2000), (20, 27)), ((1, 1), (1, 1))])
def test_where_no_crop_fits_the_centre_is_taken(size, expected):
    left, top, right, bottom = random_box(*size, np.random.default_rng(0))
    assert (right - left, bottom - top) == expected
    assert abs(left + right - size[0]) <= 1
    assert abs(top + bottom - size[1]) <= 1


def test_views_repeat_with_the_seed_and_mirror_half():
    image = picture(90, 60)
    one, two = (random_crop(image, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(np.asarray(one), np.asarray(two))
    ramp = Image.fromarray(np.tile(np.arange(90, dtype=np.uint8)[None, :, None], (60, 1, 3)))
    rng = np.random.default_rng(0)
    flips = [np.asarray(random_crop(ramp, rng))[0, 0, 0] > 45 for _ in range(200)]
    assert 60 < sum(flips) < 140


def test_refusals_name_what_is_wrong():
    with pytest.raises(ValueError, match="longest"):
        Preprocessing(resize="longest")
    with pytest.raises(ValueError, match="nearest"):
        Preprocessing(interpolation="nearest")
    with pytest.raises(ValueError, match="positive"):
        Preprocessing(size=0)
    with pytest.raises(ValueError, match="mode L"):
        Preprocessing().centre(Image.new("L", (30, 30)))
    with pytest.raises(ValueError, match="1×5000 pixels is too elongated"):
        Preprocessing().centre(Image.new("RGB", (1, 5000)))


def test_description_tells_every_difference():
    variants = [
        Preprocessing(),
        Preprocessing(size=336),
        Preprocessing(mean=(0.5, 0.5, 0.5)),
        Preprocessing(std=(0.5, 0.5, 0.5)),
        Preprocessing(interpolation="bilinear"),
        Preprocessing(resize="squash"),
    ]
    assert len({variant.describe() for variant in variants}) == len(variants)


def test_open_clips_configuration():
    stored = {
        "size": [224, 224],
        "mode": "RGB",
        "mean": list(CLIP_MEAN),
        "std": list(CLIP_STD),
        "interpolation": "bicubic",
        "resize_mode": "shortest",
        "fill_color": 0,
    }
    assert from_open_clip(stored) == Preprocessing()
    assert from_open_clip(stored | {"interpolation": "random"}) == Preprocessing()
    assert from_open_clip({"size": 384, "resize_mode": "squash", "mean": 0.5}).mean == (0.5, 0.5, 0.5)
    for change, message in [
        ({"size": [224, 336]}, "square"),
        ({"resize_mode": "longest"}, "longest"),
        ({"mode": "L"}, "'L'"),
        ({"size": "big"}, "big"),
        ({"mean": [1, 2]}, "three"),
    ]:
        with pytest.raises(ValueError, match=message):
            from_open_clip(stored | change)


def test_transformers_configuration():
    clip = {
        "crop_size": {"height": 224, "width": 224},
        "do_center_crop": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": list(CLIP_MEAN),
        "image_std": list(CLIP_STD),
        "resample": 3,
        "rescale_factor": 0.00392156862745098,
        "size": {"shortest_edge": 224},
    }
    assert from_transformers(clip) == Preprocessing()
    old = {"crop_size": 224, "do_center_crop": True, "do_resize": True, "resample": 3, "size": 224}
    assert from_transformers(old) == Preprocessing()
    half = [0.5, 0.5, 0.5]
    siglip = {"size": {"height": 384, "width": 384}, "image_mean": half, "image_std": half, "resample": 3}
    assert from_transformers(siglip) == Preprocessing(384, (0.5,) * 3, (0.5,) * 3, resize="squash")
    assert from_transformers(clip | {"do_normalize": False}).std == (1, 1, 1)
    both_sides = clip | {"size": {"height": 224, "width": 224}}  # Resized to just that; the crop then does nothing.
    assert from_transformers(both_sides) == Preprocessing(resize="squash")
    jina = {"size": 224, "mean": half, "std": half, "interpolation": "bilinear", "resize_mode": "shortest"}
    assert from_transformers(jina) == Preprocessing(224, (0.5,) * 3, (0.5,) * 3, "bilinear", "shortest")
    for change, message in [
        ({"resample": 0}, "resample"),
        ({"size": {"shortest_edge": 256}}, "crop_size"),
        ({"do_center_crop": False}, "square"),
        ({"do_rescale": False}, "do_rescale"),
        ({"rescale_factor": 1.0}, "1/255"),
        ({"size": {"longest_edge": 224}}, "size"),
    ]:
        with pytest.raises(ValueError, match=message):
            from_transformers(clip | change)


def test_a_message_about_a_file_repeats_no_more_than_a_line_of_it(tmp_path):
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({"size": {"shortest_edge": "x" * 9000}, "do_center_crop": True}))
    with pytest.raises(EncoderError, match="size must be a number of pixels") as caught:
        read_preprocessing(path, "transformers")
    assert len(str(caught.value)) < 400 + len(str(path))
