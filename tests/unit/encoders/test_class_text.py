"""Class names and templates to class embeddings."""

import hashlib

import numpy as np
import pytest

from lpplusplus.encoders import Encoder, EncoderError
from lpplusplus.encoders.class_text import DEFAULT_TEMPLATE, SUBJECTS, check_templates, class_texts, fill, prompt_texts


class Hashed(Encoder):
    """An encoder whose text embeddings are known: drawn from a hash of the text, of any length."""

    spec = "hashed"
    dim = 24

    def __init__(self):
        self.seen = []

    def prepare(self, image, rng=None):
        raise NotImplementedError

    encode_prepared = prepare

    def embedding(self, text):
        if "nothing" in text:
            return np.zeros(self.dim, np.float32)
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        return (np.random.default_rng(seed).standard_normal(self.dim) * (1 + seed % 7)).astype(np.float32)

    def encode_texts(self, texts):
        self.seen.append(list(texts))
        return np.stack([self.embedding(text) for text in texts])


def unit(v):
    return v / np.linalg.norm(v)


def test_class_embeddings_are_averages_of_unit_embeddings():
    encoder = Hashed()
    names, templates = ["cat", "polar_bear", "{0.__class__}"], ["a photo of a {}.", "a sketch of {} {{", "{}"]
    texts = class_texts(encoder, names, templates)
    assert texts.dtype == np.float32
    for row, name in zip(texts, names, strict=True):
        prompts = [template.replace("{}", name.replace("_", " ")) for template in templates]
        expected = unit(sum(unit(encoder.embedding(prompt).astype(np.float64)) for prompt in prompts))
        assert np.abs(row - expected).max() < 1e-6
    assert ["a photo of a cat.", "a photo of a polar bear.", "a photo of a {0.  class  }."] in encoder.seen


def test_names_are_only_text():
    assert fill("a {}.", "{}") == "a {}."
    assert fill("a {}.", "{0.__class__}") == "a {0.  class  }."
    assert fill("100% {} %s", "%d{x!r}") == "100% %d{x!r} %s"


def test_ten_thousand_classes():
    encoder = Hashed()
    names = [f"class_{i}" for i in range(10_000)]
    texts = class_texts(encoder, names)
    assert texts.shape == (10_000, 24)
    assert max(map(len, encoder.seen)) <= 1000
    for i in (0, 511, 512, 9999):
        expected = unit(encoder.embedding(f"a photo of a class {i}."))
        assert np.abs(texts[i] - expected).max() < 1e-6


def test_templates_are_checked():
    assert check_templates("a {}") == ("a {}",)
    assert check_templates(["a {}", "{} b"]) == ("a {}", "{} b")
    assert check_templates(DEFAULT_TEMPLATE) == ("a photo of a {}.",)
    for wrong in ["a photo", "{} and {}", "{0}", "{name}", ""]:
        with pytest.raises(ValueError, match=r"exactly once"):
            check_templates(["fine {}", wrong])
    with pytest.raises(ValueError, match="empty"):
        check_templates([])
    with pytest.raises(ValueError, match="None"):
        check_templates([None])


def test_a_class_without_an_embedding_is_named():
    with pytest.raises(EncoderError, match="hashed gives no usable embedding for class 'nothing'"):
        class_texts(Hashed(), ["cat", "nothing"])
    assert class_texts(Hashed(), []).shape == (0, 24)


def test_prompts_one_by_one():
    """Each template of each class; their mean is what `class_texts` gives, also across portions of the classes."""
    encoder, names, templates = Hashed(), [f"bird {i}" for i in range(600)], ["a {}.", "the {}.", "{}"]
    texts = prompt_texts(encoder, names, templates)
    assert texts.shape == (3, 600, encoder.dim)
    assert np.abs(texts[1, 555] - unit(encoder.embedding("the bird 555."))).max() < 1e-6
    mean = np.stack([unit(rows) for rows in texts.sum(axis=0)])
    assert np.abs(class_texts(encoder, names, templates) - mean).max() < 1e-6


def test_subjects():
    assert set(SUBJECTS) == {"photo", "satellite", "texture", "food", "pet", "car", "plane", "action", "medical"}
    for subject, templates in SUBJECTS.items():
        assert check_templates(f"@{subject}") == templates
        assert len(set(templates)) == len(templates) >= 5
        assert all(fill(template, "x").count("x") for template in check_templates(templates))
    both = check_templates(["@food", "a dish of {}.", "a cake like {}."])
    assert both == (*SUBJECTS["food"], "a cake like {}.")  # None twice.
    with pytest.raises(ValueError, match=r"there are no templates '@fod': there are @photo, .*@food"):
        check_templates("@fod")
