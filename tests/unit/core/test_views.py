"""Several views per image, (N, V, D): a fold has all views of an image or none."""

import numpy as np
import pytest

from lpplusplus import LinearProbe, LPPlusPlus
from lpplusplus.images.embeddings import Embeddings
from lpplusplus.images.insight import examine
from lpplusplus.images.training_data import TrainingData
from tasks import small_task

F, Y, T = small_task(5, 4, 16, seed=7)
VIEWS = F[:, None] + 0.05 * np.random.default_rng(8).normal(size=(len(F), 3, 16))


@pytest.mark.parametrize("method", [LPPlusPlus(recipe="paper"), LinearProbe()])
def test_methods_that_know_nothing_of_views_take_their_mean(method):
    expected = method.fit(VIEWS.mean(axis=1), Y, text=T).coef_
    np.testing.assert_array_equal(method.fit(VIEWS, Y, text=T).coef_, expected)


def test_no_view_gives_its_image_away():
    """Of labels that mean nothing, folds learn nothing, unless another view of the held-out image is among the rest."""
    rng = np.random.default_rng(9)
    images, y = rng.normal(size=(64, 40)), np.repeat(np.arange(4), 16)
    views = images[:, None] + 0.001 * rng.normal(size=(64, 5, 40))
    model = LPPlusPlus().fit(views, y)
    hits = 64 * np.array(model.history_.as_arrays()["held_out_accuracy"])
    np.testing.assert_allclose(hits, np.round(hits), atol=1e-9)  # Of 64 images, and not of 320 views.
    assert model.selection_ == "cross-validation"
    assert hits.max() < 64 / 2
    leaky = LPPlusPlus().fit(views.reshape(-1, 40), np.repeat(y, 5))  # Every view an image of its own.
    assert max(leaky.history_.as_arrays()["held_out_accuracy"]) > 0.9


def test_the_task_has_both():
    task = LPPlusPlus()._check_task(VIEWS, Y, text=T).working()
    np.testing.assert_array_equal(task.views, VIEWS)
    np.testing.assert_allclose(task.X, VIEWS.mean(axis=1))
    assert task.y.shape == (len(F),)
    assert LPPlusPlus()._check_task(F, Y, text=T).working().views is None


def test_the_check_after_training_holds_out_whole_images():
    labels = Y.astype(str)
    support = Embeddings(VIEWS.astype(np.float32), labels, [f"{i}.jpg" for i in range(len(F))], tuple("01234"))
    seen = []

    class Spy(LPPlusPlus):
        def fit(self, X, y, **more):
            seen.append(X)
            return super().fit(X, y, **more)

    data = TrainingData(support, None, T.astype(np.float32))
    found, _ = examine(Spy().fit(support.X, labels, text=T), data)
    assert found.accuracy is not None
    whole = {image.tobytes() for image in support.X}
    for part in seen[1:]:
        assert part.shape[1:] == (3, 16)
        assert {image.tobytes() for image in part} < whole
    assert sum(len(support) - len(part) for part in seen[1:]) == len(support)  # Every image is held out once.
