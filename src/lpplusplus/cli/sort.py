"""`lpp sort`: photos into a folder per class."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .console import bar, remark, say, show_json, show_table, tell_skipped, wants_json
from .options import AllowNetwork, OnError, OtherSpec, need, open_model
from .outputs import check_replaced, check_writable

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError
    from ..images.classifier import ImageClassifier
    from ..images.sorting import Placed, SortedFolder, Way

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
    watch: Annotated[
        bool, Option("--watch", help="Go on for ever, and sort what arrives in the folders PHOTOS (extra watch).")
    ] = False,
    tags: Annotated[
        bool, Option("--tags", help="Write the class as a keyword into XMP sidecars, instead of sorting into a folder.")
    ] = False,
    parents: Annotated[
        Path | None, Option(help="With --tags: CSV file of class,parent, for hierarchical keywords.")
    ] = None,
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
    lpp sort birds.lpp upload/ -o sorted --move --watch
    lpp sort birds.lpp holiday/ --tags --parents families.csv
    lpp sort --undo sorted
    """
    if undo is not None:
        if model is not None or output is not None:
            raise typer.BadParameter("name only the folder: lpp sort --undo FOLDER.", param_hint="--undo")
        _undo(undo)
        return
    _check_line(move, link, by_date, name, tags, output, watch, dry_run, photos, parents)
    if model is None or not photos or (output is None and not tags):
        raise typer.BadParameter("name a classifier, photos and a folder: lpp sort MODEL PHOTOS… -o FOLDER.")
    clf = _opened(model, encoder, allow_network, on_error, sure)
    if output is None:
        _tag(clf, photos, sure or None, dry_run, parents)
    else:
        from ..images.sorting import BY_DATE

        pattern = BY_DATE if by_date else name
        _sort(clf, photos, output, "move" if move else "link" if link else "copy", sure, pattern, dry_run, watch)


def _sort(
    clf: ImageClassifier, photos: list[Path], output: Path, way: Way, sure: float, pattern: str | None, dry_run: bool,
    watch: bool,
) -> None:  # fmt: skip
    """Sort photos into a folder."""
    from ..images.sorting import PAGE, USUAL, SortedFolder, check_pattern

    pattern = pattern or USUAL
    check_pattern(pattern)
    check_writable(output, "-o")
    check_replaced(output / PAGE, "-o", "a page of unsure photos")
    job = _Job(clf, output, way, sure or None, pattern, dry_run)
    with SortedFolder(output, only_look=dry_run) as folder:
        if watch:
            job.watch(folder, photos)
        else:
            job.once(folder, photos)


def _opened(
    model: Path, encoder: str | None, allow_network: bool, on_error: OnError, sure: float
) -> ImageClassifier:  # fmt: skip
    """The classifier; refused, naming the way out, if it cannot tell of what it is sure."""
    import numpy as np

    clf = open_model(model, encoder, allow_network, on_error)
    if sure and clf.origin_ is not None:
        try:
            clf.classifier_.predict_set(np.ones((1, clf.origin_.dim), np.float32), sure)
        except (AttributeError, ValueError) as error:
            raise ValueError(
                "this classifier cannot tell of what it is sure (it needs two photos of each class, and the method "
                "lp++): --sure 0 sorts each photo to its likeliest class."
            ) from error
    return clf


def _check_line(
    move: bool, link: bool, by_date: bool, name: str | None, tags: bool, output: Path | None, watch: bool,
    dry_run: bool, photos: list[Path] | None, parents: Path | None,
) -> None:  # fmt: skip
    """Refuse options that are not for each other."""
    names = by_date or name is not None
    if (move and link) or (by_date and name is not None):
        raise typer.BadParameter("choose one of --move and --link, and one of --by-date and --name.")
    if parents is not None and not tags:
        raise typer.BadParameter("only with --tags.", param_hint="--parents")
    if tags and any((output, move, link, names, watch)):
        raise typer.BadParameter("keywords are written beside the photos, which stay: leave out -o and the like.")
    if watch:
        _check_watch(photos or [], dry_run)


def _check_watch(photos: list[Path], dry_run: bool) -> None:
    need("watch", "watchfiles")
    other = next((path for path in photos if not path.is_dir()), None)
    if dry_run or other is not None:
        what = "--dry-run ends, --watch does not." if dry_run else f"{other} is no folder: name folders to watch."
        raise typer.BadParameter(what, param_hint="--watch")


