"""A cell of the benchmark: one method on one draw. What to run, on what data, and what came of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.files import canonical_json
from ..encoders import Encoder
from ..images.embeddings import Embeddings
from .checking import record
from .draws import Draw


@dataclass(frozen=True)
class Cell:
    """What to run. Its fields are columns of the results file.

    Attributes
    ----------
    dataset
        Name of the data set.
    encoder
        The encoder's spec, or the name of its features in a feature file.
    method
        Its name in the plan; tables have a row for each name.
    shots, seed
        Which draw.
    estimator
        Class of `lpplusplus`, such as "LPPlusPlus", or an import path with a digest of its file, "mypackage:Mine@3f…".
    parameters
        Parameters of the estimator.
    validation
        Whether the method is given the validation images.
    protocol
        How images are drawn: generator, validation images, policy for scarce classes. For a data set that the user
        describes, also a digest of that description.
    fingerprint
        Of the encoder's weights, or of the file of embeddings; "" if not known. Not a part of `key`: a cell is the same
        with other weights, but its old result does not count as done.
    """

    dataset: str
    encoder: str
    method: str
    shots: int
    seed: int
    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    validation: bool = True
    protocol: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def key(self) -> str:
        """SHA-256 of all other fields: what the results file calls this cell."""
        fields = {name: value for name, value in self.as_dict().items() if name != "fingerprint"}
        return hashlib.sha256(canonical_json(fields).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """The fields by their names in files, which call the encoder a backbone."""
        return {"backbone" if name == "encoder" else name: value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "Cell":
        """A cell from what `as_dict` returned."""
        fields = {"encoder" if name == "backbone" else name: value for name, value in saved.items()}
        return record(cls, fields, "cell")


@dataclass(frozen=True)
class Row:
    """The result of a cell."""

    cell: Cell
    status: str
    """"ok" or "failed"."""
    accuracy: float | None = None
    """On the test images, from 0 to 1."""
    calibration_error: float | None = None
    fit_seconds: float | None = None
    """Time of the fit with any search, on embeddings."""
    predict_seconds: float | None = None
    encode_seconds: float | None = None
    """Time for embedding the images of the data set; None if features came from a file."""
    peak_mib: float | None = None
    """Peak memory of the fit, minus what was in use before; None if the system does not tell."""
    selection: str = ""
    """What the method chose and on which data, such as "update by validation", or that it does not say."""
    chosen: float | None = None
    """The selected update, epoch or C."""
    parameter_count: int | None = None
    black_box: bool = True
    """Whether the method needs nothing but embeddings."""
    support_images: int = 0
    validation_images: int = 0
    test_images: int = 0
    draw: str = ""
    """SHA-256 of the draw."""
    curve: dict[str, list[float]] = field(default_factory=dict)
    """Columns of the fit's history."""
    versions: dict[str, str] = field(default_factory=dict)
    traceback: str = ""
    finished: float = 0.0
    """Seconds since 1970."""

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return vars(self) | {"cell": self.cell.as_dict()}


@dataclass(frozen=True)
class EmbeddedDataset:
    """The embeddings of all images that some draws need.

    Attributes
    ----------
    parts
        Embeddings by split, with `classes`, `names` and `text`. `labels` are positions in `classes`; `positions` are
        those of the images in their split, ascending.
    encode_seconds
        Time for embedding the images; None if features came from a file.
    columns
        For a shift, such as ImageNet-A: positions of its classes among its parent's. Every draw is then tested on all
        images of `parts["test"]`, which are the shift's; the other parts are the parent's.
    encoder
        Encoder for prompt learners; None to open it by its name in the cell.
    """

    parts: Mapping[str, Embeddings]
    encode_seconds: float | None = None
    columns: NDArray[np.intp] | None = None
    encoder: Encoder | None = None

    def task(self, draw: Draw) -> dict[str, Embeddings]:
        """The images of a draw: "support", "test" and, if there are any, "validation"."""
        found = {}
        for purpose, source in draw.sources.items():
            if purpose == "test" and self.columns is not None:
                found[purpose] = self.parts["test"]
            elif source != "none":
                part, wanted = self.parts["train" if source == "pool" else source], getattr(draw, purpose)
                assert part.positions is not None
                rows = np.searchsorted(part.positions, wanted)
                assert np.array_equal(part.positions[rows], wanted)
                found[purpose] = part.subset(rows)
        return found
