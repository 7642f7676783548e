"""A folder of images: one sub-folder per class, or images without labels; also other trees, such as a zip file.

A zip file is read in memory. Nothing is unpacked to disk, so no name in it decides where anything goes.
"""

from __future__ import annotations

import os
import re
import warnings
import weakref
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from ..._core.files import open_regular
from ...encoders.pixels import RAW_ADVICE, RAW_SUFFIXES
from ..errors import SourceError, shown
from .arrays import FREELY_UNPACKED, MOST_PACKED
from .class_names import listed
from .image_set import MANIFESTS, ImageSet, Item, StoredFile, labelled

if TYPE_CHECKING:
    from ...encoders.pixels.decoding import ImageError, Limits

_EXTRA = {".heic": "HEIF", ".heif": "HEIF", ".hif": "HEIF", ".avif": "AVIF"}
"""Endings of images that need the extra `heif`."""
THUMBNAILS = "@eaDir"
"""Folder that a Synology disk station puts beside photos."""
EXTENSIONS = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".tif", ".tiff", ".gif", *_EXTRA)
)
"""Endings of image names, in upper or lower case. `pixels.decoding` finds out whether they really are images."""
UNREADABLE, RAW, ARCHIVE, LIST = "HEIC or AVIF image", "RAW photo", "zip file", "list"
_LEFT_OUT = {UNREADABLE: EXTENSIONS, RAW: RAW_SUFFIXES, ARCHIVE: (".zip",), LIST: MANIFESTS}
"""What is named when it is left out: images that cannot be read here, and files that may be meant instead."""
HIDDEN, UNSORTED = ".lpp", "unsorted"
"""A folder that contains the first is a project of `lpp app`; there, photos without a class are in the second."""
PartName = Literal["train", "val", "test"]
_PARTS: dict[str, PartName] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Names of folders that have the classes once for each use, such as training."""
MOST_MEMBERS = 200_000
DEEPEST = 32
"""Largest depth of folders in folders of a zip file."""
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods whose decoders stop at a given size."""


def from_folder(
    root: str | PathLike[str], *, labels: bool = True, allow_empty: bool = False, part: PartName | None = None
) -> ImageSet:
    """Images below a folder, in an order that is the same on every machine.

    Hidden files and files with other endings are counted (`ignored`). So are RAW photos, and HEIC and AVIF images if
    the packages that read them are not installed; a warning says how many, but for RAW photos that are there as JPEG.
    Links to folders are not followed, since they may lead anywhere, but reported (`problems`); those to images are.

    Parameters
    ----------
    root
        `root/<class>/…/image.jpg`; the label is the name of the folder directly below `root`. In a project of `lpp app`
        photos in `root/unsorted` and directly in `root` have no label and are left out.
    labels
        False for images without labels: all below `root`, in sub-folders or not.
    allow_empty
        Keep classes whose folder has no images; they are known by their name only.
    part
        What the images are for. If `root` has the folders `train` and `test` or `val` (or `training`, `valid`, …)
        instead of classes, that part is taken and a warning names the others; without `part` they are refused.
    """
    root = Path(root)
    if not root.is_dir():
        raise SourceError(f"{root} is {'not a folder' if root.exists() else 'not there'}: expected a folder of images.")
    return from_tree(root, Tree(), labels=labels, allow_empty=allow_empty, part=part)


def from_tree(
    root: Path, tree: Tree, *, labels: bool, allow_empty: bool, part: PartName | None, wrapped: bool = False
) -> ImageSet:
    """As `from_folder`, for any tree; `wrapped` if the class folders may be inside one more folder."""
    if labels:
        return _by_class(_class_root(root, tree, part, wrapped), tree, allow_empty)
    tree.walk(root)
    if not tree.files and not tree.problems:
        raise SourceError(f"{root} has no images ({', '.join(sorted(EXTENSIONS))}).{tree.hint()}")
    tree.warn(root)
    return ImageSet(tree.files, source=str(root), ignored=tree.ignored, problems=tuple(tree.problems))


