"""What every encoder offers: embeddings of images and of texts in one space, and a fingerprint of its model.

An image is embedded in two steps, so that the first can run on other cores than the second. `prepare` turns one upright
RGB image into what the model takes; several threads may call it at once. `encode_prepared` embeds a batch of these.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import BriefError

if TYPE_CHECKING:
    from PIL import Image


class EncoderError(BriefError, RuntimeError):
    """An encoder cannot be opened or used; the message says which and what to do."""


class Cells(NamedTuple):
    """An embedding in parts, one for each cell of a grid over an image."""

    parts: NDArray[np.float64]
    """(h, w, dim); their sum is the embedding."""
    box: tuple[float, float, float, float]
    """Left, top, right and bottom of the grid, in pixels of the image."""


class Encoder(ABC):
    """An image tower and a text tower that share a space of `dim` dimensions."""

    spec: str
    """The name that opens it, such as "embedded" or "onnx:folder"."""
    dim: int
    """Length of an embedding."""
    fingerprint: str
    """Changes whenever the weights or the tokenizer do."""
    preprocessing: str
    """How `prepare` treats an image. The same text means the same treatment."""
    batch_size: int = 32
    """Images or texts that are embedded together."""
    one_by_one: bool = False
    """Whether a prepared image is best embedded alone, in the thread that prepared it: several threads may then call
    `encode_prepared` at once. True of small networks, whose layers are too short to be divided among threads."""

    has_cells: bool = False
    """Whether an embedding is a sum over the cells of the last map of its network."""

    @abstractmethod
    def prepare(self, image: "Image.Image", rng: np.random.Generator | None = None) -> Any:
        """One upright RGB image as `encode_prepared` takes it; with `rng`, a random crop of it."""

    @abstractmethod
    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Embeddings of prepared images, (n, dim), as the model gives them: not normalised."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of texts, (n, dim), as the model gives them: not normalised."""

    def cells(self, image: "Image.Image") -> Cells:
        """The embedding of an upright RGB image by parts of the image, if the encoder `has_cells`."""
        raise NotImplementedError

    def encode_images(self, images: "Sequence[Image.Image]") -> NDArray[np.float32]:
        """Embeddings of upright RGB images, (n, dim)."""
        return self._in_batches(images, lambda some: self.encode_prepared([self.prepare(image) for image in some]))

    def _in_batches(
        self, items: Sequence[Any], encode: Callable[[Sequence[Any]], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        parts = [encode(items[a : a + self.batch_size]) for a in range(0, len(items), self.batch_size)]
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)


class Access(Enum):
    """What opening an encoder may use. It depends on who named the encoder: see SECURITY.md."""

    LOCAL = "files of this machine only"
    NETWORK = "the network too, but not the user's key"
    KEY = "the user's key too"


class NetworkNeededError(EncoderError):
    """An encoder cannot be opened without the network; the message says what would be sent or fetched."""


FROM_HUB = "it is not on this machine and is fetched from the Hugging Face hub"


def check_local(path: str) -> None:
    """Refuse a path to another machine: opening a Windows share tells its server who the user is."""
    if path[:2].replace("\\", "/") == "//":  # Windows takes "/\\" too.
        raise NetworkNeededError(f"it is read from the network share {path!r}")


@dataclass(frozen=True)
class EncoderKind:
    """A kind of encoder, for people to choose from."""

    scheme: str
    """Form of its specs: the scheme in small letters, the user's part in capitals."""
    about: str
    """What it is good for, in a few words."""
    needs: str
    """The extra of this package that installs what it needs."""
    packages: tuple[str, ...]
    """Modules that it imports."""
    open: Callable[[str, Access], Encoder]
    """Opens the encoder of a spec; raises `NetworkNeededError` if it needs the network and may not use it."""
    size: int | None = None
    """Approximate size of its files in bytes; None if the user chooses the model."""
    here: Callable[[], bool | None] = lambda: None
    """Tells whether its files are on this machine; None if the user chooses the model."""

    @property
    def missing(self) -> list[str]:
        """Those of `packages` that are not installed; nothing is imported."""
        return [name for name in self.packages if find_spec(name) is None]

    @property
    def usable(self) -> bool:
        """Whether all its packages are installed."""
        return not self.missing

    def require(self) -> None:
        """Refuse, naming the extra to install, unless the kind is usable."""
        if not self.usable:
            needed = ", ".join(self.missing)
            raise EncoderError(f'encoder {self.scheme} needs {needed}: pip install "lpplusplus[{self.needs}]"')
