"""From a checked task and a recipe to a fitted classifier: where starts, solvers and selection meet."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from . import _arrays, starts
from ._arrays import Array
from ._checks import Task
from ._threads import Team, team
from .cross_validation import PATIENCE, HeldOut, Record, assign_folds, best_stop, cross_validate
from .objective import (
    Objective,
    Point,
    PrimalObjective,
    SpanObjective,
    Support,
    Weights,
    best_form,
    cost_of_evaluation,
)
from .recipes import LEARNING_RATES, Recipe
from .selection import BestOnValidation, History, Last, worth_being_lazy
from .solvers import Solver


@dataclass(frozen=True)
class Fitted:
    """A trained classifier with the story of its training."""

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
        folds = assign_folds(_arrays.to_numpy(task.y), recipe.folds, rng)
        order = _arrays.like(np.argsort(folds, kind="stable"), task.y)
        bounds += np.cumsum(np.bincount(folds, minlength=recipe.folds)).tolist()
    support = _prepare(task, recipe, normalize, order)
    X_val = task.X_val
    if X_val is not None and normalize:
        X_val = _arrays.unit_rows(X_val)
    with team(support.F, cost_of_evaluation(support)) as workers:
        by_loss = selection in ("cross-validation", "validation-loss")
        budget = recipe.budget(fewest_shots(task), by_loss=by_loss)
        begin = _Beginner(recipe, workers, rng, budget)
        if selection == "cross-validation":
            return _by_cross_validation(support, bounds, recipe, begin)
        if selection == "validation-loss":
            return _by_validation_loss(support, X_val, task.y_val, recipe, begin)
        if selection == "validation":
            return _by_validation(support, X_val, task.y_val, recipe, begin)
        return _to_the_end(support, recipe, begin)


def choose_selection(task: Task, recipe: Recipe) -> str:
    """What `selection="auto"` comes to for this task; any other word is kept."""
    if recipe.learning_rate == "grid":
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
    shots = fewest_shots(task)
    if recipe.selection == "cross-validation" and shots < 2:
        raise ValueError(
            "selection='cross-validation' needs two examples a class, but some class has one. Use selection='auto' or "
            "'last', or pass X_val and y_val."
        )
    if recipe.selection != "auto":
        return recipe.selection
    if task.X_val is not None:
        return "validation-loss" if recipe.by_loss else "validation"
    return "cross-validation" if recipe.by_loss and shots >= 2 and recipe.updates != 0 else "last"


def fewest_shots(task: Task) -> int:
    """Examples of the smallest class; one without examples stays as it is and has no say."""
    counts = np.bincount(_arrays.to_numpy(task.y))
    return int(counts[counts > 0].min())


def _prepare(task: Task, recipe: Recipe, normalize: bool, order: Array | None) -> Support:
    """Normalise and sort at once, so that the embeddings are copied at most once."""
    X, y = task.X, task.y
    if normalize:
        X = _arrays.unit_rows(X, order)
    elif order is not None:
        X = X[order]
    text = None if recipe.alpha == "none" else task.text
    return Support.of(X, y if order is None else y[order], task.n_classes, text)


class _Beginner:
    """Builds objectives and starting points, the same way for the whole support and for each fold."""

    def __init__(self, recipe: Recipe, team: Team, rng: np.random.Generator, budget: int) -> None:
        self.recipe, self.team, self.budget = recipe, team, budget
        self._seed = int(rng.integers(2**32))

    def form_for(self, support: Support, solver: Solver, runs: int = 1) -> type[Objective]:
        """The cheaper form of the objective for `runs` runs of `solver`."""
        if solver.coordinates != "any":
            return PrimalObjective
        return best_form(support, runs * solver.evaluations)

    def __call__(self, support: Support, solver: Solver, watched: Array | None = None) -> tuple[Objective, Point]:
        """The objective of `support` in the form that suits `solver`, and the point to start from.

        Few `watched` images are best tracked along with the support, where the form can do that.
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
        sums = sum(starts.class_sums(F[a:b, :], support.y[a:b], k) for a, b in support.rows)
        W = starts.random_weights(F, k, rng) if recipe.w_init == "random" else sums
        alpha = intercept = None
        if support.text is not None:
            alpha = self._alpha(support, sums, rng)
        if recipe.intercept:
            # As torch's Linear layer starts its bias, since the released code leaves it at that.
            bound = 1 / math.sqrt(support.dim)
            intercept = _arrays.like(rng.uniform(-bound, bound, k), F, dtype=F.dtype)
        if recipe.w_init == "random" or recipe.intercept:
            # A class without examples keeps its text score alone.
            present = _arrays.cast(support.counts > 0, F.dtype)
            W = W * present[:, None]
            intercept = None if intercept is None else intercept * present
        return Weights(W, alpha, intercept)

    def _alpha(self, support: Support, sums: Array, rng: np.random.Generator) -> Array:
        init, F, k = self.recipe.alpha_init, support.F, support.n_classes
        if init == "random":
            return starts.random_alpha(F, k, rng)
        if isinstance(init, str):
            shared = init == "shared"
            return starts.alpha_from_sums(sums, support.counts, support.text, shared=shared)
        return _arrays.zeros(F, (k,)) + float(init)


