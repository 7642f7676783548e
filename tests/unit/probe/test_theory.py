"""The paper's theory, checked on the library's objective, constants and starts.

Equations and propositions are those of LP++ (Huang et al., CVPR 2024, arXiv 2404.02285). The
true Hessians are built here from their definition; where the paper's statement is only
approximate, the tests pin down what holds instead.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from scipy.special import logsumexp, softmax

from helpers import FORMS
from lpplusplus import curvature, objective, starts
from lpplusplus._core.softmax import softmax as package_softmax
from tasks import small_task

# lambda_max is promised to a relative 1e-6 and everything derived from it inherits that.
SLACK = 1 + 2e-6
sampled = settings(max_examples=25, deadline=None, database=None)


def top(M):
    """Largest eigenvalue of a symmetric matrix."""
    return np.linalg.eigvalsh(M)[-1]


def class_hessians(F, W, alpha=None, text=None, intercept=0.0):
    """Diag(p_i) - p_i p_i^T for every sample: the Hessian of its loss in its logits, (N, K, K)."""
    C = W if text is None else W + alpha[:, None] * text
    P = softmax(F @ C.T + intercept, axis=1)
    return P[:, :, None] * np.eye(len(W)) - P[:, :, None] * P[:, None, :]


def hessian(F, text, W, alpha):
    """Joint Hessian (1/N) sum_i J_i^T (Diag(p) - p p^T) J_i in the order (W.ravel(), alpha)."""
    N, K = len(F), len(W)
    H = 0.0
    for f, A in zip(F, class_hessians(F, W, alpha, text), strict=True):
        J = np.hstack([np.kron(np.eye(K), f), np.diag(text @ f)])
        H = H + J.T @ A @ J / N
    return H


@st.composite
def points(draw, max_classes=5):
    """A random problem and a random point ``(F, y, text, W, alpha)`` of its parameter space.

    Small parameters give the flat predictions where curvature is largest, large ones the
    saturated predictions where it vanishes; rows need not have unit length.
    """
    K = draw(st.integers(2, max_classes))
    D = draw(st.integers(2, 6))
    N = draw(st.integers(1, 30))
    spread = draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shared = draw(st.sampled_from([0.0, 1.0, 5.0])) * rng.normal(size=D)
    F = rng.normal(size=(N, D)) + shared
    if draw(st.booleans()):
        F /= np.linalg.norm(F, axis=1, keepdims=True)
    text = rng.normal(size=(K, D))
    W, alpha = spread * rng.normal(size=(K, D)), spread * rng.normal(size=K)
    return F, rng.integers(0, K, N), text, W, alpha


def noisy_task(seed=0, N=120, D=4, K=3):
    """A problem with N >> D and random labels: not separable, so the loss has a minimiser."""
    F, _, text = small_task(K, N // K, D, seed)
    return F, np.random.default_rng(seed).integers(0, K, N), text


# Loss and gradients: the objective of section 2


def test_loss_is_the_mean_cross_entropy():
    """Eq. 3: L = -(1/N) sum_i sum_k y_ik ln p_ik, with the p of eq. 4."""
    F, y, text = small_task(4, 5, 6, seed=0, n_extra=3)
    rng = np.random.default_rng(0)
    W, alpha, b = rng.normal(size=text.shape), rng.normal(size=4), rng.normal(size=4)
    for arguments, Z in [
        ((), F @ W.T),
        ((alpha, text), F @ (W + alpha[:, None] * text).T),
        ((None, None, b), F @ W.T + b),
        ((alpha, text, b), F @ (W + alpha[:, None] * text).T + b),
    ]:
        expected = -np.mean(np.log(softmax(Z, axis=1)[np.arange(len(y)), y]))
        assert objective.loss(F, y, W, *arguments) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1.0, 30.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_the_softmax_of_the_logits(size, dtype):
    """Eq. 4: p_ik = exp(l_ik) / sum_j exp(l_ij), for small logits and for those whose exponential overflows."""
    z = (size * np.random.default_rng(0).normal(size=(7, 5))).astype(dtype)
    expected = softmax(z.astype(np.float64), axis=1)
    p = np.empty_like(z)
    normaliser = package_softmax(z, out=p, factor=2.0)
    np.testing.assert_allclose(p, 2 * expected, atol=1e-6 if dtype == np.float32 else 1e-14)
    np.testing.assert_allclose(normaliser[:, 0], logsumexp(z.astype(np.float64), axis=1), rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_loss_and_gradients_survive_huge_logits(offset):
    """Saturated predictions give the exact linear loss and gradient, not inf or nan."""
    F, y, W = np.eye(2), np.array([0, 1]), np.array([[-1e5, 3e5], [1e5, -3e5]]) + offset
    assert objective.loss(F, y, W) == pytest.approx(4e5)
    gradient = objective.gradients(F, y, W).W
    np.testing.assert_allclose(gradient, [[-0.5, 0.5], [0.5, -0.5]], atol=1e-15)


def test_public_functions_check_what_they_are_given():
    F, y, text = small_task(3, 2, 8, seed=0)
    W = starts.class_sums(F, y, 3)
    for wrong in (y + 1, y - 1):
        with pytest.raises(ValueError, match="but W has 3 rows"):
            objective.loss(F, wrong, W)
        with pytest.raises(ValueError, match="but W has 3 rows"):
            objective.gradients(F, wrong, W)
    half = F.astype(np.float16)
    assert objective.loss(half, y.tolist(), W) == pytest.approx(objective.loss(F, y, W), rel=1e-2)
    assert curvature.lambda_max(half) == pytest.approx(curvature.lambda_max(F), rel=1e-2)
    assert curvature.certified(half, text).w == pytest.approx(curvature.certified(F, text).w, rel=1e-2)
    assert np.allclose(starts.class_sums(half, y.tolist(), 3), W, atol=1e-2)
    alpha = starts.shared_alpha(F, y, text)
    assert starts.shared_alpha(half, y.tolist(), text) == pytest.approx(alpha, rel=1e-2)
    assert starts.per_class_alpha(half, y.tolist(), text).mean() == pytest.approx(alpha, rel=1e-2)
    assert (curvature.step_size(4), curvature.step_size(0)) == (0.25, 0)
    whole = np.round(10 * F).astype(int)
    assert objective.loss(whole, y, W) == objective.loss(whole.astype(float), y, W)


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize("with_text", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_match_finite_differences(seed, with_text, with_intercept):
    """Every gradient against scipy's finite differences of the loss; absent blocks are None."""
    K, D = 4, 5
    F, y, T = small_task(K, 4, D, seed, n_extra=2)
    text = T if with_text else None
    sizes = [K * D, K if with_text else 0, K if with_intercept else 0]

    def unpack(x):
        W, alpha, intercept = np.split(x, np.cumsum(sizes)[:2])
        alpha, intercept = (v if len(v) else None for v in (alpha, intercept))
        return W.reshape(K, D), alpha, text, intercept

    def gradient(x):
        g = objective.gradients(F, y, *unpack(x))
        assert g.W.shape == (K, D)
        assert (g.alpha is None) != with_text
        assert (g.intercept is None) != with_intercept
        return np.concatenate([v.ravel() for v in (g.W, g.alpha, g.intercept) if v is not None])

    x = np.random.default_rng(seed).normal(size=sum(sizes))
    assert check_grad(lambda x: objective.loss(F, y, *unpack(x)), gradient, x) < 2e-7


