"""The flow: it is LP++'s descent, it never climbs, and it goes where a fine integration goes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import FORMS, start_of, walk
from lpplusplus import LPPlusPlus
from lpplusplus.probe.objective import PrimalObjective, Support
from lpplusplus.probe.solvers import BlockMM, Flow
from lpplusplus.probe.solvers import flow as flow_module
from lpplusplus.probe.solvers.flow import times
from tasks import small_task


def euler(F, y, T, end, steps):
    """Explicit Euler with tiny steps on W alone, in units of 1/γ_w: the gradient flow itself."""
    start = start_of(F, y, T)
    W, Y, V = start.W.copy(), np.eye(len(T))[y], start.alpha[:, None] * T
    gamma = np.linalg.eigvalsh(F.T @ F)[-1] / (4 * len(F))
    for _ in range(steps):
        Z = F @ (W + V).T
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        W -= (end / steps) * (P - Y).T @ F / len(F) / gamma
    return F @ (W + V).T


@pytest.mark.parametrize("form", FORMS)
def test_finer_steps_converge_to_the_flow(form, monkeypatch):
    """First order: four times as many steps, a quarter of the distance to the true flow."""
    F, y, T = small_task(6, 3, 24, seed=0)
    truth = euler(F, y, T, end=100.0, steps=20_000)
    errors = []
    for n in (8, 32, 128):
        monkeypatch.setattr(flow_module, "times", lambda end, direct, n=n: tuple(np.linspace(0, 100, n + 1)[1:]))
        path, _, _ = walk(form, Flow(learn_alpha=False), F, y, T, start_of(F, y, T))
        errors.append(np.abs(path[-1] - truth).max())
    assert errors[1] < errors[0] / 2.5
    assert errors[2] < errors[1] / 2.5


@pytest.mark.parametrize("form", FORMS)
def test_alpha_and_intercept_flow_as_in_block_mm(form, monkeypatch):
    """In steps that are small for both, their ways are the same: direction, length and pace."""
    F, y, T = small_task(6, 3, 24, seed=0)
    start = start_of(F, y, T, intercept=np.linspace(-0.5, 0.5, 6))
    monkeypatch.setattr(flow_module, "times", lambda end, direct: tuple(np.geomspace(1e-3, end, 4000)))
    moved = []
    for solver in (BlockMM(15_000, tau_w=50.0, tau_alpha=800.0), Flow()):
        objective = form(Support(F, y, 6, T))
        point = objective.at(start)
        solver.run(objective, point, lambda iterate: False)
        moved.append((point.alpha - start.alpha, point.intercept - start.intercept))
    for slow, fast in zip(*moved, strict=True):
        assert np.abs(slow).max() > 0.01
        assert np.abs(fast - slow).max() < 0.05 * np.abs(slow).max()


def test_ends_where_300_updates_end():
    X, y, T = small_task(19, 4, 64, seed=1, n_extra=500)
    F, y, X = X[:100], y[:100], X[100:]
    slow = LPPlusPlus(recipe="paper").fit(F, y, text=T)
    fast = LPPlusPlus(metric="none", selection="last", updates=300).fit(F, y, text=T)
    assert fast.n_updates_ == 6
    assert fast.history_.time[-1] == pytest.approx(300 * 10 / 11)
    assert np.mean(slow.predict(X) == fast.predict(X)) > 0.94


@pytest.mark.parametrize(("shots", "steps"), [(4, 8), (8, 8), (16, 8), (32, 9)])
def test_a_direct_walk_ends_where_the_whole_one_ends(shots, steps):
    """`selection="last"` leaves out the first, shortest steps of a long walk."""
    F, y, T = small_task(10, shots, 64, seed=1)
    assert LPPlusPlus(selection="last").fit(F, y, text=T).n_updates_ == steps
    whole, direct = (
        walk(PrimalObjective, Flow(300 * shots, direct=direct), F, y, T, start_of(F, y, T)) for direct in (False, True)
    )
    logits, losses, stamps = direct
    assert len(stamps) == steps + 1
    assert stamps[-1] == whole[2][-1] == pytest.approx(shots * 300 * 10 / 11)
    assert losses[-1] == pytest.approx(whole[1][-1], rel=0.02)
    assert np.abs(logits[-1] - whole[0][-1]).mean() < 0.03 * np.std(logits[-1])


@settings(max_examples=25, deadline=None)
@given(
    K=st.integers(2, 8),
    S=st.integers(1, 6),
    D=st.integers(4, 40),
    seed=st.integers(0, 10_000),
    shuffled=st.booleans(),
    scale=st.floats(0.2, 3.0),
)
def test_loss_never_rises(K, S, D, seed, shuffled, scale):
    """However long the path, whatever the labels, and for embeddings of any length."""
    F, y, T = small_task(K, S, D, seed)
    if shuffled:
        y = np.random.default_rng(seed).permutation(y)
    _, losses, stamps = walk(PrimalObjective, Flow(300_000), scale * F, y, T, start_of(scale * F, y, T))
    assert np.all(np.diff(losses) <= 1e-12 * (1 + losses[0]))
    assert np.all(np.diff(stamps) > 0)
    assert np.all(np.isfinite(losses))


def test_a_step_that_would_climb_is_halved(monkeypatch):
    """Without its damping the step overshoots; the guard still brings it down to the same time."""
    monkeypatch.setattr(flow_module, "DAMPING_EARLY", 0.0)
    monkeypatch.setattr(flow_module, "DAMPING_LATE", 0.0)
    F, y, T = small_task(5, 6, 16, seed=2)
    y = np.random.default_rng(0).permutation(y)
    calls = []
    original = PrimalObjective.evaluate
    monkeypatch.setattr(PrimalObjective, "evaluate", lambda *a, **k: calls.append(1) or original(*a, **k))
    _, losses, stamps = walk(PrimalObjective, Flow(), F, y, T, start_of(F, y, T))
    assert len(calls) > 20  # 7 would do without a rejection.
    assert np.all(np.diff(losses) <= 1e-12)
    assert stamps[-1] == pytest.approx(300 * 10 / 11)


def test_updates_set_the_time_not_the_steps():
    F, y, T = small_task(4, 3, 16, seed=3)
    default = LPPlusPlus(selection="last").fit(F, y, text=T)
    assert default.history_.time[-1] == pytest.approx(3 * 300 * 10 / 11)  # 300 updates a shot.
    short = LPPlusPlus(selection="last", updates=30).fit(F, y, text=T)
    assert short.history_.time[-1] == pytest.approx(30 * 10 / 11)
    assert short.n_updates_ < 6
    assert LPPlusPlus(selection="last", updates=0).fit(F, y, text=T).n_updates_ == 0
    assert times(0) == ()


def test_follows_block_mm_in_loss():
    """At the same time the two have nearly the same loss."""
    F, y, T = small_task(10, 4, 48, seed=4)
    start = start_of(F, y, T)
    _, slow, slow_times = walk(PrimalObjective, BlockMM(), F, y, T, start)
    _, fast, fast_times = walk(PrimalObjective, Flow(), F, y, T, start)
    at = np.interp(fast_times, slow_times, slow)
    assert np.abs(fast - at).max() < 0.05 * (slow[0] - slow[-1])


@pytest.mark.parametrize("eps", [0, 1e-8, 1e-6, 1e-4], ids=["equal", "1e-8", "1e-6", "1e-4"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_does_not_drive_the_halving_of_steps(dtype, eps, monkeypatch):
    """Images that are all (nearly) the same, with four labels: nothing to learn, and the noise in the loss is no guide.

    Such fits took up to 75 000 evaluations. Now each of the time points stands still after a few halvings.
    """
    rng = np.random.default_rng(0)
    X, text = np.tile(rng.standard_normal(512), (12, 1)), rng.standard_normal((4, 512))
    X += eps * rng.standard_normal(X.shape)
    count = 0

    def counted(original):
        def evaluate(self, *args, **options):
            nonlocal count
            count += 1
            assert count < 1000
            return original(self, *args, **options)

        return evaluate

    for form in FORMS:
        monkeypatch.setattr(form, "evaluate", counted(form.evaluate))
    probe = LPPlusPlus().fit(X.astype(dtype), np.arange(12) % 4, text=text.astype(dtype))
    assert np.isfinite(probe.predict_proba(X.astype(dtype))).all()


class Overflowing(PrimalObjective):
    """A loss that is NaN far from the start, as one is whose logits overflow."""

    def evaluate(self, point, **asked):
        here = super().evaluate(point, **asked)
        return here if abs(point.v).max() < self.far else here._replace(loss=float("nan"))


def test_a_step_to_nan_is_taken_back():
    F, y, T = small_task(4, 5, 12, seed=0)
    objective = Overflowing(Support(F, y, 4, T))
    start = start_of(F, y, T)
    free, point = objective.at(start), objective.at(start)
    objective.far = np.inf
    Flow(updates=3000).run(objective, free, lambda _: False)
    objective.far = float(abs(point.v).max() + abs(free.v).max()) / 2
    assert objective.far > abs(point.v).max()
    losses = []
    Flow(updates=3000).run(objective, point, lambda iterate: losses.append(iterate.loss))
    assert np.isfinite(losses).all()
    assert np.isfinite(point.v).all()
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("power", [-30, -18, -12, 0, 12, 15, 18])
@pytest.mark.parametrize("named", [False, True])
def test_lengths_far_from_one_are_fitted_or_refused_by_name(power, named):
    F, y, T = small_task(5, 80, 32, seed=0)
    X = (F * 10.0**power).astype(np.float32)
    probe = LPPlusPlus(normalize=False)
    if abs(power) >= 15:
        with pytest.raises(ValueError, match=r"X has .*normalize=False"):
            probe.fit(X, y, text=T if named else None)
    else:
        assert np.isfinite(probe.fit(X, y, text=T if named else None).predict_proba(X)).all()
        assert probe.score(X, y) > 0.9
