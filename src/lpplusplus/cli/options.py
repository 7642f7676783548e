"""Options that several commands have."""

import tempfile
from collections.abc import Sequence
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import warn

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError


class OnError(str, Enum):
    """What to do about an image that cannot be read."""

    stop = "stop"
    skip = "skip"


class Engine(str, Enum):
    """What does the work."""

    local = "local"
    ray = "ray"


def _schemes() -> list[str]:
    """What an encoder's name begins with."""
    from ..encoders import known_encoders

    return ["".join(kind.scheme.partition(":")[:2]) for kind in known_encoders()]


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Model = Annotated[Path, typer.Argument(help="A classifier that `lpp train` wrote.", show_default=False)]
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


On = Annotated[Engine, typer.Option("--engine", help="This machine, or a Ray cluster (extra `ray`).")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address", help="HOST:PORT of the cluster, or auto.", show_default="RAY_ADDRESS, else a new one here"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="With Ray: workers at most.", show_default="as many as there is room for"),
]
WorkerCpus = Annotated[int, typer.Option("--worker-cpus", min=1, help="With Ray: processors of each worker.")]
WorkerGpus = Annotated[float, typer.Option("--worker-gpus", min=0, help="With Ray: GPUs of each worker.")]
ByEngine = Annotated[
    OnError | None,
    typer.Option(
        "--on-error", help="What to do about an image that cannot be read.", show_default="stop; with Ray skip"
    ),
]


def need(extra: str, *packages: str) -> None:
    """Refuse, naming the extra of this package to install, unless all packages are there; none is imported."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ImportError(f'this needs {", ".join(missing)}: pip install "lpplusplus[{extra}]"')


def check_output(output: Path, inputs: Sequence[Path] = ()) -> None:
    """Refuse a file that cannot be written, or that is something else than a classifier."""
    from .._core.model_file import is_classifier
    from ..images.sources.folders import EXTENSIONS

    problem = None
    if output.is_dir():
        problem = f"{output} is a folder: name a file, such as {output / 'model.lpp'}."
    elif not output.parent.is_dir():
        problem = f"the folder {output.parent} does not exist: make it first."
    elif output.exists() and any(path.exists() and output.samefile(path) for path in inputs):
        problem = f"{output} is also an input: name another file, such as {output.with_suffix('.lpp')}."
    elif output.suffix.lower() in EXTENSIONS:
        problem = f"{output} is named like an image: name a file such as {output.with_suffix('.lpp')}."
    elif output.exists() and not is_classifier(output):
        problem = f"{output} is there already and is not a classifier: name another file, or remove it first."
    if problem is not None:
        raise typer.BadParameter(problem, param_hint="-o")
    check_writable(output.parent, "-o")


def check_report(report: Path, output: Path | None = None) -> None:
    """Refuse a file that cannot be written, or that is something else than a page of ours; such as `output`."""
    problem = None
    if output is not None and report.resolve() == output.resolve():
        problem = f"{report} is also the file for the classifier: name another."
    elif report.suffix.lower() not in (".html", ".htm"):
        problem = f"{report} does not end in .html: name a file such as {report.with_suffix('.html')}."
    elif not report.parent.is_dir():
        problem = f"the folder {report.parent} does not exist: make it first."
    elif report.exists() and not _is_report(report):
        problem = f"{report} is there already and is not a report: name another file, or remove it first."
    if problem is not None:
        raise typer.BadParameter(problem, param_hint="--report")
    check_writable(report.parent, "--report")


def _is_report(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return b'<meta name="generator" content="lpplusplus">' in file.read(1000)


def check_writable(folder: Path, option: str) -> None:
    """Refuse a folder where no file can be made: before the work, not after. If it is not there yet, ask its parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        if folder.is_dir():
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise typer.BadParameter(f"nothing can be written to {folder} ({error.strerror}).", param_hint=option) from None


def check_store(store: Path, source: Path, encoder: str | None, views: int, option: str) -> None:
    """Refuse a store inside the folder of images, one that cannot be written, or one of another encoder or views."""
    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..images.store import FeatureStore, StoreError, is_store

    if source.is_dir() and source.resolve() in store.resolve().parents:
        raise typer.BadParameter(
            f"{store} is in the folder of the images, where it would be taken for a class: name one outside.",
            param_hint=option,
        )
    check_writable(store, option)
    if not is_store(store):
        return
    try:
        held = FeatureStore(store).origin
    except StoreError:
        return  # Interrupted or damaged, which embedding repairs.
    if held.views != views or held.fingerprint != open_encoder(encoder or DEFAULT_ENCODER).fingerprint:
        raise typer.BadParameter(
            f"{store} holds embeddings by --encoder {held.spec} --views {held.views}: use these, name another "
            f"store, or remove it first.",
            param_hint=option,
        )


def report_left_aside(count: int, store: Path) -> None:
    """Warn that the store held embeddings of other images."""
    if count:
        warn(
            f"{store} held the embeddings of {count} other images, and none of these. They are kept in "
            f"{store / 'replaced'}, where embedding those images again finds them; give each list a store of its own."
        )


def refuse_stopping(on_error: OnError | None) -> None:
    """On a cluster nobody waits for one bad image."""
    if on_error is OnError.stop:
        raise typer.BadParameter("on a cluster bad images are always skipped and listed.", param_hint="--on-error")


def report_skipped(skipped: "Sequence[ImageError]") -> list[dict[str, Any]]:
    """Warn of each image that was left out, and return the same for JSON."""
    for problem in skipped:
        warn(f"skipped: {problem}")
    return [{"path": str(problem.path), "reason": problem.reason} for problem in skipped]
