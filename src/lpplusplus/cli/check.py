"""`lpp check`: have I enough photos, and which of them are doubtful?"""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from .console import add_row, bar, in_words, out, percent, say, show_json, table, tell_skipped
from .options import AllowNetwork, ClassFile, Errors, Json, OnError, Report, Spec
from .outputs import check_report, make_report, tell_report


def check(
    source: Annotated[Path, Argument(help="Photos, as `lpp train` takes them; or a classifier (.lpp).")],
    encoder: Spec = None,
    template: Annotated[
        list[str] | None, Option("--template", "-t", help='As in `lpp train`; by default "a photo of a {}."')
    ] = None,
    classes: ClassFile = None,
    report: Report = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
    as_json: Json = False,
) -> None:
    """Have I enough photos? Expected accuracy now, with twice and with four times as many; doubtful photos and names.

    Examples
    --------
    lpp check photos/
    lpp check birds.lpp --json
    lpp check photos/ --report check.html
    """
    check_report(report)
    from .._core.model_file import is_classifier
    from ..encoders.class_text import DEFAULT_TEMPLATE
    from ..images.classifier import ImageClassifier
    from ..images.sources.class_names import read_class_names

    skipped = []
    if source.is_file() and is_classifier(source):
        clf = ImageClassifier.load(source, encoder=encoder, allow_network=allow_network)
    else:
        clf = ImageClassifier(
            encoder, template=template or DEFAULT_TEMPLATE, on_error=on_error.value, allow_network=allow_network
        )
        with bar("Embedding") as clf.progress:
            clf.fit(source, names=None if classes is None else read_class_names(classes))
        skipped = tell_skipped(clf.support_.skipped)
    with bar("Checking") as progress:
        found = clf.check(progress)
    make_report(clf, report)
    if as_json:
        show_json(
            {**found.as_dict(), "images": len(clf.support_), "skipped": skipped, "report": report and str(report)}
        )
        return
    say("[bold]{}[/]: {} photos of {} classes", source, len(clf.support_), len(clf.classes_))
    if found.expected:
        shown = table("Of 100 new photos, how many would be right", "photos per class", "right", "with 95 % confidence",
                      right=("photos per class", "right"))  # fmt: skip
        for one in found.expected:
            low, high = one.interval
            add_row(shown, f"{one.photos:.0f}", percent(one.accuracy), f"{percent(low)} to {percent(high)}")
        out().print(shown)
    else:
        say("Not measured: some class has too few photos to hold one back.")
    in_words(found.insight)
    for twins in found.duplicates:
        say("[bold]Almost the same photo twice in {}:[/] {} and {}", twins.first_label, twins.first, twins.second)
    tell_report(report)
