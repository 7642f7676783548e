"""Evaluation against scikit-learn's own measures and numbers worked out by hand; the plots are real PNG files."""

import json

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
)

from lpplusplus.images.evaluation import NAMED_UP_TO, draw_confusion, draw_reliability, evaluate


def answers(n=200, k=5, seed=0):
    """Probabilities that lean to the truth, over classes of uneven size."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(k, n, p=rng.dirichlet(np.full(k, 3)))
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_agrees_with_scikit_learn(seed, dtype):
    p, truth = answers(seed=seed)
    p = p.astype(dtype)
    k, said = p.shape[1], p.argmax(axis=1)
    result = evaluate(p, truth, [f"c{i}" for i in range(k)])
    assert result.images == len(truth)
    assert result.accuracy == accuracy_score(truth, said)
    assert result.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, said), abs=1e-12)
    wide = p.astype(np.float64)
    assert result.log_loss == pytest.approx(
        log_loss(truth, wide / wide.sum(1, keepdims=True), labels=range(k)), rel=1e-6
    )
    np.testing.assert_array_equal(result.confusion, confusion_matrix(truth, said, labels=range(k)))
    precision, recall, _, images = precision_recall_fscore_support(truth, said, labels=range(k))
    for i, score in enumerate(result.classes):
        assert (score.label, score.images) == (f"c{i}", images[i])
        assert score.precision == pytest.approx(precision[i], abs=1e-12)
        assert score.recall == pytest.approx(recall[i], abs=1e-12)


def test_calibration_error_by_hand():
    """Two images at 0.9 of which one is right, two at 0.6 and 0.64 which both are."""
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.36, 0.64]])
    result = evaluate(p, np.array([0, 1, 0, 1]), ["a", "b"])
    np.testing.assert_allclose(result.reliability, [[0.62, 1, 2], [0.9, 0.5, 2]])
    assert result.calibration_error == pytest.approx((2 * 0.38 + 2 * 0.4) / 4)


def test_certainty_belongs_to_the_last_bin():
    result = evaluate(np.array([[1.0, 0.0], [0.95, 0.05]]), np.array([0, 0]), ["a", "b"])
    assert result.reliability.shape == (1, 3)
    assert result.reliability[0, 2] == 2


def test_classes_that_were_never_asked_or_answered():
    result = evaluate(np.array([[0.9, 0.1, 0], [0.8, 0.2, 0]]), np.array([0, 1]), ["a", "b", "c"])
    a, b, c = result.classes
    assert (a.recall, a.precision) == (1, 0.5)
    assert (b.recall, b.precision) == (0, None)
    assert (c.recall, c.precision, c.images) == (None, None, 0)
    assert result.balanced_accuracy == 0.5
    assert result.confused() == [("b", "a", 1)]


def test_a_certain_mistake_has_a_finite_loss_and_valid_json():
    result = evaluate(np.array([[1, 0]], np.float32), np.array([1]), ["a", "b"])
    assert np.isfinite(result.log_loss)
    assert result.log_loss > 80
    again = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert again["confusion"] == [[0, 0], [1, 0]]
    assert again["reliability"] == [{"confidence": 1.0, "accuracy": 0.0, "images": 1}]
    assert again["classes"][1] == {"label": "b", "images": 1, "recall": 0.0, "precision": None}


def test_confusions_are_named_most_frequent_first():
    p = np.eye(3)[[1, 1, 2, 0, 0]]
    result = evaluate(p, np.array([0, 0, 0, 0, 1]), ["x", "y", "z"])
    assert result.confused() == [("x", "y", 2), ("x", "z", 1), ("y", "x", 1)]
    assert result.confused(most=1) == [("x", "y", 2)]


@pytest.mark.parametrize("draw", [draw_confusion, draw_reliability])
@pytest.mark.parametrize("k", [2, NAMED_UP_TO + 1])
def test_plots_are_images(tmp_path, draw, k):
    p, truth = answers(300, k)
    labels = ["$5 \\frac$ [red]", "鳥", *(f"class {i}" for i in range(k))][:k]
    path = draw(evaluate(p, truth, labels), tmp_path / "plot.png")
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        assert min(image.size) > 300
        assert len(np.unique(np.asarray(image.convert("L")))) > 10
    first = path.read_bytes()
    draw(evaluate(p, truth, labels), path)
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["plot.png"]
