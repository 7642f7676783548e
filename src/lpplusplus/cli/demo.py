"""`lpp demo`: the whole program on images that it draws itself, or on somebody's photos."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from .console import bar, percent, say, show_json, show_table, tell_skipped, warn
from .options import Spec
from .outputs import check_new_folder

if TYPE_CHECKING:
    from ..images.classifier import ImageClassifier
    from ..images.embeddings import Embeddings
    from ..images.evaluation import Scores

SHOTS = (1, 2, 4, 8, 16)
TEST_IMAGES = 20
GUESSES = 5
"""Test images whose answers are shown."""
TEMPLATE = "a picture of a {}."


def demo(
    photos: Annotated[Path | None, Option(help="Your own images, a folder per class, which stay as they are.")] = None,
    encoder: Spec = None,
    keep: Annotated[Path | None, Option(help="Keep images, classifier, plots and a report in this folder.")] = None,
) -> None:
    """Draw images, learn them from 1 to 16 examples per class, save, load, predict, evaluate. Offline, in a minute.

    With --photos the same on half of your images; the other half is for the test.

    Examples
    --------
    lpp demo
    lpp demo --keep demo/
    lpp demo --photos photos/
    """
    if photos is None and encoder is not None:
        raise typer.BadParameter("goes with --photos; the drawings have an encoder of their own.", param_hint="-e")
    if keep is not None:
        check_new_folder(keep, "--keep")
        if photos is not None and photos.resolve() in (keep.resolve(), *keep.resolve().parents):
            raise typer.BadParameter(f"{keep} is in the folder of the photos: name one outside.", param_hint="--keep")
        keep.mkdir(parents=True, exist_ok=True)
        try:
            _run(keep, photos, encoder, kept=True)
        except BaseException:
            for path in keep.iterdir():  # It was empty, so all of this is ours.
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise
        return
    with tempfile.TemporaryDirectory(prefix="lpp-demo-") as folder:
        _run(Path(folder), photos, encoder, kept=False)


def _run(folder: Path, photos: Path | None, encoder: str | None, *, kept: bool) -> None:
    from ..images.classifier import ImageClassifier
    from ..images.evaluation import draw_confusion, draw_reliability
    from ..images.hold_out import learning_curve

    clf, test = _drawn(folder) if photos is None else _split(photos, encoder)
    shots = list(SHOTS) if photos is None else _numbers(clf.support_)
    model = folder / ("shapes.lpp" if photos is None else "photos.lpp")
    clf.save(model)
    loaded = ImageClassifier.load(model, encoder=encoder)
    with bar("Evaluating") as loaded.progress:
        found = loaded.embed(test, labels=True)
    result = loaded.evaluate(found)
    with bar(f"Learning from {shots[0]} to {shots[-1]} examples") as progress:
        curve = learning_curve(clf.classifier_, clf.training_data_, found, shots, progress)
    some = found.subset(slice(0, None, -(-len(found) // GUESSES)))
    answers = loaded.predict(some).tolist()
    files = [draw_confusion(result, folder / "confusion.png"), draw_reliability(result, folder / "reliability.png")]
    if kept:
        loaded.report(folder / "report.html", found)
    show_json(
        {
            "classes": [str(label) for label in clf.classes_.tolist()],
            "train_images": len(clf.support_),
            "test_images": result.images,
            "accuracy": result.accuracy,
            "interval": result.interval,
            "by_shots": {name: dict(zip(map(str, shots), row, strict=True)) for name, row in curve.items()},
            "folder": str(folder) if kept else None,
        }
    )
    names = ("/".join(Path(path).parts[-2:]) for path in some.paths)
    _tell(clf, photos, result, curve, shots, zip(names, answers, strict=True))
    if kept:
        wanted = (folder / "photos", folder / "test", model, *files, folder / "report.html")
        say("Kept: {}", ", ".join(str(path) for path in wanted if path.exists()))
    say("With your own images, one folder per class:" if photos is None else "To train on all of them:")
    named = f" --encoder {encoder}" if encoder else ""
    say("  lpp train {}{} -o birds.lpp --report birds.html", photos or "photos/", named)
    say("  lpp predict birds.lpp new/*.jpg --top 3")


def _tell(
    clf: ImageClassifier, photos: Path | None, result: Scores, curve: Any, shots: list[int], guesses: Any
) -> None:
    if result.trained_on:
        warn(f"{result.trained_on} of the test images are copies of images to learn from, so the test is too easy.")
    learned = f"{len(clf.support_)} images of {len(clf.classes_)} classes to learn from"
    if photos is None:
        say(f"Drew {learned} and {result.images} to test on. Embedded them with the [bold]drawings[/] encoder, a small "
            f"demonstration model that was trained on other drawings than these.")  # fmt: skip
    else:
        say(f"Took {learned} and {result.images} others to test on. Nothing was written to {{}}.", photos)
    heads, rows = [*map(str, shots)], ((name, *map(percent, row)) for name, row in curve.items())
    show_table("Accuracy on the test images, by examples per class", ("", *heads), rows, right=heads)
    show_table("Some new images", ("image", "answer"), guesses)
    between = " to ".join(map(percent, result.interval))
    say(f"[bold]Accuracy {percent(result.accuracy)}[/] with all examples, after saving and loading ({between} with "
        f"95 % confidence).")  # fmt: skip


def _drawn(folder: Path) -> tuple[ImageClassifier, Path]:
    """A classifier of drawings, and others to test on."""
    from ..images.classifier import ImageClassifier

    photos, test = folder / "photos", folder / "test"
    _draw(photos, test)
    clf = ImageClassifier("drawings", template=TEMPLATE)
    with bar("Embedding and training") as clf.progress:
        clf.fit(photos, store=folder / "photos.features")
    return clf, test


def _split(photos: Path, encoder: str | None) -> tuple[ImageClassifier, Embeddings]:
    """A classifier of half of the photos, and the other half."""
    import numpy as np

    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..images.classifier import ImageClassifier
    from ..images.errors import SourceError
    from ..images.opening import check_no_class_lost, embed_source, open_source, select
    from ..images.sources.image_set import sample_half

    spec = encoder or DEFAULT_ENCODER
    with bar("Embedding") as progress:
        opened = select(open_source(photos, part="train"), training=True)
        found = embed_source(opened, lambda: open_encoder(spec), on_error="skip", progress=progress)
        check_no_class_lost(opened, found)
    tell_skipped(found.skipped)
    assert found.labels is not None
    labels, counts = np.unique(found.labels, return_counts=True)
    if counts.min() < 2:
        alone = str(labels[counts.argmin()])
        raise SourceError(f"{photos} has a single image of {alone!r}: a class needs two, one of them for the test.")
    learn = sample_half(found.labels, SHOTS[-1])
    with bar("Training"):
        clf = ImageClassifier(spec).fit(found.subset(learn))
    return clf, found.subset(np.setdiff1d(np.arange(len(found)), learn))


def _numbers(support: Embeddings) -> list[int]:
    """Numbers of examples per class to try: powers of two, and what the median class has."""
    import numpy as np

    typical = int(np.median(np.unique(np.asarray(support.labels), return_counts=True)[1]))
    return [count for count in SHOTS if count < typical] + [typical]


def _draw(photos: Path, test: Path) -> None:
    from ..images.drawings import write_demo

    with bar("Drawing images"):
        write_demo(photos, SHOTS[-1], seed=1)
        write_demo(test, TEST_IMAGES, seed=2)
