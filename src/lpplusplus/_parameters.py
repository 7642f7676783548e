"""Parameters as a table of what is allowed, checked in `fit`.

scikit-learn has the same idea (`_parameter_constraints`) behind an underscore; this is the small part of it that is
needed here, with messages that say what to write instead.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Rule(Protocol):
    """What a value may be."""

    def allows(self, value: object) -> bool: ...

    def describe(self) -> str: ...


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def allows(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words

    def describe(self) -> str:
        return "one of " + ", ".join(repr(word) for word in self.words)


@dataclass(frozen=True)
class Number:
    """A number, whole or not, between two bounds (the lower one included unless `open`)."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    open: bool = False

    def allows(self, value: object) -> bool:
        kind = numbers.Integral if self.whole else numbers.Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind):
            return False
        number = float(value)
        above = number > self.low if self.open else number >= self.low
        return math.isfinite(number) and above and number <= self.high

    def describe(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low = "" if self.low == -math.inf else f" {'>' if self.open else '>='} {self.low:g}"
        high = "" if self.high == math.inf else f" <= {self.high:g}"
        return kind + low + (" and" if low and high else "") + high


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def allows(self, value: object) -> bool:
        return isinstance(value, bool | np.bool_)

    def describe(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class Nothing:
    """None, with what it stands for."""

    meaning: str

    def allows(self, value: object) -> bool:
        return value is None

    def describe(self) -> str:
        return f"None ({self.meaning})"


@dataclass(frozen=True)
class Pair:
    """Two numbers with lower bounds, whole ones unless said otherwise."""

    low: tuple[float, float]
    whole: bool = True

    def allows(self, value: object) -> bool:
        return (
            isinstance(value, Sequence)
            and len(value) == 2
            and all(Number(low, whole=self.whole).allows(v) for v, low in zip(value, self.low, strict=True))
        )

    def describe(self) -> str:
        return f"two {'whole ' if self.whole else ''}numbers of at least {self.low[0]} and {self.low[1]}"


@dataclass(frozen=True)
class Text:
    """A word of any kind."""

    def allows(self, value: object) -> bool:
        return isinstance(value, str) and bool(value)

    def describe(self) -> str:
        return "a word"


@dataclass(frozen=True)
class Callback:
    """A function."""

    def allows(self, value: object) -> bool:
        return callable(value)

    def describe(self) -> str:
        return "a function"


@dataclass(frozen=True)
class Seed:
    """Anything that scikit-learn takes for a `random_state`."""

    def allows(self, value: object) -> bool:
        generators = np.random.RandomState | np.random.Generator
        return value is None or isinstance(value, generators) or Number(0, whole=True).allows(value)

    def describe(self) -> str:
        return "None, a whole number >= 0 or a numpy random generator"


def check_parameters(owner: str, values: Mapping[str, object], table: Mapping[str, Sequence[Rule]]) -> None:
    """Raise `ValueError` for the first parameter that none of its rules allows.

    >>> check_parameters("LPPlusPlus", {"updates": -1}, {"updates": [Number(0, whole=True)]})
    Traceback (most recent call last):
        ...
    ValueError: LPPlusPlus: updates=-1 is not allowed; it must be a whole number >= 0.
    """
    for name, rules in table.items():
        value = values[name]
        if not any(rule.allows(value) for rule in rules):
            allowed = ", or ".join(rule.describe() for rule in rules)
            raise ValueError(f"{owner}: {name}={value!r} is not allowed; it must be {allowed}.")
