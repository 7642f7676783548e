"""A cell of the benchmark: a complete description of one method on one task."""

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

from .._core.files import canonical_json


@dataclass(frozen=True)
class Cell:
    """What to run. Its fields are columns of the results file.

    Attributes
    ----------
    dataset
        Name of the data set.
    backbone
        The encoder's spec, or the name of its features in a feature file.
    method
        Its name in the plan; tables have a row for each name.
    shots, seed
        Which task.
    estimator
        Class of `lpplusplus`, such as "LPPlusPlus", or an import path with a digest of its file, "mypackage:Mine@3f…".
    parameters
        Parameters of the estimator.
    validation
        Whether the method is given the validation images.
    protocol
        How tasks are drawn: generator, validation images, policy for scarce classes. For a data set that the user
        describes, also a digest of that description.
    """

    dataset: str
    backbone: str
    method: str
    shots: int
    seed: int
    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    validation: bool = True
    protocol: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """SHA-256 of all fields: what the results file calls this cell."""
        return hashlib.sha256(canonical_json(asdict(self)).encode()).hexdigest()
