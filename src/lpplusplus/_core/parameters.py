"""Parameters with the rules of what is allowed in their annotations, checked in `fit`.

scikit-learn has the same idea (`_parameter_constraints`), but only for itself. This is the small part of it that is
needed here, with messages that say what to write instead.
"""

import inspect
import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # Only type checkers look at it, and `pip install lpplusplus` does not bring it.

    def dataclass_transform(**options):
        return lambda kind: kind


Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True)
class Rule:
    """A rule for a value: a test, and a description of the allowed values."""

    allows: Callable[[Any], bool] = field(repr=False)
    wanted: str


def choice(words: tuple[str, ...]) -> Rule:
    """One of some words."""
    return Rule(lambda value: isinstance(value, str) and value in words, f"one of {', '.join(map(repr, words))}")


def number(low: float = -math.inf, high: float = math.inf, *, whole: bool = False, open: bool = False) -> Rule:
    """A number between two bounds; `open` excludes the lower one."""

    def allows(value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral if whole else numbers.Real):
            return False
        given = float(value)
        return math.isfinite(given) and (given > low if open else given >= low) and given <= high

    kind = "a whole number" if whole else "a number"
    above = "" if low == -math.inf else f" {'>' if open else '>='} {low:g}"
    below = "" if high == math.inf else f" <= {high:g}"
    return Rule(allows, kind + above + (" and" if above and below else "") + below)


def nothing(meaning: str) -> Rule:
    """None, with its meaning."""
    return Rule(lambda value: value is None, f"None ({meaning})")


def pair(low: tuple[float, float], *, whole: bool = True) -> Rule:
    """Two numbers with lower bounds, by default whole numbers."""
    rules = [number(bound, whole=whole) for bound in low]

    def allows(value: Any) -> bool:
        fits = isinstance(value, Sequence) and len(value) == 2
        return fits and all(rule.allows(part) for rule, part in zip(rules, value, strict=True))

    return Rule(allows, f"two {'whole ' if whole else ''}numbers of at least {low[0]} and {low[1]}")


def several(rule: Rule) -> Rule:
    """One or more values, each as `rule` wants it."""

    def allows(value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) > 0 and all(rule.allows(one) for one in value)

    return Rule(allows, f"a list of values, each {rule.wanted}")


def having(method: str) -> Rule:
    """An object with a method of some name."""
    wanted = f"an object with a method {method!r}"
    return Rule(lambda value: not isinstance(value, type) and callable(getattr(value, method, None)), wanted)


def _is_seed(value: Any) -> bool:
    generators = np.random.RandomState | np.random.Generator
    return value is None or isinstance(value, generators) or number(0, whole=True).allows(value)


AUTO = choice(("auto",))
"""Chosen from the data."""
FLAG = Rule(lambda value: isinstance(value, bool | np.bool_), "True or False")
TEXT = Rule(lambda value: isinstance(value, str) and bool(value), "a word")
CALLBACK = Rule(callable, "a function")
SEED = Rule(_is_seed, "None, a whole number >= 0 or a numpy random generator")
"""Anything that scikit-learn takes for a `random_state`."""


@cache
def rules_of(kind: type) -> dict[str, tuple[Rule, ...]]:
    """The rules of each parameter: those in the annotations of its class, `k: Annotated[int, number(0)] = 1`.

    Raises
    ------
    TypeError
        If an annotation cannot be evaluated: a rule must not vanish with it.
    """
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{kind.__name__}: {error} when its annotations are evaluated to find the rules of its parameters: import "
            f"that name where the class is defined, not for type checkers only."
        ) from error
    return {name: hint.__metadata__ for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def check_parameters(kind: type, values: Mapping[str, object]) -> None:
    """Raise `ValueError` for the first parameter of a class that none of its rules allows.

    >>> from lpplusplus import LPPlusPlus
    >>> check_parameters(LPPlusPlus, {"updates": -1})
    Traceback (most recent call last):
        ...
    ValueError: LPPlusPlus: updates=-1 is not allowed; it must be a whole number >= 0, or None (as the recipe has it).
    """
    for name, rules in rules_of(kind).items():
        if name in values and not any(rule.allows(values[name]) for rule in rules):
            allowed = ", or ".join(rule.wanted for rule in rules)
            raise ValueError(f"{kind.__name__}: {name}={values[name]!r} is not allowed; it must be {allowed}.")


@dataclass_transform(kw_only_default=True, eq_default=False)
def with_parameters(kind: Kind) -> Kind:
    """A dataclass whose fields are the parameters of a method. Its call also takes those of earlier versions.

    `translated` of the class says how they are written today; who writes them by hand gets a `FutureWarning`.
    """
    kind = dataclass(kw_only=True, eq=False, repr=False)(kind)  # type: ignore[assignment]
    made: Any = vars(kind)["__init__"]

    @wraps(made)
    def init(self: Any, **given: Any) -> None:
        made(self, **in_words_of_today(type(self), given))

    setattr(kind, "__init__", init)  # noqa: B010  (For mypy, a class may not be given another one.)
    show_without_rules(kind)
    return kind


def show_without_rules(kind: type) -> None:
    """Give a dataclass the signature that people read: types without rules."""
    made: Any = vars(kind)["__init__"]
    plain, signature = get_type_hints(kind), inspect.signature(made)
    shown = [part.replace(annotation=plain.get(name, part.annotation)) for name, part in signature.parameters.items()]
    made.__signature__ = signature.replace(parameters=shown)
    made.__annotations__ = {part.name: part.annotation for part in shown[1:]}


def in_words_of_today(kind: Any, given: dict[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Parameters of a call, translated from those of earlier versions with a warning until 1.1.

    `before` are those that an estimator has already, when some are set.
    """
    all_of_them = {**(before or {}), **given}
    known = kind.translated(all_of_them)
    old = {name: value for name, value in given.items() if name not in known or known[name] is not value}
    if old:
        _check_given_once(kind, known, old)
        new = {name: value for name, value in known.items() if all_of_them.get(name, known) is not value}
        warnings.warn(
            f"{kind.__name__}({_written(old)}) is from an earlier version and ends with 1.1: "
            + (f"write {kind.__name__}({_written(new)})." if new else "leave it out, it changes nothing."),
            FutureWarning,
            stacklevel=3,
        )
    return dict(known)


def _check_given_once(kind: type, known: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """Raise if a parameter is given by its name and by its earlier one: one of the two values would be lost."""
    for name in known.keys() & old.keys():
        for earlier in old.keys() - known.keys():
            if known[name] is old[earlier]:
                raise TypeError(
                    f"{kind.__name__}: {earlier}={old[earlier]!r} is the earlier name of {name}={old[name]!r}: give "
                    f"one of them, by the name {name}."
                )


def _written(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_brief(value)}" for name, value in parameters.items())


def _brief(value: Any) -> str:
    """As somebody would write it: without the defaults of a dataclass."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    own = {part.name: getattr(value, part.name) for part in fields(value)}
    default = {part.name: part.default for part in fields(value)}
    return f"{type(value).__name__}({_written({k: v for k, v in own.items() if v != default[k]})})"


Progress = Callable[[int, int], object]
"""Called as `progress(done, total)`."""


def generator(random_state: Any) -> np.random.Generator:
    """The generator that `random_state` means: None for a fresh one, a seed, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
