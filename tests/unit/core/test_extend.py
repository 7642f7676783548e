"""Growing a classifier on embeddings: what a fit on everything gives, before and after saving."""

import numpy as np
import pytest

import lpplusplus
from helpers import resign
from lpplusplus import LPPlusPlus, ModelFormatError, TipAdapter
from tasks import small_task

K, SHOTS, DIM = 6, 5, 24


@pytest.fixture(scope="module")
def task():
    F, y, T = small_task(K, SHOTS, DIM, seed=3)
    order = np.argsort(y, kind="stable")
    return F[order], y[order], T


def same(one, other, X):
    assert one.classes_.dtype == other.classes_.dtype
    assert one.classes_.tolist() == other.classes_.tolist()
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    for name in one.fitted_arrays:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("method", [LPPlusPlus, TipAdapter])
def test_more_examples_and_a_new_class(task, tmp_path, saved, dtype, method):
    F, y, T = (part.astype(dtype) if part.dtype.kind == "f" else part for part in task)
    old = (y != 2) & (np.arange(len(y)) % SHOTS < 3)
    keep = [k for k in range(K) if k != 2]
    probe = method().fit(F[old], y[old], text=T[keep])
    if saved:
        probe.save(tmp_path / "a.lpp")
        probe = lpplusplus.load(tmp_path / "a.lpp")
        assert probe.task_.X.dtype == dtype
    order = np.r_[np.flatnonzero(old), np.flatnonzero(~old)]
    probe.extend(F[~old], y[~old], text=T[[2]])
    same(probe, method().fit(F[order], y[order], text=T), F)


def labels(k):
    return np.array(["f", "b", "d", "a", "e", "c"])[k]


def test_classes_in_no_order_stay_and_new_ones_come_last(task):
    F, y, T = task
    old = y < 4
    probe = LPPlusPlus().fit(F[old], labels(y[old]), text=T[:4], classes=["f", "b", "d", "a"])
    probe.extend(F[~old], labels(y[~old]), text={"c": T[5], "e": T[4]})
    order = ["f", "b", "d", "a", "c", "e"]
    whole = LPPlusPlus().fit(F, labels(y), text=T[[0, 1, 2, 3, 5, 4]], classes=order)
    same(probe, whole, F)


def test_all_classes_in_an_order_of_ones_own(task):
    F, y, T = task
    old = y < 4
    order = ["e", "f", "a", "c", "b", "d"]
    rows = T[[4, 0, 3, 5, 1, 2]]
    whole = LPPlusPlus().fit(F, labels(y), text=rows, classes=order)
    for text in (rows, dict(zip(order, rows, strict=True))):
        probe = LPPlusPlus().fit(F[old], labels(y[old]), text=T[[3, 1, 2, 0]])
        same(probe.extend(F[~old], labels(y[~old]), text=text, classes=order), whole, F)
    sorted_rows = T[[3, 1, 5, 2, 4, 0]]
    probe = LPPlusPlus().fit(F[old], labels(y[old]), text=T[[3, 1, 2, 0]])
    same(probe.extend(F[~old], labels(y[~old]), text=sorted_rows), LPPlusPlus().fit(F, labels(y), text=sorted_rows), F)


@pytest.mark.parametrize("saved", [False, True])
def test_several_prompts_of_each_class(task, tmp_path, saved):
    F, y, T = task
    rng = np.random.default_rng(0)
    prompts = [(T[k] + 0.1 * rng.standard_normal((1 + k % 3, DIM))).astype(np.float32) for k in range(K)]
    stacked = np.stack([T, T + 0.1 * rng.standard_normal(T.shape)]).astype(np.float32)
    old = y < 4
    for first, more, everything in [
        (prompts[:4], prompts[4:], prompts),
        (stacked[:, :4], stacked[:, 4:], stacked),
        (T[:4], prompts[4:], [*T[:4, None], *prompts[4:]]),
    ]:
        probe = LPPlusPlus().fit(F[old], y[old], text=first)
        if saved:
            probe.save(tmp_path / "a.lpp")
            probe = lpplusplus.load(tmp_path / "a.lpp")
        same(probe.extend(F[~old], y[~old], text=more), LPPlusPlus().fit(F, y, text=everything), F)


def test_views_validation_weights_and_no_text(task, tmp_path):
    F, y, _ = task
    rng = np.random.default_rng(0)
    views = (F[:, None] + 0.1 * rng.standard_normal((len(F), 3, DIM))).astype(np.float32)
    weights = rng.integers(1, 4, len(y))
    old = y < 4
    probe = LPPlusPlus().fit(views[old], y[old], X_val=F[old], y_val=y[old], sample_weight=weights[old])
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp").extend(views[~old], y[~old])
    everywhere = np.where(old, weights, 1)
    whole = LPPlusPlus().fit(views, y, X_val=F[old], y_val=y[old], sample_weight=everywhere)
    same(again, whole, F)
    with pytest.raises(ValueError, match=r"X has shape \(5, 24\), and the classifier was fitted on \(30, 3, 24\)"):
        again.extend(F[:5], y[:5])


