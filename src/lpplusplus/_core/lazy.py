"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801  (Used as a decorator, like `property`.)
    """`functools.cached_property` without its lock.

    Up to Python 3.11 all objects of a class share one lock. Then fits in threads wait for each other, and a process
    that is forked in the meantime waits for ever. Here, two threads that need an attribute at once both compute it.
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
        # The next time Python finds the value in the object and does not call this.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
