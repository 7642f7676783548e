"""Methods since LP++: closed forms, transcriptions of the published recipes, and limits in which they are another."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge

from lpplusplus import CLAP, GDA, TIMO, CrossModalProbe, LinearAdapter, ProKeR, SSText, ZeroShot
from lpplusplus.methods.cross_modal_probe import rate_at
from lpplusplus.methods.gda import ALPHAS, Gaussians
from tasks import small_task


@pytest.fixture(scope="module", params=[(32, 12), (10, 24)], ids=["N < D", "N > D"])
def task(request):
    """Support of six classes (three to five images each), text, validation and test data; all rows unit."""
    dim, each = request.param
    X, y, T = small_task(6, each, dim, seed=1)
    X, T = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, T))
    order = np.argsort(y, kind="stable").reshape(6, each)
    support = np.concatenate([rows[: 3 + k % 3] for k, rows in enumerate(order)])
    held, test = order[:, 5:9].ravel(), order[:, 9:].ravel()
    return X[support], y[support], T, X[held], y[held], X[test], y[test]


def wide(K, P, D, seed=0):
    return np.random.default_rng(seed).standard_normal((P, K, D))


# GDA -----------------------------------------------------------------------------------------------------------------


def published_gda(F, y, K):
    """The authors' formula: numpy's covariance and pseudo-inverse."""
    means = np.stack([F[y == k].mean(axis=0) for k in range(K)])
    centred = F - means[y]
    C = np.cov(centred.T)
    N, D = F.shape
    P = D * np.linalg.pinv((N - 1) * C + np.trace(C) * np.eye(D))
    W = means @ P
    return W, -np.einsum("kd,kd->k", W, means) / 2


def test_gda_is_the_published_formula(task):
    F, y, T, *_, X, _ = task
    W, b = published_gda(F, y, 6)
    expected = 100 * X @ T.T + 0.3 * (X @ W.T + b)
    assert np.allclose(GDA(image_weight=0.3).fit(3 * F, y, text=T).decision_function(X), expected, atol=1e-8)


def test_gda_is_linear_discriminant_analysis_with_that_covariance(task):
    """scikit-learn's LDA with equal priors, given the ridge as a shrunk covariance."""

    class Ridge:
        def fit(self, X):  # scikit-learn asks once per class and weighs the results: give all classes the same.
            self.covariance_ = covariance
            return self

    F, y, *_, X, _ = task
    N, D = F.shape
    centred = F - np.stack([F[y == k].mean(axis=0) for k in range(6)])[y]
    scatter = centred.T @ centred
    covariance = (scatter + np.trace(scatter) / (N - 1) * np.eye(D)) / D
    other = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=Ridge(), priors=np.full(6, 1 / 6)).fit(F, y)
    model = GDA(image_weight=1.0, logit_scale=1e-30).fit(F, y, text=F[:6])
    assert np.allclose(softmax(model.decision_function(X), axis=1), other.predict_proba(X), atol=1e-7)


def test_scores_of_left_out_images_are_those_of_a_fit_without_them(task):
    F, y, *_ = task
    rows, scores = Gaussians(F, y, 6).left_out(len(F))
    assert np.array_equal(rows, np.arange(len(F)))
    for i in rows:
        others = np.arange(len(F)) != i
        weights, bias = Gaussians(F[others], y[others], 6).linear()
        assert np.allclose(scores[i], F[i] @ weights.T + bias, rtol=1e-7, atol=1e-7)


