"""What training tells: measured on images it has not seen, and odd names and doubles found where they were put."""

import json

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.model_selection import cross_val_predict

from lpplusplus import LPPlusPlus, ZeroShot
from lpplusplus._core.folds import assign_folds
from lpplusplus.images import words
from lpplusplus.images.duplicates import SAME_IMAGE, duplicates
from lpplusplus.images.embeddings import Embeddings
from lpplusplus.images.hold_out import FOLDS, folds_of
from lpplusplus.images.insight import WEAK, Insight, doubtful_names, examine
from lpplusplus.images.training_data import TrainingData
from tasks import small_task


def look_closely(model, support, text, validation, *progress):
    return examine(model, TrainingData(support, validation, text), *progress)


def look_into(*given):
    return look_closely(*given)[0]


def gathered(F, y, classes):
    labels = np.array([classes[k] for k in y])
    X = np.asarray(F, np.float32)[:, None]
    return Embeddings(X, labels, [f"{i}.jpg" for i in range(len(F))], tuple(classes), tuple(classes))


def fitted(support, text, method=None):
    method = method or LPPlusPlus()
    return method.fit(support.X, support.labels, text=text, classes=list(support.classes))


@pytest.fixture(scope="module")
def task():
    F, y, T = small_task(6, 8, 24, seed=3)
    return gathered(F, y, [f"class_{k}" for k in range(6)]), T.astype(np.float32)


def test_validation_is_used_where_it_is_there(task):
    support, text = task
    F, y, _ = small_task(6, 5, 24, seed=3)
    held = gathered(F + 0.1 * np.random.default_rng(0).standard_normal(F.shape), y, support.classes)
    model = fitted(support, text)
    insight = look_into(model, support, text, held)
    assert insight.measured == "validation"
    assert insight.accuracy == pytest.approx((model.predict(held.rows) == held.labels).mean())
    cosine = held.rows @ text.T
    assert insight.zero_shot_accuracy == pytest.approx((cosine.argmax(1) == y).mean())


def test_cross_validation_never_asks_about_an_image_it_was_trained_on(task):
    """The same folds through scikit-learn's own cross-validation give the same accuracy."""
    support, text = task
    model = fitted(support, text)
    told = []
    insight = look_into(model, support, text, None, lambda done, total: told.append((done, total)))
    assert insight.measured == f"{FOLDS}-fold cross-validation"
    assert told == [(fold + 1, FOLDS) for fold in range(FOLDS)]
    index = np.array([support.classes.index(label) for label in support.labels])
    folds = assign_folds(index, FOLDS, np.random.default_rng(0))
    splits = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(FOLDS)]
    answers = cross_val_predict(
        LPPlusPlus(), support.rows, support.labels, cv=splits, params={"text": text, "classes": list(support.classes)}
    )
    assert insight.accuracy == pytest.approx((answers == support.labels).mean())
    weakest = {one.label: (one.accuracy, one.images) for one in insight.weakest}
    for label, (accuracy, images) in weakest.items():
        own = support.labels == label
        assert accuracy == pytest.approx((answers[own] == label).mean())
        assert images == own.sum()
    assert [one.accuracy for one in insight.weakest] == sorted(one.accuracy for one in insight.weakest)
    assert len(weakest) <= WEAK
    json.dumps(insight.as_dict(), allow_nan=False)


def test_names_alone_and_examples_alone_are_asked_about_the_same_images(task):
    """Leads and their standard errors, from scikit-learn's own cross-validation with the same folds."""
    support, text = task
    insight, study = look_closely(fitted(support, text), support, text, None)
    answers = study.answers
    splits = [(np.flatnonzero(folds_of(support) != f), np.flatnonzero(folds_of(support) == f)) for f in range(FOLDS)]
    alone = cross_val_predict(LPPlusPlus(alpha="none"), support.rows, support.labels, cv=splits)
    right, other = answers.right.astype(float), (alone == support.labels).astype(float)
    assert insight.accuracy == right.mean()
    assert insight.examples_alone_accuracy == other.mean()
    lead, error = insight.over_examples
    assert lead == pytest.approx(right.mean() - other.mean())
    assert error == pytest.approx((right - other).std() / np.sqrt(len(right)))
    assert insight.over_names[0] == pytest.approx(insight.accuracy - insight.zero_shot_accuracy)
    low, high = insight.interval
    assert low < insight.accuracy < high
    method = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    np.testing.assert_allclose(insight.interval, (method.low, method.high), atol=1e-6)
    np.testing.assert_allclose(answers.probabilities.sum(axis=1), 1, atol=1e-6)
    for one in insight.confused:
        wrong = (support.labels == one.truth) & (answers.probabilities.argmax(1) == support.classes.index(one.answer))
        assert one.images == wrong.sum() > 0


