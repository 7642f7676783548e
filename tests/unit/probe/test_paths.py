"""Whole paths of the solvers against plain transcriptions that share no code with them (transcriptions.py)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from helpers import FORMS, start_of, walk
from lpplusplus import LPPlusPlus, curvature
from lpplusplus._core.softmax import HARMLESS
from lpplusplus._core.threads import Team
from lpplusplus.probe.objective import Coefficients, PrimalObjective, SpanObjective, Support
from lpplusplus.probe.solvers import BlockMM, Flow, GradientDescent, HeavyBall
from tasks import small_task
from transcriptions import algorithm_1, gradient_descent, logits, released_loop

SHAPES = [(2, 1, 8), (2, 16, 6), (3, 4, 32), (3, 30, 16), (19, 2, 64), (19, 8, 32), (100, 1, 128), (100, 4, 96)]
"""K, S, D; N below and above D."""
shapes = pytest.mark.parametrize(("K", "S", "D"), SHAPES)
forms = pytest.mark.parametrize("form", FORMS)


@shapes
@forms
def test_block_mm_is_algorithm_1(form, K, S, D):
    """Algorithm 1: all 301 iterates."""
    F, y, T = small_task(K, S, D, seed=K + S)
    expected = np.array([logits(F, T, W, a) for W, a in algorithm_1(F, y, T)])
    got, _, _ = walk(form, BlockMM(), F, y, T, start_of(F, y, T))
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() < 1e-9


@shapes
@forms
def test_heavy_ball_is_the_released_loop(form, K, S, D):
    F, y, T = small_task(K, S, D, seed=K + S)
    b0 = np.random.default_rng(0).uniform(-1, 1, K) / np.sqrt(D)
    expected = np.array([logits(F, T, W, a, b) for W, b, a in released_loop(F, y, T, b0)])
    got, _, _ = walk(form, HeavyBall(), F, y, T, start_of(F, y, T, b0))
    assert np.abs(got - expected).max() < 1e-9


@forms
@pytest.mark.parametrize("cycle", [(10, 10), (1, 1), (3, 2)])
def test_any_cycle(form, cycle):
    F, y, T = small_task(5, 3, 24, seed=1)
    expected = np.array([logits(F, T, W, a) for W, a in algorithm_1(F, y, T, updates=60, cycle=cycle)])
    got, _, _ = walk(form, BlockMM(60, cycle), F, y, T, start_of(F, y, T))
    assert np.abs(got - expected).max() < 1e-9


@pytest.mark.parametrize("D", [20, 170, 500], ids=["small", "fewer than images", "more than images"])
@pytest.mark.parametrize("workers", [1, 2])
def test_curvature_of_a_support(D, workers):
    """Spectrum and text energy, from whichever of the two Gram matrices is smaller."""
    F, y, T = small_task(10, 32, D, seed=2)
    with ThreadPoolExecutor(1) as pool:
        team = Team(workers, pool if workers > 1 else None)
        support = Support(F, y, 10, T)
        objective = PrimalObjective(support, team=team)
        eigenvalues = np.linalg.svd(F, compute_uv=False)[:20] ** 2 / len(F)
        assert objective.spectrum.values[0] == pytest.approx(eigenvalues[0], rel=1e-9)
        assert np.all(objective.spectrum.values[:20] <= eigenvalues * (1 + 1e-9))
        assert np.allclose(objective.score_energy, ((F @ T.T) ** 2).mean(axis=0), rtol=1e-10)
        assert np.allclose(support.moment(team), F.T @ F)


@pytest.mark.parametrize("cycle", [(10, 1), (2, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_steps_on_alpha_in_several_chunks(cycle, bias, monkeypatch):
    F, y, T = small_task(19, 8, 24, seed=3)
    intercept = np.random.default_rng(0).normal(size=19) if bias else None
    solver, start = BlockMM(60, cycle), start_of(F, y, T, intercept)
    expected, losses, _ = walk(SpanObjective, solver, F, y, T, start)
    monkeypatch.setattr("lpplusplus.probe.objective.support.rows_per_chunk", lambda classes: 16)
    with ThreadPoolExecutor(1) as pool:
        for team in (Team(1), Team(2, pool)):
            got, other_losses, _ = walk(PrimalObjective, solver, F, y, T, start, team)
            assert np.abs(got - expected).max() < 1e-9
            assert np.abs(other_losses - losses).max() < 1e-12


@forms
@pytest.mark.parametrize("largest", [20.0, 39.7], ids=["logits stay small", "logits grow large"])
def test_logits_are_not_searched_for_large_ones_while_they_cannot_be(form, largest, monkeypatch):
    """Where distances are measured, a bound grows with them; the exponentials are those of a search at each update."""
    F, y, T = small_task(5, 3, 24, seed=3)
    start = start_of(F, y, T)
    factor = largest / np.abs(F @ start.effective(T).T).max()
    start = Coefficients(start.W * factor, start.alpha * factor, None)
    searched = []
    monkeypatch.setattr("lpplusplus._core.backend.largest", lambda z: searched.append(np.abs(z).max()) or searched[-1])
    paths, searches = [], []
    for measured in (False, True):
        objective = form(Support(F, y, 5, T))
        if measured:
            objective.start_distance_bound()
        path = []
        BlockMM(150).run(objective, objective.at(start), lambda it: path.append((it.loss, it.point.v.copy())))  # noqa: B023
        paths.append(path)
        searches.append([*searched])
        searched.clear()
    assert all(a == b and (v == w).all() for (a, v), (b, w) in zip(*paths, strict=True))
    always, bounded = searches
    assert len(always) == 151
    large = sum(size >= HARMLESS for size in always)
    if largest == 20:
        assert (large, len(bounded)) == (0, 1)
    else:
        assert always[0] < HARMLESS
        assert 0 < large <= len(bounded) < len(always)


@forms
@pytest.mark.parametrize("way", ["another point", "jump", "retreat"])
def test_a_bound_on_logits_is_not_used_where_it_does_not_hold(form, way):
    F, y, T = small_task(5, 3, 24, seed=3)
    F, T = F.astype(np.float32), T.astype(np.float32)  # Where exp(100) is infinite.
    start = start_of(F, y, T)
    objective, plain = (form(Support(F, y, 5, T)) for _ in range(2))
    objective.start_distance_bound()
    point, far = objective.at(start), objective.at(Coefficients(start.W * 100, start.alpha * 100, None))
    expected = plain.evaluate(far).loss
    assert np.isfinite(expected)
    if way == "retreat":
        moved = far.copy()
        objective.evaluate(moved)
        objective.descend(moved, w=(moved.v - point.v, 1.0))
        assert objective.evaluate(moved).loss == pytest.approx(plain.evaluate(point).loss, rel=1e-4)
        objective.retreat(moved, far)
    else:
        moved = point
        objective.evaluate(point)
        if way == "jump":
            objective.jump(point, far)
        else:
            moved = far
    assert objective.evaluate(moved).loss == pytest.approx(expected, rel=1e-6)


@forms
def test_gradient_descent_with_the_lipschitz_step(form):
    F, y, T = small_task(7, 5, 24, seed=2)
    gamma = curvature.gamma_global(F, T)
    expected = np.array([logits(F, T, W, a) for W, a in gradient_descent(F, y, T, gamma, 100)])
    got, _, _ = walk(form, GradientDescent(100), F, y, T, start_of(F, y, T))
    assert np.abs(got - expected).max() < 1e-9


@pytest.mark.parametrize("solver", [BlockMM(), HeavyBall(), Flow(30_000)], ids=["block-mm", "heavy-ball", "flow"])
@forms
def test_single_precision_stays_close_along_the_path(form, solver):
    F, y, T = small_task(19, 4, 64, seed=3)
    exact, _, _ = walk(form, solver, F, y, T, start_of(F, y, T))
    F32, T32 = F.astype(np.float32), T.astype(np.float32)
    single, _, _ = walk(form, solver, F32, y, T32, start_of(F32, y, T32))
    assert single.dtype == np.float32
    assert np.abs(single - exact).max() < 1e-3 * max(1.0, np.abs(exact).max() / 50)


@pytest.mark.parametrize("solver", [BlockMM(50), Flow()], ids=["block-mm", "flow"])
def test_both_forms_and_any_team_walk_alike(solver):
    F, y, T = small_task(12, 9, 40, seed=4, n_extra=20)
    start = start_of(F, y, T)
    reference, _, _ = walk(PrimalObjective, solver, F, y, T, start)
    with ThreadPoolExecutor(3) as pool:
        for form in FORMS:
            got, _, _ = walk(form, solver, F, y, T, start, Team(3, pool))
            assert np.abs(got - reference).max() < 1e-9


@pytest.mark.parametrize("recipe", ["paper", "released"])
@pytest.mark.parametrize("ties", ["latest", "first"])
def test_estimator_selects_as_the_transcription_would(recipe, ties):
    """The estimator end to end: same iterate and same scores as scoring every transcribed iterate by hand."""
    X, labels, T = small_task(10, 4, 48, seed=5, n_extra=100)
    F, y, X_val, y_val, X_new = X[:60], labels[:60], X[60:100], labels[60:100], X[100:]
    probe = LPPlusPlus(recipe=recipe, ties=ties).fit(F, y, text=T, X_val=X_val, y_val=y_val)
    if recipe == "paper":
        path = [(W, a, 0.0) for W, a in algorithm_1(F, y, T)]
        first = 0
    else:
        b0 = LPPlusPlus(recipe=recipe, updates=0).fit(F, y, text=T).intercept_
        assert np.abs(b0).max() <= 1 / np.sqrt(48)
        path = [(W, a, b) for W, b, a in released_loop(F, y, T, b0)]
        first = 1  # The released code never considers its start.
    hits = [(logits(X_val, T, W, a, b).argmax(1) == y_val).sum() for W, a, b in path]
    best = max(hits[first:])
    chosen = [j for j in range(first, len(path)) if hits[j] == best][-1 if ties == "latest" else 0]
    assert probe.n_updates_ == chosen
    assert np.allclose(probe.history_.validation_accuracy, np.array(hits) / 40)
    W, a, b = path[chosen]
    assert np.abs(probe.decision_function(X_new) - logits(X_new, T, W, a, b)).max() < 1e-9
    assert np.allclose(probe.alpha_, a, atol=1e-9)
    assert np.allclose(probe.prototypes_, W, atol=1e-9)


def test_budget_of_300_is_27_cycles_and_three_steps():
    """Every step counts: 27 cycles of 10 + 1 are 297 updates, and three more are on W."""
    F, y, T = small_task(3, 2, 8, seed=6)
    _, _, times = walk(PrimalObjective, BlockMM(), F, y, T, start_of(F, y, T))
    assert times[-1] == 273  # W steps
    assert len(times) - 1 - times[-1] == 27  # α steps


def test_first_alpha_step_of_the_released_code_sums_ten_gradients():
    """Its loop never clears the gradients of α, so that the tenth update adds up ten of them."""
    from transcriptions import gamma_alpha, gradients, one_hot

    F, y, T = small_task(4, 3, 16, seed=7)
    b0 = np.zeros(4)
    path = released_loop(F, y, T, b0, iterations=10)
    total = sum(gradients(F, one_hot(y, 4), T, W, a, b)[1] for W, b, a in path[:10])
    expected = path[0][2] - total / gamma_alpha(F, T, 16.0)
    objective = SpanObjective(Support(F, y, 4, T))
    seen = []

    def observe(iterate):
        seen.append(iterate.point.alpha.copy())
        return False

    HeavyBall(10).run(objective, objective.at(start_of(F, y, T, b0)), observe)
    assert np.allclose(seen[9], path[0][2], atol=1e-12)
    assert np.allclose(seen[10], expected, atol=1e-10)
