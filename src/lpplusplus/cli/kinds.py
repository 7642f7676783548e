"""What a file on the disk is: its whole format is asked, since a word in it may be anybody's."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from .._core.files import sealed
from .._core.model_file import is_classifier

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
