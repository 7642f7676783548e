"""`lpp predict`: what do these images show?"""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from .console import add_row, bar, out, percent, show_json, table
from .options import AllowNetwork, Errors, Json, Model, OnError, OtherSpec, report_skipped

LISTS = (".csv", ".jsonl", ".npz", ".parquet", ".safetensors", ".zip")
"""Suffixes of files that stand for many images. Any other file is taken for an image."""


def predict(
    model: Model,
    images: Annotated[
        list[Path],
        typer.Argument(
            help="Images; or one folder, zip file, manifest, feature store, Parquet or arrays.", show_default=False
        ),
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="How many of the likeliest classes to show.")] = 1,
    sets: Annotated[
        float | None,
        typer.Option(
            "--sets",
            min=0,
            max=1,
            help="Also show all classes that may be right: the right one is among them as often as this, such as 0.9.",
        ),
    ] = None,
    none: Annotated[
        float | None,
        typer.Option(
            "--none",
            min=0,
            max=1,
            help='Say "none of these" of images of other things; this part of class members, such as 0.05, may be '
            "turned away by mistake.",
        ),
    ] = None,
    other_names: Annotated[
        Path | None,
        typer.Option("--other-names", help="Text file with names of other things, one per line, to help --none."),
    ] = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
    as_json: Json = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV: path, rank, label, probability; set, none.")
    ] = False,
) -> None:
    """Classify images.

    Examples
    --------
    lpp predict birds.lpp new/*.jpg --top 3
    lpp predict birds.lpp new/ --csv > answers.csv
    lpp predict birds.lpp new/ --sets 0.9 --none 0.05
    """
    if as_json and as_csv:
        raise typer.BadParameter("choose one of --json and --csv.")
    folders = [path for path in images if path.is_dir()]
    if folders and len(images) > 1:
        raise typer.BadParameter(f"{folders[0]} is a folder: name a single folder, or images.", param_hint="images")
    others = _names(other_names, none)
    from ..images.classifier import ImageClassifier
    from ..images.parquet.addresses import is_address

    clf = ImageClassifier.load(model, encoder=encoder, on_error=on_error.value, allow_network=allow_network)
    single = len(images) == 1 and (images[0].is_dir() or images[0].suffix.lower() in LISTS or is_address(images[0]))
    with bar("Classifying") as progress:
        clf.progress = progress
        found = clf.embed(images[0] if single else images)
        chances = clf.probabilities(found)
        members = None if sets is None else clf.predict_set(found, sets)
        unknown = None if none is None else clf.none_of_these(found, none, other_names=others)
    skipped = report_skipped(found.skipped)
    labels = [str(label) for label in clf.classes_.tolist()]
    answers = _answers(found.paths, labels, chances, top, members, unknown)
    if as_json:
        show_json({"predictions": answers, "skipped": skipped})
    elif as_csv:
        _write_csv(answers)
    else:
        extra = [head for head, given in (("may be", members), ("", unknown)) if given is not None]
        _show(answers, table("", "image", *(f"{rank}." for rank in range(1, min(top, len(labels)) + 1)), *extra))


def _answers(
    paths: Sequence[str], labels: list[str], chances: Any, top: int, members: Any, unknown: Any
) -> list[dict[str, Any]]:
    """What `--json` shows of each image."""
    order = (-chances).argsort(axis=1, kind="stable")
    answers: list[dict[str, Any]] = [
        {"path": path, "top": [{"label": labels[k], "probability": float(row[k])} for k in best[:top]]}
        for path, row, best in zip(paths, chances, order, strict=True)
    ]
    if members is not None:
        for answer, row, best in zip(answers, members, order, strict=True):
            answer["set"] = [labels[k] for k in best if row[k]]
    if unknown is not None:
        for answer, flag in zip(answers, unknown.tolist(), strict=True):
            answer["none_of_these"] = flag
    return answers


def _show(answers: list[dict[str, Any]], shown: Table) -> None:
    """Fill in a table and print it."""
    for answer in answers:
        cells = [f"{guess['label']} {percent(guess['probability'])}" for guess in answer["top"]]
        if "set" in answer:
            cells.append(", ".join(answer["set"]) or "no class")
        if "none_of_these" in answer:
            cells.append("none of these" if answer["none_of_these"] else "")
        add_row(shown, answer["path"], *cells)
    out().print(shown)


def _write_csv(answers: list[dict[str, Any]]) -> None:
    """A row per image and rank; sets and none-of-these are repeated in each, labels of a set with | between them."""
    extra = [name for name in ("set", "none_of_these") if answers and name in answers[0]]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["path", "rank", "label", "probability", *extra])
    for answer in answers:
        more = ["|".join(answer[name]) if name == "set" else str(answer[name]).lower() for name in extra]
        for rank, guess in enumerate(answer["top"], 1):
            writer.writerow([answer["path"], rank, guess["label"], f"{guess['probability']:.6f}", *more])


def _names(path: Path | None, none: float | None) -> list[str]:
    """Names of other things, from a text file."""
    if path is None:
        return []
    if none is None:
        raise typer.BadParameter("give --none as well, such as --none 0.05.", param_hint="--other-names")
    try:
        names = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read as text ({error}).", param_hint="--other-names") from error
    if not names:
        raise typer.BadParameter(f"{path} has no names: write one per line.", param_hint="--other-names")
    return names