def test_labels_that_were_swapped_are_found():
    """Three of 128 images get a wrong label; they are named, with the right one, and hardly anything else."""
    rng = np.random.default_rng(6)
    centres, y = rng.standard_normal((8, 32)), np.repeat(np.arange(8), 16)
    F, text = centres[y] + 0.5 * rng.standard_normal((128, 32)), centres.astype(np.float32)
    clean = gathered(F, y, list("abcdefgh"))
    assert look_into(fitted(clean, text), clean, text, None).mislabelled == []
    swapped, wrong = [3, 40, 90], y.copy()
    wrong[swapped] = (wrong[swapped] + 3) % 8
    support = gathered(F, wrong, list("abcdefgh"))
    found = look_into(fitted(support, text), support, text, None).mislabelled
    assert {(one.path, one.answer) for one in found} >= {(f"{i}.jpg", "abcdefgh"[y[i]]) for i in swapped}
    assert len(found) <= len(swapped) + 1
    assert all(one.label == support.labels[int(one.path.removesuffix(".jpg"))] for one in found)


def test_labels_that_are_noise_are_not_learned():
    """Held-out accuracy of random labels is chance, though the classifier knows its support by heart."""
    rng = np.random.default_rng(0)
    support = gathered(rng.standard_normal((120, 200)), np.arange(120) % 4, list("abcd"))
    model = fitted(support, None, LPPlusPlus(selection="last"))
    assert (model.predict(support.rows) == support.labels).mean() == 1
    insight = look_into(model, support, None, None)
    assert insight.accuracy < 0.45
    assert insight.zero_shot_accuracy is None
    assert insight.doubtful_names == []


def test_one_image_a_class_is_not_measured(task):
    support, text = task
    few = support.subset(np.array([int(np.flatnonzero(support.labels == label)[0]) for label in support.classes]))
    insight = look_into(fitted(few, text), few, text, None)
    assert (insight.measured, insight.accuracy, insight.zero_shot_accuracy) == ("not measured", None, None)


def test_a_class_without_images_with_the_longest_label():
    """Answers are not cut to the length of the support's labels: 'cathedral' is not 'cat'."""
    rng = np.random.default_rng(0)
    text = np.eye(3, 8, dtype=np.float32)
    y = np.repeat([0, 1], 6)
    rows = np.eye(3, 8)[[2] * 6 + [1] * 6] + 0.1 * rng.standard_normal((12, 8))  # Cats look like cathedrals.
    support = gathered(rows, y, ["cat", "dog", "cathedral"])
    insight = look_into(fitted(support, text, ZeroShot()), support, text, None)
    assert insight.accuracy == insight.zero_shot_accuracy == 0.5
    assert [(one.label, one.accuracy) for one in insight.weakest] == [("cat", 0)]


def test_a_name_that_says_nothing_is_found(task):
    support, text = task
    assert doubtful_names(support.rows, support.labels, text, list(support.classes)) == []
    swapped = text.copy()
    swapped[2] = swapped[4]  # Class 2 is now called what class 4 is called.
    assert doubtful_names(support.rows, support.labels, swapped, list(support.classes)) == ["class_2"]
    longer = 7.5 * swapped  # Length says nothing.
    assert doubtful_names(support.rows, support.labels, longer, list(support.classes)) == ["class_2"]


def test_names_without_images_are_not_doubted(task):
    support, text = task
    more = np.concatenate([text, text[:1]])
    assert doubtful_names(support.rows, support.labels, more, [*support.classes, "unseen"]) == []


def test_doubles_across_classes_are_found_and_within_one_are_not():
    rows = np.random.default_rng(1).standard_normal((40, 30)).astype(np.float32)
    labels = np.array(["a", "b"])[np.arange(40) % 2]
    rows[7], rows[9] = 3 * rows[4], rows[5]  # 4 and 7 are of two classes, 5 and 9 of one.
    rows[11] = rows[2] + 0.02 * rows[3]
    found = duplicates(rows, labels, [f"{i}.jpg" for i in range(40)])
    assert [(t.first, t.first_label, t.second, t.second_label) for t in found] == [
        ("4.jpg", "a", "7.jpg", "b"),
        ("2.jpg", "a", "11.jpg", "b"),
    ]
    assert found[0].likeness == 1
    assert SAME_IMAGE <= found[1].likeness < 1


