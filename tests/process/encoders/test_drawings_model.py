"""The shipped demonstration model, as files: small, repeatable, and a dual encoder that behaves as CLIP does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer

from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.encoders.onnx import OnnxEncoder
from lpplusplus.images.drawings import Scene, Thing, demo_classes
from tools.drawings.evaluate import TEMPLATE, accuracies, rendered_task, zero_shot
from tools.drawings.plain import render
from tools.drawings.random_scenes import HELD_OUT_PAIRS, random_scene

FOLDER = FOLDERS["drawings"]


@pytest.fixture(scope="module")
def model():
    return OnnxEncoder(str(FOLDER), threads=1)


@pytest.fixture(scope="module")
def text(model):
    return model.encode_texts([TEMPLATE.format(concept.name) for concept in demo_classes()])


@pytest.fixture(scope="module")
def shifted(model):
    """Embedded images of the shifted domain from a seed that neither training nor tuning used: pool, then test."""
    sets = [rendered_task(count, seed, "shifted") for count, seed in ((12, 101), (30, 102))]
    return [(model.encode_images(images), labels) for images, labels in sets]


def drawn(count, seed=0):
    rng = np.random.default_rng(seed)
    return [render(random_scene(rng), rng) for _ in range(count)]


def test_files_are_small_and_self_contained():
    files = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*") if path.is_file()}
    assert set(files) == {
        "README.md",
        "visual/model.onnx",
        "visual/preprocess_cfg.json",
        "textual/model.onnx",
        "textual/tokenizer.json",
        "textual/tokenizer_config.json",
    }
    assert sum(path.stat().st_size for path in files.values()) <= 4_000_000
    settings = json.loads(files["visual/preprocess_cfg.json"].read_text())
    assert settings["size"] == [64, 64]
    assert (settings["mode"], settings["resize_mode"], settings["interpolation"]) == ("RGB", "shortest", "bicubic")
    assert "demonstration model" in files["README.md"].read_text()


def test_inputs_and_outputs():
    visual, textual = (onnxruntime.InferenceSession(FOLDER / part / "model.onnx") for part in ("visual", "textual"))
    (image,), (text,) = visual.get_inputs(), textual.get_inputs()
    assert (image.name, image.type, image.shape[1:]) == ("image", "tensor(float)", [3, 64, 64])
    assert (text.name, text.type) == ("text", "tensor(int32)")
    tokenizer = Tokenizer.from_file(str(FOLDER / "textual" / "tokenizer.json"))
    length = json.loads((FOLDER / "textual" / "tokenizer_config.json").read_text())["model_max_length"]
    assert text.shape[1] == length == len(tokenizer.encode("a star").ids)
    for session in (visual, textual):
        (output,) = session.get_outputs()
        assert (output.name, output.type, output.shape[1]) == ("embedding", "tensor(float)", 130)
        assert isinstance(session.get_inputs()[0].shape[0], str), "the batch axis is free"


def test_a_batch_is_its_members(model):
    images, texts = drawn(9), [TEMPLATE.format(concept.name) for concept in demo_classes()]
    whole = model.encode_images(images)
    np.testing.assert_allclose(whole, np.concatenate([model.encode_images([image]) for image in images]), atol=1e-5)
    np.testing.assert_array_equal(whole, model.encode_images(images))
    np.testing.assert_allclose(
        model.encode_texts(texts), np.concatenate([model.encode_texts([t]) for t in texts]), atol=1e-5
    )
    assert np.ptp(whole, axis=0).max() > 0.1


def test_any_text_has_an_embedding(model):
    odd = ["", " ", "star", "STAR", "zebra", "☂ naïve 漢字 🙂", "x" * 5000, "word " * 500, "[PAD]", "\x00\n"]
    embedded = model.encode_texts(odd)
    assert np.isfinite(embedded).all()
    np.testing.assert_array_equal(embedded[2], embedded[3])
    # A word that means nothing to the model changes less than one that does.
    plain, disturbed, other = model.encode_texts(
        ["a photo of a red star.", "a photo of a qwrtz red star.", "a photo of a blue cup."]
    )
    assert np.linalg.norm(plain - disturbed) < np.linalg.norm(plain - other) / 3


def test_geometry_is_clip_s(model, text, shifted):
    """Two narrow cones with a gap: what LP++'s start of the text weights is made for."""
    images = shifted[1][0]
    assert (images @ images.T).min() > 0.6
    assert (text @ text.T).min() > 0.6
    assert 0.2 < (images @ text.T).mean() < 0.4


def test_zero_shot_is_between_chance_and_perfect(model, text, shifted):
    accuracy = zero_shot(*shifted[1], text)
    assert 0.4 <= accuracy <= 0.8
    assert accuracy > 8 / len(text)


def test_the_training_domain_is_easier(model, text, shifted):
    images, labels = rendered_task(8, 103, "plain")
    assert zero_shot(model.encode_images(images), labels, text) > zero_shot(*shifted[1], text) + 0.1


@pytest.mark.parametrize("shots", [1, 4])
def test_lpplusplus_improves_on_zero_shot_and_on_the_visual_probe(text, shifted, shots):
    pool, test = shifted
    with_text, visual = np.mean([accuracies(pool, test, text, shots, seed) for seed in range(8)], axis=0)
    assert with_text > zero_shot(*test, text) + 0.005
    assert with_text > visual + 0.02


def test_pairs_that_training_never_showed_are_understood(model):
    """The colour and the shape of a held-out pair are each recognised, against all pairs that share one of them."""
    rng = np.random.default_rng(9)
    right = []
    for colour, shape in HELD_OUT_PAIRS:
        scene = Scene(Thing(shape, colour), size="large", background="white" if colour != "white" else "blue")
        rivals = [f"{colour} {s}" for s in ("star", "cup", "ring", "key") if s != shape]
        rivals += [f"{c} {shape}" for c in ("red", "green", "blue", "black") if c != colour]
        text = model.encode_texts([TEMPLATE.format(name) for name in [f"{colour} {shape}", *rivals]])
        scores = model.encode_images([render(scene, rng) for _ in range(4)]) @ text.T
        right.append(np.mean(scores.argmax(axis=1) == 0))
    assert np.mean(right) > 0.5, "chance is below 0.15"


def test_model_card_has_the_measured_figures(model, text, shifted):
    """The card's zero-shot figure is that of this model: within sampling error of a fresh measurement."""
    card = (Path(FOLDER) / "README.md").read_text()
    line = next(line for line in card.splitlines() if line.startswith("| zero-shot, shifted domain"))
    stated = float(line.split("|")[2].strip().removesuffix(" %"))
    assert abs(stated - 100 * zero_shot(*shifted[1], text)) < 9


def test_nobody_is_told_which_models_are_opened(tmp_path):
    """Telemetry of onnxruntime would leave an id in the folder of the user, and a file in the temporary one."""
    code = "from lpplusplus.encoders import open_encoder; open_encoder('drawings').encode_texts(['a boat'])"
    places = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    free = {name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "CI")}
    subprocess.run([sys.executable, "-c", code], env={**free, **places}, check=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
