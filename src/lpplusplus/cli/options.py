"""Options that several commands have."""

from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..cluster.connection import Slots
    from ..images.classifier import ImageClassifier


class OnError(str, Enum):
    """What to do about an image that cannot be read."""

    stop = "stop"
    skip = "skip"


class Engine(str, Enum):
    """What does the work."""

    local = "local"
    ray = "ray"


def _schemes() -> list[str]:
    """Beginnings of encoder names."""
    from ..encoders import known_encoders

    return ["".join(kind.scheme.partition(":")[:2]) for kind in known_encoders()]


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ModelFile = Annotated[Path, typer.Argument(help="A classifier that `lpp train` wrote.", show_default=False)]
NewModel = Annotated[Path, typer.Option("--output", "-o", help="File for the classifier.", show_default=False)]
Errors = Annotated[OnError, typer.Option("--on-error", help="What to do about an image that cannot be read.")]
AllowNetwork = Annotated[
    bool,
    typer.Option(
        "--allow-network",
        help="Let the encoder that a model or feature store names send images to a service, or be downloaded.",
    ),
]
Views = Annotated[
    int, typer.Option("--views", min=0, help="Embed this many random crops of each image instead of its centre.")
]
Shots = Annotated[int | None, typer.Option("--shots", min=1, help="Take this many images per class; by default all.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Which images --shots takes.")]
Store = Annotated[Path | None, typer.Option("--store", help="Keep the embeddings in this feature store.")]
ClassFile = Annotated[
    Path | None, typer.Option("--classes", help="File with class names, one per line; or label, tab, name.")
]
Spec = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        "-e",
        help="embedded, clip, clip-large, onnx:FOLDER-OR-ID, open_clip:ARCH/PRETRAINED or https://…",
        show_default="that of a feature store, else embedded",
        autocompletion=_schemes,
    ),
]
OtherSpec = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        "-e",
        help="Where the encoder is, if it has moved since training.",
        autocompletion=_schemes,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Write a page (.html) with the mistakes and their photos, to open in a browser."),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all networks.")]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 for any.")]
MaxImage = Annotated[int, typer.Option("--max-image", min=1, help="Largest image, in MB.")]
ByEngine = Annotated[
    OnError | None,
    typer.Option(
        "--on-error", help="What to do about an image that cannot be read.", show_default="stop; with Ray skip"
    ),
]
EngineOption = Annotated[Engine, typer.Option("--engine", help="This machine, or a Ray cluster (extra `ray`).")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address", help="HOST:PORT of the cluster, or auto.", show_default="RAY_ADDRESS, else a new one here"
    ),
]


@dataclass(frozen=True)
class EncoderOptions:
    """Options of commands that open a saved classifier; a command with a parameter of this class has them all."""

    encoder: OtherSpec = None
    allow_network: AllowNetwork = False

    def open(self, model: Path, on_error: OnError = OnError.stop) -> "ImageClassifier":
        """The classifier."""
        from ..images.classifier import ImageClassifier

        return ImageClassifier.load(
            model, encoder=self.encoder, on_error=on_error.value, allow_network=self.allow_network
        )


AS_TRAINED = EncoderOptions()
"""The encoder where it was, and no network."""


@dataclass(frozen=True)
class RayOptions:
    """Options of commands that can run on a cluster; a command with a parameter of this class has them all."""

    engine: EngineOption = Engine.local
    ray_address: RayAddress = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="With Ray: workers at most.", show_default="as many as there is room for"
        ),
    ] = None
    worker_cpus: Annotated[int, typer.Option("--worker-cpus", min=1, help="With Ray: processors of each worker.")] = 1
    worker_gpus: Annotated[float, typer.Option("--worker-gpus", min=0, help="With Ray: GPUs of each worker.")] = 0

    def slots(self, on_error: OnError | None) -> "Slots":
        """What workers ask for. On a cluster, bad images are always skipped."""
        from ..cluster.connection import Slots

        if on_error is OnError.stop:
            raise typer.BadParameter("on a cluster bad images are always skipped and listed.", param_hint="--on-error")
        return Slots(self.worker_cpus, self.worker_gpus, self.workers)


LOCAL = RayOptions()
"""On this machine."""


def need(extra: str, *packages: str) -> None:
    """Refuse, naming the extra of this package to install, unless all packages are there; none is imported."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ImportError(f'this needs {", ".join(missing)}: pip install "lpplusplus[{extra}]"')
