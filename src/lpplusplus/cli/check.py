"""`lpp check`: have I enough photos, and which are doubtful? `lpp suggest`: which to label next?"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from .console import bar, in_words, percent, say, show_json, show_table, tell_skipped
from .options import AllowNetwork, ClassFile, Errors, ModelFile, OnError, OtherSpec, Report, Spec, open_model
from .outputs import check_new_folder, check_report, check_writable, make_report, tell_report

if TYPE_CHECKING:
    from ..images.suggesting import Suggestion


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
    show_json({**found.as_dict(), "images": len(clf.support_), "skipped": skipped, "report": report and str(report)})
    say("[bold]{}[/]: {} photos of {} classes", source, len(clf.support_), len(clf.classes_))
    if found.expected:
        heads = ("photos per class", "right", "with 95 % confidence")
        rows = ((f"{one.photos:.0f}", percent(one.accuracy), " to ".join(map(percent, one.interval)))
                for one in found.expected)  # fmt: skip
        show_table("Of 100 new photos, how many would be right", heads, rows, right=heads[:2])
    else:
        say("Not measured: some class has too few photos to hold one back.")
    in_words(found.insight)
    for twins in found.duplicates:
        say("[bold]Almost the same photo twice in {}:[/] {} and {}", twins.first_label, twins.first, twins.second)
    tell_report(report)


def suggest(
    model: ModelFile,
    source: Annotated[Path, Argument(help="Unlabelled photos: a folder, a zip file, a list.")],
    count: Annotated[int, Option("--count", "-n", min=1, help="How many photos.")] = 20,
    copy: Annotated[Path | None, Option(help="Copy them to this new folder, in a folder per guess.")] = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
) -> None:
    """Choose the photos that are most worth labelling: balanced over the classes they seem to be of, and diverse.

    Move wrong ones to the right folder, then `lpp add`.

    Examples
    --------
    lpp suggest birds.lpp unlabelled/ --count 20
    lpp suggest birds.lpp unlabelled/ --copy to_label/
    """
    if copy is not None:
        check_new_folder(copy, "--copy")
        check_writable(copy, "--copy")
    clf = open_model(model, encoder, allow_network, on_error)
    with bar("Embedding") as clf.progress:
        found = clf.embed(source)
    skipped = tell_skipped(found.skipped)
    chosen = clf.suggest(found, count)
    copied: list[str] = []
    if copy is not None:
        gone = [one.path for one in chosen if not Path(one.path).is_file()]
        if gone:
            raise ValueError(f"{gone[0]} is no file of its own (in an archive, or an embedding): unpack it first.")
        copied = _copy(chosen, copy)
    show_json({"suggestions": [one.as_dict() for one in chosen], "copied": copied, "skipped": skipped})
    rows = ((one.path, one.guess, percent(one.probability), one.reason) for one in chosen)
    show_table("", ("photo", "guess", "sure", "why"), rows, right=("sure",))
    if copied:
        say("{} photos copied to [bold]{}[/]: move wrong ones to the right folder, then lpp add {} {}",
            len(copied), copy, model, copy)  # fmt: skip


def _copy(chosen: "list[Suggestion]", to: Path) -> list[str]:
    """Copy photos into a folder per guess; all of them or none, so that the command can be run again."""
    scratch = to.with_name(f".{to.name}.{os.getpid()}.tmp")
    names = []
    try:
        scratch.mkdir(parents=True)
        for number, one in enumerate(chosen, 1):
            label = one.guess.replace("/", "_").replace("\\", "_")
            name = Path(f"_{label}" if label in (".", "..") else label) / f"{number:04d}_{Path(one.path).name}"
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(one.path, scratch / name)
            names.append(name)
        if to.exists():
            to.rmdir()  # It is empty. Windows renames no folder onto another.
        scratch.rename(to)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return [str(to / name) for name in names]