def _class_root(root: Path, tree: Tree, part: PartName | None, wrapped: bool) -> Path:
    """The folder that has the class folders: `root`, its only folder, or the one for this use."""
    top = Tree(tree.inside)
    folders = top.read(root)
    parts = {_PARTS[name]: folder for folder in folders if (name := folder.name.lower()) in _PARTS}
    alone, split = len(folders) == 1, "train" in parts and len(parts) == len(folders)
    # Folders of images are classes, whatever they are called: "train" beside "test", or one class alone.
    if top.files or not (alone or split) or not all(_only_folders(tree, folder) for folder in folders):
        return root
    if alone and (wrapped or part == "train"):
        return _class_root(folders[0], tree, part, wrapped)
    return _for_this_use(root, parts, part) if split else root


def _for_this_use(root: Path, parts: dict[PartName, Path], part: PartName | None) -> Path:
    """The folder of that part; a warning names the others."""
    chosen = parts.get("val") if part == "test" and "test" not in parts else parts.get(part or "test")
    if part is None or chosen is None:
        named = " and ".join(f"{folder.name}/" for folder in parts.values())
        first = next(iter(parts.values()))
        raise SourceError(f"{root} has {named}, not a folder for each class: name one of them, such as {first}.")
    others = listed([str(folder) for folder in parts.values() if folder != chosen])
    later = part == "train" and "test" in parts
    then = f" To test afterwards: lpp evaluate MODEL {parts['test']}" if later else ""
    warnings.warn(f"{root}: {chosen.name}/ is used, {others} left aside.{then}", stacklevel=7)
    return chosen


def _only_folders(tree: Tree, folder: Path) -> bool:
    below = Tree(tree.inside)
    return bool(below.read(folder)) and not below.files


def _by_class(root: Path, below: Tree, allow_empty: bool) -> ImageSet:
    folders = below.read(root)
    if below.is_project(root):
        folders = [folder for folder in folders if folder.name != UNSORTED]
        below.files.clear()
    if below.files:
        beside = "beside class folders" if folders else "without class folders"
        name = os.path.basename(str(below.files[0]))
        lists = below.left_out[LIST]
        other = f" Or name the list that says what they show: {lists[0]}." if lists else ""
        raise SourceError(
            f"{root} has images directly in it, {beside} (such as {name!r}): "
            f"put each into the folder of its class, {root / '<class>' / name}.{other}"
        )
    if below.problems:
        raise SourceError(str(below.problems[0]))
    if not folders:
        raise SourceError(f"{root} has no class folders: expected {root / '<class>' / '*.jpg'}.{below.hint()}")
    labels: list[str] = []
    empty = []
    for folder in folders:
        problems = len(below.problems)
        below.walk(folder)
        new = len(below.files) - len(labels)
        labels += [folder.name] * new
        if not new and len(below.problems) == problems:
            empty.append(repr(folder.name))
    if empty and not allow_empty:
        raise SourceError(
            f"{root} has class folders without images: {listed(empty)}. Add images, remove the folders, or keep these "
            f"classes as known by their names (lpp train --allow-empty, allow_empty=True).{below.hint()}"
        )
    below.warn(root)
    classes = [folder.name for folder in folders]
    return labelled(
        below.files, labels, str(root), classes=classes, ignored=below.ignored, problems=tuple(below.problems)
    )