def test_samples_that_follow_the_images_stay_and_lonely_images_are_not_left_out(task):
    F, y, *_ = task
    _, first = np.unique(y, return_index=True)
    assert len(Gaussians(F[first], np.arange(6), 6).left_out(6)[0]) == 0
    pair = Gaussians(np.concatenate([F[first], F[first + 1]]), np.tile(np.arange(6), 2), 6)
    assert len(pair.left_out(12)[0]) == 0, "the class of a left-out image would be the only one without scatter"
    three = F[[0, 1, 2, *first[1:]]], np.array([0, 0, 0, 1, 2, 3, 4, 5])
    assert Gaussians(*three, 6).left_out(8)[0].tolist() == [0, 1, 2]
    more, classes = np.concatenate([F[first], F]), np.concatenate([np.arange(6), y])
    assert len(Gaussians(more, classes, 6).left_out(6)[0]) == 0, "no class has two images among the first six"
    _, scores = Gaussians(np.concatenate([F, F[first]]), np.concatenate([y, np.arange(6)]), 6).left_out(len(F))
    assert scores.shape == (len(F), 6)
    others = np.arange(len(F) + 6) != 3
    weights, bias = Gaussians(
        np.concatenate([F, F[first]])[others], np.concatenate([y, np.arange(6)])[others], 6
    ).linear()
    assert np.allclose(scores[3], F[3] @ weights.T + bias, rtol=1e-7, atol=1e-7)


def test_gda_chooses_alpha_by_validation_accuracy_or_by_left_out_loss(task):
    F, y, T, F_val, y_val, *_ = task
    fits = {alpha: GDA(image_weight=alpha).fit(F, y, text=T) for alpha in ALPHAS}

    def at_best_scale(z, labels):
        scales = [2.0**-j for j in range(-1, 9)]
        return min(-log_softmax(c * z, axis=1)[np.arange(len(labels)), labels].mean() for c in scales)

    def loss(model, X, labels):
        return at_best_scale(model.decision_function(X), labels)

    chosen = GDA().fit(F, y, text=T, X_val=F_val, y_val=y_val)
    best = min(ALPHAS, key=lambda a: (-fits[a].score(F_val, y_val), loss(fits[a], F_val, y_val)))
    assert chosen.alpha_ == best
    assert len(chosen.history_["held_out_loss"]) == len(ALPHAS)

    def left_out_loss(alpha):
        scores = []
        for i in range(len(F)):
            others = np.arange(len(F)) != i
            model = GDA(image_weight=alpha).fit(F[others], y[others], text=T, classes=range(6))
            scores.append(model.decision_function(F[i : i + 1])[0])
        return at_best_scale(np.array(scores), y)

    alone = GDA().fit(F, y, text=T)
    assert alone.alpha_ == min(ALPHAS, key=left_out_loss)
    assert "each image left out" in alone.history_.notes[-1]


def test_gda_at_one_shot_is_the_nearest_mean_with_both_parts_spread_alike(task):
    F, y, T, *_, X, _ = task
    first = np.unique(y, return_index=True)[1]
    model = GDA().fit(F[first], np.arange(6), text=T)
    wrong = ~np.eye(6, dtype=bool)
    D = F.shape[1]
    alpha = np.std((100 * F[first] @ T.T)[wrong]) / np.std((D * F[first] @ F[first].T)[wrong])
    assert model.alpha_ == pytest.approx(alpha)
    expected = 100 * X @ T.T + alpha * D * (X @ F[first].T - 0.5)
    assert np.allclose(model.decision_function(X), expected)
    two = GDA().fit(F[first[:2]], [0, 1], text=T[:2])
    assert two.alpha_ == 0.1
    assert np.isfinite(two.decision_function(X)).all()


def test_a_class_without_images_has_the_mean_of_the_others(task):
    F, y, T, *_, X, _ = task
    some = y != 5
    model = GDA(image_weight=0.1).fit(F[some], y[some], text=T, classes=range(6))
    means = np.stack([F[y == k].mean(axis=0) for k in range(5)])
    centred = F[some] - means[y[some]]
    S = centred.T @ centred
    N, D = F[some].shape
    P = D * np.linalg.inv(S + np.trace(S) / (N - 1) * np.eye(D))
    middle = means.mean(axis=0)
    expected = 100 * X @ T[5] + 0.1 * (X @ P @ middle - middle @ P @ middle / 2)
    scores = model.decision_function(X)
    assert np.allclose((scores - scores[:, :1])[:, 5], expected - scores[:, 0], atol=1e-7)


