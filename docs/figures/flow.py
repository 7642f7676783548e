"""Draws the figures of docs/explanation/flow.md: python docs/figures/flow.py [folder]

Needs matplotlib, and the features of WHU-RS19 in the folder that $LPP_DATA names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from lpplusplus import LPPlusPlus
from lpplusplus.bench.datasets import catalog
from lpplusplus.bench.draw_task import draw_from
from lpplusplus.probe.solvers import flow as flow_module

HERE = Path(__file__).resolve().parent
PLAIN = {"metric": "none", "alpha_init": "shared", "selection": "last", "updates": 300}
"""The flow as far as LP++ goes, in its own coordinates."""
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


def axes(width: int = 1):
    figure, panels = plt.subplots(1, width, figsize=(4.6 * width, 3.2), layout="constrained")
    return figure, panels


def task(data, shots, seed):
    """(X, y) of the support and of the test images."""
    draw = draw_from(data, shots=shots, seed=seed, generator="whurs19-table")
    pool = data.train
    return [(pool.rows[rows], pool.labels[rows]) for rows in (draw.support, draw.test)]


def loss_against_time(data, folder):
    """300 updates of block-MM and 6 steps of the flow are the same walk."""
    figure, panels = axes(2)
    for panel, shots in zip(panels, (1, 16), strict=True):
        support, _ = task(data, shots, 1)
        for name, parameters, style in (
            ("block-MM, 300 updates", {"recipe": "paper"}, {"color": GREY, "lw": 3, "alpha": 0.6}),
            ("flow, 6 steps", PLAIN, {"color": BLUE, "marker": "o", "lw": 1}),
        ):
            history = LPPlusPlus(**parameters).fit(*support, text=data.text).history_.as_arrays()
            panel.plot(history["time"], history["loss"], label=name, **style)
        panel.set(title=f"{shots} shot(s)", xlabel="time (steps of 1/γ)", ylabel="loss of the support")
        panel.legend(frameon=False)
    figure.savefig(folder / "flow_loss.png", dpi=110)


def accuracy_against_time(data, folder):
    """How far to go depends on the number of shots; held-out loss knows."""
    figure, panel = axes()
    ends = np.geomspace(30, 30_000, 13)
    for shots, color in ((1, GREY), (2, GREEN), (4, ORANGE), (16, BLUE)):
        curves, stops = [], []
        for seed in range(1, 11):
            support, test = task(data, shots, seed)
            curves.append(
                [
                    [
                        LPPlusPlus(metric=metric, selection="last", updates=int(end))
                        .fit(*support, text=data.text)
                        .score(*test)
                        for end in ends
                    ]
                    for metric in ("within", "none")
                ]
            )
            stops.append(LPPlusPlus().fit(*support, text=data.text).history_.time[-1] * 1.1)
        mean, plain = 100 * np.mean(curves, axis=0)
        panel.plot(ends, mean, color=color, label=f"{shots} shot(s)")
        panel.plot(ends, plain, color=color, lw=0.8, ls="--")
        stop = float(np.exp(np.mean(np.log(stops))))
        panel.plot(stop, np.interp(np.log(stop), np.log(ends), mean), "o", color=color)
    panel.axvline(300, color="k", lw=0.8, ls=":")
    panel.set(xscale="log", xlabel="updates that the flow stands for", ylabel="test accuracy, %")
    panel.set_title("dots: the default stops; dashed: no metric; dotted: 300 updates", fontsize=8)
    panel.legend(frameon=False, ncols=2, fontsize=8)
    figure.savefig(folder / "flow_accuracy.png", dpi=110)


def error_against_steps(data, folder):
    """First order: twice the steps, half the distance to the true flow."""
    (X, y), (X_test, _) = task(data, 4, 1)
    support = X.astype(np.float64), y
    original = flow_module.times

    def scores(steps, damping=flow_module.DAMPING_EARLY):
        ours = flow_module.DAMPING_EARLY
        flow_module.times = lambda end, direct: tuple(np.geomspace(1, end, steps))
        flow_module.DAMPING_EARLY = damping
        try:
            probe = LPPlusPlus(**PLAIN).fit(*support, text=data.text)
        finally:
            flow_module.times, flow_module.DAMPING_EARLY = original, ours
        return probe.decision_function(X_test)

    truth, counts = scores(4096), [4, 6, 8, 16, 32, 64, 128, 256]
    figure, panel = axes()
    for damping, color in ((2.0, GREY), (1.5, BLUE)):
        errors = [np.abs(scores(n, damping) - truth).max() for n in counts]
        panel.loglog(counts, errors, "o-", color=color, label=f"flow, c = {damping:g}")
    panel.loglog(counts, errors[-1] * counts[-1] / np.array(counts), ":", color="k", label="first order")
    panel.set(xlabel="steps to the time of 300 updates", ylabel="largest error of a test logit")
    panel.legend(frameon=False)
    figure.savefig(folder / "flow_order.png", dpi=110)


if __name__ == "__main__":
    plt.switch_backend("Agg")
    features = catalog()["whurs19"].features(os.environ["LPP_DATA"], encoder="RN50")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for draw in (loss_against_time, accuracy_against_time, error_against_steps):
        draw(features, folder)
