"""`lpp predict`: what do these images show?"""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import add_row, bar, out, percent, show_json, table
from .options import AllowNetwork, Errors, Json, Model, OnError, OtherSpec, report_skipped

LISTS = (".csv", ".jsonl", ".npz", ".safetensors", ".zip")
"""Suffixes of files that stand for many images. Any other file is taken for an image."""


def predict(
    model: Model,
    images: Annotated[
        list[Path],
        typer.Argument(
            help="Images; or one folder, zip file, manifest, feature store or file of arrays.", show_default=False
        ),
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="How many of the likeliest classes to show.")] = 1,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: path, rank, label, probability.")] = False,
) -> None:
    """Classify images.

    Examples
    --------
    lpp predict birds.lpp new/*.jpg --top 3
    lpp predict birds.lpp new/ --csv > answers.csv
    """
    if as_json and as_csv:
        raise typer.BadParameter("choose one of --json and --csv.")
    folders = [path for path in images if path.is_dir()]
    if folders and len(images) > 1:
        raise typer.BadParameter(f"{folders[0]} is a folder: name a single folder, or images.", param_hint="images")
    from ..images.classifier import ImageClassifier

    clf = ImageClassifier.load(model, encoder=encoder, on_error=on_error.value, allow_network=allow_network)
    single = len(images) == 1 and (images[0].is_dir() or images[0].suffix.lower() in LISTS)
    with bar("Classifying") as progress:
        clf.progress = progress
        found = clf.embed(images[0] if single else images)
        chances = clf.probabilities(found)
    skipped = report_skipped(found.skipped)
    order = (-chances).argsort(axis=1, kind="stable")[:, :top]
    labels = [str(label) for label in clf.classes_.tolist()]
    answers: list[dict[str, Any]] = [
        {"path": path, "top": [{"label": labels[k], "probability": float(row[k])} for k in best]}
        for path, row, best in zip(found.paths, chances, order, strict=True)
    ]
    if as_json:
        show_json({"predictions": answers, "skipped": skipped})
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["path", "rank", "label", "probability"])
        for answer in answers:
            for rank, guess in enumerate(answer["top"], 1):
                writer.writerow([answer["path"], rank, guess["label"], f"{guess['probability']:.6f}"])
    else:
        shown = table("", "image", *(f"{rank}." for rank in range(1, order.shape[1] + 1)))
        for answer in answers:
            guesses = (f"{guess['label']} {percent(guess['probability'])}" for guess in answer["top"])
            add_row(shown, answer["path"], *guesses)
        out().print(shown)
