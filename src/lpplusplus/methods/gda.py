"""GDA: Gaussian discriminant analysis beside the text classifier, in closed form."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.folds import evenly
from .._core.parameters import AUTO, number, with_parameters
from .._core.rows import MEMORY, Rows, everywhere, parts, unit_rows
from .._core.task import Task
from .zero_shot import TextBased, choose

ALPHAS = tuple(float(f"{10**power:.6g}") for power in np.arange(-4, 2.25, 0.5))
"""Weights to choose from: the authors' seven decades, and the middle of each."""
ENOUGH_LEFT_OUT = 2000
"""Images of a file that are left out in turn; more would not change the choice."""


class Gaussians:
    """Classes as Gaussians with one covariance, and their scores with each image left out, in closed form.

    Samples x of class k scatter about the mean μ_k. With S = Σ (x - μ_y)(x - μ_y)ᵀ over all n samples in D dimensions,

        score_k(f) = f·Pμ_k - μ_k·Pμ_k / 2,   P = D (S + r I)⁻¹,   r = tr(S) / (n - 1)

    P estimates the inverse covariance, also with fewer samples than dimensions (Kubokawa and Srivastava, 2008). If no
    class has two samples, S = 0, and P = D·I. A class without samples has the mean of the other classes' means.

    Everything is computed in the eigenvectors of S within the span of the samples. There, S without an image is a
    diagonal matrix minus one of rank one, so that its inverse is known (Sherman and Morrison), and another r costs
    nothing.

    Parameters
    ----------
    X : (n, D)
        Samples. Images come first; other samples may follow, which are never left out.
    y : (n,)
        Their classes.
    n_classes : int
    sample : (m,), optional
        Images that may be left out, if there are many, read block by block; by default all.
    """

    def __init__(self, X: Array | Rows, y: Array, n_classes: int, sample: Array | None = None) -> None:
        xp, wide = backend.namespace(X), backend.wide_dtype(X)
        self._dtype, self._sample = X.dtype, sample
        self._y, self._n, self._dim = y, int(X.shape[0]), int(X.shape[1])
        self._basis = xp.linalg.qr(backend.cast(X[:, :], wide).T)[0] if self._n < self._dim else None
        self._X = X if isinstance(X, Rows) else backend.cast(X, wide)
        self._counts = backend.cast(xp.bincount(y, minlength=n_classes), wide)
        known = self._counts > 0
        sums = sum(everywhere(self._X, _sums, y, n_classes=n_classes, basis=self._basis))
        means = sums / xp.where(known, self._counts, 1.0)[:, None]
        means = xp.where(known[:, None], means, xp.sum(means, axis=0)[None, :] / xp.sum(backend.cast(known, wide)))
        scatter = sum(everywhere(self._X, _scatter, y, means=means, basis=self._basis))
        values, self._vectors = xp.linalg.eigh(scatter)
        self._values = xp.where(values > 0, values, xp.zeros_like(values))
        self._means, self._centre = means @ self._vectors, means
        self._trace = float(xp.sum(self._values))
        self._nothing = self._n * float(xp.finfo(wide).eps)
        """A trace this small is rounding."""

    def _samples(self, rows: Array | slice) -> Array:
        return _samples(self._X, rows, self._basis)

    def linear(self) -> tuple[Array, Array]:
        """Pμ_k, (K, D), and -μ_k·Pμ_k / 2, (K,)."""
        if self._trace <= self._nothing:
            scaled = self._dim * self._means
        else:
            scaled = self._dim * self._means / (self._values + self._trace / (self._n - 1))
        bias = -backend.row_dots(scaled, self._means) / 2
        weights = scaled @ self._vectors.T
        if self._basis is not None:
            weights = weights @ self._basis.T
        return backend.cast(weights, self._dtype), backend.cast(bias, self._dtype)

    def left_out(self, images: int) -> tuple[Array, Array]:
        """Which of the first `images` samples (or of `sample`) can be left out, and their scores without them, (m, K).

        An image can be left out if its class keeps another image and two samples in all. Otherwise its class would be
        the only one without scatter, unlike in prediction.
        """
        xp = backend.namespace(self._means)
        rows = slice(0, images) if self._sample is None else self._sample
        y = self._y[rows]
        n = self._counts[y]
        z = (self._samples(rows) - self._centre[y]) @ self._vectors
        factor = n / xp.where(n > 1, n - 1, 1.0)
        trace = self._trace - factor * backend.row_dots(z, z)
        shots = n if self._sample is not None else xp.bincount(y, minlength=self._counts.shape[0])[y]
        which = xp.nonzero((shots > 1) & (n > 2) & (trace > self._nothing))[0]
        scores = self._scores_without(z[which, :], y[which], n[which], factor[which], trace[which])
        return which, backend.cast(scores, self._dtype)

    def _scores_without(self, z: Array, own: Array, n: Array, factor: Array, trace: Array) -> Any:
        f = z + self._means[own]
        inverse = 1 / (self._values[None, :] + (trace / max(1, self._n - 2))[:, None])  # Of the diagonal, per image.
        zz, fz = (backend.row_dots(part * inverse, z) for part in (z, f))
        update = factor / (1 - factor * zz)
        z_means = (z * inverse) @ self._means.T
        f_means = (f * inverse) @ self._means.T + (update * fz)[:, None] * z_means
        squares = inverse @ (self._means**2).T + update[:, None] * z_means**2
        # The class's own mean moves away from the image by z / (n - 1).
        grown = 1 + update * zz
        each = backend.arange(z, z.shape[0])
        squares[each, own] += (zz / (n - 1) - 2 * z_means[each, own]) * grown / (n - 1)
        f_means[each, own] -= fz * grown / (n - 1)
        return self._dim * (f_means - squares / 2)