def test_what_was_given_may_change_afterwards(task):
    F, y, T = (part.copy() for part in task)
    probe = LPPlusPlus().fit(F, y, text=T)
    copy = F.copy(), y.copy(), T.copy()
    for part in (F, y, T):
        part[:] = 1
    same(probe.extend(copy[0][:4], copy[1][:4]),
         LPPlusPlus().fit(np.r_[copy[0], copy[0][:4]], np.r_[copy[1], copy[1][:4]], text=copy[2]), copy[0])  # fmt: skip


def test_data_frames(task):
    F, y, T = task
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(F, columns=[f"x{i}" for i in range(DIM)])
    whole = LPPlusPlus().fit(frame, y, text=T)
    probe = LPPlusPlus().fit(frame[:20], y[:20], text=T, classes=range(K)).extend(frame[20:], y[20:])
    same(probe, whole, frame)
    with pytest.raises(ValueError, match="other columns"):
        probe.extend(frame[frame.columns[::-1]], y)


def test_tensors(task, torch):
    F, y, T = task
    tensors = LPPlusPlus().fit(torch.tensor(F[:20]), y[:20], text=torch.tensor(T), classes=range(K))
    tensors.extend(F[20:], y[20:])
    np.testing.assert_array_equal(tensors.coef_, LPPlusPlus().fit(torch.tensor(F), y, text=torch.tensor(T)).coef_)


def test_what_cannot_be_added_changes_nothing(task, tmp_path):
    F, y, T = task
    old = y < 4
    probe = LPPlusPlus().fit(F[old], labels(y[old]), text=T[:4], classes=["f", "b", "d", "a"])
    before = probe.coef_.copy()
    for match, args, more in [
        ("class 'c' has no text", (F[~old], labels(y[~old])), {}),
        ("mixes labels", (F[~old], y[~old]), {"text": T[4:]}),
        ("3 labels for 2 rows", (F[:2], ["a", "b", "d"]), {}),
        ("text has 1 rows for 2 classes", (F[~old], labels(y[~old])), {"text": T[:1]}),
        ("shape", (F[:2, :5], ["a", "b"]), {}),
        ("NaN", (np.full((2, DIM), np.nan), ["a", "b"]), {}),
    ]:
        with pytest.raises(ValueError, match=match):
            probe.extend(*args, **more)
        assert (probe.coef_ == before).all()
        assert len(probe.task_.y) == old.sum()
    with pytest.raises(ValueError, match="class 'a' has no text"):
        LPPlusPlus().fit(F[old], labels(y[old])).extend(F[~old], labels(y[~old]), text=T[4:])
    probe.save(tmp_path / "a.lpp", support=False)
    small = lpplusplus.load(tmp_path / "a.lpp")
    assert (small.coef_ == probe.coef_).all()
    with pytest.raises(ValueError, match="no longer has what it was fitted on"):
        small.extend(F[:2], ["a", "b"])
    probe.save(tmp_path / "b.lpp")
    assert (tmp_path / "b.lpp").stat().st_size > (tmp_path / "a.lpp").stat().st_size + F[old].nbytes


@pytest.mark.parametrize(
    "arrays",
    [
        {"given.X": None},
        {"given.y": None},
        {"given.y": np.full(30, K)},
        {"given.y": np.full(30, -1)},
        {"given.y": np.zeros(29, np.int64)},
        {"given.y": np.zeros((30, 1), np.int64)},
        {"given.X": np.ones((30, DIM + 1), np.float32)},
        {"given.X": np.ones((30, DIM), np.int64)},
        {"given.X": np.full((30, DIM), np.nan, np.float32)},
        {"given.X": np.ones((30, 0, DIM), np.float32)},
        {"given.X": np.ones((0, DIM), np.float32), "given.y": np.zeros(0, np.int64)},
        {"given.text": np.ones((K + 1, DIM), np.float32)},
        {"given.text": np.ones((1, 1, K, DIM), np.float32)},
        {"given.prompts": np.ones(K + 1, np.int64)},
        {"given.prompts": np.array([2**62, 2**62, 2**62, 2**62, 1, 5])},
        {"given.text": None, "given.prompts": np.ones(K, np.int64)},
        {"given.X_val": np.ones((2, DIM), np.float32)},
        {"given.X_val": np.ones((2, DIM), np.float32), "given.y_val": np.zeros(3, np.int64)},
        {"given.sample_weight": np.ones(29)},
        {"given.else": np.ones(29)},
    ],
)
def test_what_a_file_says_was_given_has_to_fit_together(task, tmp_path, arrays):
    F, y, T = task
    path = tmp_path / "a.lpp"
    LPPlusPlus(updates=5).fit(F, y, text=T).save(path)
    resign(path, arrays=arrays)
    with pytest.raises(ModelFormatError, match=r"a\.lpp"):
        lpplusplus.load(path)


def test_format_1_has_none_of_it(task, tmp_path):
    F, y, T = task
    path = tmp_path / "a.lpp"
    LPPlusPlus(updates=5).fit(F, y, text=T).save(path)
    resign(path, version=1)
    with pytest.raises(ModelFormatError, match="format 1 has no arrays"):
        lpplusplus.load(path)
    resign(path, version=1, arrays={f"given.{name}": None for name in ("X", "y", "text")})
    assert not hasattr(lpplusplus.load(path), "task_")
