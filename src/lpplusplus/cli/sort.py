"""`lpp sort`: photos into a folder per class."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .console import bar, remark, say, show_json, show_table, tell_skipped, wants_json
from .options import AllowNetwork, OnError, OtherSpec, open_model
from .outputs import check_replaced, check_writable

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError
    from ..images.classifier import ImageClassifier
    from ..images.sorting import Placed, Way

EXAMPLES = 3
"""Photos per class that --dry-run names."""
DONE = {"copy": "copied", "move": "moved", "link": "linked"}


def sort(
    model: Annotated[Path | None, Argument(help="A classifier that `lpp train` wrote.")] = None,
    photos: Annotated[list[Path] | None, Argument(help="Photos, folders of photos, or lists of them.")] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder to sort them into; it may have photos already.")
    ] = None,
    move: Annotated[bool, Option("--move", help="Move the photos instead of copying them.")] = False,
    link: Annotated[bool, Option("--link", help="Make links to the photos instead of copying them.")] = False,
    sure: Annotated[
        float,
        Option(
            min=0,
            max=1,
            help="Photos whose prediction set of this coverage is not one class, and those of none of these, go to "
            "unsure/; with 0 each goes to its likeliest class.",
        ),
    ] = 0.9,
    name: Annotated[
        str | None,
        Option(help="New names, of {class}, {year}, {month}, {day} and {name}.", show_default="{class}/{name}"),
    ] = None,
    by_date: Annotated[bool, Option("--by-date", help="The same as --name {class}/{year}-{month}/{name}.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    undo: Annotated[Path | None, Option(help="Put back everything that was sorted into this folder.")] = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Annotated[OnError, Option(help="What to do about a photo that cannot be read.")] = OnError.skip,
) -> None:
    """Sort photos into a folder per class. No file is ever written over; what belongs to a photo goes with it.

    The same command goes on after an interruption, and sorts only what is new.

    Examples
    --------
    lpp sort birds.lpp holiday/ -o sorted
    lpp sort birds.lpp holiday/ -o sorted --dry-run
    lpp sort birds.lpp holiday/ -o sorted --move --by-date
    lpp sort birds.lpp card1/ card2/ -o sorted --name "{class}/{year}/{name}"
    lpp sort --undo sorted
    """
    from ..images.sorting import BY_DATE, PAGE, USUAL, SortedFolder, check_pattern, find_photos, sort_photos

    if undo is not None:
        if model is not None or output is not None:
            raise typer.BadParameter("name only the folder: lpp sort --undo FOLDER.", param_hint="--undo")
        _undo(undo)
        return
    if model is None or not photos or output is None:
        raise typer.BadParameter("name a classifier, photos and a folder: lpp sort MODEL PHOTOS… -o FOLDER.")
    if (move and link) or (by_date and name is not None):
        raise typer.BadParameter("choose one of --move and --link, and one of --by-date and --name.")
    pattern = BY_DATE if by_date else name or USUAL
    check_pattern(pattern)
    check_writable(output, "-o")
    check_replaced(output / PAGE, "-o", "a page of unsure photos")
    clf = open_model(model, encoder, allow_network, on_error)
    _check_sure(clf, sure)
    way: Way = "move" if move else "link" if link else "copy"
    found, problems = find_photos(photos, output)
    skipped: list[ImageError] = [*problems]
    told = _Told(way, dry_run)
    with SortedFolder(output, only_look=dry_run) as folder:
        new = [photo for photo in found if not folder.sorted_before(photo)]
        with bar("Sorting") as progress:
            for some in sort_photos(clf, new, folder, way=way, sure=sure or None, pattern=pattern,
                                    skipped=skipped.append, progress=progress):  # fmt: skip
                told.add(some)
        unsure = 0 if dry_run else folder.write_page()
    page = str(output / PAGE) if unsure else None
    show_json({"folder": str(output), "way": way, "dry_run": dry_run, "counts": dict(told.counts),
               "photos": told.photos, "there_already": told.there, "sorted_before": len(found) - len(new),
               "skipped": tell_skipped(skipped), "page": page})  # fmt: skip
    told.show(output, len(found) - len(new))
    if page is not None:
        say("Look at those that are unsure: open [bold]{}[/] in a browser.", page)


class _Told:
    """What was done, for people and programs."""

    def __init__(self, way: str, dry_run: bool) -> None:
        self.way, self.dry_run = way, dry_run
        self.counts: Counter[str] = Counter()
        self.there = self.companions = 0
        self.photos: list[dict[str, Any]] = []
        self.examples: dict[str, list[str]] = {}

    def add(self, placed: list[Placed]) -> None:
        for one in placed:
            self.there += one.there
            self.companions += one.companions
            self.counts[one.folder] += 1
            names = self.examples.setdefault(one.folder, [])
            if len(names) < EXAMPLES:
                names.append(one.to)
            if wants_json():
                self.photos.append(one.as_dict())

    def show(self, output: Path, before: int) -> None:
        rows = [(folder, count, ", ".join(self.examples[folder])) for folder, count in self.counts.most_common()]
        heads = ("folder", "photos", "such as")
        if not self.dry_run:
            rows, heads = [row[:2] for row in rows], heads[:2]  # type: ignore[assignment, misc]
        if rows:
            show_table("", heads, rows, right=("photos",))
        done = self.counts.total() - self.there
        would = "would be " if self.dry_run else ""
        also = f", and {self.companions} files that belong to them" if self.companions else ""
        say(f"[bold]{{}}[/]: {done} photos {would}{DONE[self.way]}{also}", output)
        if self.there:
            say(f"{self.there} photos are there already, with the same content: nothing is done with them.")
        if before:
            say(f"{before} photos were sorted before, and have not changed.")
        if done and not self.dry_run:
            say("To put everything back: lpp sort --undo {}", output)


def _check_sure(clf: ImageClassifier, sure: float) -> None:
    """Refuse, naming the way out, if this classifier cannot tell of what it is sure."""
    import numpy as np

    if sure and clf.origin_ is not None:
        try:
            clf.classifier_.predict_set(np.ones((1, clf.origin_.dim), np.float32), sure)
        except (AttributeError, ValueError) as error:
            raise ValueError(
                "this classifier cannot tell of what it is sure (it needs two photos of each class, and the method "
                "lp++): --sure 0 sorts each photo to its likeliest class."
            ) from error


def _undo(folder: Path) -> None:
    from ..images.journal import JOURNAL
    from ..images.sorting import OWN, SortedFolder

    if not (folder / OWN / JOURNAL).is_file():
        raise ValueError(f"{folder} has nothing that lpp sort has put there.")
    with SortedFolder(folder) as opened, bar("Putting back") as progress:
        back, left = opened.undo(progress)
    show_json({"folder": str(folder), "put_back": back, "left": left})
    say("[bold]{}[/]: {} files are put back", folder, back)
    for path in left:
        remark(f"left where it is: {folder / path}: it or its original was changed.")
