"""Parameters as a table of what is allowed, checked in `fit`.

scikit-learn has the same idea (`_parameter_constraints`), but only for itself. This is the small part of it that is
needed here, with messages that say what to write instead.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rule:
    """A rule for a value: a test, and a description of the allowed values."""

    allows: Callable[[Any], bool]
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


FLAG = Rule(lambda value: isinstance(value, bool | np.bool_), "True or False")
TEXT = Rule(lambda value: isinstance(value, str) and bool(value), "a word")
CALLBACK = Rule(callable, "a function")
SEED = Rule(_is_seed, "None, a whole number >= 0 or a numpy random generator")
"""Anything that scikit-learn takes for a `random_state`."""


def check_parameters(owner: str, values: Mapping[str, object], table: Mapping[str, Sequence[Rule]]) -> None:
    """Raise `ValueError` for the first parameter that none of its rules allows.

    >>> check_parameters("LPPlusPlus", {"updates": -1}, {"updates": [number(0, whole=True)]})
    Traceback (most recent call last):
        ...
    ValueError: LPPlusPlus: updates=-1 is not allowed; it must be a whole number >= 0.
    """
    for name, rules in table.items():
        value = values[name]
        if not any(rule.allows(value) for rule in rules):
            allowed = ", or ".join(rule.wanted for rule in rules)
            raise ValueError(f"{owner}: {name}={value!r} is not allowed; it must be {allowed}.")
