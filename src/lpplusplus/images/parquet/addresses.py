"""Places in the file systems that pyarrow and fsspec know: local paths, `file://`, `s3://`, `gs://` and so on.

An address may hold a password. `masked` is what messages, logs and files may show of it.
"""

import os
import re
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from ..errors import SourceError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?=[^/]|/[^/]|$)")
"""Two letters or more: `C:/` is a folder. One slash is enough, since `pathlib` removes one of the two."""
_ARROW = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""Schemes for which pyarrow has its own file systems."""
_HARMLESS = ("region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion")
"""Parameters of an address that are not secret, unless they contain a password themselves."""


def is_address(place: str | PathLike[str]) -> bool:
    """Whether this names a place by its file system, as `s3://bucket/photos` does.

    >>> is_address("s3://bucket/photos"), is_address("photos/"), is_address("C:/photos")
    (True, False, False)
    """
    text = os.fspath(place)
    found = _SCHEME.match(text)
    return found is not None and (text[found.end(1) :].startswith("://") or not Path(text).exists())


def spelled(place: str | PathLike[str]) -> str:
    """An address with both of its slashes (`pathlib` removes one); any other path unchanged.

    >>> spelled("s3:/bucket/photos")
    's3://bucket/photos'
    """
    text = os.fspath(place)
    if not is_address(text):
        return text
    scheme, _, rest = text.partition(":")
    rest = re.sub(r"=(https?):/(?=[^/])", r"=\1://", rest)  # In a parameter, too.
    return f"{scheme.lower()}://{'/' if scheme.lower() == 'file' else ''}{rest.lstrip('/')}"


def masked(place: str | PathLike[str]) -> str:
    """An address with everything replaced that may be secret.

    >>> masked("s3://key:secret@bucket/photos?endpoint_override=127.0.0.1:9000&token=t")
    's3://***@bucket/photos?endpoint_override=127.0.0.1:9000&token=***'
    """
    text = spelled(place)
    if not is_address(text):
        return text
    parts = urlsplit(text)
    _, at, host = parts.netloc.rpartition("@")
    pairs = [(key, value if key in _HARMLESS and "@" not in value else "***") for key, value in parse_qsl(parts.query)]
    query = urlencode(pairs, safe="*:/")
    return urlunsplit((parts.scheme, f"***@{host}" if at else parts.netloc, parts.path, query, ""))


def secrets_of(place: str | PathLike[str]) -> list[str]:
    """All texts in an address that must not be shown, the longest first."""
    text = spelled(place)
    if not is_address(text):
        return []
    parts = urlsplit(text)
    user = parts.netloc.rpartition("@")[0]
    hidden = [user, *user.split(":"), *(v for k, v in parse_qsl(parts.query) if k not in _HARMLESS or "@" in v)]
    return sorted({one for text in hidden for one in (text, unquote(text)) if one}, key=len, reverse=True)


def without_secrets(message: str, *places: str | PathLike[str]) -> str:
    """A message of another library, with the secrets of these addresses masked."""
    for place in places:
        message = message.replace(spelled(place), masked(place))
        for secret in secrets_of(place):
            message = message.replace(secret, "***")
    return message


def open_place(place: str | PathLike[str]) -> tuple[Any, str]:
    """The pyarrow file system of a path or an address, and the path in it.

    Raises
    ------
    SourceError
        It cannot be reached; no message has a password.
    """
    arrow_fs = need_pyarrow("fs")
    text = spelled(place)
    if not is_address(text):
        return arrow_fs.LocalFileSystem(), os.path.abspath(text)
    try:
        system, path = _file_system(text)
    except ImportError as error:
        raise SourceError(f"{masked(text)} needs a package that is not installed ({error}).") from None
    except Exception as error:  # Every file system raises its own.
        raise SourceError(f"{masked(text)} cannot be reached ({without_secrets(str(error), text)}).") from None
    return system, path.rstrip("/")


@cache
def _file_system(text: str) -> tuple[Any, str]:
    arrow_fs = need_pyarrow("fs")
    if text.partition(":")[0] in _ARROW:
        found: tuple[Any, str] = arrow_fs.FileSystem.from_uri(text)
        return found
    import fsspec

    system, path = fsspec.core.url_to_fs(text)
    return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(system)), path


def shown_in(place: str | PathLike[str], path: str) -> str:
    """What messages and tables call a path in the file system of `place`: without user, password and parameters."""
    text = spelled(place)
    if not is_address(text):
        return path
    scheme = text.partition(":")[0]
    return f"{scheme}://{path}"


def need_pyarrow(module: str) -> Any:
    """A module of pyarrow, or the extra to install."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError('this needs pyarrow: pip install "lpplusplus[parquet]"') from None
    from importlib import import_module

    return import_module(f"pyarrow.{module}")
