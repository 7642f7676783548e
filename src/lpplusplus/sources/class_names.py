"""What a class is called in a prompt. A label is an identifier, never a path and never a format string."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from os import PathLike
from pathlib import Path


class SourceError(ValueError):
    """Pictures or labels cannot be found or do not fit together; the message says where and what to do."""


def display_name(label: str) -> str:
    """A label as people write it.

    Examples
    --------
    >>> display_name("red_backed_shrike")
    'red backed shrike'
    """
    return unicodedata.normalize("NFC", label.replace("_", " ")).strip()


def read_class_names(path: str | PathLike[str]) -> dict[str, str]:
    """Class names from a text file, one a line, in the order that the classes shall have.

    A line is a class name, or a label, a tab and the name to show for it. Blank lines are passed over; nothing is a
    comment, since "#" may begin a name.

    Returns
    -------
    dict
        Display name of each label.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: class names cannot be read ({why}): expected a text file in UTF-8.") from error
    names: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        label, tab, name = line.partition("\t")
        label, name = label.strip(), name.strip()
        if not label or (tab and not name):
            raise SourceError(f"{path}, line {number}: expected a name, or a label, a tab and a name.")
        check_label(label, f"{path}, line {number}")
        if label in names:
            raise SourceError(f"{path}, line {number}: class {label!r} was named before; leave one line.")
        names[label] = name or display_name(label)
    if not names:
        raise SourceError(f"{path} has no class names: write one a line.")
    return displayed(names, str(path))


def check_label(label: str, where: str) -> None:
    """Raise for what cannot be a label: nothing, or characters that no file of ours can hold."""
    if not display_name(label):
        raise SourceError(f"{where}: {label!r} leaves no class name: use letters.")
    if "\0" in label:
        raise SourceError(f"{where}: label {label!r} has a null character.")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise SourceError(f"{where}: label {label!r} is not valid Unicode: rename it.") from None


def displayed(names: dict[str, str], origin: str) -> dict[str, str]:
    """`names` if no two labels are called the same, which no prompt could tell apart."""
    first: dict[str, str] = {}
    for label, name in names.items():
        check_label(label, origin)
        if name in first:
            raise SourceError(f"{origin}: classes {first[name]!r} and {label!r} are both called {name!r}: "
                              f"rename one.")  # fmt: skip
        first[name] = label
    return names


def listed(labels: Sequence[str], most: int = 5) -> str:
    """Some labels for a message."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(repr(label) for label in labels[:most]) + more