@sampled
@given(points())
def test_class_gradients_cancel(point):
    """sum_k dL/dw_k = 0, because every sample's residuals p - y sum to zero."""
    F, y, text, W, alpha = point
    g = objective.gradients(F, y, W, alpha, text, np.zeros(len(W)))
    np.testing.assert_allclose(g.W.sum(axis=0), 0, atol=1e-13 * np.abs(F).max())
    assert abs(g.intercept.sum()) < 1e-13


def test_hessian_is_the_derivative_of_the_gradients():
    """H = (1/N) sum_i J_i^T (Diag(p_i) - p_i p_i^T) J_i, the form every bound below rests on."""
    F, y, text = small_task(3, 4, 5, seed=3)
    rng = np.random.default_rng(3)
    x, h = rng.normal(size=3 * 5 + 3), 1e-5

    def gradient(x):
        g = objective.gradients(F, y, x[:15].reshape(3, 5), x[15:], text)
        return np.concatenate([g.W.ravel(), g.alpha])

    steps = h * np.eye(len(x))
    differences = [(gradient(x + s) - gradient(x - s)) / (2 * h) for s in steps]
    H = hessian(F, text, x[:15].reshape(3, 5), x[15:])
    np.testing.assert_allclose(differences, H, atol=1e-9)


# lambda_max, the only spectral quantity of Prop. 1