# TIMO ----------------------------------------------------------------------------------------------------------------


def test_timo_with_one_prompt_and_none_as_a_sample_is_gda(task):
    F, y, T, F_val, y_val, X, _ = task
    for extra in ({}, {"X_val": F_val, "y_val": y_val}):
        plain = GDA().fit(F, y, text=T, **extra)
        model = TIMO(beta=0).fit(F, y, text=T[None], **extra)
        assert model.alpha_ == plain.alpha_
        assert np.allclose(model.decision_function(X), plain.decision_function(X))
    assert np.allclose(TIMO().fit(F, y).decision_function(X), GDA().fit(F, y).decision_function(X))


def test_timo_by_hand(task):
    """Prompts weighted by softmax(γ cos); the β best, times their cosines, as samples of the published GDA."""
    F, y, T, *_, X, _ = task
    text = T + 0.5 * wide(6, 7, F.shape[1])
    prompts = text / np.linalg.norm(text, axis=2, keepdims=True)
    model = TIMO(gamma=20, beta=3, image_weight=0.2).fit(F, y, text=text)
    names, samples, classes = [], [], []
    for k in range(6):
        image = F[y == k].mean(axis=0)
        cosines = prompts[:, k] @ image / np.linalg.norm(image)
        name = softmax(20 * cosines) @ prompts[:, k]
        names.append(name / np.linalg.norm(name))
        for p in np.argsort(-cosines)[:3]:
            samples.append(cosines[p] * prompts[p, k])
            classes.append(k)
    W, b = published_gda(np.concatenate([F, samples]), np.concatenate([y, classes]), 6)
    assert np.allclose(model.text_, names)
    assert np.allclose(model.decision_function(X), 100 * X @ np.array(names).T + 0.2 * (X @ W.T + b), atol=1e-7)
    plain = TIMO(gamma=0, beta=0, image_weight=0.2).fit(F, y, text=text)
    mean = prompts.mean(axis=0)
    assert np.allclose(plain.text_, mean / np.linalg.norm(mean, axis=1, keepdims=True))


def test_timo_left_out_names_do_not_know_the_image(task):
    """The name of an image's own class is that of a fit without it; at one shot, the plain mean."""
    F, y, T, *_ = task
    text = T + 0.5 * wide(6, 4, F.shape[1])
    model = TIMO()
    checked = model._check_task(F, y, text=text).working()
    model.gamma_ = 50.0
    sums = np.stack([F[y == k].sum(axis=0) for k in range(6)])
    own = model._own_names_left_out(checked, F, sums, checked.prompts)
    for i in (0, 5, len(F) - 1):
        others = np.arange(len(F)) != i
        assert np.allclose(own[i], TIMO(image_weight=0).fit(F[others], y[others], text=text).text_[y[i]])
    first = np.unique(y, return_index=True)[1]
    lonely = replace(checked, X=F[first], y=np.arange(6))
    assert np.allclose(model._own_names_left_out(lonely, F[first], F[first], checked.prompts), checked.text)


def test_timo_s_searches_on_validation_data(task):
    F, y, T, F_val, y_val, *_ = task
    text = T + wide(6, 5, F.shape[1])
    model = TIMO(gamma="auto", beta="auto").fit(F, y, text=text, X_val=F_val, y_val=y_val)
    given = [TIMO(gamma=model.gamma_, beta=beta).fit(F, y, text=text, X_val=F_val, y_val=y_val) for beta in range(6)]
    tried = {beta: given[beta].score(F_val, y_val) for beta in (0, 1, 2, 4, 5)}
    assert model.beta_ in tried
    assert model.score(F_val, y_val) == max(tried.values())
    alone = TIMO(gamma="auto", beta="auto").fit(F, y, text=text)
    assert (alone.gamma_, alone.beta_) == (50.0, 5)
    assert "nothing searched" in alone.history_.notes[0]