def test_only_the_closest_doubles_of_very_many_are_listed():
    """Three thousand images that are all the same: the list is short, and quickly made."""
    rows = np.ones((3000, 4), np.float32)
    rows[100:102] = -1
    labels = np.array(["a", "b"])[np.arange(3000) % 2]
    found = duplicates(rows, labels, [str(i) for i in range(3000)], most=3)
    assert len(found) == 3
    assert all(twins.first_label != twins.second_label for twins in found)


def test_names_of_which_none_is_understood():
    rng = np.random.default_rng(0)
    classes = [str(k) for k in range(40)]
    centres = rng.standard_normal((40, 64))
    rows = (np.repeat(centres, 4, axis=0) + rng.standard_normal((160, 64))).astype(np.float32)
    labels = np.repeat(classes, 4)
    foreign = rng.standard_normal((40, 64)).astype(np.float32)
    assert len(doubtful_names(rows, labels, foreign, classes)) >= 35
    assert doubtful_names(rows, labels, centres.astype(np.float32), classes) == []


def test_every_name_that_is_not_understood_is_told():
    # The least understood are not those furthest below zero: a name without meaning has a gap of about zero.
    def told(count):
        return words.advice(Insight("validation", doubtful_names=[f"name{i}" for i in range(count)]))[0][1][0]

    assert "name24." in told(25)
    assert told(50).count("name") == 40
    assert "(50 in all)" in told(50)


def test_copies_of_an_image_do_not_make_it_look_good(task):
    """Measured with every image twice is what is measured with every image once."""
    support, text = task
    method = LPPlusPlus(recipe="paper")  # Twice the images give nearly the same fit.
    once, study = look_closely(fitted(support, text, method), support, text, None)
    held = study.answers
    twice = support.subset(np.repeat(np.arange(len(support)), 2))
    found, study = look_closely(fitted(twice, text, method), twice, text, None)
    held_twice = study.answers
    assert once.duplicate_count == 0
    assert found.duplicate_count == len(support)
    assert len(held_twice.images) == 2 * len(held.images)
    assert found.accuracy == pytest.approx(once.accuracy, abs=0.03)
    right = round(found.accuracy * len(held.images))
    assert found.interval == pytest.approx(binomtest(right, len(held.images)).proportion_ci(method="wilson"))
    folds = folds_of(twice)
    assert np.array_equal(folds[::2], folds[1::2])
    assert np.array_equal(folds[::2], folds_of(support))


def test_images_that_are_all_alike_are_still_measured():
    rows = np.repeat(np.eye(2, 4, dtype=np.float32), 6, axis=0)
    support = gathered(rows, np.repeat([0, 1], 6), ["black page", "white page"])
    insight = look_into(fitted(support, None), support, None, None)
    assert (insight.duplicate_count, insight.accuracy) == (10, 1.0)


@pytest.mark.filterwarnings("ignore:nearly every name")
def test_names_in_another_order_are_told(task):
    """Names of other classes, as a list in the wrong order gives; names that mean nothing are in no order."""
    support, text = task
    rng = np.random.default_rng(0)
    told = look_into(fitted(support, np.roll(text, 1, axis=0)), support, np.roll(text, 1, axis=0), None)
    assert told.misplaced_names == {f"class_{k}": f"class_{(k + 1) % 6}" for k in range(6)}
    heading, (line,) = words.advice(told)[0]
    assert "another order" in heading
    assert "class_0 (its photos fit the name of class_1)" in line
    for names in (text, *rng.standard_normal((5, *text.shape)).astype(np.float32)):
        assert look_into(fitted(support, names), support, names, None).misplaced_names == {}
    fewer = support.subset(support.labels != "class_3")  # It has a name and no images.
    told = look_into(fitted(fewer, np.roll(text, 1, axis=0)), fewer, np.roll(text, 1, axis=0), None)
    assert told.misplaced_names.get("class_0") == "class_1"
    assert "class_3" not in told.misplaced_names
