"""One check of what comes from JSON and TOML files, by type hints: of plans, catalogs, draws and results."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


def check(value: Any, kind: Any, where: str, error: type[Exception] = ValueError) -> Any:
    """The value as `kind` says, a list as a tuple if it says so. Else raises `error`, which names the place.

    `kind` is a type hint. In `Annotated`, a number is a lower bound and a function is a rule, which gets the value and
    the place, and raises ValueError. Types that JSON does not have are passed over.

    >>> check([1, 2], tuple[Annotated[int, 1], ...], "plan.toml: shots")
    (1, 2)
    >>> check([1, 0], tuple[Annotated[int, 1], ...], "plan.toml: shots")
    Traceback (most recent call last):
    ValueError: plan.toml: shots must be a list of a whole number from 1, got [1, 0].
    """
    if not _fits(value, kind):
        raise error(f"{where} must be {_words(kind)}, got {value!r}.")
    try:
        return _ruled(value, kind, where)
    except ValueError as problem:
        raise problem if isinstance(problem, error) else error(str(problem)) from problem


def record(kind: type[_T], content: Any, where: str, error: type[Exception] = ValueError, *, more: bool = False) -> _T:
    """An instance of a dataclass from a mapping with its fields; with `more`, other keys are passed over."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(content, Mapping):
        raise error(f"{where}: expected a table with {', '.join(known)}, found {content!r}.")
    unknown = [] if more else [key for key in content if key not in known]
    lacking = [name for name, field in known.items()
               if name not in content and field.default is MISSING and field.default_factory is MISSING]  # fmt: skip
    if unknown or lacking:
        what = f"unknown key {unknown[0]!r}" if unknown else f"the key {lacking[0]!r} is missing"
        raise error(f"{where}: {what}; expected {', '.join(known)}.")
    hints = _hints(kind)  # type: ignore[arg-type]
    return kind(
        **{name: check(content[name], hints[name], f"{where}: {name}", error) for name in known if name in content}
    )


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _ruled(value: Any, kind: Any, where: str) -> Any:
    """The value, with every rule in its kind obeyed, and lists as tuples where it says so."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        value = _ruled(value, inner[0], where)
        for rule in filter(callable, inner[1:]):
            rule(value, where)
    elif origin is tuple:
        return tuple(_ruled(one, inner[0], where) for one in value)
    elif origin in (dict, Mapping):
        return {key: _ruled(one, inner[1], where) for key, one in value.items()}
    return value


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _fits(value, inner[0]) and all(callable(bound) or value >= bound for bound in inner[1:])
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin in (tuple, list):
        return isinstance(value, list | tuple) and all(_fits(one, inner[0]) for one in value)
    if origin in (dict, Mapping) or kind is dict:
        return isinstance(value, Mapping) and (not inner or all(_fits(one, inner[1]) for one in value.values()))
    return _is_plain(value, kind)


def _is_plain(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is float:
        return type(value) in (int, float) and abs(value) < 1e300  # Not NaN either; of any number of digits.
    return (kind not in _WORDS and kind is not type(None)) or type(value) is kind


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _words(inner[0]) + "".join(f" from {bound}" for bound in inner[1:] if not callable(bound))
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    if origin in (Union, UnionType):
        return " or ".join(_words(one) for one in inner if one is not type(None))
    if origin in (tuple, list):
        return f"a list of {_words(inner[0])}"
    return "a table" if origin in (dict, Mapping) else _WORDS.get(kind, str(kind))
