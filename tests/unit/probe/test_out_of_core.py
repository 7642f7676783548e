"""Fits on embeddings that stay in their file, or with other processes: the same classifier, block by block."""

import numpy as np
import pytest

from held_rows import scattered
from lpplusplus import GDA, LPPlusPlus, TipAdapter, ZeroShot, fit_many, load
from lpplusplus._core import rows
from lpplusplus._core.rows import Rows
from tasks import small_task

PARAMETERS = [
    {},
    {"selection": "last"},
    {"class_weight": "balanced"},
    {"normalize": False},
    {"alpha": "none"},
    {"recipe": "paper", "updates": 20},
    {"metric": "none", "solver": "block-mm", "updates": 20},
    {"solver": "lbfgs", "updates": 10, "selection": "last"},
]


@pytest.fixture
def task(tmp_path, monkeypatch):
    """1 200 rows of 12 dimensions in memory and in a file, in blocks of 256; every third row is longer than 1."""
    monkeypatch.setattr(rows, "BLOCK", 1)
    for module in ("objective.support", "initialization"):
        monkeypatch.setattr(f"lpplusplus.probe.{module}.rows_per_chunk", lambda classes: 256)
    for module in ("initialization", "cross_validation", "fit"):
        monkeypatch.setattr(f"lpplusplus.probe.{module}.ENOUGH_IMAGES", 300)
    F, y, T = small_task(6, 200, 12, seed=3)
    X = F.astype(np.float32)
    X[::3] *= 1.5
    np.save(tmp_path / "X.npy", X)
    return X, np.load(tmp_path / "X.npy", mmap_mode="r"), y, T.astype(np.float32)


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_the_same_classifier_as_in_memory(task, parameters, monkeypatch):
    X, mapped, y, T = task
    read = []
    original = Rows.read
    monkeypatch.setattr(Rows, "read", lambda self, *rest: read.append(len(out := original(self, *rest))) or out)
    whole = LPPlusPlus(**parameters).fit(X, y, text=T)
    read.clear()
    streamed = LPPlusPlus(**parameters, memory=0).fit(mapped, y, text=T)
    scale = np.abs(whole.coef_).max()
    assert np.abs(streamed.coef_ - whole.coef_).max() < 1e-5 * scale
    assert np.array_equal(streamed.predict(X), whole.predict(X))
    assert streamed.selection_ == whole.selection_
    if parameters.get("solver") != "lbfgs":  # It needs the images themselves in other coordinates.
        assert max(read) <= 600  # Blocks, or a sample: never all 1 200.


def test_half_precision_weights_and_prompts(task, tmp_path):
    X, _, y, T = task
    np.save(tmp_path / "half.npy", X.astype(np.float16))
    half = np.load(tmp_path / "half.npy", mmap_mode="r")
    weights = np.arange(len(y)) % 3
    prompts = np.stack([T, T + 0.1])
    whole, streamed = (
        LPPlusPlus(memory=memory).fit(half, y, text=prompts, sample_weight=weights) for memory in (1024, 0)
    )
    assert np.abs(streamed.coef_ - whole.coef_).max() < 1e-5 * np.abs(whole.coef_).max()
    assert np.allclose(streamed.text_, whole.text_, atol=1e-6)


def test_a_small_map_is_read_as_a_whole_and_may_grow(task):
    X, mapped, y, T = task
    assert np.array_equal(LPPlusPlus().fit(mapped, y, text=T).extend(X[:5], y[:5]).task_.X[-5:], X[:5])
    with pytest.raises(ValueError, match="fitted on a file larger than memory"):
        LPPlusPlus(memory=0).fit(mapped, y, text=T).extend(X[:5], y[:5])


def test_a_classifier_from_a_file_is_saved_without_it(task, tmp_path):
    X, mapped, y, T = task
    probe = LPPlusPlus(memory=0).fit(mapped, y, text=T)
    probe.save(tmp_path / "probe.lpp")
    assert (tmp_path / "probe.lpp").stat().st_size < X.nbytes
    assert np.array_equal(load(tmp_path / "probe.lpp").predict(X), probe.predict(X))


def test_bad_rows_are_named_by_their_block(task, tmp_path):
    X, _, y, T = task
    X = X.copy()
    for value, says in ((np.nan, r"X\[1024:1200\] contains NaN in row 76"), (0, r"X\[1024:1200\] is zero .* row 76")):
        X[1100] = value
        np.save(tmp_path / "bad.npy", X)
        with pytest.raises(ValueError, match=says):
            LPPlusPlus(memory=0).fit(np.load(tmp_path / "bad.npy", mmap_mode="r"), y, text=T)
    X[1100] = np.nan
    with pytest.raises(ValueError, match=r"X\[956:1200\] contains NaN in row 144"):
        LPPlusPlus().fit(scattered(X, 700), y, text=T)


