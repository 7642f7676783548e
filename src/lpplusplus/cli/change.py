"""`lpp add`, `lpp remove`, `lpp rename`, `lpp merge`: a classifier that changes, without starting over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from .console import bar, say, show_json, tell_skipped
from .options import AllowNetwork, Errors, ModelFile, NewModel, OnError, OtherSpec, Seed, Shots, Store, open_model
from .outputs import check_model
from .train import checked, summary, tell

ChangedFile = Annotated[Path | None, Option("--output", "-o", help="New file.", show_default="the old one is replaced")]


class _Target:
    """A classifier to be changed, and its output file. The old file is kept until the new one is complete."""

    def __init__(self, model: Path, output: Path | None, inputs: list[Path], *opening: Any) -> None:
        self.output = model if output is None else output
        check_model(self.output, inputs)
        self.model, self.seen = model, _state(model)
        self.clf = open_model(model, *opening)
        self.before = len(getattr(self.clf, "support_", ()))

    def done(self, skipped: list[dict[str, Any]], **more: Any) -> None:
        """Measure, write, and tell."""
        insight = checked(self.clf)
        if self.output.exists() and self.output.samefile(self.model) and _state(self.model) != self.seen:
            raise ValueError(f"{self.model} was changed in the meantime, and is left as it is: run the command again.")
        self.clf.save(self.output)
        show_json(
            {
                **summary(self.clf, self.output),
                "images": len(self.clf.support_),
                **more,
                "skipped": skipped,
                **insight.as_dict(),
            }
        )
        tell(self.clf, insight, self.output)


def _state(path: Path) -> tuple[int, int, int] | None:
    """A value that changes when a file is written again."""
    if not path.exists():
        return None  # `load` says so.
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns, status.st_size


def add(
    model: ModelFile,
    source: Annotated[Path, Argument(help="More photos: a folder per class, or anything else that `lpp train` takes.")],
    output: ChangedFile = None,
    classes: Annotated[Path | None, Option(help="Class names of SOURCE, one per line; or label, tab, name.")] = None,
    shots: Shots = None,
    seed: Seed = 0,
    store: Store = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
) -> None:  # fmt: skip
    """Add photos to a classifier: of its classes, of new ones, or both.

    It becomes what training on all photos gives. Photos that it has already are not added again. Without -o the file is
    replaced, once the new one is complete.

    Examples
    --------
    lpp add birds.lpp more/
    lpp add birds.lpp more/ -o birds2.lpp
    """
    from ..images.sources.class_names import read_class_names

    target = _Target(model, output, [source], encoder, allow_network, on_error)
    clf = target.clf
    with bar("Embedding") as progress:
        clf.progress = lambda done, total: progress(done, total, "Embedding" if done < total else "Training")
        clf.add(
            source, names=None if classes is None else read_class_names(classes), shots=shots, seed=seed, store=store
        )
    added = len(clf.support_) - target.before
    target.done(tell_skipped(clf.support_.skipped), added=added, repeated=clf.already_there_)
    say("{} photos added; {} of those given were there already.", added, clf.already_there_)


def remove(
    model: ModelFile,
    classes: Annotated[list[str] | None, Argument(help="Classes to remove, by their labels.")] = None,
    photos: Annotated[list[str] | None, Option(help="A photo or a folder of photos to remove; several times.")] = None,
    output: ChangedFile = None,
) -> None:
    """Remove classes or photos from a classifier.

    A photo is known by its content; one that is no longer there, by its name as `lpp check` shows it.

    Examples
    --------
    lpp remove birds.lpp wren
    lpp remove birds.lpp --photos robin/17.jpg -o birds2.lpp
    """
    if not classes and not photos:
        raise typer.BadParameter("say what to remove: classes, or --photos.", param_hint="classes")
    target = _Target(model, output, [], None, False)
    target.clf.remove(classes or (), photos=photos or ())
    target.done([], removed=target.before - len(target.clf.support_))
    say("{} photos removed.", target.before - len(target.clf.support_))


def rename(
    model: ModelFile,
    old: Annotated[str, Argument(help="Label of a class.")],
    new: Annotated[str, Argument(help="Its new label; the same to change only --name.")],
    name: Annotated[str | None, Option(help="What prompts call it.", show_default="the label in plain words")] = None,
    output: ChangedFile = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
) -> None:
    """Give a class another label, and other words in its prompt. Trains again, for the words matter.

    Examples
    --------
    lpp rename birds.lpp robin european_robin
    lpp rename birds.lpp crane crane --name "crane, a tall bird"
    """
    target = _Target(model, output, [], encoder, allow_network)
    target.clf.rename(old, new, name=name)
    target.done([])


def merge(
    first: ModelFile,
    second: Annotated[Path, Argument(help="Another, made with the same encoder.")],
    output: NewModel,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
) -> None:
    """Make one classifier of two: all classes, all photos. Settings and names are those of the first.

    Examples
    --------
    lpp merge birds.lpp owls.lpp -o all.lpp
    """
    from ..images.classifier import ImageClassifier

    target = _Target(first, output, [second], encoder, allow_network)
    target.clf.merge(ImageClassifier.load(second))
    target.done([], repeated=target.clf.already_there_)
