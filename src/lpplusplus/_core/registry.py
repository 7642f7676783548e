"""The package's own methods by name."""

import sys
from typing import Any


def method(name: Any) -> Any:
    """The classifier that the package exports under this name, or None.

    The list is `lpplusplus/__init__.pyi`. The methods are found by name, because this package must not import them.

    >>> import lpplusplus
    >>> method("ZeroShot") is lpplusplus.ZeroShot
    True
    >>> method("load") is None
    True
    """
    package = sys.modules[__name__.partition(".")[0]]
    kind = getattr(package, name) if name in package.__all__ else None
    return kind if isinstance(kind, type) and hasattr(kind, "_fit_task") else None