class Tree:
    """What is in some folders: images in order, the number of other files, and what went wrong.

    Of this machine; or those of which `inside` has each file by its name, and folders with None, as an archive does.
    """

    def __init__(self, inside: dict[Path, dict[str, Item | None]] | None = None) -> None:
        self.inside = inside
        self.files: list[Item] = []
        self.ignored = 0
        self.left_out: dict[str, list[Path]] = {kind: [] for kind in _LEFT_OUT}
        self.problems: list[ImageError] = []

    def entries(self, folder: Path) -> Iterable[tuple[str, bool, Item]]:
        """Name, whether it is a folder, and the file, of all that is in a folder."""
        if self.inside is not None:
            return [(name, item is None, item or folder / name) for name, item in self.inside[folder].items()]
        with os.scandir(folder) as scan:
            found = [(entry.name, _is_folder(entry), folder / entry.name) for entry in scan]
        links = [
            path for name, is_folder, path in found if is_folder and path.is_symlink() and not name.startswith(".")
        ]
        for link in sorted(links):
            self._problem(link, "is a link to a folder, and such links are not followed: put the folder itself here.")
        return [entry for entry in found if entry[2] not in links]

    def is_project(self, folder: Path) -> bool:
        """Whether it is a project of `lpp app`."""
        try:
            return any(name == HIDDEN and is_folder for name, is_folder, _ in self.entries(folder))
        except OSError:
            return False

    def walk(self, top: Path) -> None:
        """Read a folder and all below it, depth first."""
        waiting = [top]
        while waiting:
            waiting += reversed(self.read(waiting.pop()))

    def read(self, folder: Path) -> list[Path]:
        """Read one folder and return its sub-folders; names are in the order of their code points."""
        try:
            entries = sorted(self.entries(folder), key=lambda entry: entry[0])
        except OSError as error:
            self._problem(folder, f"cannot be read ({error.strerror or error}).")
            return []
        folders, photos, raw = [], set[str](), len(self.left_out[RAW])
        for name, is_folder, item in entries:
            path, suffix = folder / name, os.path.splitext(name)[1].lower()
            hidden = name.startswith(".") or name == THUMBNAILS
            if not hidden and is_folder:
                folders.append(path)
            elif not hidden and readable(suffix):
                self.files.append(item)
                photos.add(os.path.splitext(name)[0].lower())
            else:
                self.ignored += 1
                for kind, suffixes in _LEFT_OUT.items():
                    if suffix in suffixes and not hidden:
                        self.left_out[kind].append(path)
        # Of a photo that was taken as RAW and JPEG, nothing is missing.
        self.left_out[RAW][raw:] = [path for path in self.left_out[RAW][raw:] if path.stem.lower() not in photos]
        return folders

    def hint(self) -> str:
        """A sentence about images that are left out, if there are any."""
        remedies = {RAW: RAW_ADVICE, ARCHIVE: "Unzip them, or name one as the source."}
        if self.left_out[UNREADABLE]:
            from ...encoders.pixels.decoding import HOW_TO_READ_MORE

            remedies = {UNREADABLE: HOW_TO_READ_MORE, **remedies}
        return "".join(
            f" {len(left)} {kind}{' is' if len(left) == 1 else 's are'} left out, {left[0]} first. {remedy}"
            for kind, remedy in remedies.items()
            if (left := self.left_out[kind])
        )

    def warn(self, root: Path) -> None:
        """Warn about images that are left out."""
        hint = self.hint()
        if hint:
            warnings.warn(f"{root}:{hint}", stacklevel=5)

    def _problem(self, folder: Path, what: str) -> None:
        from ...encoders.pixels.decoding import ImageError  # Needs Pillow, which other sources do not.

        self.problems.append(ImageError(folder, what))


def listed_tree(root: Path, listing: Iterable[tuple[Path, Item | None]]) -> Tree:
    """Folders that were listed at once, such as those of an archive.

    Parameters
    ----------
    root
        The folder of all.
    listing
        Each file below it by its path, and folders with None; folders above a file need not be listed.
    """
    inside: dict[Path, dict[str, Item | None]] = {root: {}}

    def add(path: Path, item: Item | None) -> None:
        if path.parent not in inside:
            add(path.parent, None)
        beside = inside[path.parent]
        if item is None:
            beside[path.name] = None
            inside.setdefault(path, {})
        elif beside.get(path.name, item) is not None:  # Of two, the last, as when unpacking; never instead of a folder.
            beside[path.name] = item

    for path, item in listing:
        add(path, item)
    return Tree(inside)