@dataclass
class _Job:
    """What to do with the photos."""

    clf: ImageClassifier
    output: Path
    way: Way
    sure: float | None
    pattern: str
    dry_run: bool

    def once(self, folder: SortedFolder, photos: list[Path]) -> None:
        """Sort what is there."""
        from ..images.photo_files import find_photos

        found, problems = find_photos(photos, self.output)
        new = [photo for photo in found if not folder.sorted_before(photo)]
        with bar("Sorting") as progress:
            told = self.sort(folder, new, [*problems], progress)
        told.show_all(self.output, len(found) - len(new))

    def watch(self, folder: SortedFolder, photos: list[Path]) -> None:
        """Sort what arrives."""
        from ..images.photo_files import watch_photos

        remark(f"watching {', '.join(map(str, photos))}; Ctrl-C ends it")
        for new in watch_photos(photos, self.output, folder.sorted_before):
            self.sort(folder, new, []).show_some(self.output)

    def sort(self, folder: SortedFolder, new: list[Path], skipped: list[ImageError], progress: Any = None) -> _Told:
        from ..images.sorting import PAGE, sort_photos

        told = _Told(self.way, self.dry_run)
        for some in sort_photos(self.clf, new, folder, way=self.way, sure=self.sure, pattern=self.pattern,
                                skipped=skipped.append, progress=progress):  # fmt: skip
            told.add(some)
        if not self.dry_run and folder.write_page():
            told.page = str(self.output / PAGE)
        told.skipped = tell_skipped(skipped)
        return told


class _Told:
    """What was done, for people and programs."""

    def __init__(self, way: str, dry_run: bool) -> None:
        self.way, self.dry_run = way, dry_run
        self.counts: Counter[str] = Counter()
        self.there = self.companions = 0
        self.photos: list[dict[str, Any]] = []
        self.examples: dict[str, list[str]] = {}
        self.skipped: list[dict[str, str]] = []
        self.page: str | None = None

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

    @property
    def done(self) -> int:
        return self.counts.total() - self.there

    def show_all(self, output: Path, before: int) -> None:
        """The end of a command."""
        self._show_json(output, before)
        self._show_table()
        would = "would be " if self.dry_run else ""
        also = f", and {self.companions} files that belong to them" if self.companions else ""
        say(f"[bold]{{}}[/]: {self.done} photos {would}{DONE[self.way]}{also}", output)
        if self.there:
            say(f"{self.there} photos are there already, with the same content: nothing is done with them.")
        if before:
            say(f"{before} photos were sorted before, and have not changed.")
        if self.done and not self.dry_run:
            say("To put everything back: lpp sort --undo {}", output)
        if self.page is not None:
            say("Look at those that are unsure: open [bold]{}[/] in a browser.", self.page)

    def show_some(self, output: Path) -> None:
        """A line about some that have arrived."""
        if self.counts or self.skipped:
            self._show_json(output, 0)
        if self.counts:
            counts = ", ".join(f"{count} {folder}" for folder, count in self.counts.most_common())
            say(f"{self.done} photos {DONE[self.way]}: {{}}", counts)

    def _show_json(self, output: Path, before: int) -> None:
        show_json({"folder": str(output), "way": self.way, "dry_run": self.dry_run, "counts": dict(self.counts),
                   "photos": self.photos, "there_already": self.there, "sorted_before": before,
                   "skipped": self.skipped, "page": self.page})  # fmt: skip

    def _show_table(self) -> None:
        if not self.counts:
            return
        rows: list[tuple[object, ...]] = [(folder, count) for folder, count in self.counts.most_common()]
        heads = ["folder", "photos"]
        if self.dry_run:
            heads.append("such as")
            rows = [(*row, ", ".join(self.examples[str(row[0])])) for row in rows]
        show_table("", heads, rows, right=("photos",))


def _tag(clf: ImageClassifier, sources: list[Path], sure: float | None, dry_run: bool, parents: Path | None) -> None:
    """Write keywords."""
    from ..images.photo_files import find_photos
    from ..images.prior import Kinds, read_parents
    from ..images.sorting import answered
    from ..images.xmp import tag_photos

    kinds = Kinds({} if parents is None else read_parents(parents))
    photos, problems = find_photos(sources)
    skipped, counts, unsure, told = [*problems], Counter[str](), 0, []
    with bar("Tagging") as progress:
        for some, _ in answered(clf, photos, sure, skipped.append, progress):
            classes = {photo: label for photo, label in some if label is not None}
            unsure += len(some) - len(classes)
            words = [(photo, [label, *kinds.above(label)]) for photo, label in classes.items()]
            for photo, sidecars, changed in tag_photos(words, skipped.append, only_look=dry_run):
                counts[classes[photo]] += changed
                told.append({"photo": str(photo), "keyword": classes[photo], "sidecars": [*map(str, sidecars)],
                             "changed": changed})  # fmt: skip
    show_json({"photos": told, "dry_run": dry_run, "counts": {**+counts}, "unsure": unsure,
               "skipped": tell_skipped(skipped)})  # fmt: skip
    if counts:
        show_table("", ("keyword", "photos"), counts.most_common(), right=("photos",))
    say(f"{counts.total()} photos {'would get' if dry_run else 'have got'} a keyword, {len(told) - counts.total()} had "
        f"theirs; {unsure} are unsure and get none")  # fmt: skip


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
