"""What several test modules need."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import scipy

from lpplusplus.probe.objective import Coefficients, PrimalObjective, SpanObjective, Support

FORMS = [PrimalObjective, SpanObjective]
SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
NEEDS_NEWER_SCIPY = {} if SCIPY >= (1, 14) else {"check_array_api_input": "scikit-learn asks for SciPy 1.14"}
"""Checks of scikit-learn's that cannot run with the oldest SciPy that we allow."""


def walk(form, solver, F, y, T, start, team=None, seen_by=None):
    """Logits of `F`, or of the images `seen_by`, losses and times along `solver`'s whole path from `start`."""
    extra = {} if team is None else {"team": team}
    objective = form(Support(F, y, len(start.W), T), **extra)
    logits, losses, times = [], [], []
    X = F if seen_by is None else seen_by

    def observe(iterate):
        weights = objective.weights(iterate.point)
        z = X @ weights.effective(T).T
        logits.append(z if weights.intercept is None else z + weights.intercept)
        losses.append(iterate.loss)
        times.append(iterate.time)
        return False

    solver.run(objective, objective.at(start), observe)
    return np.array(logits), np.array(losses), np.array(times)


def start_of(F, y, T, intercept=None):
    """The default start of LP++."""
    from lpplusplus import starts

    K = len(T)
    return Coefficients(starts.class_sums(F, y, K), np.full(K, starts.shared_alpha(F, y, T), F.dtype), intercept)


def shared_data(name):
    """A file of the real data in `$LPP_DATA`, by default in a folder beside the repository; skip without it."""
    folder = os.environ.get("LPP_DATA")
    root = Path(folder) if folder else Path(__file__).resolve().parents[3] / "shared" / "data"
    path = root / name
    if not path.exists():
        pytest.skip(f"{path} is not here: set LPP_DATA to a folder with the real CLIP features")
    return path


def until(condition, told=str):
    """What `condition` gives once it is true; the limit only ends a test that would hang, on any machine."""
    end = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < end, told(found)
        time.sleep(0.01)
    return found


def resign(path, change=lambda model: None, arrays=None, version=2, careless=False):
    """Change the description and give it a right checksum, as a hostile writer would.

    `careless` writes what has no checksum (NaN, for one) all the same.
    """
    from lpplusplus._core.model_file import _digest

    with safetensors.safe_open(path, framework="numpy") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        model = json.loads(file.metadata()["lpplusplus"])["model"]
    change(model)
    for key, value in (arrays or {}).items():
        tensors.pop(key, None) if value is None else tensors.update({key: value})
    try:
        digest = _digest(tensors, model)
    except ValueError:
        if not careless:
            raise
        digest = ""
    header = {"version": version, "model": model, "digest": digest}
    path.write_bytes(safetensors.numpy.save(tensors, {"lpplusplus": json.dumps(header)}))