def spectrum(N, D, singular_values, seed=0):
    """A random (N, D) matrix with the given singular values."""
    rng = np.random.default_rng(seed)
    r = len(singular_values)
    U = np.linalg.qr(rng.normal(size=(N, r)))[0]
    V = np.linalg.qr(rng.normal(size=(D, r)))[0]
    return U * singular_values @ V.T


def opposite_pairs():
    """Rows in pairs f, -f: the feature mean, a natural start for power iteration, is zero."""
    F = small_task(5, 4, 12, seed=0)[0]
    return np.vstack([F, -F])


HARD_SPECTRA = {
    "flat wide": spectrum(30, 80, np.ones(30)),
    "flat tall": spectrum(80, 30, np.ones(30)),
    "flat square": np.eye(20),
    "one sample": np.array([[3.0, 4.0, 0.0]]),
    "one feature": np.array([[3.0], [-4.0]]),
    "rank one": np.outer(np.arange(1.0, 8.0), np.arange(-2.0, 3.0)),
    "rank two, nearly tied": spectrum(40, 25, np.array([1.0, 0.9999])),
    "crowded top": spectrum(300, 200, np.linspace(0.97, 1.0, 200)),
    "one ahead of a plateau": spectrum(300, 200, np.r_[1.01, np.ones(199)]),
    "opposite pairs": opposite_pairs(),
    "alternating rows": np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.1, 0.1]]),
    "many samples": small_task(20, 35, 40, seed=1)[0],
    "many dimensions": small_task(10, 4, 700, seed=2)[0],
    "noise, 700 x 400": np.random.default_rng(0).normal(size=(700, 400)),
    "noise, 400 x 700": np.random.default_rng(0).normal(size=(400, 700)),
    "repeated rows": np.tile(small_task(3, 2, 8, seed=0)[0], (5, 1)),
    "tiny scale": 1e-6 * small_task(4, 3, 10, seed=0)[0],
    "huge scale": 1e6 * small_task(4, 3, 10, seed=0)[0],
}


@pytest.mark.parametrize("F", HARD_SPECTRA.values(), ids=HARD_SPECTRA.keys())
def test_lambda_max_of_hard_spectra(F):
    """lambda_max(F^T F) = lambda_max(F F^T) = squared largest singular value."""
    expected = np.linalg.svd(F, compute_uv=False)[0] ** 2
    assert curvature.lambda_max(F) == pytest.approx(expected, rel=1e-6)
    assert curvature.lambda_max(F.T) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("N", "D"), [(1, 4), (3, 50), (50, 3), (40, 40), (200, 20)])
def test_lambda_max_bounds_of_unit_rows(N, D):
    """Unit rows give N/min(N, D) <= lambda_max <= N, and >= N |mean f|^2."""
    F = np.random.default_rng(N).normal(size=(N, D))
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    largest = curvature.lambda_max(F)
    assert N / min(N, D) <= largest * SLACK
    assert N * np.sum(F.mean(axis=0) ** 2) <= largest * SLACK
    assert largest <= N * SLACK
    assert curvature.lambda_max(np.repeat(F[:1], N, axis=0)) == pytest.approx(N, rel=1e-6)