def test_classes_may_have_different_numbers_of_prompts(task):
    """A missing prompt is neither part of the name nor a sample."""
    F, y, T, *_, X, _ = task
    prompts = T + 0.5 * wide(6, 3, F.shape[1])
    text = [prompts[: 1 + k % 3, k] for k in range(6)]
    model = TIMO(image_weight=0.1).fit(F, y, text=text)
    assert np.allclose(model.text_[0], prompts[0, 0] / np.linalg.norm(prompts[0, 0]))
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in text]
    images = [F[y == k].mean(axis=0) for k in range(6)]
    cosines = [rows @ image / np.linalg.norm(image) for rows, image in zip(unit, images, strict=True)]
    samples = np.concatenate([c[:, None] * rows for c, rows in zip(cosines, unit, strict=True)])
    W, b = published_gda(np.concatenate([F, samples]), np.concatenate([y, np.repeat(range(6), [1, 2, 3, 1, 2, 3])]), 6)
    assert np.allclose(model.decision_function(X), 100 * X @ model.text_.T + 0.1 * (X @ W.T + b), atol=1e-7)


# SS-Text -------------------------------------------------------------------------------------------------------------


def test_ss_text_by_hand_and_as_a_minimiser(task):
    F, y, T, *_, X, _ = task
    N, counts = len(F), np.bincount(y)
    W = T + np.stack([counts[k] / (N * 0.05) * F[y == k].sum(axis=0) for k in range(6)])
    model = SSText(tau=0.05).fit(2 * F, y, text=T)
    unit = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert np.allclose(model.decision_function(X), 100 * X @ unit.T)

    def objective(V):
        return -(F * V[y]).sum() / (N * 0.05) + (((V - T) ** 2).sum(axis=1) / (2 * counts)).sum()

    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective(W) < objective(W + 0.01 * rng.standard_normal(W.shape))


def test_ss_text_between_names_and_class_means(task):
    F, y, T, F_val, y_val, *_ = task
    tiny = SSText(tau=1e-300).fit(F, y, text=T)
    means = np.stack([F[y == k].sum(axis=0) for k in range(6)])
    assert np.allclose(tiny.coef_, 100 * means / np.linalg.norm(means, axis=1, keepdims=True))
    assert SSText().fit(F, y, text=T).tau_ == 0.01 == SSText(tau=None).fit(F, y, text=T).tau_
    chosen = SSText().fit(F, y, text=T, X_val=F_val, y_val=y_val)
    scores = [SSText(tau=10.0**p).fit(F, y, text=T).score(F_val, y_val) for p in range(-4, 3)]
    assert chosen.score(F_val, y_val) == max(scores)


# ProKeR --------------------------------------------------------------------------------------------------------------


def test_proker_is_kernel_ridge_regression_on_what_the_names_leave_over(task):
    """By scikit-learn: k(x, x') = exp(-β|x - x'|²/2) for unit rows, and (K/λ + I)⁻¹ = λ (K + λI)⁻¹."""
    F, y, T, *_, X, _ = task
    model = ProKeR(beta=1.3, ridge=0.2).fit(3 * F, y, text=2 * T)
    ridge = KernelRidge(kernel="rbf", gamma=1.3 / 2, alpha=0.2).fit(F, np.eye(6)[y] - F @ T.T)
    assert np.allclose(model.decision_function(X), 100 * (X @ T.T + 0.2 * ridge.predict(X)))
    assert np.allclose(model.weights_, 100 * 0.2 * ridge.dual_coef_)


def test_prokers_constants_follow_the_shots():
    X, y, T = small_task(3, 20, 8, seed=2)
    constants = {}
    for shots in (1, 2, 3, 4, 8, 15, 16, 20):
        rows = np.concatenate([np.flatnonzero(y == k)[:shots] for k in range(3)])
        model = ProKeR().fit(X[rows], y[rows], text=T)
        constants[shots] = model.beta_, model.ridge_
    assert constants == {
        1: (3.0, 0.05), 2: (2.6, 0.05), 3: (2.6, 0.05), 4: (1.5, 0.05), 8: (1.66, 0.07), 15: (1.66, 0.07),
        16: (1.7, 0.1), 20: (1.7, 0.1),
    }  # fmt: skip