def _sums(X: Array | Rows, y: Array, n_classes: int, basis: Array | None) -> Array:
    return sum(backend.sum_by_class(_samples(X, rows, basis), y[rows], n_classes) for rows in parts(X))


def _scatter(X: Array | Rows, y: Array, means: Array, basis: Array | None) -> Array:
    centred = (_samples(X, rows, basis) - means[y[rows]] for rows in parts(X))
    return sum(part.T @ part for part in centred)


def _samples(X: Array | Rows, rows: Array | slice, basis: Array | None) -> Array:
    """Some samples, in the span of all samples if that is smaller."""
    block = backend.cast(X[rows, :], backend.wide_dtype(X))
    return block if basis is None else block @ basis


@with_parameters
class GDA(TextBased):
    """Training-free: logits 100·f·t_k + α (f·Pμ_k - μ_k·Pμ_k / 2), P the inverse of the classes' common covariance.

    μ_k is the mean image of class k. This is the classifier of Gaussian classes with one covariance, which is estimated
    so that it has an inverse however few images there are. The mean of an image's views stands for it. Without `text`,
    the mean image of each class stands in for its name.

    α is chosen from a grid by accuracy on the validation data. Without validation data it is chosen by leave-one-out
    log-loss on the support, in closed form, at the best scale of the logits for each α (the scale changes no
    prediction). An image can be left out if its class keeps two others. If no class has three images, α gives the image
    part and the text part of the logits the same standard deviation over the wrong classes. With a single image per
    class there is no covariance, and P = D·I takes its place. A memory map larger than a GiB is read block by block,
    and 2 000 of its images are left out in turn.

    Parameters
    ----------
    image_weight : "auto" or float
        α; 0 is zero-shot.
    logit_scale : float
        Factor of the cosines with the text.

    Attributes
    ----------
    coef_ : (K, D) array
    intercept_ : (K,) array
    alpha_ : float
    history_ : History
        Columns held_out_accuracy and held_out_loss, one entry for each α that was tried.

    References
    ----------
    Wang et al., A hard-to-beat baseline for training-free CLIP-based adaptation, ICLR 2024.

    Examples
    --------
    >>> from lpplusplus import GDA
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = GDA().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]])
    array(['cat'], dtype='<U3')
    """

    fitted_scalars: ClassVar[dict[str, str]] = {"alpha_": "number"}
    trained_arrays = ()
    memory = MEMORY

    image_weight: Annotated[str | float, AUTO, number(0)] = "auto"

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """As in every method; `image_weight` was `alpha`, and None chose it."""
        if "alpha" not in given:
            return given
        alpha = "auto" if given["alpha"] is None else given["alpha"]
        return {**{name: value for name, value in given.items() if name != "alpha"}, "image_weight": alpha}

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        F, some = unit_rows(task.X), None
        if isinstance(F, Rows):
            some = evenly(np.arange(len(F)), ENOUGH_LEFT_OUT)
        gaussians = Gaussians(F, task.y, task.n_classes, some)
        if some is not None:
            F = F[some, :]
            task = replace(task, X=F, y=task.y[some])
        self._weigh(task, [gaussians], F @ self.coef_.T)

    def _weigh(self, task: Task, candidates: Sequence[Gaussians], names: Array) -> int:
        """Choose α, and with validation data the Gaussians; add the image part to `coef_`, which has the text part.

        `names` is the text's part of the logits of the support, (N, K). Returns which of the candidates was chosen.
        """
        linear = [one.linear() for one in candidates]
        alphas = ALPHAS if isinstance(self.image_weight, str) else (float(self.image_weight),)
        settings = [(i, alpha) for i in range(len(candidates)) for alpha in alphas]
        chosen, decided = settings[0], ""
        if task.X_val is not None:
            F = backend.unit_rows(task.X_val)
            names, y, scores = F @ self.coef_.T, task.y_val, [F @ weights.T + bias for weights, bias in linear]
            chosen = choose(settings, lambda s: names + s[1] * scores[s[0]], y, self.history_, by_accuracy=True)
            decided = "validation"
        elif len(alphas) > 1:
            rows, held = candidates[0].left_out(task.X.shape[0])
            if rows.shape[0]:
                self.history_.note("no validation data: α by the log-loss of the support, each image left out")
                names, y = names[rows, :], task.y[rows]
                chosen = choose(settings, lambda s: names + s[1] * held, y, self.history_, by_accuracy=False)
                decided = "leave-one-out"
            else:
                self.history_.note("no validation data and no image to leave out: α by the deviation of both parts")
                chosen = 0, equal_deviation(names, backend.unit_rows(task.X) @ linear[0][0].T + linear[0][1], task.y)
                decided = "the support's deviations"
        self.chosen_ = {"image weight": decided} if len(alphas) > 1 else {}
        index, self.alpha_ = chosen
        self.coef_ = self.coef_ + self.alpha_ * linear[index][0]
        self.intercept_ = self.alpha_ * linear[index][1]
        return index


def equal_deviation(names: Array, images: Array, y: Array) -> float:
    """α at which both parts of the logits, (N, K), have the same standard deviation over the wrong classes.

    With two classes of one image each there is no deviation; then α is the middle of the grid.
    """
    wrong = backend.arange(names, names.shape[1])[None, :] != y[:, None]
    text, image = (float(np.std(backend.to_numpy(part[wrong]))) for part in (names, images))
    return text / image if image > 1e-6 * backend.largest(images) else ALPHAS[len(ALPHAS) // 2]
