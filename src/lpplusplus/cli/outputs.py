"""Checks of files and folders that a command writes, made before the work and not after it.

What a file on the disk is, its whole format is asked, since a word in it may be anybody's.
"""

import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .._core.files import sealed
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


_HEAD = b"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
"""
_BEFORE_SEALS = (
    _HEAD
    + b"""<meta name="generator" content="lpplusplus">
<meta name="viewport" content="width=device-width, initial-scale=1">
"""
)
"""The beginning of pages that version 0.1 wrote before they were sealed."""
_BENCHMARK = "Benchmark of few-shot classifiers"
_BENCHMARKS = {
    ".html": _HEAD
    + f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{_BENCHMARK}<'.encode(),
    ".md": f"# {_BENCHMARK}\n\n".encode(),
    ".tex": b"\\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage[T1]{fontenc}\n",
    ".svg": b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"\n',
}
"""How files of a benchmark's report begin."""


def _begin(path: Path, count: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(count)


def is_classifier(path: Path) -> bool:
    """Whether it is a classifier of `lpp train`."""
    from .._core import model_file

    return model_file.is_classifier(path)


def is_report(path: Path) -> bool:
    """Whether it is the page of `--report`."""
    return _is_page(path, "report", lambda title: not title.startswith(b"Map of "))


def is_map(path: Path) -> bool:
    """Whether it is the page of `lpp map`."""
    return _is_page(path, "map", lambda title: re.match(rb"Map of \d+ images</title>", title) is not None)


def is_unsure_page(path: Path) -> bool:
    """Whether it is the page that `lpp sort` writes beside photos that it was not sure of."""
    return sealed(path.read_bytes(), "unsure")


def _is_page(path: Path, kind: str, titled: Callable[[bytes], bool]) -> bool:
    begin, title = _BEFORE_SEALS + b"<title>", _begin(path, len(_BEFORE_SEALS) + 100)
    return sealed(path.read_bytes(), kind) or (title.startswith(begin) and titled(title[len(begin) :]))


def is_export(path: Path) -> bool:
    """Whether it is a model of `lpp export`, or a program beside it that nobody has changed."""
    from ..deploy import export

    return export.is_export(path)


def is_plot(path: Path, dpi: int = 150) -> bool:
    """Whether it is a picture of `lpp evaluate --plots`: as matplotlib makes them, with no word about their maker."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            ours = image.format == "PNG" and image.mode == "RGBA" and [*image.info] == ["dpi"]
            return ours and round(image.info["dpi"][0]) == dpi
    except OSError:
        return False


def is_draws(path: Path) -> bool:
    """Whether it is a list of tasks by `lpp bench draws`."""
    tasks = _json(path)
    return isinstance(tasks, list) and all(
        isinstance(task, dict) and task.get("format") == "lpplusplus draw" for task in tasks
    )


def is_results(path: Path) -> bool:
    """Whether it is the database of `lpp bench run`, also one whose writer was killed: then `mode=ro` reads nothing."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return False
    return tables >= {"about", "results", "draws"}


def is_benchmark_report(path: Path) -> bool:
    """Whether it is a file of `lpp bench report`."""
    kind = path.suffix.lower()
    if kind == ".png":
        return is_plot(path, 200)
    if kind == ".json":
        about = _json(path)
        return isinstance(about, dict) and {"format", "summary", "reading", "cells", "tables", "protocol"} <= {*about}
    if kind == ".csv":
        columns = (
            (b"Method,", b"Cycle,", b"Data set,")
            if path.parent.name == "tables"
            else (b"dataset,encoder,method,", b"dataset,backbone,method,")
        )
        return _begin(path, 100).startswith(columns)
    begin = _begin(path, 2000)
    return kind in _BENCHMARKS and begin.startswith(_BENCHMARKS[kind]) and b"<dc:creator>" not in begin


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


KINDS: dict[str, Callable[[Path], bool]] = {
    "a classifier": is_classifier,
    "a report": is_report,
    "a map": is_map,
    "a page of unsure photos": is_unsure_page,
    "an export": is_export,
    "a plot": is_plot,
    "a list of tasks": is_draws,
    "a results folder's database": is_results,
    "a report of a benchmark": is_benchmark_report,
}
"""What commands write, in the words of their refusals."""
