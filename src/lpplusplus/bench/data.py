"""A data set as one encoder sees it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..encoders import Encoder
from ..images.embeddings import Embeddings
from .draws import Draw


@dataclass(frozen=True)
class EmbeddedDataset:
    """The embeddings of all images that some tasks need.

    Attributes
    ----------
    parts
        Embeddings by split, with `classes`, `names` and `text`. `labels` are positions in `classes`; `positions` are
        those of the images in their split, ascending.
    encode_seconds
        Time for embedding the images; None if features came from a file.
    columns
        For a shift, such as ImageNet-A: positions of its classes among its parent's. Every task is then tested on all
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
