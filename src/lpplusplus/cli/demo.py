"""`lpp demo`: the whole program on images that it draws itself."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from .console import add_row, bar, out, percent, say, show_json, table
from .options import Json

SHOTS = (1, 2, 4, 8, 16)
TEST_IMAGES = 20
TEMPLATE = "a picture of a {}."


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", help="Keep images, classifier and plots in this folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw images, learn them from 1 to 16 examples per class, save, load, predict, evaluate. Offline, in a minute.

    Examples
    --------
    lpp demo
    lpp demo --keep demo/
    """
    if keep is not None:
        if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
            raise typer.BadParameter(f"{keep} is there already: name a new or empty folder.", param_hint="--keep")
        keep.mkdir(parents=True, exist_ok=True)
        try:
            _run(keep, as_json, kept=True)
        except BaseException:
            for path in keep.iterdir():  # It was empty, so all of this is ours.
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise
        return
    with tempfile.TemporaryDirectory(prefix="lpp-demo-") as folder:
        _run(Path(folder), as_json, kept=False)


def _run(folder: Path, as_json: bool, *, kept: bool) -> None:
    from ..images.classifier import ImageClassifier
    from ..images.learning_curve import learning_curve
    from ..images.plots import draw_confusion, draw_reliability

    photos, test, model = folder / "photos", folder / "test", folder / "shapes.lpp"
    _draw(photos, test)
    clf = ImageClassifier("drawings", template=TEMPLATE)
    with bar("Embedding and training") as progress:
        clf.progress = progress
        clf.fit(photos, store=folder / "photos.features")
    clf.save(model)
    loaded = ImageClassifier.load(model)
    with bar("Evaluating") as progress:
        loaded.progress = progress
        found = loaded.embed(test, labels=True)
    result = loaded.evaluate(found)
    with bar("Learning from 1 to 16 examples") as progress:
        assert clf.class_text_ is not None
        curve = learning_curve(clf.support_, clf.class_text_, found, SHOTS, progress)
    new = [str(path) for path in sorted(test.glob("*/*.jpg"))[:: TEST_IMAGES * 5]]
    answers = loaded.predict(new).tolist()
    files = [draw_confusion(result, folder / "confusion.png"), draw_reliability(result, folder / "reliability.png")]
    if as_json:
        show_json(
            {
                "classes": [str(label) for label in clf.classes_.tolist()],
                "train_images": len(clf.support_),
                "test_images": result.images,
                "accuracy": result.accuracy,
                "by_shots": {name: dict(zip(map(str, SHOTS), row, strict=True)) for name, row in curve.items()},
                "folder": str(folder) if kept else None,
            }
        )
        return
    say(
        f"Drew {len(clf.support_)} images of {len(clf.classes_)} classes to learn from and {result.images} to test on. "
        f"Embedded them with the [bold]drawings[/] encoder, a small demonstration model that was trained on other "
        f"drawings than these."
    )
    shown = table("Accuracy on the test images, by examples per class", "", *(str(s) for s in SHOTS),
                  right=tuple(str(s) for s in SHOTS))  # fmt: skip
    for name, row in curve.items():
        add_row(shown, name, *map(percent, row))
    out().print(shown)
    guesses = table("Some new images", "image", "answer")
    for path, answer in zip(new, answers, strict=True):
        add_row(guesses, "/".join(Path(path).parts[-2:]), answer)
    out().print(guesses)
    say(f"[bold]Accuracy {percent(result.accuracy)}[/] with all {SHOTS[-1]} examples, after saving and loading.")
    if kept:
        say("Kept: {}", ", ".join(str(path) for path in (photos, test, model, *files)))
    say("With your own images, one folder per class:")
    say("  lpp train photos/ -o birds.lpp")
    say("  lpp predict birds.lpp new/*.jpg --top 3")


def _draw(photos: Path, test: Path) -> None:
    from ..images.drawings import write_demo

    with bar("Drawing images") as progress:
        write_demo(photos, SHOTS[-1], seed=1)
        progress(1, 2)
        write_demo(test, TEST_IMAGES, seed=2)
        progress(2, 2)