# Prop. 1: Lipschitz constants of the block gradients


def test_constants_are_those_of_proposition_1():
    """Prop. 1: gamma_w and gamma_alpha; and the certified constants."""
    F, _, text = small_task(5, 3, 8, seed=0, n_extra=4)
    N, S2 = len(F), (F @ text.T) ** 2
    largest = top(F.T @ F)
    assert curvature.gamma_w(F) == pytest.approx(largest / (4 * N), rel=1e-6)
    assert curvature.gamma_w(F, tau=3.0) == pytest.approx(3 * largest / (4 * N), rel=1e-6)
    assert curvature.gamma_alpha(F, text) == pytest.approx(16 / (4 * N) * S2.sum(0).max())
    assert curvature.gamma_alpha(F, text, tau=2.0) == pytest.approx(S2.sum(0).max() / (2 * N))
    certified = curvature.certified(F, text)
    assert certified.w == pytest.approx(largest / (2 * N), rel=1e-6)
    np.testing.assert_allclose(certified.alpha, S2.sum(axis=0) / (2 * N))
    assert certified.joint == pytest.approx(certified.w + certified.alpha.max(), rel=1e-12)


def test_the_constant_of_both_blocks_at_once():
    """Eq. 12: gamma = tau max(gamma_w, gamma_alpha), tau = 1 in the paper's comparisons."""
    F, _, text = small_task(5, 3, 8, seed=0, n_extra=4)
    for taus in [(1.0, 16.0), (5.0, 0.1), (0.01, 1.0)]:
        expected = max(curvature.gamma_w(F, taus[0]), curvature.gamma_alpha(F, text, taus[1]))
        assert curvature.gamma_global(F, text, *taus) == pytest.approx(expected, rel=1e-6)
        assert curvature.gamma_global(F, text, *taus, tau=2.0) == pytest.approx(2 * expected, rel=1e-6)
    expected = max(top(F.T @ F), 16 * ((F @ text.T) ** 2).sum(axis=0).max()) / (4 * len(F))
    assert curvature.gamma_global(F, text) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_constants_of_arrays_are_those_of_their_objective(form):
    """Every solver asks an objective, in whichever form; users ask with arrays."""
    F, y, text = small_task(5, 3, 8, seed=0, n_extra=4)
    known = form(objective.Support(F, y, 5, text))
    assert curvature.lambda_max(known) == pytest.approx(curvature.lambda_max(F), rel=1e-12)
    assert curvature.gamma_w(known, 3.0) == pytest.approx(curvature.gamma_w(F, 3.0), rel=1e-12)
    assert curvature.gamma_alpha(known, tau=2.0) == pytest.approx(curvature.gamma_alpha(F, text, 2.0), rel=1e-12)
    assert curvature.gamma_global(known) == pytest.approx(curvature.gamma_global(F, text), rel=1e-12)
    bounds, theirs = curvature.certified(known, intercept=True), curvature.certified(F, text)
    assert (bounds.w - 0.5, bounds.joint - 0.5) == (pytest.approx(theirs.w), pytest.approx(theirs.joint))
    np.testing.assert_allclose(bounds.alpha, theirs.alpha)


@pytest.mark.parametrize("K", [2, 3, 5, 10])
def test_curvature_of_uniform_predictions(K):
    """p = 1/K gives lambda_max(H_w) = lambda_max(F^T F)/(K N) = 4/K gamma_w(1)."""
    F, y, text = small_task(K, 2, 6, seed=K)
    W, alpha = np.zeros_like(text), np.zeros(K)
    assert objective.loss(F, y, W, alpha, text) == pytest.approx(np.log(K))
    largest = top(hessian(F, text, W, alpha)[: W.size, : W.size])
    assert curvature.lambda_max(F) / (K * len(F)) == pytest.approx(largest, rel=1e-6)
    assert 4 / K * curvature.gamma_w(F, tau=1.0) == pytest.approx(largest, rel=1e-6)


