"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801  (Used as a decorator, like `property`.)
    """`functools.cached_property` without its lock.

    Up to Python 3.11 that lock is one for all objects of a class. Fits in threads then wait for each other, and a
    process that is forked meanwhile waits for ever. If two threads ask for one attribute at once, both compute it.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> lazy[Value] | Value:
        if instance is None:
            return self
        # The next time Python finds the value in the object and does not come here.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