def readable(suffix: str) -> bool:
    """Whether images with this ending, in upper or lower case, can be read here."""
    suffix = suffix.lower()
    if suffix not in _EXTRA:
        return suffix in EXTENSIONS
    from ...encoders.pixels.decoding import extra_formats

    return _EXTRA[suffix] in extra_formats()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # A link that leads to itself: a bad image if it is named like one.
        return False


@dataclass(frozen=True, eq=False)
class ZippedFile(StoredFile):
    """A file in an archive."""

    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    path: PurePath
    """`photos.zip/cat/1.jpg`."""

    def read_bytes(self, limits: Limits) -> bytes:
        """Its content, or an `ImageError`. For threads: an archive is read by one at a time."""
        from ...encoders.pixels.decoding import ImageError

        self.check_size(self.info.file_size, limits)
        try:
            with self.archive.open(self.info) as file:
                return file.read(self.info.file_size + 1)
        except Exception as error:  # zipfile and zlib raise anything on malformed content.
            raise ImageError(self.path, f"is damaged in the archive ({shown(str(error))}).") from error


def from_zip(
    path: str | PathLike[str], *, labels: bool = True, allow_empty: bool = False, part: PartName | None = None
) -> ImageSet:
    """Images in a zip file, as `from_folder` reads them from a folder; a single folder around everything is skipped.

    Refused as a whole: encrypted archives, names that lead out of the archive, more than `MOST_MEMBERS` files, and
    contents that are many times larger than the archive. Zip files inside are not opened.
    """
    path = Path(path)
    try:
        file = open_regular(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error
    try:
        archive = zipfile.ZipFile(file)
        weakref.finalize(archive, file.close)
        members = archive.infolist()
    except Exception as error:  # zipfile raises anything on malformed content.
        file.close()
        raise SourceError(f"{path} is damaged, or no zip file ({shown(str(error))}): make it again.") from error
    _check(path, members)
    tree = listed_tree(path, _listing(path, archive, members))
    return from_tree(path, tree, labels=labels, allow_empty=allow_empty, part=part, wrapped=True)


def _check(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse what cannot be an archive of photos, before anything is unpacked."""
    if len(members) > MOST_MEMBERS:
        raise SourceError(f"{path} has {len(members):,} files, more than {MOST_MEMBERS:,}: unzip it, name the folder.")
    total, packed = sum(member.file_size for member in members), path.stat().st_size
    if total > max(FREELY_UNPACKED, MOST_PACKED * packed):
        raise SourceError(
            f"{path} has {packed:,} bytes, but would take {total:,} unpacked: that is no archive of photos. If it is, "
            f"unzip it and name the folder."
        )
    for member in members:
        parts = _parts(member)
        if ".." in parts or re.match(r"[/\\]|[A-Za-z]:", member.filename):
            raise SourceError(f"{path} has the name {shown(member.filename)}, which leads out of it: make it again.")
        if len(parts) > DEEPEST:
            raise SourceError(f"{path} has more than {DEEPEST} folders in folders, at {shown(member.filename)}.")
        if member.flag_bits & 1:
            raise SourceError(f"{path} is encrypted ({shown(member.filename)}): unzip it, and name the folder.")
        if member.compress_type not in _KINDS:
            raise SourceError(
                f"{path} is packed in a way that is not read here ({shown(member.filename)}): make it with plain zip."
            )


def _parts(member: zipfile.ZipInfo) -> list[str]:
    """Names of folders and file; some programs write "\\" between them."""
    return [part for part in member.filename.replace("\\", "/").split("/") if part not in ("", ".")]


def _listing(
    path: Path, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[tuple[Path, Item | None]]:
    for member in members:
        parts = _parts(member)
        if parts and "__MACOSX" not in (parts[0], parts[-1]):  # What macOS adds: icons that end in .jpg.
            place = path.joinpath(*parts)
            yield place, None if member.is_dir() else ZippedFile(archive, member, place)