def test_tau_1_is_not_a_bound_for_two_classes():
    """K = 2 and p = 1/2 have exactly twice the curvature gamma_w(tau=1)."""
    F, _, text = small_task(2, 8, 6, seed=0)
    W, alpha = np.zeros_like(text), np.zeros(2)
    H = hessian(F, text, W, alpha)
    assert top(H[: W.size, : W.size]) / curvature.gamma_w(F) == pytest.approx(2, rel=1e-6)
    assert top(H[W.size :, W.size :]) > 1.5 * curvature.gamma_alpha(F, text, tau=1.0)


@pytest.mark.parametrize("K", [3, 5])
def test_tau_1_is_not_a_bound_for_a_confusing_pair(K):
    """For every K: all mass on one pair of classes has twice gamma_w(tau=1)."""
    F = small_task(K, 3, 6, seed=1)[0]
    A = class_hessians(F, np.zeros((K, 6)), intercept=np.r_[0, 0, np.full(K - 2, -60.0)])
    H_w = np.mean([np.kron(a, np.outer(f, f)) for f, a in zip(F, A, strict=True)], axis=0)
    assert top(H_w) / curvature.gamma_w(F, tau=1.0) == pytest.approx(2, rel=1e-6)
    assert top(H_w) / curvature.gamma_w(F, tau=2.0) == pytest.approx(1, rel=1e-6)


def test_tau_1_holds_at_uniform_predictions_of_ten_classes():
    """Prop. 1 as printed holds where the paper needs it: many classes, flat predictions."""
    F, _, text = small_task(10, 2, 5, seed=0)
    W, alpha = np.zeros_like(text), np.zeros(10)
    H = hessian(F, text, W, alpha)
    assert top(H[: W.size, : W.size]) < 0.5 * curvature.gamma_w(F, tau=1.0)
    assert top(H[W.size :, W.size :]) < 0.5 * curvature.gamma_alpha(F, text, tau=1.0)


@sampled
@given(points())
def test_certified_constants_bound_the_hessian(point):
    """Prop. 1 with tau = 2: H_w <= w I, H_alpha <= Diag(alpha), H <= joint I."""
    F, _, text, W, alpha = point
    H = hessian(F, text, W, alpha)
    certified = curvature.certified(F, text)
    assert top(H[: W.size, : W.size]) <= certified.w * SLACK
    slack = 1e-12 * certified.alpha.max()
    assert np.linalg.eigvalsh(np.diag(certified.alpha) - H[W.size :, W.size :])[0] >= -slack
    assert top(H) <= certified.joint * SLACK


def test_certified_constants_are_attained():
    """No smaller constants are valid: one sample, two classes, one text, p = 1/2 attains all."""
    F, text = np.array([[0.6, 0.8, 0.0]]), np.array([[0.0, 0.5, 0.9], [0.0, 0.5, 0.9]])
    H = hessian(F, text, np.zeros((2, 3)), np.zeros(2))
    certified = curvature.certified(F, text)
    assert certified.w == pytest.approx(top(H[:6, :6]), rel=1e-6)
    assert certified.joint == pytest.approx(top(H), rel=1e-6)
    gap = np.linalg.eigvalsh(np.diag(certified.alpha) - H[6:, 6:])
    assert gap[0] == pytest.approx(0, abs=1e-15)


# Lemma 2.1: what one step is worth


