"""A source, divided into parts. A part is a short description that is sent to a worker, which opens the images.

These are files in any file system, members of a tar archive, or rows of a table.
"""

import json
import re
import tarfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders.pixels.decoding import ImageError, Limits, read_bytes
from ..images.embeddings import Embeddings
from ..images.errors import SourceError, shown
from ..images.parquet.addresses import is_address, need_pyarrow, open_place, shown_in, spelled
from ..images.parquet.reading import read_file
from ..images.parquet.tables import EMBEDDING, LABEL, labels_of
from ..images.sources import ImageSet, open_images
from ..images.sources.class_names import check_label
from ..images.sources.folders import EXTENSIONS, Tree, from_tree
from ..images.sources.image_set import Item, StoredFile
from ..images.store import ROWS_PER_SHARD
from ..images.store.shards import list_digest

ATTEMPTS = 4
"""Attempts to read a file: services fail now and then."""
MOST_MEMBERS = 1_000_000
"""Most members of a tar archive."""
MOST_PARTS = 20_000
"""Most parts of a list of images; for longer lists, parts become larger."""
IMAGES = ("image", "jpg", "jpeg", "png", "webp", "bytes", "content")
"""Columns of a table that may hold the bytes of images; the first existing one is used."""


@dataclass(frozen=True, eq=False)
class PlacedFile(StoredFile):
    """A file in a pyarrow file system."""

    system: Any
    place: str
    path: str

    def read_bytes(self, limits: Limits) -> bytes:
        if isinstance(self.system, need_pyarrow("fs").LocalFileSystem):
            try:
                return read_bytes(self.place, limits)
            except ImageError as error:
                raise ImageError(self.path, error.reason) from None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.system.open_input_file(self.place) as file:
                    if file.size() > limits.max_bytes:
                        raise ImageError(
                            self.path, f"has {file.size():,} bytes, more than {limits.max_bytes:,} allowed."
                        )
                    content: bytes = file.read()
                    return content
            except FileNotFoundError:
                raise ImageError(self.path, "does not exist.") from None
            except OSError:  # The service fails, not the image: the run stops, and can be started again later.
                if attempt == ATTEMPTS:
                    raise
                time.sleep(0.2 * 4**attempt)
        raise AssertionError


@dataclass(frozen=True, eq=False)
class TableBytes(StoredFile):
    """Bytes from a table; None if the row has none."""

    content: bytes | None
    path: str

    def read_bytes(self, limits: Limits) -> bytes:
        if self.content is None:
            raise ImageError(self.path, "has no content.")
        return self.content


@dataclass(frozen=True, eq=False)
class TarMember(StoredFile):
    """A member of a tar archive, which is never unpacked."""

    archive: Any
    offset: int
    size: int
    path: str

    def read_bytes(self, limits: Limits) -> bytes:
        if self.size > limits.max_bytes:
            raise ImageError(self.path, f"has {self.size:,} bytes, more than {limits.max_bytes:,} allowed.")
        content: bytes = self.archive.read_at(self.size, self.offset)
        if len(content) != self.size:
            raise ImageError(self.path, "is cut off: its archive is truncated.")
        return content


def tar_members(archive: Any, where: str) -> Iterator[TarMember]:
    """The files of a tar archive in their order, without folders, links and devices."""
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for _ in range(MOST_MEMBERS):
                member = tar.next()
                if member is None:
                    return
                if member.isreg():
                    yield TarMember(archive, member.offset_data, member.size, f"{where}/{member.name}")
                tar.members = []  # type: ignore[attr-defined]  # Else every header stays in memory.
            raise SourceError(f"{where} has more than {MOST_MEMBERS:,} members: make smaller shards.")
    except tarfile.TarError as error:
        raise SourceError(f"{where} is damaged, or no tar archive ({shown(str(error))}).") from None


