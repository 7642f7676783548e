"""`lpp evaluate`: how good is a classifier on labelled images?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from .console import bar, percent, say, show_json, show_table, tell_skipped, warn
from .options import AllowNetwork, Errors, ModelFile, OnError, OtherSpec, Report, open_model
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
) -> None:
    """Compare a classifier with labelled images: accuracy, classes, confusions, reliability.

    Examples
    --------
    lpp evaluate birds.lpp test/
    lpp evaluate birds.lpp test/ --report birds.html
    lpp evaluate birds.lpp test/ --plots plots/
    """
    check_report(report)
    pictures = [] if plots is None else [plots / "confusion.png", plots / "reliability.png"]
    if plots is not None:
        if plots.exists() and not plots.is_dir():
            raise typer.BadParameter(f"{plots} is a file: name a folder.", param_hint="--plots")
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
    if plots is not None:
        from ..images.evaluation import draw_confusion, draw_reliability

        plots.mkdir(parents=True, exist_ok=True)
        draw_confusion(result, pictures[0])
        draw_reliability(result, pictures[1])
    make_report(clf, report, found)
    where = {"plots": [str(picture) for picture in pictures], "report": report and str(report)}
    show_json({**result.as_dict(), "skipped": skipped, **where})
    tell(result)
    for picture in pictures:
        say("written: [bold]{}[/]", picture)
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
    heads = ("class", "images", "recognised", "right when said")
    weakest = sorted(result.classes, key=lambda score: 2.0 if score.recall is None else score.recall)
    by_class = [(score.label, score.images, percent(score.recall), percent(score.precision)) for score in weakest]
    show_table("By class, the weakest first", heads, by_class, right=heads[1:])
    if len(result.classes) <= MATRIX_UP_TO:
        _matrix(result)
    confused = result.confused()
    if confused:
        show_table("Most frequent mistakes", ("truth", "answer", "images"), confused, right=("images",))
    title = f"Reliability: when it says p, is it right p of the time? (error {percent(result.calibration_error)})"
    heads = ("says", "is right", "images", "")
    rows = [
        (percent(confidence), percent(accuracy), f"{images:.0f}", "█" * round(20 * accuracy))
        for confidence, accuracy, images in result.reliability.tolist()
    ]
    show_table(title, heads, rows, right=heads[:3])


def _matrix(result: "Scores") -> None:
    numbers = [str(i) for i in range(1, len(result.classes) + 1)]
    labels = (f"{number} {score.label}" for number, score in zip(numbers, result.classes, strict=True))
    rows = ((label, *(n or "·" for n in row)) for label, row in zip(labels, result.confusion, strict=True))
    show_table("Confusion matrix, rows the truth, columns the answer", ("", *numbers), rows, right=numbers)
