"""Have I enough photos, and which to label next?"""

import numpy as np
import pytest
import scipy.stats

from commands import ask, complaint, lpp
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from lpplusplus.images.hold_out import expectations
from lpplusplus.images.suggesting import choose


def test_expectations_are_in_order_and_hold_the_law_they_were_made_from():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(200):
        chance = rng.random(300)
        full, less = chance < 0.3 * 6**-0.5, rng.random(300) < 0.3 * 3**-0.5
        found = expectations(full, 6.0, less, 3.0, 8.0)
        accuracy = [one.accuracy for one in found]
        assert accuracy == sorted(accuracy)
        widths = [np.log(1 - one.interval[0]) - np.log(1 - one.interval[1]) for one in found]
        assert widths == sorted(widths)
        inside.append([low <= 1 - 0.3 * (8 * k) ** -0.5 <= high for k, (low, high) in
                       zip((1, 2, 4), (one.interval for one in found), strict=True)])  # fmt: skip
    assert (np.mean(inside, axis=0) > 0.9).all()


def test_nothing_wrong_is_no_certainty():
    none = np.zeros(20, bool)
    now = expectations(none, 3.0, none, 1.0, 4.0)[0]
    assert now.interval[0] < 0.9
    assert now.accuracy < 1


def test_the_choice_is_balanced_and_diverse():
    rng = np.random.default_rng(0)
    centres = np.eye(8)[:4]
    y = np.repeat([0, 0, 0, 1, 2, 3], 10)
    X = centres[y] + 0.1 * rng.standard_normal((60, 8))
    X[1] = X[0]
    chances = np.eye(4)[y] * 0.9 + 0.025
    labelled, labels = centres[[0, 0, 0]], np.zeros(3, np.intp)
    chosen = choose(X, chances, labelled, labels, 12)
    assert len(set(chosen)) == 12
    assert np.bincount(y[chosen], minlength=4).tolist() == [1, 4, 4, 3] or np.bincount(y[chosen])[0] <= 2
    assert not {0, 1} <= set(chosen)
    assert sorted(choose(X, chances, labelled[:0], labels[:0], 100)) == list(range(60))


def test_with_two_photos_one_of_each_says_more():
    """Where its class has one photo and half of the others two, a photo has worse terms than with one each."""
    unfair, fair = np.arange(40) < 16, np.arange(40) < 8
    found = expectations(unfair, 0.6, fair, 1.0, 2.0)
    assert found == expectations(fair, 1.0, unfair, 0.6, 2.0)
    assert 0.8 < found[0].accuracy < 0.95


def test_nothing_wrong_has_the_interval_of_a_rate():
    """Jeffreys' for 24 photos that are all right, which count as half as many: their folds share photos."""
    none = np.zeros(24, bool)
    low, high = expectations(none, 6.0, none, 3.0, 6.0)[0].interval
    assert low == pytest.approx(1 - scipy.stats.beta(0.5, 12.5).ppf(0.975), abs=1e-6)
    assert high > 0.999


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    root = tmp_path_factory.mktemp("check")
    write_demo(root / "drawn", 5, size=96)
    for label in ("fish", "red_star", "boat"):
        (root / "photos" / label).mkdir(parents=True)
        (root / "new").mkdir(exist_ok=True)
        for path in sorted((root / "drawn" / label).iterdir()):
            target = root / "photos" / label if path.stem < "0004" else root / "new"
            path.rename(target / (path.name if target.name != "new" else f"{label}.jpg"))
    lpp("train", root / "photos", "-o", root / "m.lpp", "-e", "drawings")
    return root


def test_check_says_the_same_of_photos_and_of_their_classifier(work, tmp_path):
    told = ask("check", work / "photos", "-e", "drawings", "--report", tmp_path / "page.html")
    again = ask("check", work / "m.lpp")
    assert [one["photos"] for one in told["expected"]] == [4, 8, 16]
    assert told["expected"] == again["expected"]
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!")
    assert "Of 100 new photos" in lpp("check", work / "m.lpp")


def test_suggest_and_add_what_was_suggested(work, tmp_path):
    told = ask("suggest", work / "m.lpp", work / "new", "--count", "3", "--copy", tmp_path / "label")
    guesses = sorted(one["guess"] for one in told["suggestions"])
    assert len(guesses) == 3
    assert all(one["reason"] for one in told["suggestions"])
    assert sorted(path.parent.name for path in (tmp_path / "label").glob("*/*.jpg")) == guesses
    assert "not empty" in lpp("suggest", work / "m.lpp", work / "new", "--copy", tmp_path / "label", code=2)
    assert ask("add", work / "m.lpp", tmp_path / "label", "-o", tmp_path / "n.lpp")["added"] == 3
    clf = ImageClassifier.load(tmp_path / "n.lpp")
    assert clf.suggest(clf.embed(work / "new")) == []
    assert "does not exist" in complaint("suggest", work / "m.lpp", work / "nowhere")
    ImageClassifier.load(work / "m.lpp").save(tmp_path / "bare.lpp", support=False)
    told = ask("suggest", tmp_path / "bare.lpp", work / "new")["suggestions"]
    assert all(one["reason"].startswith(f"it looks like {one['guess']}") for one in told)
