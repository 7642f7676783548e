"""Unlabelled images: those that seem to show a class add their mean to the support, if that helps on held-out images.

The classifier of the labelled images gives q_ik, the probability that unlabelled image u_i is of class k. Images that
look like none of the classes are left out. Class k gets one more example, the mean M_k = Σ_i q_ik u_i / Σ_i q_ik, with
weight λ n_k, but at most Σ_i q_ik, the number of images it is made of. If M_k has less weight than λ n_k, the class's
own examples get the rest. So all classes grow by the same factor, and a class does not become more or less likely
because `unlabelled` has many or no images of it.

Does it help? Each fold is held out once more, and the classifier of the other folds labels the unlabelled images. Three
classifiers are fitted: without unlabelled images, to the time of the first run; with them, to 1 + λ times that time, as
for 1 + λ times the examples; and without them to that longer time, so that its effect is not taken for theirs. They are
used only if the loss of the held-out images falls by more than a standard error. In the folds, with n' examples per
class, λ = 1; the final classifier with n examples has λ = n'/n, because the value of unlabelled images does not grow
with the number of labels. See docs/how-to/unlabelled-photos.md.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.folds import assign_folds, evenly, splits
from .._core.softmax import softmax
from .._core.task import Task
from .._core.threads import rows_per_chunk
from .cross_validation import ENOUGH_IMAGES
from .fit import Fitted, scaled, train
from .held_out import HeldOutAnswers, what_is_lacking
from .none_of_these import evidence, familiarity, lowest_familiarity
from .objective import Coefficients
from .recipes import Recipe
from .selection import HELD_OUT_COLUMNS

STRANGERS = 0.05
"""Unlabelled images are left out if they are less familiar than all but this part of held-out members."""
FOLDS = 4
"""With few examples, what unlabelled images are worth depends much on their number: most should be left."""
CLEAR = 1.0
"""Standard errors by which the held-out loss has to fall."""


class _Held(NamedTuple):
    """Held-out images of one fold."""

    rows: np.ndarray[Any, Any]
    lacking: np.ndarray[Any, Any]
    """See `what_is_lacking`."""
    without: np.ndarray[Any, Any]
    """Logits, without unlabelled images."""
    longer: np.ndarray[Any, Any]
    """Logits, without unlabelled images, but with as long a run as with them."""
    logits: np.ndarray[Any, Any]
    """Logits, with unlabelled images."""


def with_unlabelled(
    task: Task, first: Fitted, recipe: Recipe, *, normalize: bool, rng: np.random.Generator
) -> tuple[Fitted, int]:
    """The classifier with unlabelled images, and how many it learned from; `first` and 0 if they do not help."""
    if first.held_out is None or recipe.solver.until(1.0) is None:
        raise ValueError(
            "unlabelled images are used only if held-out images gain by it: give two examples per class or more, or "
            "X_val and y_val, with the default solver, and selection 'auto', 'cross-validation' or 'validation-loss'."
        )
    learner = _FromUnlabelled(task, first, recipe, normalize)
    held = learner.folds(rng) if first.selection == "cross-validation" else learner.validation()
    return learner.decided(held)


class _FromUnlabelled:
    def __init__(self, task: Task, first: Fitted, recipe: Recipe, normalize: bool) -> None:
        # Here and not in `fit`: means of unit vectors are shorter and should stay so.
        task = scaled(task, normalize=normalize)
        U = task.unlabelled
        U = backend.unit_rows(U) if normalize else U
        text = None if recipe.alpha == "none" else task.text
        self.task = replace(task, X=task.X[:, :], text=text, unlabelled=None)
        self.first, self.recipe = first, recipe
        history = first.history
        self.stop = int(np.argmin(history.held_out_loss))
        self.time, self.scale = history.held_out_time[self.stop], history.held_out_scale[self.stop]
        self.further = 1.0
        self.assigned: np.ndarray[Any, Any] | None = None
        assert U is not None
        self.U = U[backend.like(np.flatnonzero(self._familiar(U)), task.y), :]

    def _familiar(self, U: Array) -> np.ndarray[Any, Any]:
        """Which images seem to be of one of the classes."""
        first, (members, where) = self.first, self.first.held_out.look(self.task, self.task.text)  # type: ignore[union-attr]
        lowest = lowest_familiarity(familiarity(members, members), STRANGERS)
        found = []
        for rows in self._chunks(U):
            names = None if self.task.text is None else rows @ self.task.text.T
            near = where.nearness(rows)
            found.append(backend.to_numpy(familiarity(evidence(_logits(first, rows), near, names), members)) >= lowest)
        return np.concatenate(found)

    def _chunks(self, U: Array) -> list[Array]:
        height = rows_per_chunk(self.task.n_classes)
        return [U[low : low + height, :] for low in range(0, U.shape[0], height)]

    def folds(self, rng: np.random.Generator) -> list[_Held]:
        """Each fold of the support in turn, until enough images have been held out."""
        y = backend.to_numpy(self.task.y)
        folds = self.assigned = assign_folds(y, self.recipe.folds or FOLDS, rng)
        everything = np.bincount(y, minlength=self.task.n_classes)
        assert self.first.held_out is not None
        assert self.first.held_out.folds is not None
        known = self.first.held_out.folds
        self.further, before = (n / (n - 1) for n in (len(np.unique(part[part >= 0])) for part in (folds, known)))
        self.time *= before / self.further  # These folds leave more images, and the best time grows with them.
        return [
            self._held(
                self.task.rows(rest),
                self.task.X[backend.like(out, self.task.y), :],
                out,
                what_is_lacking(everything, np.bincount(y[rest], minlength=self.task.n_classes))[y[out]],
            )
            for out, rest in splits(folds, ENOUGH_IMAGES)
        ]

    def validation(self) -> list[_Held]:
        """Validation images, which need no folds."""
        rows = evenly(np.arange(self.task.X_val.shape[0]), ENOUGH_IMAGES)  # type: ignore[union-attr]
        X = self.task.X_val[backend.like(rows, self.task.y), :]  # type: ignore[index]
        return [self._held(self.task, X, rows, np.zeros((len(rows), 2)))]

    def _held(self, task: Task, X: Array, rows: np.ndarray[Any, Any], lacking: np.ndarray[Any, Any]) -> _Held:
        without = self._fit(task, self.time)
        guessed = self._fit(self._richer(task, without, self.scale, 1.0), 2 * self.time)
        longer = self._fit(task, 2 * self.time)
        logits = (backend.to_numpy(_logits(fitted, X)) for fitted in (without, longer, guessed))
        return _Held(rows, lacking, *logits)

    def _fit(self, task: Task, time: float) -> Fitted:
        """The flow on `task` up to `time`."""
        solver = self.recipe.solver.until(time) or self.recipe.solver
        recipe = replace(self.recipe, selection="last", solver=solver)
        return train(replace(task, X_val=None, y_val=None), recipe, normalize=False, rng=np.random.default_rng(0))

    def _richer(self, task: Task, fitted: Fitted, scale: float, share: np.ndarray[Any, Any] | float) -> Task:
        """`task` plus the means of the images that `fitted` assigns to each class, with `share` times its weight."""
        y, K = backend.to_numpy(task.y), task.n_classes
        sums, mass = backend.zeros(self.U, (K, self.U.shape[1])), np.zeros(K)
        for rows in self._chunks(self.U):
            q = scale * _logits(fitted, rows)
            softmax(q, out=q)
            sums, mass = sums + q.T @ rows, mass + backend.to_numpy(q).sum(axis=0, dtype=np.float64)
        weights = np.ones(len(y)) if task.weights is None else backend.to_numpy(task.weights).astype(np.float64)
        own = np.bincount(y, weights, minlength=K)
        worth = np.where(mass >= 1, np.minimum(share * own, mass), 0.0)
        more = share - worth / np.maximum(own, 1e-30)
        some = np.flatnonzero(worth)
        if not len(some):
            return task
        xp, rows = backend.namespace(task.X), backend.like(some, task.y)
        means = sums[rows, :] / backend.like(mass[some], task.X, dtype=task.X.dtype)[:, None]
        often = np.concatenate([weights * (1 + more[y]), worth[some]])
        return replace(
            task, X=xp.concat([task.X, means]), y=xp.concat([task.y, rows]), means=len(some),
            weights=backend.like(often, task.X, dtype=task.X.dtype),
        )  # fmt: skip

    def decided(self, held: list[_Held]) -> tuple[Fitted, int]:
        """The better one, by what held-out images say."""
        rows, lacking, without, longer, logits = (np.concatenate(parts) for parts in zip(*held, strict=True))
        task, first = self.task, self.first
        folded = first.selection == "cross-validation"
        y = backend.to_numpy(task.y if folded else task.y_val)
        weights = backend.to_numpy(task.weights)[rows] if folded and task.weights is not None else np.ones(len(rows))
        weights = weights / weights.mean()

        def answers(logits: np.ndarray[Any, Any]) -> tuple[HeldOutAnswers, float]:
            return HeldOutAnswers.of(rows, y[rows], logits, lacking, weights, self.assigned)

        after, scale = answers(logits)
        losses = [answers(other)[0].losses for other in (without, longer)]
        change = weights * (after.losses - min(losses, key=lambda some: float(weights @ some)))
        if not change.mean() < -CLEAR * change.std() / np.sqrt(len(change)):
            return first, 0
        counts = np.bincount(y, minlength=task.n_classes) if folded else np.full(task.n_classes, np.inf)
        share = 1 - 1 / np.clip(counts, 2, self.further / (self.further - 1) if folded else np.inf)
        further = self.further * (1 + float(share.mean()))
        fitted = self._fit(self._richer(task, first, 1.0, share), further * self.time)
        parts = fitted.weights.W, fitted.weights.alpha, fitted.weights.intercept
        larger = Coefficients(*(None if part is None else scale * part for part in parts))
        history = fitted.history
        history.columns |= {name: column for name, column in first.history.columns.items() if name in HELD_OUT_COLUMNS}
        history.held_out_scale[self.stop] = scale
        richer = replace(
            fitted, weights=larger, effective=scale * fitted.effective, selection=first.selection, held_out=after
        )
        return richer, int(self.U.shape[0])


def _logits(fitted: Fitted, X: Array) -> Array:
    z = X @ fitted.effective.T
    return z if fitted.weights.intercept is None else z + fitted.weights.intercept
