"""Places in the file systems that pyarrow and fsspec know: local paths, `file://`, `s3://`, `gs://` and so on.

No address holds a password: `spelled` refuses it. Keys come from the environment variables of each service.
"""

import os
import re
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..errors import SourceError, shown

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?=[^/]|/[^/]|$)")
"""Two letters or more: `C:/` is a folder. One slash is enough, since `pathlib` removes one of the two."""
_ARROW = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""Schemes for which pyarrow has its own file systems."""
_HARMLESS = ("region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion", "anonymous")
"""Parameters of an address that are not secret, unless they contain a password themselves."""
_NAMED = ("hdfs", "viewfs", "abfs", "abfss", "ssh", "sftp")
"""Schemes that name a user or a container before "@"; no password."""
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS",
    "abfs": "AZURE_STORAGE_KEY",
    "abfss": "AZURE_STORAGE_KEY",
}
_OTHERS = "the environment variables of that service's client"


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

    Raises
    ------
    SourceError
        The address holds a password or what may be one: addresses get into messages, files and lists of processes.

    Examples
    --------
    >>> spelled("s3:/bucket/photos")
    's3://bucket/photos'
    """
    text = os.fspath(place)
    if not is_address(text):
        return text
    scheme, _, rest = text.partition(":")
    scheme = scheme.lower()
    rest = re.sub(r"=(https?):/(?=[^/])", r"=\1://", rest)  # In a parameter, too.
    whole = f"{scheme}://{'/' if scheme == 'file' else ''}{rest.lstrip('/')}"
    parts = urlsplit(whole)
    secret = "a user or password" if "@" in parts.netloc and scheme not in _NAMED else ""
    if ":" in parts.netloc.rpartition("@")[0]:
        secret = "a password"
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _HARMLESS or "@" in value:
            secret = f"a parameter {shown(name)}, which may be a key"
    if secret:
        raise SourceError(
            f"an address of {scheme}:// has {secret}: leave it out, and set {_VARIABLES.get(scheme, _OTHERS)} instead."
        )
    return whole


def open_place(place: str | PathLike[str]) -> tuple[Any, str]:
    """The pyarrow file system of a path or an address, and the path in it.

    Raises
    ------
    SourceError
        It cannot be reached.
    """
    arrow_fs = need_pyarrow("fs")
    text = spelled(place)
    if not is_address(text):
        return arrow_fs.LocalFileSystem(), os.path.abspath(text)
    try:
        system, path = _file_system(text)
    except ImportError as error:
        raise SourceError(f"{text} needs a package that is not installed ({error}).") from None
    except Exception as error:  # Every file system raises its own.
        raise SourceError(f"{text} cannot be reached ({shown(str(error))}).") from None
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
