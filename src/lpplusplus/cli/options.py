"""Options that several commands have."""

from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

if TYPE_CHECKING:
    from ..images.classifier import ImageClassifier


class OnError(str, Enum):
    """What to do about an image that cannot be read."""

    stop = "stop"
    skip = "skip"


def _schemes() -> list[str]:
    """Beginnings of encoder names."""
    from ..encoders import known_encoders

    return ["".join(kind.scheme.partition(":")[:2]) for kind in known_encoders()]


ModelFile = Annotated[Path, Argument(help="A classifier that `lpp train` wrote.")]
NewModel = Annotated[Path, Option("--output", "-o", help="File for the classifier.")]
Errors = Annotated[OnError, Option("--on-error", help="What to do about an image that cannot be read.")]
AllowNetwork = Annotated[
    bool, Option("--allow-network", help="Let an encoder named by a file send images to a service, or be downloaded.")
]
Views = Annotated[int, Option(min=0, help="Embed this many random crops of each image instead of its centre.")]
Shots = Annotated[int | None, Option(min=1, help="Take this many images per class; by default all.")]
Seed = Annotated[int, Option(min=0, help="Which images --shots takes.")]
Store = Annotated[Path | None, Option(help="Keep the embeddings in this feature store.")]
ClassFile = Annotated[Path | None, Option("--classes", help="File of class names, one per line; or label, tab, name.")]
Spec = Annotated[
    str | None,
    Option(
        "--encoder",
        "-e",
        help="embedded, clip, clip-large, onnx:FOLDER-OR-ID, open_clip:ARCH/PRETRAINED or https://…",
        show_default="that of a feature store, else embedded",
        autocompletion=_schemes,
    ),
]
OtherSpec = Annotated[
    str | None,
    Option("--encoder", "-e", help="Where the encoder is, if it has moved since training.", autocompletion=_schemes),
]
Report = Annotated[Path | None, Option(help="Write a page (.html) that shows the mistakes and their photos.")]
Host = Annotated[str, Option(help="Address to listen on; 0.0.0.0 for all networks.")]
Port = Annotated[int, Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 for any.")]
MaxImage = Annotated[int, Option("--max-image", min=1, help="Largest image, in MB.")]


def open_model(
    model: Path, encoder: str | None, allow_network: bool, on_error: OnError = OnError.stop
) -> "ImageClassifier":
    """A saved classifier."""
    from ..images.classifier import ImageClassifier

    return ImageClassifier.load(model, encoder=encoder, on_error=on_error.value, allow_network=allow_network)


def need(extra: str, *packages: str) -> None:
    """Refuse, naming the extra of this package to install, unless all packages are there; none is imported."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ImportError(f'this needs {", ".join(missing)}: pip install "lpplusplus[{extra}]"')