@dataclass(frozen=True)
class Files:
    """Some images of a list, by their paths in the file system of `place`."""

    place: str
    paths: tuple[str, ...]
    shown: tuple[str, ...]
    labels: tuple[str, ...] | None

    @property
    def listed(self) -> str:
        """Digest of the images in this part; its output keeps it."""
        return list_digest(self.shown, self.labels)

    def open(self) -> ImageSet:
        """The images, on a worker."""
        system, _ = open_place(self.place)
        items: list[Item] = [PlacedFile(system, path, name) for path, name in zip(self.paths, self.shown, strict=True)]
        return image_set(items, self.labels, spelled(self.place))


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file with images, or with embeddings."""

    place: str
    path: str
    group: int
    size: int
    labels: bool

    @property
    def listed(self) -> str:
        return list_digest([shown_in(self.place, self.path), f"group {self.group}", f"{self.size} bytes"], None)

    def open(self) -> ImageSet | Embeddings:
        """Images or embeddings, on a worker."""
        system, _ = open_place(self.place)
        where = shown_in(self.place, self.path)
        file = need_pyarrow("parquet").ParquetFile(system.open_input_file(self.path))
        names = file.schema_arrow.names
        if EMBEDDING in names:
            return read_file(system, self.path, self.place)
        column = next((name for name in IMAGES if name in names), None)
        if column is None:
            raise SourceError(f"{where} has the columns {shown(names)}, expected one of {', '.join(IMAGES)}.")
        if self.labels and LABEL not in names:
            raise SourceError(f"{where} has no column {LABEL!r}: add one, or use --no-labels.")
        wanted = [name for name in (column, "path", *([LABEL] if self.labels else [])) if name in names]
        table = file.read_row_group(self.group, columns=wanted)
        images: list[Any] = table.column(column).to_pylist()
        paths: list[Any] = table.column("path").to_pylist() if "path" in wanted else [None] * len(images)
        items: list[Item] = []
        for row, (image, path) in enumerate(zip(images, paths, strict=True)):
            if isinstance(image, dict):  # As Hugging Face's data sets have them.
                path = path or image.get("path")
                image = image.get("bytes")
            if image is not None and not isinstance(image, bytes):
                raise SourceError(f"{where}: {column!r} is {shown(str(table.schema.field(column).type))}, not bytes.")
            items.append(TableBytes(image, path or f"{where}[{self.group}.{row}]"))
        found = labels_of(table.column(LABEL), where)[0] if self.labels else None
        return image_set(items, found, where)


@dataclass(frozen=True)
class TarShard:
    """A tar archive in the layout of WebDataset: `000.jpg` beside `000.cls` or `000.json` with a label."""

    place: str
    path: str
    size: int
    labels: bool

    @property
    def listed(self) -> str:
        return list_digest([shown_in(self.place, self.path), f"{self.size} bytes"], None)

    def open(self) -> ImageSet:
        """The images, on a worker."""
        system, _ = open_place(self.place)
        where = shown_in(self.place, self.path)
        archive = system.open_input_file(self.path)
        items: list[Item] = []
        labels: dict[str, str] = {}
        keys = []
        for member in tar_members(archive, where):
            folder, _, name = member.path.rpartition("/")
            stem, _, ending = name.partition(".")  # WebDataset's rule: up to the first dot.
            key = f"{folder}/{stem}"
            if f".{ending.lower()}" in EXTENSIONS:
                items.append(member)
                keys.append(key)
            elif self.labels and ending in ("cls", "json") and member.size < 2**20:
                label = _label(archive.read_at(member.size, member.offset), ending, member.path)
                if label is not None:
                    labels.setdefault(key, label)
        if not self.labels:
            return image_set(items, None, where)
        lost = [key for key in keys if key not in labels]
        if lost:
            raise SourceError(f"{lost[0]} has no label, neither in .cls nor in .json: add them, or use --no-labels.")
        return image_set(items, [labels[key] for key in keys], where)


WorkPart = Files | RowGroup | TarShard


@dataclass(frozen=True)
class WorkPlan:
    """All parts of a source.

    Attributes
    ----------
    parts
        In order.
    images
        Number of images, if it is known beforehand.
    labelled
        Whether images have labels.
    classes, names
        As in `ImageSet`; empty if they are known only afterwards.
    problems
        What could not be listed: path and reason.
    ignored
        Number of files that are no images.
    """

    parts: Sequence[WorkPart]
    images: int | None
    labelled: bool
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    ignored: int = 0


def plan(source: str, *, labels: bool) -> WorkPlan:
    """Divide a source into parts: a folder of images, a manifest, Parquet files or tar archives, by path or address.

    Parts of a list of images begin where the local engine's shards begin, so that batches have the same images.
    """
    shards = _shards(source, labels)
    if shards is not None:
        return shards
    place, images = source, _images(source, labels)
    if not images.items and not images.problems:
        raise SourceError(f"{spelled(source)} has no images.")
    step = ROWS_PER_SHARD
    while -(-len(images) // step) > MOST_PARTS:
        step *= 2
    names, paths = images.paths(), [_placed(item) for item in images.items]
    given = None if images.labels is None else images.labels.tolist()
    parts = [
        Files(place if is_address(place) else "", tuple(paths[a : a + step]), tuple(names[a : a + step]),
              None if given is None else tuple(given[a : a + step]))
        for a in range(0, len(images), step)
    ]  # fmt: skip
    problems = tuple((str(one.path), one.reason) for one in images.problems)
    return WorkPlan(parts, len(images), given is not None, images.classes, images.names, problems, images.ignored)


def image_set(items: list[Item], labels: Sequence[str] | None, source: str) -> ImageSet:
    """The images of a part; its classes are those that it has."""
    if labels is None:
        return ImageSet(items, source=source)
    classes = tuple(sorted(set(labels)))
    for label in classes:
        check_label(label, source)
    return ImageSet(items, np.array(labels, np.str_), classes, classes, source)


def _placed(item: Any) -> str:
    if isinstance(item, PlacedFile):
        return item.place
    if isinstance(item, Path):
        return str(item.absolute())
    raise SourceError("images in a zip file or in memory cannot be sent to a cluster: name their folder.")


def _images(source: str, labels: bool) -> ImageSet:
    if not is_address(source):
        return open_images(source, labels=labels)
    system, path = open_place(source)
    tree = _PlacedTree(system, path, source)
    return from_tree(Path(path), tree, labels=labels, allow_empty=False, part=None)


def _shards(source: str, labels: bool) -> WorkPlan | None:
    """The parts of Parquet files and tar archives; None if the source has images instead."""
    fs = need_pyarrow("fs")
    system, path = open_place(source)
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise SourceError(f"{spelled(source)} does not exist.")
    inside = [info] if info.is_file else [one for one in system.get_file_info(fs.FileSelector(path)) if one.is_file]
    chosen = sorted((o for o in inside if o.base_name[:1] not in "._"), key=lambda one: one.path)
    tables = [one for one in chosen if one.base_name.endswith(".parquet")]
    tars = [one for one in chosen if re.search(r"\.(tar|tgz)(\.\w+)?$", one.base_name)]
    place = source if is_address(source) else ""
    if tars:
        packed = [one.base_name for one in tars if not one.base_name.endswith(".tar")]
        if packed:
            raise SourceError(f"{packed[0]} is compressed, so that its images cannot be found: make plain .tar files.")
        return WorkPlan([TarShard(place, one.path, one.size, labels) for one in tars], None, labels)
    return _row_groups(system, tables, place, labels) if tables else None


def _row_groups(system: Any, tables: Sequence[Any], place: str, labels: bool) -> WorkPlan:
    parts: list[WorkPart] = []
    images = 0
    for one in tables:
        file = need_pyarrow("parquet").ParquetFile(system.open_input_file(one.path))
        whole = EMBEDDING in file.schema_arrow.names
        groups = range(1 if whole else file.metadata.num_row_groups)
        parts += [RowGroup(place, one.path, group, one.size, labels) for group in groups]
        images += file.metadata.num_rows
    return WorkPlan(parts, images, labels)


def _label(content: bytes, ending: str, where: str) -> str | None:
    """A label as WebDataset has it; None if the file has none."""
    try:
        text = content.decode().strip()
        value = text if ending == "cls" else json.loads(text).get("label")
    except (ValueError, AttributeError, RecursionError) as error:
        raise SourceError(f"{where} cannot be read ({shown(str(error))}).") from None
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


class _PlacedTree(Tree):
    """The folders of any file system, listed once."""

    def __init__(self, system: Any, root: str, place: str) -> None:
        super().__init__()
        fs = need_pyarrow("fs")
        self._inside: dict[Path, list[tuple[str, bool, Item]]] = {Path(root): []}
        for info in system.get_file_info(fs.FileSelector(root, recursive=True)):
            path = Path(info.path)
            self._folder(path.parent if info.is_file else path)
            if info.is_file:
                item = PlacedFile(system, info.path, shown_in(place, info.path))
                self._inside[path.parent].append((path.name, False, item))

    def _folder(self, path: Path) -> None:
        """Add a folder and all folders above it: object stores may not list them."""
        if path not in self._inside:
            self._inside[path] = []
            self._folder(path.parent)
            self._inside[path.parent].append((path.name, True, path))

    def again(self) -> Tree:
        tree = _PlacedTree.__new__(_PlacedTree)
        Tree.__init__(tree)
        tree._inside = self._inside
        return tree

    def entries(self, folder: Path) -> Iterable[tuple[str, bool, Item]]:
        return self._inside[folder]
