"""Named presets over the parts of LP++, and how explicit parameters override them.

`default` is ours. `paper` is Algorithm 1 as printed, except that α starts shared (see `initialization`). `released` is
what the authors' code does, a different algorithm; the published numbers most likely come from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from .solvers import SOLVERS, BlockMM, Flow, Foreign, HeavyBall, Solver
from .solvers.base import LPP_UPDATES

LEARNING_RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2)
"""The paper's grid for gradient descent and Adam."""
OPTIONS = ("cycle", "tau_w", "tau_alpha", "certified", "learning_rate")
"""Options of solvers that were parameters of the estimator in earlier versions."""
OLD_WORDS: dict[Any, Any] = {"grid": "auto", "lipschitz": None}
"""Values of such options, and what they are now."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides how a probe is fitted; the estimator documents each."""

    solver: Solver = Flow()  # noqa: RUF009  (It is frozen.)
    rates: tuple[float, ...] = ()
    """Learning rates to choose from on validation data, by accuracy."""
    alpha: str = "learned"
    alpha_init: str | float = "trusted"
    metric: str = "auto"
    w_init: str = "class-sums"
    intercept: bool = False
    selection: str = "auto"
    ties: str = "latest"
    folds: int | None = None
    """None for two, or four where images are few."""
    by_loss: bool = True
    """Whether `selection="auto"` uses held-out log-loss, of validation data or in cross-validation."""
    start_competes: bool = True
    """Whether the start is a candidate when selecting on validation data."""


RECIPES = {
    "default": Recipe(),
    "paper": (
        _PAPER := Recipe(solver=BlockMM(LPP_UPDATES), alpha_init="shared", metric="none", folds=4, by_loss=False)
    ),
    "released": replace(_PAPER, solver=HeavyBall(LPP_UPDATES), intercept=True, start_competes=False),
}


def resolve(name: str, given: Mapping[str, Any]) -> Recipe:
    """The recipe `name`, where every parameter of `given` that is not None replaces the recipe's.

    >>> resolve("paper", {"solver": BlockMM(cycle=(1, 1)), "updates": None}).solver
    BlockMM(updates=300, learn_alpha=True, cycle=(1, 1), tau_w=1.0, tau_alpha=16.0, certified=False)
    """
    preset, given = RECIPES[name], {key: value for key, value in given.items() if value is not None}
    chosen = {field.name: given[field.name] for field in fields(Recipe) if field.name in given}
    recipe = replace(preset, **{**chosen, "solver": preset.solver})
    learn_alpha, solver = recipe.alpha == "learned", given.get("solver", preset.solver)
    if isinstance(solver, str):
        solver = SOLVERS[solver]()
    if not isinstance(solver, Solver):
        if _can_leave_alpha(solver):
            learn_alpha = solver.learn_alpha and learn_alpha
            solver = replace(solver, learn_alpha=learn_alpha)
        return replace(recipe, solver=Foreign(solver=solver, learn_alpha=learn_alpha))
    updates = given.get("updates", preset.solver.updates if solver.updates is None else solver.updates)
    rates = LEARNING_RATES if getattr(solver, "learning_rate", None) == "auto" else ()
    return replace(
        recipe, rates=rates, solver=replace(solver, updates=updates, learn_alpha=solver.learn_alpha and learn_alpha)
    )


def check_solver(solver: Any, updates: int | None, alpha: str | None) -> None:
    """Raise if the solver's own parameters leave no room for one of the estimator."""
    given = not isinstance(solver, str | None)
    if updates is not None and given and not (isinstance(solver, Solver) and solver.updates is None):
        raise ValueError(
            f"updates={updates} sets the budget, but solver={solver!r} is an object with a budget of its own: set it "
            f"there and leave it out here."
        )
    if alpha == "fixed" and given and not _can_leave_alpha(solver):
        raise ValueError(
            f"alpha='fixed' keeps the solver from moving α, but solver={solver!r} is not a dataclass with a field "
            f"learn_alpha to be told so: add the field, or leave alpha out."
        )


def without_options(given: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
    """Parameters of the estimator, where options of solvers, which it had in earlier versions, are in the solver.

    An option that the solver does not have raises ValueError, or is left out unless `strict`.

    >>> without_options({"recipe": "paper", "tau_w": 2.0, "cycle": None})["solver"].tau_w
    2.0
    """
    options = {key: given[key] for key in OPTIONS if given.get(key) is not None}
    rest = {key: value for key, value in given.items() if key not in OPTIONS}
    solver = given.get("solver")
    kind = _kind(solver, given.get("recipe", "default"))
    for key, value in [*options.items()]:
        if isinstance(value, str | list):
            options[key] = tuple(value) if isinstance(value, list) else OLD_WORDS.get(value, value)
        if not hasattr(kind, key):
            del options[key]
            if strict and value not in (False, "lipschitz"):
                takers = ", ".join(taker.__name__ for taker in SOLVERS.values() if hasattr(taker, key))
                raise ValueError(f"{key}={value!r} is an option of {takers}; {kind.__name__} does not take it.")
    if options:
        rest["solver"] = kind(**options) if isinstance(solver, str | None) else replace(solver, **options)
    return rest


def _kind(solver: Any, recipe: str) -> type[Any]:
    """The class of a solver, given as an object, by its name, or by the recipe."""
    if not isinstance(solver, str | None):
        return type(solver)
    return SOLVERS.get(solver or "", type(RECIPES.get(recipe, RECIPES["default"]).solver))


def _can_leave_alpha(solver: Any) -> bool:
    return is_dataclass(solver) and hasattr(solver, "learn_alpha")
