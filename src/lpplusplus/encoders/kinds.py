"""How each encoder module describes its encoders, so that they can be listed and opened by name."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec

from .base import Encoder, EncoderError


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
