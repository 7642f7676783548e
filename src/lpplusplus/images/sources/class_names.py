"""What a class is called in a prompt. A label is an identifier, never a path and never a format string."""

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from ..._core.files import open_regular
from ...encoders.class_text import display_name
from ..errors import SourceError, shown

_NUMBERED = re.compile(r"(\d+)([._ -])[._ -]*(?=[^\W\d_])")
"""A number, and then a word."""
_WORDNET = re.compile(r"^n\d{8}[._ -]+(?=[^\W_])")
"""The number that ImageNet and its relatives put before a name."""

LONGEST_LABEL = 500
"""Characters of a label: an array of labels takes as much memory per row as the longest one needs."""
LARGEST_LIST = 2**24
"""Characters of a file of class names."""


def read_class_names(path: str | PathLike[str]) -> dict[str, str]:
    """Class names from a text file, one per line, in the order of the classes.

    A line is a class name, or a label, a tab and the name to show for it. Blank lines are left out. There are no
    comments, since a name may begin with "#".

    Returns
    -------
    dict
        Display name of each label.
    """
    path = Path(path)
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:
            text = file.read(LARGEST_LIST + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: class names cannot be read ({why}): expected a text file in UTF-8.") from error
    if len(text) > LARGEST_LIST:
        raise SourceError(f"{path} has more than {LARGEST_LIST:,} characters: expected one class name per line.")
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
            raise SourceError(f"{path}, line {number}: class {shown(label)} was named before; leave one line.")
        names[label] = name or display_name(label)
    if not names:
        raise SourceError(f"{path} has no class names: write one per line.")
    check_names(names, str(path))
    return names


def prompt_names(labels: Sequence[str]) -> dict[str, str]:
    """Default names of labels in prompts: spaces for underscores, and no technical numbers.

    Technical numbers are a number in front ("001.", or 1 to K in K labels) and the WordNet number of ImageNet's
    folders. In labels with such a number or with underscores, words that merely begin with a capital get a small
    letter. Other numbers and capitals stay. If two labels would get the same name, both keep everything.

    Examples
    --------
    >>> list(prompt_names(["001.Black_footed_Albatross", "n01440764-tench", "Robin"]).values())
    ['black footed albatross', 'tench', 'Robin']
    >>> list(prompt_names(["747-400", "2012 Audi S4", "7_up"]).values())
    ['747-400', '2012 Audi S4', '7 up']
    >>> list(prompt_names(["1_cat", "2_dog"]).values()), list(prompt_names(["1_cat", "7_cat"]).values())
    (['cat', 'dog'], ['1 cat', '7 cat'])
    """
    numbers = [_NUMBERED.match(label) for label in labels]
    found = {int(match[1]) for match in numbers if match and len(match[1]) < 9}
    counted = found in (set(range(len(labels))), set(range(1, len(labels) + 1)))
    short = [_short_name(label, counted) for label in labels]
    twice = {name for name, times in Counter(short).items() if times > 1}
    return {
        label: display_name(label) if name in twice or not name else name
        for label, name in zip(labels, short, strict=True)
    }


def _short_name(label: str, counted: bool) -> str:
    match = _NUMBERED.match(label)
    rest = label[match.end() :] if match and (counted or match[1].startswith("0") or match[2] == ".") else label
    rest = _WORDNET.sub("", rest)
    name = display_name(rest)
    if rest == label and "_" not in label:
        return name
    plain = (word[1:].islower() and not any(letter.isdigit() for letter in word) for word in name.split(" "))
    return " ".join(word.lower() if small else word for word, small in zip(name.split(" "), plain, strict=True))


def check_label(label: str, where: str) -> None:
    """Raise for what cannot be a label: empty, too long, or with characters that our files cannot hold."""
    if not display_name(label):
        raise SourceError(f"{where}: {shown(label)} leaves no class name: use letters.")
    check_length(label, where)
    if "\0" in label:
        raise SourceError(f"{where}: label {shown(label)} has a null character.")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise SourceError(f"{where}: label {shown(label)} is not valid Unicode: rename it.") from None


def check_length(label: str, where: str) -> None:
    """Raise for a label that is too long."""
    if len(label) > LONGEST_LABEL:
        raise SourceError(f"{where}: label {shown(label)} has {len(label)} characters, more than {LONGEST_LABEL}.")


def check_names(names: Mapping[str, str], where: str) -> None:
    """Raise if two labels have the same display name, which no prompt could tell apart."""
    first: dict[str, str] = {}
    for label, name in names.items():
        check_label(label, where)
        if name in first:
            raise SourceError(
                f"{where}: classes {shown(first[name])} and {shown(label)} are both called {shown(name)}: rename one."
            )
        first[name] = label


def match_names(classes: Sequence[str], names: Mapping[str, str], where: str) -> dict[str, str]:
    """Display name of each label, for all of `classes`, in the order of `names`.

    Parameters
    ----------
    classes
        Labels.
    names
        As `read_class_names` gives them. An entry belongs to the class with the same label; "_" and spaces count as
        equal. Every class needs an entry; an entry without images is a class known by its name only.
    where
        Where the labels come from, for messages.
    """
    own = {display_name(label): label for label in classes}
    matched = {own.get(display_name(label), label): name for label, name in names.items()}
    if len(matched) < len(names):
        raise SourceError("the list of class names has two lines for one class, alike but for underscores.")
    unknown = [shown(label) for label in classes if label not in matched]
    if unknown:
        raise SourceError(
            f"{where} has {listed(unknown)}, which the list of class names does not have: add a line for each."
        )
    return matched


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names, for a message."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