@sampled
@given(points())
def test_certified_steps_descend(point):
    """Lemma 2.1: a step g/gamma lowers L by at least |g|^2/(2 gamma), on each block and jointly.

    The alpha block steps with one constant per class, so its norm is weighted by them.
    """
    F, y, text, W, alpha = point
    g, certified = objective.gradients(F, y, W, alpha, text), curvature.certified(F, text)
    before = objective.loss(F, y, W, alpha, text)

    def assert_descent(new_W, new_alpha, decrease):
        after = objective.loss(F, y, new_W, new_alpha, text)
        assert after <= before - decrease / SLACK + 1e-12 * max(1, before)

    w, a, joint = certified.w, certified.alpha, certified.joint
    squares = np.sum(g.W**2), np.sum(g.alpha**2)
    assert_descent(W - g.W / w, alpha, squares[0] / (2 * w))
    assert_descent(W, alpha - g.alpha / a, np.sum(g.alpha**2 / (2 * a)))
    assert_descent(W - g.W / joint, alpha - g.alpha / joint, sum(squares) / (2 * joint))


@pytest.mark.parametrize("tau", [1.0, 2.0])
@pytest.mark.parametrize("K", [2, 3, 10])
def test_plain_w_steps_never_increase_the_loss(K, tau):
    """tau = 1 is a step 2/L, which cannot increase L; 100 steps from two starts."""
    F, y, text = small_task(K, 4, 12, seed=K)
    alpha = np.full(K, starts.shared_alpha(F, y, text))
    gamma = curvature.gamma_w(F, tau)
    for W in (starts.class_sums(F, y, K), 0.1 * np.random.default_rng(K).normal(size=(K, 12))):
        losses = [objective.loss(F, y, W, alpha, text)]
        for _ in range(100):
            W = W - objective.gradients(F, y, W, alpha, text).W / gamma
            losses.append(objective.loss(F, y, W, alpha, text))
        assert np.diff(losses).max() <= 1e-13
        assert losses[-1] < losses[0]


def test_tau_1_only_just_descends_on_contradictory_labels():
    """The worst case for tau = 1: one image with both labels of two.

    The logit difference z obeys z' = -z + z^3/6 + ... with tau = 1, hence |z| -> sqrt(3/J), and
    z' = z^3/12 + ... with tau = 2.
    """
    F, y = np.array([[0.6, 0.8], [0.6, 0.8]]), np.array([0, 1])
    distance = {}
    for tau in (1.0, 2.0):
        W = np.array([[1.0, 1.0], [0.0, 0.0]])
        for _ in range(300):
            W = W - objective.gradients(F, y, W).W / curvature.gamma_w(F, tau)
        distance[tau] = abs(F[0] @ (W[0] - W[1]))
    assert distance[1.0] == pytest.approx(np.sqrt(3 / 300), rel=0.05)
    assert distance[2.0] < 1e-6


# Theorem 2.2: the O(1/J) rate


@pytest.mark.parametrize("at_zero", [True, False], ids=["from zero", "from the LP++ start"])
def test_rate_of_certified_gradient_descent(at_zero):
    """Theorem 2.2, with the square of the appendix: f(x_J) - f* <= gamma |x_0 - x*|^2/(2 J).

    The minimiser is not unique, any will do. L-BFGS from x_0 never leaves the span of the
    gradients, so it finds the nearest one, for which the bound is tightest.
    """
    F, y, text = noisy_task()
    K, D = text.shape
    W, alpha = starts.class_sums(F, y, K), np.full(K, starts.shared_alpha(F, y, text))
    x0 = np.r_[W.ravel(), alpha] * (not at_zero)

    def value(x):
        W, alpha = x[: K * D].reshape(K, D), x[K * D :]
        Z = F @ (W + alpha[:, None] * text).T
        R = (softmax(Z, axis=1) - np.eye(K)[y]) / len(F)
        gradient = np.r_[(R.T @ F).ravel(), (R * (F @ text.T)).sum(axis=0)]
        return np.mean(logsumexp(Z, axis=1) - Z[np.arange(len(F)), y]), gradient

    options = {"gtol": 1e-9, "ftol": 0, "maxiter": 10_000}
    best = minimize(value, x0, jac=True, method="L-BFGS-B", options=options)
    assert np.abs(best.jac).max() < 1e-7
    assert best.fun < 0.99 * value(x0)[0]

    gamma, x = curvature.certified(F, text).joint, x0
    bound = gamma * np.sum((x0 - best.x) ** 2) / 2
    for J in range(1, 201):
        W, alpha = x[: K * D].reshape(K, D), x[K * D :]
        g = objective.gradients(F, y, W, alpha, text)
        x = x - np.r_[g.W.ravel(), g.alpha] / gamma
        excess = objective.loss(F, y, x[: K * D].reshape(K, D), x[K * D :], text) - best.fun
        assert -1e-10 <= excess <= bound / J


