"""Any labelled numbers that scikit-learn's discriminant analysis and logistic regression fit, every method fits."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from lpplusplus import CLAP, GDA, TIMO, CrossModalProbe, LinearProbe, LPPlusPlus, ProKeR, SSText, TipAdapter, ZeroShot

METHODS = [
    LPPlusPlus(),
    LPPlusPlus(solver="lbfgs"),
    LPPlusPlus(recipe="paper"),
    LPPlusPlus(recipe="released"),
    LinearProbe(),
    GDA(),
    TIMO(),
    SSText(),
    ProKeR(),
    pytest.param(CLAP(epochs=3), marks=pytest.mark.with_torch),
    CrossModalProbe(iterations=50),
    TipAdapter(),
    ZeroShot(),
]
IMAGES_ALONE = (LPPlusPlus, LinearProbe, GDA, TIMO)
"""Methods that need no text; with none, they learn the images of well separated classes by heart."""


def bursts(classes, copies, dim, noise, dtype):
    """Images that differ from others of their class by `noise` only, as those of a phone's burst do."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((classes, dim)), copies, axis=0)
    X += noise * rng.standard_normal(X.shape)
    return X.astype(dtype), np.repeat(np.arange(classes), copies), rng.standard_normal((2, classes, dim))


def check(method, classes, copies, dim, noise, dtype, text):
    X, y, T = bursts(classes, copies, dim, noise, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(method).fit(X, y, text=T if text else None)
        p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert np.allclose(p.sum(axis=1), 1, atol=1e-3)
    if not text:
        assert (model.predict(X) == y).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{type(method).__name__}-{method.get_params()}"[:40])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    classes=st.integers(2, 12),
    copies=st.integers(1, 40),
    dim=st.sampled_from([16, 64, 160]),
    noise=st.sampled_from([0, 1e-12, 1e-9, 1e-7, 1e-4, 1e-2]),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    text=st.booleans(),
)
@example(classes=5, copies=8, dim=64, noise=0, dtype="float64", text=False)
@example(classes=2, copies=8, dim=16, noise=0, dtype="float32", text=True)
@example(classes=2, copies=8, dim=16, noise=1e-9, dtype="float64", text=True)
def test_copies_and_near_copies_are_fitted(method, classes, copies, dim, noise, dtype, text):
    check(method, classes, copies, dim, noise, dtype, text or not isinstance(method, IMAGES_ALONE))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [0, 1e-9, 1e-4])
@pytest.mark.parametrize("text", [False, True])
def test_a_burst_of_each_of_twenty_things(text, noise, dtype):
    """800 images in 512 dimensions: the scatter is a difference of numbers that are 10⁸ times as large."""
    check(LPPlusPlus(), 20, 40, 512, noise, dtype, text)


def test_the_rivals_fit_them():
    X, y, _ = bursts(5, 8, 64, 0, "float64")
    assert LinearDiscriminantAnalysis().fit(X, y).score(X, y) == LogisticRegression().fit(X, y).score(X, y) == 1
