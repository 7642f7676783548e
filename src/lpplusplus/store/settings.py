"""All that an embedding depends on, besides the picture."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any


def canonical(value: Any) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Settings:
    """What made the embeddings of a store.

    Attributes
    ----------
    encoder
        What the user called it, such as "embedded"; for people, not a part of `key`.
    fingerprint, preprocessing, dim
        As the encoder states them.
    decoding
        Number of the rules in `pixels.decoding`.
    views
        0 for the centre crop, else how many random crops of each picture.
    """

    encoder: str
    fingerprint: str
    preprocessing: str
    dim: int
    decoding: int = 1
    views: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(V, D) of one picture."""
        return max(1, self.views), self.dim

    @cached_property
    def key(self) -> str:
        """Digest of all that changes an embedding."""
        parts = asdict(self)
        del parts["encoder"]
        return hashlib.sha256(canonical(parts).encode()).hexdigest()
