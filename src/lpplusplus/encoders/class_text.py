"""From class names to class embeddings, as CLIP does it: fill in templates, embed, average."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .base import Encoder, EncoderError

DEFAULT_TEMPLATE = "a photo of a {}."
"""The default: CLIP's own template."""
SUBJECTS: dict[str, tuple[str, ...]] = {
    subject: tuple(templates)
    for subject, templates in json.loads(Path(__file__).with_name("templates.json").read_text("utf-8")).items()
}
"""Ready sentences around class names, by what the images show: `-t @satellite` takes all of one subject."""
CLASSES_AT_ONCE = 512
"""Classes whose texts are embedded together, which bounds the memory."""


def check_templates(templates: str | Sequence[str]) -> tuple[str, ...]:
    """One or several templates as a tuple; refused unless each has `{}` exactly once, for the class name.

    "@pet" stands for the templates of that subject (`SUBJECTS`).

    Examples
    --------
    >>> check_templates("a photo of a {}, a type of bird.")
    ('a photo of a {}, a type of bird.',)
    >>> check_templates(["@pet", "a drawing of a {}."])[-2:]
    ('a photo of my {}.', 'a drawing of a {}.')
    """
    given = (templates,) if isinstance(templates, str) else tuple(templates)
    if not given:
        raise ValueError(f'templates is empty: give at least one, such as "{DEFAULT_TEMPLATE}"')
    checked: list[str] = []
    for template in given:
        if isinstance(template, str) and template.startswith("@"):
            if template[1:] not in SUBJECTS:
                known = ", ".join(f"@{name}" for name in SUBJECTS)
                raise ValueError(f"there are no templates {template!r}: there are {known}.")
            checked += SUBJECTS[template[1:]]
            continue
        if not isinstance(template, str) or template.count("{}") != 1:
            raise ValueError(
                f"template {template!r} must be text with {{}} exactly once, where the class name goes, "
                f'such as "{DEFAULT_TEMPLATE}"'
            )
        checked.append(template)
    return tuple(dict.fromkeys(checked))


def display_name(label: str) -> str:
    """A label as people write it.

    Examples
    --------
    >>> display_name("red_backed_shrike")
    'red backed shrike'
    """
    return unicodedata.normalize("NFC", label.replace("_", " ")).strip()


def fill(template: str, name: str) -> str:
    """The template with a class name in it; underscores in the name are spaces.

    Plain replacement: a name such as "{0.__class__}" is only text.

    Examples
    --------
    >>> fill("a photo of a {}.", "great_white_shark")
    'a photo of a great white shark.'
    """
    return template.replace("{}", name.replace("_", " "))


def class_texts(
    encoder: Encoder, names: Sequence[str], templates: str | Sequence[str] = DEFAULT_TEMPLATE
) -> NDArray[np.float32]:
    """Unit embeddings of classes, (K, dim): per class the mean over the templates.

    Raises
    ------
    EncoderError
        If the encoder gives a zero vector for a class.
    """
    checked = check_templates(templates)
    texts = np.empty((len(names), encoder.dim), np.float32)
    for some in _portions(names):
        total = sum(_prompt(encoder, names[some], template) for template in checked)
        texts[some] = _unit(np.asarray(total), names[some], encoder)
    return texts


def prompt_texts(encoder: Encoder, names: Sequence[str], templates: Sequence[str]) -> NDArray[np.float32]:
    """Unit embeddings of every template of every class, (templates, K, dim); raises as `class_texts`."""
    checked = check_templates(templates)
    texts = np.empty((len(checked), len(names), encoder.dim), np.float32)
    for some in _portions(names):
        for number, template in enumerate(checked):
            texts[number, some] = _prompt(encoder, names[some], template)
    return texts


def _portions(names: Sequence[str]) -> list[slice]:
    return [slice(first, first + CLASSES_AT_ONCE) for first in range(0, len(names), CLASSES_AT_ONCE)]


def _prompt(encoder: Encoder, names: Sequence[str], template: str) -> NDArray[np.float64]:
    return _unit(encoder.encode_texts([fill(template, name) for name in names]), names, encoder)


def _unit(rows: NDArray[np.floating], names: Sequence[str], encoder: Encoder) -> NDArray[np.float64]:
    wide = np.asarray(rows, np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = np.flatnonzero(~(norms[:, 0] > 0) | ~np.isfinite(norms[:, 0]))
    if bad.size:
        raise EncoderError(
            f"{encoder.spec} gives no usable embedding for class {names[bad[0]]!r}: change its name or the template."
        )
    unit: NDArray[np.float64] = wide / norms
    return unit
