"""Published figures, to compare ours with. They are in `published.json`.

All accuracies are in percent, with OpenAI's CLIP RN50. The paper calls its ± a standard deviation; its code computes
1.96 std/√10, the half width of a 95 % interval, and the ± of its averages is the root mean square of the sets' ±.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from .cell import Cell
from .sampling import GENERATOR

_CONTENT: dict[str, Any] = json.loads(files(__package__).joinpath("published.json").read_text(encoding="utf-8"))

ERRATA: list[dict[str, Any]] = _CONTENT["errata"]
"""Figures of the paper that cannot be right, or do not follow from its others: `method`, `dataset`, `shots`, `what`;
also `field` ("mean" or "deviation") and `recomputed`, where it can be recomputed from the sets."""

AVERAGE = "average"
"""Instead of a data set: the mean over the paper's eleven."""

DEVIATION_REMARK: str = _CONTENT["sources"]["paper"]["deviation"]
"""Explains the ± of the published tables."""

COST_REMARK: str = _CONTENT["cost"]["note"]
"""Explains the times of the published tables."""

RANDOM_START: tuple[float, float] = tuple(_CONTENT["random_start_accuracy"])
"""Published accuracies of a random start before any update: lowest and highest over the numbers of shots."""

DATASETS = tuple(name for name in _CONTENT["sources"]["paper"]["accuracy"]["LP++"] if name != AVERAGE)
"""The paper's data sets, in its order."""


_NAMES: dict[str, dict[str, str]] = _CONTENT["names"]

MAIN = _NAMES["main"]
"""Methods of the comparison, as plans name them, and the names of their published figures."""

STANDARD_LOSS = ", standard loss"
OPTIMISERS = _NAMES["optimisers"]
"""Rows of the table of optimisers; with `STANDARD_LOSS` at the end of their name, on the loss without text."""

STARTS = _NAMES["starts"]
"""Rows of the table of starts: classifiers before any update. "Tip-Adapter" is the one with α = β = 1."""

CYCLES = _NAMES["cycles"]
"""Rows of the table of block cycles: steps on W and on α in turn, or on both at once."""

_STANDARD = {name + STANDARD_LOSS: known + STANDARD_LOSS for name, known in OPTIMISERS.items()}
METHODS = {**CYCLES, **STARTS, **OPTIMISERS, **_STANDARD, **MAIN}
"""All names of methods with published figures."""
ABLATIONS = {*CYCLES, *STARTS, *OPTIMISERS, *_STANDARD}
"""Names of methods that belong to an ablation, unless they are in `MAIN`, too."""


@dataclass(frozen=True)
class Published:
    """A published figure, in percent."""

    mean: float
    deviation: float | None
    """Half width of a 95 % interval (for averages, the root mean square over the sets); None if not given."""


def canonical_method(name: str) -> str | None:
    """The name under which a plan's method is published; None for a method without published figures.

    >>> canonical_method("LP++ (default)"), canonical_method("tip-adapter-f*"), canonical_method("Mine")
    ('LP++', 'Tip-Adapter-F*', None)
    """
    return _methods().get(_plain(name))


def canonical_dataset(name: str) -> str | None:
    """The paper's name of a data set; None for one that the paper does not have.

    >>> canonical_dataset("oxford_pets"), canonical_dataset("Stanford Cars"), canonical_dataset("WHU-RS19")
    ('OxfordPets', 'StanfordCars', None)
    """
    squeezed = re.sub(r"[\W_]+", "", name.casefold())
    return {one.casefold(): one for one in DATASETS}.get(squeezed, _NAMES["dataset_aliases"].get(squeezed))


def is_papers(cell: Cell) -> bool:
    """Whether a cell may stand beside a published figure: the paper's encoder, protocol and own data, a method of ours.

    Names alone do not say that: a data set of the user's own may be called "dtd", and any file of embeddings "RN50".

    >>> from dataclasses import replace
    >>> paper = {"validation": "paper", "generator": "lpplusplus-1", "views": 0}
    >>> ours = Cell("dtd", "open_clip:RN50/openai", "LP++ (paper)", 4, 1, "LPPlusPlus", protocol=paper)
    >>> is_papers(ours), is_papers(replace(ours, encoder="RN50")), is_papers(replace(ours, estimator="mine:Probe@1"))
    (True, False, False)
    >>> is_papers(replace(ours, protocol=paper | {"data": "0a1b"})), is_papers(replace(ours, protocol={}))
    (False, False)
    """
    same_data = "data" not in cell.protocol and canonical_dataset(cell.dataset) is not None
    same_protocol = cell.protocol.get("validation") == "paper" and cell.protocol.get("generator") == GENERATOR
    return same_data and same_protocol and cell.encoder in _CONTENT["encoders"] and ":" not in cell.estimator


def published(method: str, dataset: str, shots: int) -> Published | None:
    """The published figure of a method on a data set, or on "average"; None where there is none.

    >>> published("LP++", "EuroSAT", 1)
    Published(mean=57.23, deviation=1.63)
    >>> published("LP++ (default)", "average", 16).mean
    74.42
    """
    accuracy = _CONTENT["sources"]["paper"]["accuracy"]
    known = method if method in accuracy else canonical_method(method)
    name = AVERAGE if dataset == AVERAGE else canonical_dataset(dataset)
    cells = accuracy.get(known, {}).get(name, {})
    found = cells.get(str(shots), cells.get("any"))
    return None if found is None else Published(*found)


def published_average(method: str, datasets: Sequence[str], shots: int) -> Published | None:
    """The published average over these data sets; None unless each has a figure.

    Over all eleven it is the printed average; over fewer, the mean of the sets' means and the root mean square of
    their ±.

    >>> published_average("LP++", ["DTD", "EuroSAT"], 1)
    Published(mean=52.1, deviation=1.51)
    """
    names = {canonical_dataset(name) for name in datasets}
    if names == {*DATASETS}:
        return published(method, AVERAGE, shots)
    found = [published(method, name, shots) for name in datasets]
    cells = [cell for cell in found if cell is not None]
    if not cells or len(cells) < len(found) or len(names) < len(found):
        return None
    deviations = [cell.deviation for cell in cells if cell.deviation is not None]
    deviation = round(float(np.sqrt(np.mean(np.square(deviations)))), 2) if len(deviations) == len(cells) else None
    return Published(round(float(np.mean([cell.mean for cell in cells])), 2), deviation)


def published_initial_loss(method: str, shots: int) -> Any:
    """The published loss before any update, mean over the eleven; None where there is none."""
    return _CONTENT["initial_loss"].get(canonical_method(method), {}).get(str(shots))


def published_seconds(method: str) -> Any:
    """The published time of the table of optimisers: one fit, mean over the eleven; None where there is none."""
    return _CONTENT["optimiser_seconds"].get((canonical_method(method) or "").removesuffix(STANDARD_LOSS))


def published_cost(method: str) -> dict[str, Any]:
    """The published `time` (as printed) and `seconds` on 16-shot ImageNet, and what is `trained`; empty if unknown."""
    return dict(_CONTENT["cost"]["methods"].get(canonical_method(method), {}))


def _plain(name: str) -> str:
    return re.sub(r"\s+", "", name.replace("α", "alpha").casefold())


@cache
def _methods() -> dict[str, str]:
    return {_plain(name): known for name, known in {**{known: known for known in METHODS.values()}, **METHODS}.items()}