def test_proker_is_zero_shot_where_examples_do_not_count(task):
    F, y, T, *_, X, _ = task
    plain = ZeroShot().fit(F, y, text=T).decision_function(X)
    assert np.allclose(ProKeR(beta=0, ridge=1e-9).fit(F, y, text=T).decision_function(X), plain, atol=1e-4)


# Methods that train --------------------------------------------------------------------------------------------------


def test_clap_is_its_recipe(task, torch):
    """Full batches: SGD with momentum on autograd's gradient of the loss as the paper writes it."""
    F, y, T, *_ = task
    model = CLAP(epochs=7, text_norm=4.0).fit(F, y, text=T)
    zero_shot = softmax(100 * F @ T.T, axis=1)
    ties = torch.tensor([zero_shot[y == k, k].mean() for k in range(6)])
    start, X, labels = torch.from_numpy(4 * T), torch.from_numpy(F), torch.from_numpy(y)
    W = start.clone().requires_grad_()
    optimiser = torch.optim.SGD([W], lr=0.1, momentum=0.9)
    for epoch in range(7):
        optimiser.param_groups[0]["lr"] = 1e-5 if epoch == 0 else 0.05 * (1 + np.cos(np.pi * (epoch - 1) / 7))
        loss = torch.nn.functional.cross_entropy(100 * X @ (W / W.norm(dim=1, keepdim=True)).T, labels)
        loss = loss + sum(ties[k] * ((W[k] - start[k]) ** 2).sum() for k in range(6)) / 6
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    expected = 100 * (W / W.norm(dim=1, keepdim=True)).detach().numpy()
    assert np.allclose(model.coef_, expected, atol=1e-8)
    assert np.allclose(model.history_.loss[-1], float(loss.detach()))


@pytest.mark.usefixtures("torch")
def test_clap_holds_an_unseen_class_at_full_weight_and_averages_views(task):
    F, y, T, *_, X, _ = task
    some = y != 5
    model = CLAP(epochs=3)
    model._set_text(checked := model._check_task(F[some], y[some], text=T, classes=range(6)).working())
    assert model._trust(checked)[5] == 1
    views = np.stack([F, np.roll(F, 1, axis=1)], axis=1)
    several, mean = (CLAP(epochs=3).fit(given, y, text=T) for given in (views, views.mean(axis=1)))
    assert np.array_equal(several.decision_function(X), mean.decision_function(X))