def _to_the_end(support: Support, recipe: Recipe, begin: _Beginner) -> Fitted:
    history = History()
    solver = recipe.make_solver(begin.budget, _rate(recipe), direct=True)
    objective, point = begin(support, solver)
    keeper = Last(point, history)
    solver.run(objective, point, keeper)
    return _finish(objective, keeper, history, "last", _rate(recipe))


def _by_validation(support: Support, X: Array, y: Array, recipe: Recipe, begin: _Beginner) -> Fitted:
    """Best accuracy on `X`, `y` along the walk, and over the rates where a grid of them is asked for."""
    rates = LEARNING_RATES if recipe.learning_rate == "grid" else (_rate(recipe),)
    best: tuple[int, Fitted] | None = None
    for rate in rates:
        history = History()
        solver = recipe.make_solver(begin.budget, rate)
        objective, point = begin(support, solver, X)
        keeper = BestOnValidation(
            objective,
            point,
            history,
            X,
            y,
            ties=recipe.ties,
            from_update=0 if recipe.start_competes else min(1, begin.budget),
        )
        solver.run(objective, point, keeper)
        if best is None or keeper.hits > best[0]:
            fitted = _finish(objective, keeper, history, "validation", rate)
            best = keeper.hits, fitted
    assert best is not None
    return best[1]


def _by_cross_validation(support: Support, bounds: list[int], recipe: Recipe, begin: _Beginner) -> Fitted:
    """Walk as far as held-out log-loss was lowest when each fold in turn was left out."""
    solver = recipe.make_solver(begin.budget, _rate(recipe))
    if begin.form_for(support, solver, runs=recipe.folds) is SpanObjective:
        support = replace(support, gram_of_all=support.gram)
    elif support.is_tall:
        support = replace(support, moment_of_all=support.moment(begin.team))
    record = cross_validate(support, bounds, solver, lambda part: begin(part, solver), patience=_patience(recipe))
    return _until(record, support, solver, begin, "cross-validation")


def _by_validation_loss(support: Support, X: Array, y: Array, recipe: Recipe, begin: _Beginner) -> Fitted:
    """Walk as far as the log-loss of `X`, `y` was lowest: the same rule with images that are really held out."""
    solver = recipe.make_solver(begin.budget, _rate(recipe))
    objective, point = begin(support, solver)
    held = HeldOut(objective, X, y, _patience(recipe))
    solver.run(objective, point, held)
    return _until(held.record, support, solver, begin, "validation-loss")


def _until(record: Record, support: Support, solver: Solver, begin: _Beginner, selection: str) -> Fitted:
    """Walk as far as held-out images say."""
    history = History(
        held_out_loss=record.losses.mean(axis=1, dtype=np.float64).tolist(),
        held_out_accuracy=record.hits.mean(axis=1).tolist(),
    )
    objective, point = begin(support, solver)
    keeper = Last(point, history, best_stop(record))
    solver.run(objective, point, keeper)
    return _finish(objective, keeper, history, selection, _rate(begin.recipe))


def _patience(recipe: Recipe) -> int | None:
    """The flow's iterates are far apart, so a few without gain say enough; other solvers walk on."""
    return PATIENCE if recipe.solver == "flow" else None


def _rate(recipe: Recipe) -> float | None:
    return None if isinstance(recipe.learning_rate, str) else float(recipe.learning_rate)


def _finish(
    objective: Objective,
    keeper: Last | BestOnValidation,
    history: History,
    selection: str,
    rate: float | None,
) -> Fitted:
    weights = objective.weights(keeper.best)
    effective = weights.effective(objective.support.text)
    return Fitted(weights, effective, history, keeper.update, selection, rate)