def test_rate_needs_the_square():
    """Theorem 2.2 as printed, with |x_0 - x*| unsquared, fails from a distant start."""
    F, y, text = np.ones((2, 1)), np.array([0, 1]), np.zeros((2, 1))
    W = np.array([[20.0], [-20.0]])  # the nearest minimiser is W = 0, with f* = ln 2
    gamma = curvature.certified(F, text).w
    W1 = W - objective.gradients(F, y, W).W / gamma
    excess = objective.loss(F, y, W1) - np.log(2)
    assert gamma * np.linalg.norm(W) / 2 < excess <= gamma * np.linalg.norm(W) ** 2 / 2


# Prop. 2: where the start comes from


def linear_part(F, y, text, W, alpha):
    """-(1/N) sum_i sum_k y_ik l_ik, the part of L that is linear in the parameters."""
    return -np.mean(np.sum(F * (W + alpha[:, None] * text)[y], axis=1))


def log_partition(F, text, W, alpha):
    """(1/N) sum_i ln sum_k exp(l_ik), the convex rest of L."""
    return np.mean(logsumexp(F @ (W + alpha[:, None] * text).T, axis=1))


@sampled
@given(points())
def test_class_sums_minimise_the_quadratic_part(point):
    """Prop. 2, W block: L = g1 + g2 and argmin g1 is the class sums when lambda = 1/N.

    g1 = -(1/N) sum_ik y_ik l_ik + lambda/2 |W|^2 and g2 = (1/N) sum_i ln sum_k exp(l_ik)
    - lambda/2 |W|^2. A quadratic with Hessian lambda I exceeds its value at W0 by exactly
    lambda/2 |W - W0|^2 if and only if W0 is its minimiser.
    """
    F, y, text, W, alpha = point
    lam = 1 / len(F)

    def g1(W):
        return linear_part(F, y, text, W, alpha) + lam / 2 * np.sum(W**2)

    g2 = log_partition(F, text, W, alpha) - lam / 2 * np.sum(W**2)
    scale = 1 + abs(g1(W)) + abs(g2)
    assert abs(objective.loss(F, y, W, alpha, text) - (g1(W) + g2)) < 1e-12 * scale
    W0 = starts.class_sums(F, y, len(W))
    rise = lam / 2 * np.sum((W - W0) ** 2)
    scale += np.sum(W0**2) + rise
    assert abs(g1(W) - g1(W0) - rise) < 1e-12 * scale


@pytest.mark.parametrize(("K", "S"), [(2, 1), (3, 4), (5, 2)])
def test_per_class_alpha_minimises_the_quadratic_part(K, S):
    """Prop. 2, alpha block: argmin h1 = (250/S) sum_i y_ik s_ik when beta = 1/(250 K).

    h1 = -(1/N) sum_ik y_ik l_ik + beta/2 |alpha|^2 and h2 = L - h1, on balanced data.
    """
    F, y, text = small_task(K, S, 6, seed=K)
    beta = 1 / (250 * K)
    W = starts.class_sums(F, y, K)

    def h1(alpha):
        return linear_part(F, y, text, W, alpha) + beta / 2 * np.sum(alpha**2)

    alpha0 = starts.per_class_alpha(F, y, text)
    assert alpha0.shape == (K,)
    for alpha in np.random.default_rng(K).normal(alpha0, 30, size=(5, K)):
        h2 = log_partition(F, text, W, alpha) - beta / 2 * np.sum(alpha**2)
        assert objective.loss(F, y, W, alpha, text) == pytest.approx(h1(alpha) + h2, rel=1e-12)
        rise = beta / 2 * np.sum((alpha - alpha0) ** 2)
        assert h1(alpha) - h1(alpha0) == pytest.approx(rise, rel=1e-10)