def test_fit_many_draws_from_a_file(task):
    X, mapped, y, T = task
    supports = [np.arange(0, 600, 5), np.arange(1, 600, 5)]
    one, other = (
        fit_many(data, y, supports, text=T, estimator=LPPlusPlus(memory=memory))
        for data, memory in ((X, 1024), (mapped, 0))
    )
    for a, b in zip(one, other, strict=True):
        assert np.allclose(a.coef_, b.coef_, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("with_text", [True, False], ids=["names", "images alone"])
@pytest.mark.parametrize("method", [ZeroShot, GDA])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in a file", "held by others"])
def test_closed_forms_stream_as_well(task, method, with_text, elsewhere, monkeypatch):
    X, mapped, y, T = task
    monkeypatch.setattr(method, "memory", 0)
    text, rows = T if with_text else None, scattered(X, 500) if elsewhere else mapped
    whole, streamed = method().fit(X, y, text=text), method().fit(rows, y, text=text)
    assert "task_" not in vars(streamed)
    assert np.allclose(whole.coef_, streamed.coef_, rtol=1e-5, atol=1e-5)
    assert np.allclose(whole.intercept_, streamed.intercept_, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parameters", [*PARAMETERS, {"selection": "validation"}, {"intercept": True}], ids=str)
def test_the_same_classifier_where_others_hold_the_rows(task, parameters):
    X, _, y, T = task
    if parameters.get("solver") == "lbfgs":  # Its line search makes much of rounding.
        X = X.astype(np.float64)
    held_out = {"X_val": X[:90], "y_val": y[:90]} if parameters.get("selection") == "validation" else {}
    rows = scattered(X, 100, 100, 700)  # One holds 100 rows, one holds none.
    here = LPPlusPlus(**parameters).fit(X, y, text=T, **held_out)
    there = LPPlusPlus(**parameters).fit(rows, y, text=T, **held_out)
    assert np.abs(there.coef_ - here.coef_).max() < 1e-5 * np.abs(here.coef_).max()
    assert np.array_equal(there.predict(X), here.predict(X))
    assert (there.selection_, there.n_updates_) == (here.selection_, here.n_updates_)
    assert "task_" not in vars(there)
    again = LPPlusPlus(**parameters).fit(scattered(X, 100, 100, 700), y, text=T, **held_out)
    assert np.array_equal(again.coef_, there.coef_)


def test_in_double_precision_the_rows_of_others_make_no_difference(task):
    """Also where single precision is too coarse: labels at random, and images that hardly differ."""
    X, _, y, T = (np.asarray(part, np.float64) for part in task)
    for images, labels in ((X, y), (X + 9 * X[:1], np.arange(len(y)) % 6)):
        here, there = (LPPlusPlus().fit(one, labels.astype(int), text=T) for one in (images, scattered(images, 400)))
        assert np.abs(there.coef_ - here.coef_).max() < 1e-8 * np.abs(here.coef_).max()


def test_what_travels_is_as_large_as_the_classes(task):
    X, _, y, T = task
    rows = scattered(np.concatenate([X] * 8), 3000)
    probe = LPPlusPlus(selection="last", updates=3000).fit(rows, np.concatenate([y] * 8), text=T)
    holders, weights = rows._holders, 6 * 12 * 4
    # Labels once, a sample of 300 rows for α and 8 rows per class, and per call some arrays of K x D and a few kB.
    assert holders.bytes < 8 * 9600 + 400 * 50 + holders.calls * (4 * weights + 4000)
    assert holders.calls < 2 * (len(probe.history_.loss) + 8)


def test_rows_that_others_hold_are_read_in_any_order(task):
    X = task[0]
    rows, index = scattered(X, 100, 700), np.array([800, 3, 3, 699, 700, 1199])
    assert np.array_equal(rows[index, :], X[index])
    assert np.array_equal(rows.take(index)[::2, :], X[index[::2]])
    factors = np.linspace(1, 2, 6, dtype=np.float32)
    assert np.allclose(rows.take(index).times(factors).unit()[1:4, :] / factors[1:4, None],
                       (X / np.linalg.norm(X, axis=1)[:, None])[index[1:4]], rtol=1e-6)  # fmt: skip


def test_other_methods_need_their_rows(task):
    X, _, y, T = task
    with pytest.raises(TypeError, match="TipAdapter needs all rows in one process"):
        TipAdapter().fit(scattered(X, 500), y, text=T)
