"""Named presets over the parts of LP++, and how explicit parameters override them.

`default` is ours. `paper` is Algorithm 1 as printed, except that α starts shared (see `initialization`). `released` is
what the authors' code does, a different algorithm; the published numbers most likely come from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from .solvers import SOLVERS, BlockMM, Flow, HeavyBall, Solver
from .solvers.base import LPP_UPDATES, check_certified
from .solvers.foreign import Foreign

LEARNING_RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2)
"""The paper's grid for gradient descent and Adam."""
OF_SOLVERS = ("updates", "cycle", "tau_w", "tau_alpha", "certified", "learning_rate")
"""Parameters of the estimator that set a solver given by name."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides how a probe is fitted; the estimator documents each."""

    solver: Solver = Flow()  # noqa: RUF009  (It is frozen.)
    rates: tuple[float, ...] = ()
    """Learning rates to choose from on validation data, by accuracy."""
    alpha: str = "learned"
    alpha_init: str | float = "trusted"
    metric: str = "within"
    w_init: str = "class-sums"
    intercept: bool = False
    selection: str = "auto"
    ties: str = "latest"
    folds: int | None = None
    """None for four, or two if there are many images."""
    by_loss: bool = True
    """Whether `selection="auto"` uses held-out log-loss, of validation data or in cross-validation."""
    start_competes: bool = True
    """Whether the start is a candidate when selecting on validation data."""


RECIPES = {
    "default": Recipe(),
    "paper": (_PAPER := Recipe(solver=BlockMM(LPP_UPDATES), alpha_init="shared", metric="none", by_loss=False)),
    "released": replace(_PAPER, solver=HeavyBall(LPP_UPDATES), intercept=True, start_competes=False),
}


def resolve(name: str, given: Mapping[str, Any]) -> Recipe:
    """The recipe `name`, where every parameter of `given` that is not None replaces the recipe's.

    >>> resolve("paper", {"cycle": (1, 1), "updates": None}).solver.cycle
    (1, 1)
    """
    preset, given = RECIPES[name], _named(given)
    chosen = {field.name: given[field.name] for field in fields(Recipe) if field.name in given}
    rates = LEARNING_RATES if given.get("learning_rate") == "grid" else ()
    recipe = replace(preset, **{**chosen, "solver": preset.solver, "rates": rates})
    learn_alpha, solver = recipe.alpha == "learned", given.get("solver")
    if solver is None or isinstance(solver, str):
        solver = preset.solver if solver is None else SOLVERS[solver](preset.solver.updates)
        solver = replace(solver, **_settings(solver, given), learn_alpha=learn_alpha)
    elif isinstance(solver, Solver):
        updates = preset.solver.updates if solver.updates is None else solver.updates
        solver = replace(solver, updates=updates, learn_alpha=solver.learn_alpha and learn_alpha)
    else:
        if _can_leave_alpha(solver):
            learn_alpha = solver.learn_alpha and learn_alpha
            solver = replace(solver, learn_alpha=learn_alpha)
        solver = Foreign(solver=solver, learn_alpha=learn_alpha)
    return replace(recipe, solver=solver)


def check_solver_takes(name: str, given: Mapping[str, Any]) -> None:
    """Raise for a parameter that the solver of `given`, or of the recipe `name`, does not take."""
    given = _named(given)
    solver = given.get("solver")
    asked = {key: given[key] for key in OF_SOLVERS if key in given and not _asks_nothing(key, given[key])}
    if solver is None or isinstance(solver, str):
        kind = type(RECIPES[name].solver)
        _check_by_name(solver or next(word for word in SOLVERS if SOLVERS[word] is kind), asked)
        return
    for key, value in asked.items():
        raise ValueError(
            f"{key}={value!r} sets a solver that is given by its name; solver={solver!r} is an object with parameters "
            f"of its own: set it there and leave it out here."
        )
    if given.get("alpha") == "fixed" and not _can_leave_alpha(solver):
        raise ValueError(
            f"alpha='fixed' keeps the solver from moving α, but solver={solver!r} is not a dataclass with a field "
            f"learn_alpha to be told so: add the field, or leave alpha out."
        )


def _check_by_name(solver: str, asked: dict[str, Any]) -> None:
    for key, value in asked.items():
        takers = [word for word, kind in SOLVERS.items() if key in kind.__dataclass_fields__]
        if solver not in takers:
            listed = ", ".join(map(repr, takers[:-1])) + f" and {takers[-1]!r}"
            raise ValueError(
                f"{key}={value!r} is for solver={listed}; solver={solver!r} does not take it: leave it out, or name "
                f"one of those."
            )
    if "certified" in asked:
        check_certified([key for key in ("tau_w", "tau_alpha") if key in asked], asked.get("learning_rate"))


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _asks_nothing(key: str, value: Any) -> bool:
    """Whether solvers without this parameter do what the value asks anyway."""
    return (key == "certified" and not value) or (key == "learning_rate" and value == "lipschitz")


def _can_leave_alpha(solver: Any) -> bool:
    return is_dataclass(solver) and hasattr(solver, "learn_alpha")


def _settings(solver: Solver, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters in `given` that `solver` takes, under its own names."""
    settings = {key: given[key] for key in OF_SOLVERS if key in given and hasattr(solver, key)}
    if "cycle" in settings:
        settings["cycle"] = tuple(int(steps) for steps in settings["cycle"])
    if "learning_rate" in settings:
        rate = settings["learning_rate"]
        settings["learning_rate"] = None if isinstance(rate, str) else float(rate)
    return settings
