"""Embeddings with their labels, and what made them: what every part of the package hands to the next."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._core.files import canonical_json
from .._core.threads import lazy
from ..encoders.named_models import current_name
from .errors import shown

if TYPE_CHECKING:
    from ..encoders import Encoder
    from ..encoders.pixels.decoding import ImageError
    from .sources.image_set import Item

_Files = TypeVar("_Files", bound=Sequence[Any])

DIGEST = 8
"""Bytes of a digest. Of a million images and a million others, two have the same one by chance once in 20 million."""


LARGEST = 2**24
"""Largest number in an `Origin` of a file; with a larger one, numpy could not even make an empty array."""


@dataclass(frozen=True)
class Origin:
    """What made some embeddings. Embeddings of different encoders are never compared.

    Attributes
    ----------
    spec
        What the user called the encoder, such as "embedded". For people: two names may mean one encoder.
    fingerprint, preprocessing, dim
        As the encoder states them.
    decoding
        Version of the rules that turn a file into pixels (`pixels.decoding.CONVENTIONS`); 0 where it is not known.
    views
        0 for the centre crop of each image, else the number of random crops.
    """

    spec: str
    fingerprint: str
    preprocessing: str
    dim: int
    decoding: int = 0
    views: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", current_name(self.spec, self.fingerprint))

    @classmethod
    def of(cls, encoder: Encoder, views: int = 0) -> Origin:
        """The origin of what `encoder` makes."""
        from ..encoders.pixels.decoding import CONVENTIONS  # Needs Pillow, which reading embeddings does not.

        return cls(encoder.spec, encoder.fingerprint, encoder.preprocessing, int(encoder.dim), CONVENTIONS, int(views))

    @classmethod
    def read(cls, settings: dict[str, Any]) -> Origin:
        """The origin that a file states; ValueError or TypeError unless every setting is there and of its kind."""
        named = {"spec" if name == "encoder" else name: value for name, value in dict(settings).items()}
        origin, kinds = cls(**named), cls.__annotations__
        for name, value in asdict(origin).items():
            if type(value).__name__ != kinds[name] or (kinds[name] == "int" and not 0 <= value <= LARGEST):
                raise ValueError(f"{name} is {shown(value)}")
        return origin

    def settings(self) -> dict[str, Any]:
        """As the index of a store or of a Parquet data set has it; `read` reads it."""
        return {"encoder" if name == "spec" else name: value for name, value in asdict(self).items()}

    @property
    def shape(self) -> tuple[int, int]:
        """(V, D) of one image."""
        return max(1, self.views), self.dim

    @lazy
    def key(self) -> str:
        """Digest of everything that changes an embedding. Embeddings with different keys are never mixed."""
        parts = asdict(self)
        del parts["spec"]
        return hashlib.sha256(canonical_json(parts, compact=True).encode()).hexdigest()

    def comparable(self, other: Origin) -> bool:
        """Whether one encoder made both, whatever it was called; the number of views may differ."""
        mine, its = ((o.fingerprint, o.preprocessing, o.dim) for o in (self, other))
        return mine == its

    def __str__(self) -> str:
        return f"{self.spec} ({self.fingerprint[:12]}, {self.dim} dimensions)"


def share_of(files: _Files, share: tuple[int, int] | None) -> _Files:
    """Part k of n of a sequence, for `share` = (k, n); all of it for None.

    >>> share_of("abcde", (0, 2)), share_of("abcde", (1, 2)), share_of("abcde", None)
    ('ab', 'cde', 'abcde')
    """
    if share is None:
        return files
    part, parts = share
    return files[len(files) * part // parts : len(files) * (part + 1) // parts]  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of images, with everything that is known of them.

    Attributes
    ----------
    X : (n, V, D) float32
        V views of each image, as the encoder gives them, not normalised; V = 1 for the centre crop.
    labels : (n,) array or None
        Label of each image: strings, or positions in `classes` in the benchmark.
    paths : n strings
        Where the images are, for messages and tables.
    items : n files or Pillow images, or ()
        The images themselves, where they were embedded just now.
    classes, names : K strings
        All labels in order, and what prompts call them; there may be classes without an image.
    origin : Origin or None
        What made the embeddings; None for a file of arrays, where it is not known.
    text : (K, D) float32 or None
        Embeddings of the class names, if the source has them.
    hashes : (n, 32) uint8 or None
        SHA-256 of each file's bytes, or of the pixels of an image that is in no file.
    positions : (n,) or None
        Position of each image in the list that was embedded; the positions of skipped images are missing.
    skipped
        Images that were left out, and why.
    ignored
        Number of files that are no images.
    source
        Where they or their images came from, for messages.
    reused, computed
        How many embeddings were there already, in a feature store or of an equal image; and how many the encoder made.

    Examples
    --------
    >>> birds = Embeddings(np.eye(3, dtype=np.float32)[:, None], np.array(["robin", "wren", "robin"]))
    >>> len(birds), birds.rows.shape, birds.subset([0, 2]).labels.tolist()
    (3, (3, 3), ['robin', 'robin'])
    """

    X: NDArray[np.float32]
    labels: NDArray[Any] | None = None
    paths: Sequence[str] = ()
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    origin: Origin | None = None
    text: NDArray[np.float32] | None = None
    hashes: NDArray[np.uint8] | None = None
    positions: NDArray[np.intp] | None = None
    skipped: Sequence[ImageError] = ()
    ignored: int = 0
    reused: int = 0
    computed: int = 0
    items: Sequence[Item] = ()
    source: str = "the embeddings"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows(self) -> NDArray[np.float32]:
        """(n, D): the mean of each image's views."""
        mean: NDArray[np.float32] = self.X.mean(axis=1) if self.X.shape[1] > 1 else self.X[:, 0]
        return mean

    @property
    def views(self) -> int:
        """Random crops per image; 0 for the centre crop, or where the origin is not known."""
        return 0 if self.origin is None else self.origin.views

    def subset(self, rows: Any) -> Embeddings:
        """Some of the images, chosen as numpy chooses rows; all classes stay."""
        chosen = np.arange(len(self))[rows]
        per_image = {name: getattr(self, name) for name in ("X", "labels", "hashes", "positions")}
        parts: dict[str, Any] = {name: None if array is None else array[chosen] for name, array in per_image.items()}
        listed: dict[str, Any] = {
            name: [getattr(self, name)[row] for row in chosen] for name in ("paths", "items") if getattr(self, name)
        }
        return replace(self, **parts, **listed)

    def without(self, digests: Collection[bytes]) -> Embeddings:
        """The images whose digest is not among these."""
        return self.subset([row for row, digest in enumerate(self.digests()) if digest not in digests])

    def digests(self) -> list[bytes]:
        """`DIGEST` bytes that identify each image: a hash of its file, else of its embedding."""
        found = self.hashes if self.hashes is not None else [hashlib.sha256(row.tobytes()).digest() for row in self.X]
        return [bytes(one[:DIGEST]) for one in found]
