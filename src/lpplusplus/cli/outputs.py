"""Checks of files and folders that a command writes, made before the work and not after it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .console import bar, say

if TYPE_CHECKING:
    from ..images.classifier import ImageClassifier

PAGES = (".html", ".htm")


def check_model(output: Path, inputs: Sequence[Path] = ()) -> None:
    """Refuse an output file that is also an input, or that exists and is not a classifier."""
    from ..images.sources.folders import EXTENSIONS

    problem = None
    if output.is_dir():
        problem = f"{output} is a folder: name a file, such as {output / 'model.lpp'}."
    elif output.exists() and any(path.exists() and output.samefile(path) for path in inputs):
        problem = f"{output} is also an input: name another file, such as {output.with_suffix('.lpp')}."
    elif output.suffix.lower() in EXTENSIONS:
        problem = f"{output} is named like an image: name a file such as {output.with_suffix('.lpp')}."
    _refuse(problem, "-o")
    check_file(output, "-o", "a classifier")


def check_report(report: Path | None, output: Path | None = None) -> None:
    """Refuse a file for a report that exists and is not one, or that is `output`."""
    if report is None:
        return
    if output is not None and report.resolve() == output.resolve():
        _refuse(f"{report} is also the file for the classifier: name another.", "--report")
    check_file(report, "--report", "a report", PAGES)


def make_report(clf: "ImageClassifier", report: Path | None, found: Any = None) -> None:
    """Write the page, if there is to be one: about the training, or about `found`."""
    if report is not None:
        with bar("Making the report") as progress:
            clf.report(report, found, progress=progress)


def tell_report(report: Path | None) -> None:
    """Say where the page is, if there is one."""
    if report is not None:
        say("written: [bold]{}[/]; open it in a browser", report)


def check_file(path: Path, option: str, what: str, endings: Sequence[str] = (), remedy: str = "") -> None:
    """Refuse a file that has another ending, cannot be written, or exists and is not `what`, a key of `KINDS`."""
    problem = None
    if endings and path.suffix.lower() not in endings:
        problem = f"{path} does not end in {endings[0]}: name a file such as {path.with_suffix(endings[0])}."
    elif not path.parent.is_dir():
        problem = f"the folder {path.parent} does not exist: make it first."
    _refuse(problem, option)
    check_replaced(path, option, what, remedy)
    check_writable(path.parent, option)


def check_replaced(path: Path, option: str, what: str, remedy: str = "") -> None:
    """Refuse a file that exists and is not `what`."""
    if not may_replace(path, what):
        remedy = remedy or "name another file, or remove it first"
        _refuse(f"{path} is there already and is not {what} as lpp writes it: {remedy}.", option)


def may_replace(path: Path, what: str) -> bool:
    """Whether a command that writes `what`, a key of `KINDS`, may write here: nothing is there, or the same kind is.

    Every command that replaces a file asks this.
    """
    from .kinds import KINDS

    if not path.exists():
        return not path.is_symlink()  # A link to nothing is somebody's, too.
    return path.is_file() and KINDS[what](path)


def check_new_folder(folder: Path, option: str) -> None:
    """Refuse a folder that exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        _refuse(f"{folder} is there already, and not empty: name a new or empty folder.", option)


def check_writable(folder: Path, option: str) -> None:
    """Refuse a folder where no file can be created. If it does not exist, check its parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        if folder.is_dir():
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        _refuse(f"nothing can be written to {folder} ({error.strerror}).", option)


def check_store(store: Path, source: Path, encoder: str | None, views: int, option: str) -> None:
    """Refuse a store inside the folder of images, one that cannot be written, or one of another encoder or views."""
    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..images.store import FeatureStore, StoreError, is_store

    if source.is_dir() and source.resolve() in store.resolve().parents:
        _refuse(
            f"{store} is in the folder of the images, where it would be taken for a class: name one outside.", option
        )
    check_writable(store, option)
    if not is_store(store):
        return
    try:
        held = FeatureStore(store).origin
    except StoreError:
        return  # It is incomplete or damaged; embedding repairs it.
    if held.views != views or held.fingerprint != open_encoder(encoder or DEFAULT_ENCODER).fingerprint:
        _refuse(
            f"{store} holds embeddings by --encoder {held.spec} --views {held.views}: use these, name another "
            f"store, or remove it first.",
            option,
        )


def _refuse(problem: str | None, option: str) -> None:
    if problem is not None:
        raise typer.BadParameter(problem, param_hint=option) from None