@sampled
@given(points())
def test_proposition_2_has_no_admissible_lambda(point):
    """The g2 of Prop. 2 is not convex for any lambda > 0, hence not for 1/N.

    Shifting all w_k by one vector v changes no prediction: L stays, the linear part of g1 stays
    linear, and the second difference of g2 = L - g1 along v is -lambda K |v|^2.
    """
    F, y, text, W, alpha = point
    lam, v = 1 / len(F), np.linspace(-1, 2, F.shape[1])

    def g2(W):
        g1 = linear_part(F, y, text, W, alpha) + lam / 2 * np.sum(W**2)
        return objective.loss(F, y, W, alpha, text) - g1

    before = objective.loss(F, y, W, alpha, text)
    scale = 1e-12 * (1 + before + abs(g2(W)) + np.abs(F).max())
    assert abs(objective.loss(F, y, W + v, alpha, text) - before) < scale
    second_difference = g2(W + v) + g2(W - v) - 2 * g2(W)
    assert abs(second_difference + lam * len(W) * np.sum(v**2)) < 10 * scale


# Section 2, initialisation


def test_class_sums_are_sums_not_means():
    """w_k = sum_i y_ik f_i, for unequal class sizes and a class without examples."""
    F, y = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([2, 0, 2])
    np.testing.assert_array_equal(starts.class_sums(F, y, 3), [[3, 4], [0, 0], [6, 8]])


@pytest.mark.parametrize(("K", "S"), [(2, 1), (3, 4), (10, 3)])
def test_shared_alpha_is_250_mean_cosines(K, S):
    """Balanced data have alpha = 250 mean_i cos(f_i, t_{y_i})."""
    F, y, text = small_task(K, S, 8, seed=S)
    cosines = np.sum(F * text[y], axis=1)
    assert starts.shared_alpha(F, y, text) == pytest.approx(250 * cosines.mean(), rel=1e-12)
    expected = [250 * cosines[y == k].mean() for k in range(K)]
    np.testing.assert_allclose(starts.per_class_alpha(F, y, text), expected, rtol=1e-12)


@pytest.mark.parametrize("copies", [2, 5])
def test_alpha_does_not_depend_on_the_number_of_shots(copies):
    """Duplicated samples leave both alpha starts alone, while W's start grows."""
    F, y, text = small_task(5, 2, 8, seed=0)
    F_more, y_more = np.tile(F, (copies, 1)), np.tile(y, copies)
    shared = starts.shared_alpha(F, y, text)
    assert starts.shared_alpha(F_more, y_more, text) == pytest.approx(shared, rel=1e-12)
    per_class = starts.per_class_alpha(F, y, text)
    np.testing.assert_allclose(starts.per_class_alpha(F_more, y_more, text), per_class)
    sums = starts.class_sums(F, y, 5)
    np.testing.assert_allclose(starts.class_sums(F_more, y_more, 5), copies * sums)


def test_shared_alpha_averages_over_classes():
    """The released program averages class means, so unequal class sizes carry equal weight."""
    F, y, text = small_task(4, 1, 8, seed=0, n_extra=7)
    cosines = np.sum(F * text[y], axis=1)
    means = [cosines[y == k].mean() for k in range(4)]
    assert starts.shared_alpha(F, y, text) == pytest.approx(250 * np.mean(means), rel=1e-12)
    np.testing.assert_allclose(starts.per_class_alpha(F, y, text), 250 * np.array(means))
