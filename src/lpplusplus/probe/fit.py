"""From a checked task and a recipe to a fitted classifier: where start, solver and selection meet."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.folds import assign_folds
from .._core.history import History
from .._core.task import Task
from .._core.threads import Team, team
from . import initialization
from .counting import worth_being_lazy
from .cross_validation import PATIENCE, HeldOut, Record, best_stop, cross_validate
from .objective import Objective, Point, PrimalObjective, SpanObjective, Support, Weights, best_form, cost_of_evaluation
from .recipes import Recipe
from .selection import COLUMNS, BestOnValidation, Last
from .solvers import Solver


@dataclass(frozen=True)
class Fitted:
    """A trained classifier with the history of its training."""

    weights: Weights
    effective: Array
    """w_k + α_k t_k, (K, D)."""
    history: History
    update: int
    """The iterate that was kept."""
    selection: str
    """How it was chosen: "last", "cross-validation", "validation" or "validation-loss"."""
    learning_rate: float | None


def train(task: Task, recipe: Recipe, *, normalize: bool, rng: np.random.Generator) -> Fitted:
    """Fit `recipe` on `task`."""
    selection = choose_selection(task, recipe)
    order, bounds = None, [0]
    if selection == "cross-validation":
        folds = assign_folds(backend.to_numpy(task.y), recipe.folds, rng)
        order = backend.like(np.argsort(folds, kind="stable"), task.y)
        bounds += np.cumsum(np.bincount(folds, minlength=recipe.folds)).tolist()
    support = _support(task, recipe, normalize, order)
    X_val = task.X_val
    if X_val is not None and normalize:
        X_val = backend.unit_rows(X_val)
    held_out = selection in ("cross-validation", "validation-loss")
    solver = recipe.solver.for_task(task.least_weight, held_out=held_out, only_the_end=selection == "last")
    with team(support.F, cost_of_evaluation(support)) as workers:
        begin = _Beginner(recipe, workers, rng)
        if selection == "cross-validation":
            return _by_cross_validation(support, bounds, solver, begin)
        if selection == "validation-loss":
            return _by_validation_loss(support, X_val, task.y_val, solver, begin)
        if selection == "validation":
            return _by_validation(support, X_val, task.y_val, solver, begin)
        return _run(support, solver, begin, History.of(COLUMNS), "last")


def choose_selection(task: Task, recipe: Recipe) -> str:
    """What `selection="auto"` means for this task; any other word is kept."""
    if recipe.rates:
        if task.X_val is None or recipe.selection not in ("auto", "validation"):
            raise ValueError(
                "learning_rate='grid' chooses by accuracy on validation data: pass X_val and y_val to fit with "
                "selection='validation', or name one rate."
            )
        return "validation"
    if recipe.selection.startswith("validation") and task.X_val is None:
        raise ValueError(
            f"selection={recipe.selection!r} needs X_val and y_val in fit; without them use 'auto', "
            f"'cross-validation' or 'last'."
        )
    enough = task.fewest_shots >= 2
    if recipe.selection == "cross-validation" and not enough:
        raise ValueError(
            "selection='cross-validation' needs two examples per class, but some class has one. Use selection='auto' "
            "or 'last', or pass X_val and y_val."
        )
    if recipe.selection != "auto":
        return recipe.selection
    if task.X_val is not None:
        return "validation-loss" if recipe.by_loss else "validation"
    return "cross-validation" if recipe.by_loss and enough and recipe.solver.updates != 0 else "last"


def _support(task: Task, recipe: Recipe, normalize: bool, order: Array | None) -> Support:
    """Normalise and sort in one go, so that the embeddings are copied at most once."""
    X, y, weights = task.X, task.y, task.weights
    if normalize:
        X = backend.unit_rows(X, order)
    elif order is not None:
        X = X[order]
    text = None if recipe.alpha == "none" else task.text
    if order is not None:
        y, weights = y[order], weights if weights is None else weights[order]
    return Support.of(X, y, task.n_classes, text, weights)


class _Beginner:
    """Builds objectives and starting points, in the same way for the whole support and for each fold."""

    def __init__(self, recipe: Recipe, team: Team, rng: np.random.Generator) -> None:
        self.recipe, self.team = recipe, team
        self._seed = int(rng.integers(2**32))

    def form_for(self, support: Support, solver: Solver, runs: int = 1) -> type[Objective]:
        """The cheaper form of the objective for `runs` runs of `solver`."""
        if solver.coordinates != "any":
            return PrimalObjective
        return best_form(support, runs * solver.evaluations)

    def __call__(self, support: Support, solver: Solver, watched: Array | None = None) -> tuple[Objective, Point]:
        """The objective of `support` in the form that suits `solver`, and the point to start from.

        Where there are few `watched` images, the span form tracks their logits along with those of the support.
        """
        form = self.form_for(support, solver)
        extra = {}
        if form is SpanObjective and watched is not None and not worth_being_lazy(support, watched):
            extra["tracked"] = watched
        objective = form(support, team=self.team, **extra)
        return objective, objective.at(self._start(support))

    def _start(self, support: Support) -> Weights:
        recipe, rng = self.recipe, np.random.default_rng(self._seed)
        F, k = support.F, support.n_classes
        sums = support.class_sums()
        W = initialization.random_weights(F, k, rng) if recipe.w_init == "random" else sums
        alpha = intercept = None
        if support.text is not None:
            alpha = self._alpha(support, sums, rng)
        if recipe.intercept:
            # As torch's Linear layer starts its bias; the released code leaves it at that.
            bound = 1 / math.sqrt(support.dim)
            intercept = backend.like(rng.uniform(-bound, bound, k), F, dtype=F.dtype)
        if recipe.w_init == "random" or recipe.intercept:
            # A class without examples keeps its text score alone.
            present = backend.cast(support.counts > 0, F.dtype)
            W = W * present[:, None]
            intercept = None if intercept is None else intercept * present
        return Weights(W, alpha, intercept)

    def _alpha(self, support: Support, sums: Array, rng: np.random.Generator) -> Array:
        init, F, k = self.recipe.alpha_init, support.F, support.n_classes
        if init == "random":
            return initialization.random_alpha(F, k, rng)
        if isinstance(init, str):
            shared = init == "shared"
            return initialization.alpha_from_sums(sums, support.counts, support.text, shared=shared)
        return backend.zeros(F, (k,)) + float(init)


def _by_validation(support: Support, X: Array, y: Array, solver: Solver, begin: _Beginner) -> Fitted:
    """The iterate with the best accuracy on `X`, `y`; of all learning rates, where there are several."""
    recipe, best = begin.recipe, None
    for rate in recipe.rates or (None,):
        candidate = solver if rate is None else replace(solver, learning_rate=rate)  # type: ignore[call-arg]
        history = History.of(COLUMNS)
        objective, point = begin(support, candidate, X)
        first = 0 if recipe.start_competes else min(1, candidate.budget)
        keeper = BestOnValidation(objective, point, history, X, y, ties=recipe.ties, from_update=first)
        candidate.run(objective, point, keeper)
        if best is None or keeper.hits > best[0]:
            best = keeper.hits, _finish(objective, keeper, history, "validation", candidate)
    assert best is not None
    return best[1]


def _by_cross_validation(support: Support, bounds: list[int], solver: Solver, begin: _Beginner) -> Fitted:
    """Stop where the log-loss of each fold was lowest when that fold was held out."""
    if begin.form_for(support, solver, runs=begin.recipe.folds) is SpanObjective:
        support = replace(support, gram_of_all=support.gram)
    elif support.is_tall:
        support = replace(support, moment_of_all=support.moment(begin.team))
    record = cross_validate(support, bounds, solver, lambda part: begin(part, solver), patience=_patience(solver))
    return _until(record, support, solver, begin, "cross-validation")


def _by_validation_loss(support: Support, X: Array, y: Array, solver: Solver, begin: _Beginner) -> Fitted:
    """Stop where the log-loss of `X`, `y` was lowest: the same rule, with validation data in place of folds."""
    objective, point = begin(support, solver)
    held = HeldOut(objective, X, y, _patience(solver))
    solver.run(objective, point, held)
    return _until(held.record, support, solver, begin, "validation-loss")


def _until(record: Record, support: Support, solver: Solver, begin: _Beginner, selection: str) -> Fitted:
    """Run on the whole support, as far as the held-out images say."""
    history = History.of(COLUMNS)
    history.held_out_loss[:] = record.losses.mean(axis=1, dtype=np.float64).tolist()
    history.held_out_accuracy[:] = record.hits.mean(axis=1).tolist()
    return _run(support, solver, begin, history, selection, best_stop(record))


def _run(
    support: Support, solver: Solver, begin: _Beginner, history: History, selection: str, stop: int | None = None
) -> Fitted:
    objective, point = begin(support, solver)
    keeper = Last(point, history, stop)
    solver.run(objective, point, keeper)
    return _finish(objective, keeper, history, selection, solver)


def _patience(solver: Solver) -> int | None:
    return PATIENCE if solver.far_apart else None


def _finish(
    objective: Objective, keeper: Last | BestOnValidation, history: History, selection: str, solver: Solver
) -> Fitted:
    weights = objective.weights(keeper.best)
    effective = weights.effective(objective.support.text)
    return Fitted(weights, effective, history, keeper.update, selection, getattr(solver, "learning_rate", None))
