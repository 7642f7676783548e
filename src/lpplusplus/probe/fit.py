"""From a checked task and a recipe to a fitted classifier: where start, solver and selection meet."""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.folds import assign_folds, can_be_held_out, splits
from .._core.history import History
from .._core.rows import Rows, sum_by_class, times, unit_rows
from .._core.task import Task
from .._core.threads import ALONE, WORTH_A_THREAD, Team, give_back_memory, team
from . import initialization
from .cross_validation import ENOUGH_IMAGES, PATIENCE, HeldOut, Record, cross_validate, judge
from .held_out import HeldOutAnswers, every_nth, what_is_lacking
from .metric import AnyMetric, by_coordinates, within
from .objective import (
    Coefficients,
    Objective,
    Point,
    Support,
    best_form,
    cost_of_evaluation,
    form_on_weights,
)
from .objective.base import cross_entropy, own_entries
from .recipes import Recipe
from .selection import COLUMNS, SMALL_LOSS, BestOnValidation, Last
from .solvers import Solver

LESS_WALK = 0.4
"""Of LP++'s time with one image per class: in the coordinates' own metric the same time leads further."""
ENOUGH_TO_HALVE = 200
"""Images from which on a half of them says enough about where to stop."""
MANY = 8
"""From this many images per dimension on, read the support block by block: copies would take most of the memory."""
WORTH_A_TEAM = 5 * WORTH_A_THREAD
"""If a pass has fewer operations than this, the last run uses one thread: it has few passes, with small products in
between, and threads would mostly wait for each other."""


@dataclass(frozen=True)
class Fitted:
    """A trained classifier with the history of its training."""

    weights: Coefficients
    effective: Array
    """w_k + α_k t_k, (K, D)."""
    history: History
    update: int
    """The iterate that was kept."""
    selection: str
    """How it was chosen: "last", "support-loss", "cross-validation", "validation" or "validation-loss"."""
    learning_rate: float | None
    held_out: HeldOutAnswers | None = None
    """Predictions for held-out images; None if none were held out."""


def train(task: Task, recipe: Recipe, *, normalize: bool, rng: np.random.Generator) -> Fitted:
    """Fit `recipe` on `task`."""
    selection = choose_selection(task, recipe)
    folds, direct = None, selection == "last"
    if selection == "cross-validation":
        count = recipe.folds or how_many_folds(task)
        folds = assign_folds(backend.to_numpy(task.y), count, rng)
        direct = task.X.shape[0] >= count * ENOUGH_IMAGES  # Then a single fold is run, and it takes long.
    held_out = selection in ("cross-validation", "validation-loss")
    shots = LESS_WALK if _few(task, recipe) else task.least_weight
    solver = recipe.solver.for_task(shots, held_out=held_out, direct=direct)
    with team(task.X, cost_of_evaluation(Support(task.X, task.y, task.n_classes, task.text))) as workers:
        run = _FitRun(task, recipe, solver, normalize, workers, rng)
        if folds is not None:
            fitted = run.by_cross_validation(folds)
        elif selection == "validation-loss":
            fitted = run.by_validation_loss()
        elif selection == "validation":
            fitted = run.by_validation()
        else:
            fitted = run.to_the_end(selection)
    if isinstance(run.task.X, Rows):
        del run
        give_back_memory()
    return fitted


def how_many_folds(task: Task) -> int:
    """Two, if that leaves two images in each class, and a hundred in all; else four."""
    return 2 if task.fewest_shots >= 4 and task.X.shape[0] >= ENOUGH_TO_HALVE else 4


def choose_selection(task: Task, recipe: Recipe) -> str:
    """What `selection="auto"` means for this task; any other value is kept."""
    if recipe.rates:
        if task.X_val is None or recipe.selection not in ("auto", "validation"):
            raise ValueError(
                "learning_rate='auto' chooses by accuracy on validation data: pass X_val and y_val to fit with "
                "selection='validation', or name one rate."
            )
        return "validation"
    if recipe.selection.startswith("validation") and task.X_val is None:
        raise ValueError(
            f"selection={recipe.selection!r} needs X_val and y_val in fit; without them use 'auto', "
            f"'cross-validation' or 'last'."
        )
    enough = can_be_held_out(backend.to_numpy(task.y))
    if recipe.selection == "cross-validation" and not enough:
        raise ValueError(
            "selection='cross-validation' needs two examples per class, but most classes have one. Use "
            "selection='auto' or 'last', or pass X_val and y_val."
        )
    if recipe.selection != "auto":
        return recipe.selection
    if task.X_val is not None:
        return "validation-loss" if recipe.by_loss else "validation"
    if not recipe.by_loss or recipe.solver.updates == 0:
        return "last"
    return "cross-validation" if enough else "support-loss"


