"""Photos in, a trained and saved classifier out, with any encoder."""

from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _attribute(name)
    except ModuleNotFoundError as error:
        remedy = f'{name} needs {error.name}, which is not installed: pip install "lpplusplus[images]"'
        raise ModuleNotFoundError(remedy, name=error.name) from error
