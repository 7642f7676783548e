"""Real CLIP features: the figures that ../shared/data/README.md expects of WHU-RS19, mean of seeds 1 … 10."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import whurs19
from helpers import shared_data

SEEDS, HUNDRED = range(1, 11), range(1, 101)
EXPECTED = {
    "zero-shot": [69.1, 69.0, 68.9, 68.5, 66.8],
    "start, one α for all classes": [71.9, 74.6, 78.7, 83.5, 87.0],
    "start, one α per class": [42.6, 47.9, 54.6, 62.8, 73.5],
    'recipe="paper", validation': [84.5, 87.5, 90.9, 93.2, 94.9],
    'recipe="released", validation': [81.8, 86.6, 90.3, 94.1, 95.9],
}


@pytest.fixture(scope="module")
def rn50():
    shared_data("whurs19/clip_rn50.npz")
    return whurs19.load("rn50")


def mean(data, shots, parameters, validation, seeds=SEEDS):
    return whurs19.accuracies(data, shots, seeds, parameters, validation=validation).mean()


@pytest.mark.parametrize("column", range(5), ids=lambda j: f"{whurs19.SHOTS[j]}-shot")
def test_the_published_table(rn50, column):
    shots = whurs19.SHOTS[column]
    got = {"zero-shot": whurs19.zero_shot(rn50, shots, SEEDS).mean()}
    for name in list(EXPECTED)[1:]:
        got[name] = mean(rn50, shots, *whurs19.METHODS[name])
    for name, row in EXPECTED.items():
        assert abs(got[name] - row[column]) <= 1.0, name


@pytest.mark.parametrize("shots", whurs19.SHOTS)
def test_flow_at_the_same_time_is_as_accurate_as_300_updates(rn50, shots):
    flow = mean(rn50, shots, {"selection": "last", "updates": 300}, False)
    assert abs(flow - mean(rn50, shots, {"recipe": "paper"}, False)) <= 0.5


@pytest.mark.parametrize("encoder", whurs19.ENCODERS)
def test_the_default_without_validation_beats_the_released_recipe_with_it(encoder):
    """At 2, 4, 8 and 16 shots, by more than chance (two standard errors) over a hundred tasks, and over thirty.

    Over ten, L/14's gains of 0.2 points are within one image a task.
    """
    shared_data(f"whurs19/clip_{encoder}.npz")
    data = whurs19.load(encoder)
    for shots in (2, 4, 8, 16):
        ours = whurs19.accuracies(data, shots, HUNDRED, {}, validation=False)
        theirs = whurs19.accuracies(data, shots, HUNDRED, {"recipe": "released"}, validation=True)
        gain = ours - theirs
        assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain)), shots
        assert gain[:30].mean() >= 0, shots
        assert gain[:10].mean() >= -100 / len(data.y), shots


def test_text_helps_most_where_examples_are_fewest(rn50):
    gains = [mean(rn50, s, {}, False) - mean(rn50, s, {"alpha": "none"}, False) for s in (1, 4)]
    assert gains[0] > 8
    assert gains[0] > gains[1] > 0


def test_predictions_agree_with_block_mm(rn50):
    """98 % or more of the test images get the same class from six flow steps as from 300 updates."""
    from lpplusplus import LPPlusPlus

    for shots in (2, 8):
        support, _, test = whurs19.draw(rn50.y, shots, 1)
        fast, slow = (
            LPPlusPlus(**p).fit(rn50.X[support], rn50.y[support], text=rn50.text).predict(rn50.X[test])
            for p in ({"selection": "last", "updates": 300}, {"recipe": "paper"})
        )
        assert np.mean(fast == slow) >= 0.98


@pytest.mark.parametrize("shots", [8, 16])
def test_the_shortest_steps_of_a_long_walk_are_not_needed(rn50, shots, monkeypatch):
    """`selection="last"` leaves them out: 99 % or more of the test images get the same class."""
    from lpplusplus import LPPlusPlus
    from lpplusplus.solvers import flow

    support, _, test = whurs19.draw(rn50.y, shots, 1)

    def fit():
        return LPPlusPlus(selection="last").fit(rn50.X[support], rn50.y[support], text=rn50.text)

    direct = fit()
    monkeypatch.setattr(flow, "NOT_NEEDED", 0)
    whole = fit()
    assert (direct.n_updates_, whole.n_updates_) == (8, 9 if shots == 8 else 10)
    assert np.mean(direct.predict(rn50.X[test]) == whole.predict(rn50.X[test])) >= 0.99


@pytest.mark.parametrize("encoder", ["rn50", "vit_b32"])
def test_methods_that_know_the_names_lead_at_one_shot(encoder):
    """docs/methods.md: LP++ at the top, the searched caches near it, the standard probe far below, zero-shot beaten."""
    shared_data(f"whurs19/clip_{encoder}.npz")
    from benchmarks import methods

    data = whurs19.load(encoder)
    names = ["Zero-shot", "Standard probe", "Tip-Adapter, searched", "LP++, paper", "LP++, default, no validation"]
    score = {}
    for name in names:
        estimator, validation = methods.METHODS[name]
        score[name] = np.mean([methods.accuracy(data, estimator, 1, seed, validation=validation) for seed in SEEDS])
    zero_shot, probe, tip, paper, default = (score[name] for name in names)
    assert min(paper, default) > tip > probe + 5
    assert probe > zero_shot  # Unlike in the paper's averages, as on its EuroSAT; docs/methods.md says why.
    assert min(paper, default) > zero_shot + 12


def test_tip_adapter_f_gains_by_many_more_epochs_or_a_larger_alpha(rn50):
    """docs/methods.md: at one shot, where 20 epochs are 20 steps, and where 100 are still too few in most tasks."""
    pytest.importorskip("torch", reason="Tip-Adapter-F needs torch")
    from benchmarks import methods

    published, hundred, four_hundred, large = (
        np.mean([methods.accuracy(rn50, estimator, 1, seed, validation=validation) for seed in (1, 2, 3)])
        for estimator, validation in methods.TIP_EPOCHS.values()
    )
    assert min(four_hundred, large) > max(published, hundred) + 5


def test_the_figures_of_the_flow_can_be_drawn(tmp_path):
    shared_data("whurs19/clip_rn50.npz")
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    script = Path(whurs19.__file__).parents[1] / "docs" / "figures" / "flow.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in script.parent.glob("*.png")}