def scaled(task: Task, *, normalize: bool) -> Task:
    """The task with embeddings of length 1, if wanted; a tall support is read block by block."""
    X = task.X
    if not isinstance(X, Rows) and X.shape[0] >= MANY * X.shape[1]:
        X = Rows(X)
    if not normalize:
        return replace(task, X=X)
    X_val = None if task.X_val is None else backend.unit_rows(task.X_val)
    views = None if task.views is None else backend.unit_vectors(task.views)
    return replace(task, X=unit_rows(X), X_val=X_val, views=views)


def _few(task: Task, recipe: Recipe) -> bool:
    """Whether the metric is that of coordinates: most classes have a single image."""
    return recipe.metric == "auto" and not can_be_held_out(backend.to_numpy(task.y))


class _FitRun:
    """One fit: builds objectives and starting points, in the same way for the whole support and for each fold."""

    def __init__(
        self, task: Task, recipe: Recipe, solver: Solver, normalize: bool, team: Team, rng: np.random.Generator
    ) -> None:
        self.recipe, self.solver, self.team = recipe, solver, team
        self.task = scaled(task, normalize=normalize)
        self._text = None if recipe.alpha == "none" else task.text
        self._few = _few(task, recipe)
        self._seed = int(rng.integers(2**32))
        self._patience = PATIENCE if solver.long_steps else None

    def by_validation(self) -> Fitted:
        """The iterate with the best accuracy on validation data, over all learning rates if there are several."""
        recipe, best = self.recipe, None
        support, metric = self._support()
        X, y = self._changed(self.task.X_val, metric), self.task.y_val
        for rate in recipe.rates or (None,):
            solver = self.solver if rate is None else replace(self.solver, learning_rate=rate)  # type: ignore[call-arg]
            history = History.of(COLUMNS)
            objective, point = self._build(support)
            first = 0 if recipe.start_competes else min(1, solver.budget)
            keeper = BestOnValidation(objective, point, history, X, y, ties=recipe.ties, from_update=first)
            solver.run(objective, point, keeper)
            if best is None or keeper.hits > best[0]:
                best = keeper.hits, self._collect(objective, keeper, history, "validation", metric, solver)
        assert best is not None
        return best[1]

    def by_cross_validation(self, folds: np.ndarray[Any, Any]) -> Fitted:
        """Stop where the log-loss of each fold was lowest when that fold was held out."""

        task, weights = self.task, self.task.weights
        y = backend.to_numpy(task.y)
        counts = np.bincount(y, minlength=task.n_classes)
        walks = splits(folds, ENOUGH_IMAGES)  # With enough images held out, no further fold is run.
        single = len(walks) == 1
        relative = None
        if weights is not None:  # Of mean 1 over the images that are left out, so that sums over these are means.
            left_out = np.sort(np.concatenate([out for out, _ in walks]))
            relative = weights / weights[backend.like(left_out, task.y)].mean()
        every = self._every(len(folds), single)
        run, team = self, ALONE
        if self.team.size <= len(walks):
            # Folds side by side, one thread each: so threads do not wait for each other in every pass.
            run, team = copy(self), self.team
            run.team = ALONE

        def hold_out(out: Any, rest: Any) -> tuple[HeldOut, Point, tuple[np.ndarray[Any, Any], ...]]:
            kept, left = out[::every], np.bincount(y[rest], minlength=task.n_classes)
            apart = bool(left[y[out]].min() > 1)
            rest, out = (backend.like(rows, task.y) for rows in (rest, out))
            # Images that made the metric seem nearer to their class than others: all held-out ones must be others.
            support, metric = run._support(rest, scatter=apart)
            objective, point = run._build(support)
            seen, weight = run._changed(task.X[out, :], metric), None if relative is None else relative[out]
            held = HeldOut(objective, seen, task.y[out], self._patience, weight, every, by_itself=single)
            return held, point, (kept, what_is_lacking(counts, left)[y[kept]])

        record, asked = cross_validate(walks, hold_out, self.solver, team)
        rows, lacking = (np.concatenate(parts) for parts in zip(*asked, strict=True))
        # The best stopping time grows with the images per class, and a fold's complement has fewer of them.
        number = len(np.unique(folds[folds >= 0]))
        if cost_of_evaluation(Support(task.X, task.y, task.n_classes, None)) < WORTH_A_TEAM:
            self.team = ALONE
        often = None if relative is None else backend.to_numpy(relative)[rows]
        held_out = HeldOutAnswers.of(rows, y[rows], self._logits_at_best(record), lacking, often, folds)
        return self._refit(record, "cross-validation", held_out, number / (number - 1))

    def by_validation_loss(self) -> Fitted:
        """Stop where the log-loss of validation data was lowest: the same rule, without folds."""
        X = self.task.X_val
        assert X is not None
        support, metric = self._support()
        objective, point = self._build(support)
        every = self._every(X.shape[0], single=True)
        held = HeldOut(
            objective, self._changed(X, metric), self.task.y_val, self._patience, every=every, by_itself=True
        )
        self.solver.run(objective, point, held)
        del objective, point
        y, rows, record = backend.to_numpy(self.task.y_val), np.arange(X.shape[0])[::every], held.record
        held_out = HeldOutAnswers.of(rows, y[rows], self._logits_at_best(record), 0.0)
        return self._refit(record, "validation-loss", held_out)

    def to_the_end(self, selection: str) -> Fitted:
        """Run to the end of the solver's budget, or ("support-loss") until the support has little left to teach."""
        return self._run(History.of(COLUMNS), selection, enough=SMALL_LOSS if selection == "support-loss" else -1.0)

    def _logits_at_best(self, record: Record) -> np.ndarray[Any, Any]:
        """Logits of held-out images at the best iterate; those at the others are dropped."""
        logits = record.logits[judge(record).stop].T
        record.logits.clear()
        if isinstance(self.task.X, Rows):
            give_back_memory()  # The last run needs it.
        return logits

    def _refit(
        self, record: Record, selection: str, answers: tuple[HeldOutAnswers, float], more: float = 1.0
    ) -> Fitted:
        """Refit on all images for `more` x the best time of the held-out images."""
        judgement, history = judge(record), History.of(COLUMNS)
        stop, (held_out, scale) = judgement.stop, answers
        history.held_out_loss[:] = judgement.losses.tolist()
        history.held_out_accuracy[:] = record.hits.mean(axis=1).tolist()
        history.held_out_scale[:] = judgement.scales.tolist()
        history.held_out_scale[stop] = scale
        history.held_out_time[:] = record.times.tolist()
        self.solver, last = self.solver.until(more * float(record.times[stop])) or self.solver, round(more * stop)
        fitted = self._run(history, selection, None if self.solver.long_steps else last, scale=scale)
        return replace(fitted, held_out=held_out)

    def _every(self, images: int, single: bool) -> int:
        """Stride at which held-out logits are stored, to bound memory; a `single` run stores its best only."""
        iterates = 8 if single else self.solver.evaluations + 1
        return every_nth(min(images, ENOUGH_IMAGES), self.task.n_classes, iterates)

    def _run(
        self, history: History, selection: str, stop: int | None = None, *, enough: float = -1.0, scale: float = 1.0
    ) -> Fitted:
        support, metric = self._support()
        objective, point = self._build(support)
        keeper = Last(point, history, stop, enough, self._images_alone(objective, metric) if self._few else None)
        self.solver.run(objective, point, keeper)
        return self._collect(objective, keeper, history, selection, metric, self.solver, float(scale))

    def _images_alone(self, objective: Objective, metric: AnyMetric | None) -> Callable[[Point], float]:
        """The mean loss of the images at a point, without that of images made from names."""
        task = self.task
        watch, own = objective.watch(self._changed(task.X[:, :], metric)), own_entries(task.y, task.n_classes)

        def loss(point: Point) -> float:
            z = watch.logits(point, team=self.team)
            losses = backend.to_numpy(cross_entropy(z, own, out=z)).astype(np.float64)
            return float(np.average(losses, weights=None if task.weights is None else backend.to_numpy(task.weights)))

        return loss

    def _support(self, rows: Array | None = None, *, scatter: bool = True) -> tuple[Support, AnyMetric | None]:
        """The images of `rows`, or all of them; and the change of coordinates made to them, if any."""
        task = self.task if rows is None else self.task.rows(rows)
        X, y, weights = task.X, task.y, task.weights
        metric: AnyMetric | None = None
        if self._few:
            metric = by_coordinates(X if weights is None else times(X, backend.namespace(X).sqrt(weights)))
            X, y, weights = self._with_names(X[:, :], y, weights)
        elif self.recipe.metric != "none" and scatter:
            seen, labels, often = X, y, weights
            if task.means:
                seen, labels, often = X[: -task.means, :], y[: -task.means], None
            if task.views is not None:
                seen, labels = task.views.reshape(-1, X.shape[1]), backend.repeat(labels, task.views.shape[1])
                often = None if often is None else backend.repeat(often, task.views.shape[1])
            metric = within(seen, labels, task.n_classes, self.team, weights=often)
        if metric is None or self.solver.coordinates == "any":
            moment = None if metric is None or task.views is not None or task.means else metric.moment
            return Support.weighted(X, y, task.n_classes, self._text, weights, metric, moment), None
        text = None if self._text is None else metric.text(self._text, self.team)
        return Support.weighted(self._changed(X[:, :], metric), y, task.n_classes, text, weights), metric

    def _with_names(self, X: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
        """The images, and one more of each class that has any, made from its name; nothing more without text."""
        if self._text is None:
            return X, y, weights
        xp, counts = backend.namespace(X), backend.namespace(y).bincount(y, minlength=self.task.n_classes)
        there = backend.like(np.flatnonzero(backend.to_numpy(counts)), y)
        made = initialization.pseudo_images(sum_by_class(X, y, self.task.n_classes), counts, self._text)[there, :]
        weights = backend.zeros(X, (X.shape[0],)) + 1 if weights is None else weights
        light = backend.zeros(X, (made.shape[0],)) + initialization.PSEUDO_WEIGHT
        return xp.concat([X, made]), xp.concat([y, there]), xp.concat([weights, light])

    def _changed(self, X: Array, metric: AnyMetric | None) -> Array:
        return X if metric is None else metric.images(X, self.team)

    def _build(self, support: Support) -> tuple[Objective, Point]:
        """The objective of `support` in the form that suits the solver, and the point to start from."""
        solver = self.solver
        form = form_on_weights(support) if solver.coordinates != "any" else best_form(support, solver.evaluations)
        objective = form(support, team=self.team)
        return objective, objective.at(self._start(support))

    def _start(self, support: Support) -> Coefficients:
        recipe, rng = self.recipe, np.random.default_rng(self._seed)
        F, k = support.F, support.n_classes
        sums, metric = support.class_sums, support.metric
        W = initialization.random_weights(F, k, rng) if recipe.w_init == "random" else sums
        if metric is not None:
            W = metric.weights(W, self.team) if recipe.w_init == "random" else metric.steps(W.T, self.team).T
        alpha = intercept = None
        if support.text is not None:
            text = support.text
            if recipe.alpha_init == "trusted":
                text = initialization.believable(F, support.y, text, support.roots, self.team)
            alpha = self._alpha(support, text, sums, rng)
            if recipe.alpha_init == "trusted" and metric is not None:
                exponent = 0.5 if self._few else max(0.0, 1 - 2 / self.task.least_weight)
                alpha = metric.part_kept(F, self.team) ** exponent * alpha
            if text is not support.text:
                W = W + alpha[:, None] * (text - support.text)
        if recipe.intercept:
            # As torch's Linear layer starts its bias; the released code does not change it.
            bound = 1 / math.sqrt(support.dim)
            intercept = backend.like(rng.uniform(-bound, bound, k), F, dtype=F.dtype)
        if recipe.w_init == "random" or recipe.intercept:
            # A class without examples keeps its text score alone.
            present = backend.cast(support.counts > 0, F.dtype)
            W = W * present[:, None]
            intercept = None if intercept is None else intercept * present
        return Coefficients(W, alpha, intercept)

    def _alpha(self, support: Support, text: Array, sums: Array, rng: np.random.Generator) -> Array:
        init, F, k = self.recipe.alpha_init, support.F, support.n_classes
        if init == "random":
            return initialization.random_alpha(F, k, rng)
        if not isinstance(init, str):
            return backend.zeros(F, (k,)) + float(init)
        alpha = initialization.alpha_from_sums(sums, support.counts, text, shared=init != "per-class")
        if init == "trusted":
            alpha = 0 * alpha + initialization.likeliest_alpha(
                F, support.y, text, most=float(alpha[0]), roots=support.roots
            )
        return alpha

    def _collect(
        self,
        objective: Objective,
        keeper: Last | BestOnValidation,
        history: History,
        selection: str,
        metric: AnyMetric | None,
        solver: Solver,
        scale: float = 1.0,
    ) -> Fitted:
        W, alpha, intercept = objective.weights(keeper.best)
        if metric is not None:
            W = metric.weights(W, self.team)
        if scale != 1:
            W, alpha, intercept = (None if part is None else scale * part for part in (W, alpha, intercept))
        weights = Coefficients(W, alpha, intercept)
        rate = getattr(solver, "learning_rate", None)
        return Fitted(weights, weights.effective(self._text), history, keeper.update, selection, rate)
