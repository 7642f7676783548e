"""`lpp evaluate`: how good is a classifier on labelled images?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from .console import add_row, bar, out, percent, say, show_json, table, tell_skipped, warn
from .options import AllowNetwork, Errors, Json, ModelFile, OnError, OtherSpec, Report, open_model
from .outputs import check_replaced, check_report, check_writable, make_report, tell_report

if TYPE_CHECKING:
    from ..images.evaluation import Scores

MATRIX_UP_TO = 12
"""Largest number of classes whose confusion matrix fits a terminal."""


def evaluate(
    model: ModelFile,
    source: Annotated[Path, Argument(help="Labelled images, of any kind that `lpp train` takes.")],
    plots: Annotated[Path | None, Option(help="Write confusion.png and reliability.png to this folder.")] = None,
    report: Report = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
    as_json: Json = False,
) -> None:
    """Compare a classifier with labelled images: accuracy, classes, confusions, reliability.

    Examples
    --------
    lpp evaluate birds.lpp test/
    lpp evaluate birds.lpp test/ --report birds.html
    lpp evaluate birds.lpp test/ --plots plots/
    """
    check_report(report)
    if plots is not None and plots.exists() and not plots.is_dir():
        raise typer.BadParameter(f"{plots} is a file: name a folder.", param_hint="--plots")
    pictures = [] if plots is None else [plots / "confusion.png", plots / "reliability.png"]
    if plots is not None:
        check_writable(plots, "--plots")
    for picture in pictures:
        check_replaced(picture, "--plots", "a plot")
    clf = open_model(model, encoder, allow_network, on_error)
    with bar("Evaluating") as clf.progress:
        found = clf.embed(source, labels=True)
    skipped = tell_skipped(found.skipped)
    result = clf.evaluate(found)
    if result.trained_on:
        from ..images.words import seen_before

        warn(seen_before(result.trained_on, result.images))
    files = []
    if plots is not None:
        from ..images.evaluation import draw_confusion, draw_reliability

        plots.mkdir(parents=True, exist_ok=True)
        files = [
            draw(result, picture) for draw, picture in zip((draw_confusion, draw_reliability), pictures, strict=True)
        ]
    make_report(clf, report, found)
    if as_json:
        where = {"plots": [str(file) for file in files], "report": report and str(report)}
        show_json({**result.as_dict(), "skipped": skipped, **where})
        return
    tell(result)
    for file in files:
        say("written: [bold]{}[/]", file)
    tell_report(report)


def tell(result: "Scores") -> None:
    """Print an evaluation."""
    say(
        f"[bold]Accuracy {percent(result.accuracy)}[/] on {result.images} images (mean over classes "
        f"{percent(result.balanced_accuracy)}, log-loss {result.log_loss:.3f})"
    )
    from ..images.words import how_good

    if not result.trained_on:
        say("{}", how_good(result.accuracy, result.interval))
    classes = table("By class, the weakest first", "class", "images", "recognised", "right when said",
                    right=("images", "recognised", "right when said"))  # fmt: skip
    for score in sorted(result.classes, key=lambda score: 2.0 if score.recall is None else score.recall):
        add_row(classes, score.label, str(score.images), percent(score.recall), percent(score.precision))
    out().print(classes)
    if len(result.classes) <= MATRIX_UP_TO:
        _matrix(result)
    confused = result.confused()
    if confused:
        mistakes = table("Most frequent mistakes", "truth", "answer", "images", right=("images",))
        for truth, answer, images in confused:
            add_row(mistakes, truth, answer, str(images))
        out().print(mistakes)
    reliability = table(
        f"Reliability: when it says p, is it right p of the time? (error {percent(result.calibration_error)})",
        "says", "is right", "images", "", right=("says", "is right", "images"))  # fmt: skip
    for confidence, accuracy, images in result.reliability.tolist():
        bars = "█" * round(20 * accuracy)
        add_row(reliability, percent(confidence), percent(accuracy), f"{images:.0f}", bars)
    out().print(reliability)


def _matrix(result: "Scores") -> None:
    numbers = [str(i) for i in range(1, len(result.classes) + 1)]
    matrix = table("Confusion matrix, rows the truth, columns the answer", "", *numbers, right=tuple(numbers))
    for number, score, row in zip(numbers, result.classes, result.confusion, strict=True):
        add_row(matrix, f"{number} {score.label}", *(n or "·" for n in row))
    out().print(matrix)
