"""What is known of the photos that are asked about."""

import numpy as np
import pytest
from scipy.special import softmax

from lpplusplus.images import ImageClassifier, SourceError
from lpplusplus.images.answers import Question, answers
from lpplusplus.images.prior import Kinds, estimated, frequencies, read_counts, read_parents, restricted, reweighted
from toy_images import make_folder

CLASSES = ["ant", "bee", "cat"]


def answers_to(truth, rng, sharp=2.0):
    """Answers with mistakes: about each image's class, with noise."""
    return softmax(sharp * np.eye(3)[truth] + rng.normal(size=(len(truth), 3)), axis=1)


def test_frequencies_that_are_known_are_bayes_rule():
    said = np.array([[0.6, 0.3, 0.1]])
    wanted = np.array([0.2, 0.2, 0.6])
    likelihood = said / np.array([0.5, 0.25, 0.25])
    expected = likelihood * wanted / (likelihood * wanted).sum()
    np.testing.assert_allclose(reweighted(said, wanted, np.array([0.5, 0.25, 0.25])), expected)


def test_a_class_of_no_frequency_is_not_the_answer():
    said = np.array([[1.0, 0.0, 0.0]])  # Rounded.
    assert reweighted(said, np.array([0.0, 0.5, 0.5]), np.full(3, 1 / 3)).tolist() == [[0, 0.5, 0.5]]
    assert restricted(said, CLASSES, ["bee", "cat"]).tolist() == [[0, 0.5, 0.5]]


def test_frequencies_are_found_in_the_photos():
    rng = np.random.default_rng(0)
    held = np.repeat(np.arange(3), 40)
    left_out, trained = answers_to(held, rng), np.full(3, 1 / 3)
    right = np.array([0.8, 0.15, 0.05])
    found = estimated(answers_to(rng.choice(3, 2000, p=right), rng), left_out, held, trained)
    assert np.abs(found - right).sum() < 0.4 * np.abs(trained - right).sum()
    assert found.sum() == pytest.approx(1)
    alike = estimated(answers_to(rng.choice(3, 2000), rng), left_out, held, trained)
    np.testing.assert_allclose(alike, trained, atol=0.03)


def test_frequencies_cannot_be_found_with_few_photos():
    held = np.repeat(np.arange(3), 3)
    with pytest.raises(SourceError, match="3 photos of a class, and 8"):
        estimated(np.full((5, 3), 1 / 3), np.full((9, 3), 1 / 3), held, np.full(3, 1 / 3))


@pytest.mark.parametrize(
    ("counts", "reason"),
    [({"ant": 1, "dog": 2}, "dog"), ({}, "empty"), ({"ant": -1.0}, "0 or more"), ({"ant": 0.0}, "one above 0"),
     ({"ant": float("nan")}, "0 or more")],
)  # fmt: skip
def test_counts_that_say_nothing_are_refused(counts, reason):
    with pytest.raises(SourceError, match=reason):
        frequencies(counts, CLASSES)


def test_files(tmp_path):
    def file(text):
        (tmp_path / "x.csv").write_text(text)
        return tmp_path / "x.csv"

    assert read_counts(file("ant,10\nbee,2.5\n")) == {"ant": 10, "bee": 2.5}
    assert read_counts(file("count,label\n10,ant\n")) == {"ant": 10}
    assert read_parents(file("spaniel,dog\n\npoodle,dog\n")) == {"spaniel": "dog", "poodle": "dog"}
    manifest = "path,label,parent\na.jpg,spaniel,dog\nb.jpg,spaniel,dog\nc.jpg,rose,\n"
    assert read_parents(file(manifest)) == {"spaniel": "dog"}
    for text, reason in (
        ("ant,many\n", "line 1"), ("ant\n", "line 1"), ("", "empty"), ("ant,1\nant,2\n", "line 2.*earlier"),
    ):  # fmt: skip
        with pytest.raises(SourceError, match=reason):
            read_counts(file(text))
    with pytest.raises(SourceError, match="cannot be read"):
        read_counts(tmp_path / "none.csv")


def test_parents():
    kinds = Kinds({"spaniel": "dog", "poodle": "dog", "dog": "animal", "cat": "animal"})
    said = {"spaniel": 0.3, "poodle": 0.25, "cat": 0.25, "rose": 0.2}
    sums = kinds.sums(said)
    assert list(sums) == ["animal", "dog"]
    assert sums == pytest.approx({"animal": 0.8, "dog": 0.55})
    assert kinds.back_off(said, 0.5) == ("dog", pytest.approx(0.55))
    assert kinds.back_off(said, 0.25) == ("spaniel", 0.3)
    assert kinds.back_off(said, 0.99) == ("animal", pytest.approx(0.8))
    assert kinds.back_off({"rose": 0.4, "cat": 0.35, "spaniel": 0.25}, 0.9) == ("rose", 0.4)
    assert Kinds({"spaniel": "dog"}).sums({"spaniel": 0.25, "dog": 0.5}) == {"dog": 0.75}
    with pytest.raises(SourceError, match="kind of itself"):
        Kinds({"a": "b", "b": "a"})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    make_folder(folder, {"ant": 8, "bee": 8, "cat": 8})
    return ImageClassifier().fit(folder), folder


def test_answers(trained):
    clf, folder = trained
    plain, (first, second, *_) = clf.predict_proba(folder), clf.classes_
    assert set(clf.predict(folder, only=[first, second])) == {first, second}
    certain = clf.predict(folder, prior={first: 1})
    assert set(certain) == {first}
    told = answers(clf, clf.embed(folder), Question(parents={first: "kind", second: "kind"}, back_off=0.5))
    one = told.as_dicts()[0]
    assert one["parents"] == [{"label": "kind", "probability": pytest.approx(plain[0, :2].sum())}]
    assert one["answer"]["probability"] >= 0.5
    np.testing.assert_allclose(clf.predict_proba(folder, prior="auto"), plain, atol=0.2)  # They are as frequent.


@pytest.mark.parametrize(
    ("question", "reason"),
    [({"only": ["ant"], "none": 0.05}, "none_of_these"), ({"prior": "auto", "sets": 0.9}, "coverage"),
     ({"back_off": 0.5}, "parents"), ({"only": ["unheard"]}, "unheard"), ({"prior": "auto", "only": ["ant"]}, "only")],
)  # fmt: skip
def test_questions_that_do_not_go_together_are_refused(trained, question, reason):
    clf, folder = trained
    with pytest.raises(SourceError, match=reason):
        answers(clf, clf.embed(folder), Question(**question))