def test_linear_adapter_is_its_recipe(task, torch):
    F, y, T, *_, X, _ = task
    model = LinearAdapter(epochs=6, learning_rate=0.01).fit(3 * F, y, text=T)
    A = torch.eye(F.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([A], lr=0.01, eps=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 6)
    for _ in range(6):
        f = torch.nn.functional.normalize(torch.from_numpy(F) @ A.T)
        loss = torch.nn.functional.cross_entropy(100 * f @ torch.from_numpy(T).T, torch.from_numpy(y))
        loss = loss + ((A - torch.eye(len(A))) ** 2).sum() / 3  # The smallest class has three images.
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    assert np.allclose(model.matrix_, A.detach().numpy(), atol=1e-9)
    moved = X @ model.matrix_.T
    expected = 100 * moved / np.linalg.norm(moved, axis=1, keepdims=True) @ T.T
    assert np.allclose(model.decision_function(X), expected)


@pytest.mark.usefixtures("torch")
def test_a_heavy_penalty_keeps_zero_shot(task):
    F, y, T, *_, X, _ = task
    free, held = (LinearAdapter(epochs=200, penalty=p).fit(F, y, text=T) for p in (0.0, 1e3))
    plain = ZeroShot().fit(F, y, text=T).decision_function(X)
    assert np.abs(held.decision_function(X) - plain).max() < 0.1 * np.abs(free.decision_function(X) - plain).max()


# The cross-modal probe -----------------------------------------------------------------------------------------------


def test_cross_modal_probe_is_torchs_adamw_on_the_same_batches(task, torch):
    """All images and all names in each batch, so that their order does not matter."""
    F, y, T, *_ = task
    settings = {"learning_rates": (1e-3,), "weight_decays": (0.1,), "batch_sizes": (2 * len(F),)}
    model = CrossModalProbe(iterations=60, **settings).fit(3 * F, y, text=T)
    W = torch.from_numpy(T.copy()).requires_grad_()
    optimiser = torch.optim.AdamW([W], lr=1e-3, weight_decay=0.1)
    X = torch.from_numpy(np.concatenate([F, T]))
    labels = torch.from_numpy(np.concatenate([y, np.arange(6)]))
    for iteration in range(60):
        optimiser.param_groups[0]["lr"] = rate_at(iteration, 1e-3, 60)
        loss = torch.nn.functional.cross_entropy(100 * X @ W.T, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert np.allclose(model.coef_, 100 * W.detach().numpy(), rtol=1e-6, atol=1e-8)
    assert model.history_.loss == pytest.approx([float(loss.detach())])


def test_heads_that_train_together_train_as_they_would_alone(task):
    F, y, T, F_val, y_val, *_ = task
    held = {"X_val": F_val, "y_val": y_val}
    lists = {"batch_sizes": (8,), "learning_rates": (1e-2, 1e-4), "weight_decays": (0.0, 1.0)}
    together = CrossModalProbe(iterations=300, **lists).fit(F, y, text=T, **held)
    assert together.history_.iteration == [i for i in (100, 200, 300) for _ in range(4)]
    for rate in (1e-2, 1e-4):
        for decay in (0.0, 1.0):
            alone = CrossModalProbe(
                iterations=300, batch_sizes=(8,), learning_rates=(rate,), weight_decays=(decay,)
            ).fit(F, y, text=T, **held)
            columns = zip(*(together.history_[c] for c in ("learning_rate", "weight_decay", "loss")), strict=True)
            assert alone.history_.loss == pytest.approx([loss for r, d, loss in columns if (r, d) == (rate, decay)])
    best = int(np.argmax(together.history_.validation_accuracy))
    assert together.iteration_ == together.history_.iteration[best]
    assert together.learning_rate_ == together.history_.learning_rate[best]
    assert together.score(F_val, y_val) == pytest.approx(max(together.history_.validation_accuracy))


def test_the_cross_modal_probe_is_seeded_and_reports_progress(task):
    F, y, T, *_, X, _ = task
    told = []
    models = [
        CrossModalProbe(iterations=250, random_state=seed, progress=lambda *args: told.append(args)).fit(F, y, text=T)
        for seed in (0, 0, 1)
    ]
    scores = [model.decision_function(X) for model in models]
    assert np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    assert told[:3] == [(100, 250), (200, 250), (250, 250)]
    assert (models[0].batch_size_, models[0].learning_rate_, models[0].weight_decay_) == (32, 1e-4, 1e-4)


def test_rates_of_the_cross_modal_probe():
    assert [rate_at(i, 0.001, 12_800) for i in (0, 25, 50)] == pytest.approx([1e-5, 0.0005, 0.001])
    assert rate_at(12_849, 0.001, 12_800) < 1e-9


def test_every_prompt_is_a_sample_of_the_cross_modal_probe(task):
    F, y, T, *_ = task
    text = [np.stack([T[k], -T[k] + T[(k + 1) % 6]])[: 1 + k % 2] for k in range(6)]
    model = CrossModalProbe()
    model._set_text(checked := model._check_task(F, y, text=text).working())
    names, classes = model._name_samples(checked)
    assert sorted(classes.tolist()) == [0, 1, 1, 2, 3, 3, 4, 5, 5]
    assert np.allclose(np.linalg.norm(names, axis=1), 1)
