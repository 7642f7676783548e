"""A source, divided into parts. A part is a short description that is sent to a worker, which opens the images.

These are files in any file system, members of a tar archive, or rows of a table.
"""

import json
import re
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
from ..images.sources.folders import EXTENSIONS, from_tree, listed_tree
from ..images.sources.image_set import Item, StoredFile
from ..images.store import ROWS_PER_SHARD
from ..images.store.shards import list_digest

PAUSES = (0.8, 3.2, 12.8)
"""Seconds before a file is read once more: services fail now and then."""
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
        for pause in PAUSES:
            with suppress(OSError):
                return self._fetch(limits)
            time.sleep(pause)
        return self._fetch(limits)  # If the service fails, not the image, the run stops; it can be started again later.

    def _fetch(self, limits: Limits) -> bytes:
        try:
            with self.system.open_input_file(self.place) as file:
                self.check_size(file.size(), limits)
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            raise ImageError(self.path, "does not exist.") from None


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
        self.check_size(self.size, limits)
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
    """Some images of a list, by their paths in the file system of `place`, where the list is."""

    place: str
    paths: Sequence[str]
    shown: Sequence[str]
    labels: Sequence[str] | None

    @property
    def listed(self) -> str:
        """Digest of the images in this part; its output keeps it."""
        return list_digest(self.shown, self.labels)

    def open(self) -> ImageSet:
        """The images, on a worker."""
        system, _ = open_place(self.place)
        items: list[Item] = [PlacedFile(system, path, name) for path, name in zip(self.paths, self.shown, strict=True)]
        return image_set(items, self.labels, self.place)


@dataclass(frozen=True)
class Packed:
    """A tar archive of images, or a row group of a Parquet file; or a whole Parquet file, if it has embeddings."""

    place: str
    path: str
    size: int
    labels: bool
    group: int | None = None

    @property
    def where(self) -> str:
        """What messages call it."""
        return shown_in(self.place, self.path)

    @property
    def listed(self) -> str:
        """Digest of what it is; its output keeps it."""
        group = [] if self.group is None else [f"group {self.group}"]
        return list_digest([self.where, *group, f"{self.size} bytes"], None)

    def open(self) -> ImageSet | Embeddings:
        """Images or embeddings, on a worker."""
        system, _ = open_place(self.place)
        if self.group is None:
            return self._of_archive(system.open_input_file(self.path))
        file = need_pyarrow("parquet").ParquetFile(system.open_input_file(self.path))
        if EMBEDDING in file.schema_arrow.names:
            return read_file(system, self.path, self.place)
        return self._of_table(file)

    def _of_table(self, file: Any) -> ImageSet:
        names = file.schema_arrow.names
        column = next((name for name in IMAGES if name in names), None)
        if column is None:
            raise SourceError(f"{self.where} has the columns {shown(names)}, expected one of {', '.join(IMAGES)}.")
        if self.labels and LABEL not in names:
            raise SourceError(f"{self.where} has no column {LABEL!r}: add one, or use --no-labels.")
        wanted = [name for name in (column, "path", *([LABEL] if self.labels else [])) if name in names]
        table = file.read_row_group(self.group, columns=wanted)
        rows = enumerate(table.to_pylist())
        items = [self._of_row(number, row[column], row.get("path"), column) for number, row in rows]
        return image_set(items, labels_of(table.column(LABEL), self.where)[0] if self.labels else None, self.where)

    def _of_row(self, row: int, image: Any, path: str | None, column: str) -> Item:
        if isinstance(image, dict):  # As Hugging Face's data sets have them.
            image, path = image.get("bytes"), path or image.get("path")
        if image is not None and not isinstance(image, bytes):
            raise SourceError(f"{self.where}: {column!r} has a {type(image).__name__}, not bytes.")
        return TableBytes(image, path or f"{self.where}[{self.group}.{row}]")

    def _of_archive(self, archive: Any) -> ImageSet:
        """In the layout of WebDataset: `000.jpg` beside `000.cls` or `000.json` with a label."""
        images: list[tuple[str, Item]] = []
        labels: dict[str, str] = {}
        for member in tar_members(archive, self.where):
            folder, _, name = member.path.rpartition("/")
            stem, _, ending = name.partition(".")  # WebDataset's rule: up to the first dot.
            key = f"{folder}/{stem}"
            if f".{ending.lower()}" in EXTENSIONS:
                images.append((key, member))
            elif self.labels and ending in ("cls", "json") and member.size < 2**20:
                label = _label(archive.read_at(member.size, member.offset), ending, member.path)
                if label is not None:
                    labels.setdefault(key, label)
        lost = [key for key, _ in images if self.labels and key not in labels]
        if lost:
            raise SourceError(f"{lost[0]} has no label, neither in .cls nor in .json: add them, or use --no-labels.")
        told = [labels[key] for key, _ in images] if self.labels else None
        return image_set([item for _, item in images], told, self.where)


WorkPart = Files | Packed


@dataclass(frozen=True)
class WorkPlan:
    """All parts of a source.

    Attributes
    ----------
    parts
        In order.
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
    labelled: bool
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    ignored: int = 0


def plan(source: str, *, labels: bool) -> WorkPlan:
    """Divide a source into parts: a folder of images, a manifest, Parquet files or tar archives, by path or address.

    Parts of a list of images begin where the local engine's shards begin, so that batches have the same images.
    """
    place = spelled(source)
    packed = _packed(place, labels)
    if packed:
        return WorkPlan(packed, labels)
    images = _images(place, labels)
    if not images.items and not images.problems:
        raise SourceError(f"{place} has no images.")
    step = ROWS_PER_SHARD
    while -(-len(images) // step) > MOST_PARTS:
        step *= 2
    names, paths = images.paths(), [_placed(item) for item in images.items]
    given = None if images.labels is None else images.labels.tolist()
    spans = [slice(a, a + step) for a in range(0, len(images), step)]
    parts = [Files(place, paths[span], names[span], given and given[span]) for span in spans]
    problems = tuple((str(one.path), one.reason) for one in images.problems)
    return WorkPlan(parts, given is not None, images.classes, images.names, problems, images.ignored)


def image_set(items: list[Item], labels: Sequence[str] | None, source: str) -> ImageSet:
    """The images of a part; which classes there are is known when all parts are."""
    for label in set(labels or ()):
        check_label(label, source)
    return ImageSet(items, None if labels is None else np.array(labels, np.str_), source=source)


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
    inside = system.get_file_info(need_pyarrow("fs").FileSelector(path, recursive=True))
    files = (PlacedFile(system, info.path, shown_in(source, info.path)) if info.is_file else None for info in inside)
    tree = listed_tree(Path(path), zip((Path(info.path) for info in inside), files, strict=True))
    return from_tree(Path(path), tree, labels=labels, allow_empty=False, part=None)


def _packed(place: str, labels: bool) -> list[Packed]:
    """The parts of Parquet files and tar archives; none if the source has images instead."""
    system, path = open_place(place)
    fs = need_pyarrow("fs")
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise SourceError(f"{place} does not exist.")
    files = _files(fs, system, info)
    tars = [one for one in files if re.search(r"\.(tar|tgz)(\.\w+)?$", one.base_name)]
    compressed = [one.base_name for one in tars if not one.base_name.endswith(".tar")]
    if compressed:
        raise SourceError(f"{compressed[0]} is compressed, so that its images cannot be found: make plain .tar files.")
    if tars:
        return [Packed(place, one.path, one.size, labels) for one in tars]
    tables = [one for one in files if one.base_name.endswith(".parquet")]
    return [Packed(place, one.path, one.size, labels, group) for one in tables for group in _groups(system, one.path)]


def _files(fs: Any, system: Any, info: Any) -> list[Any]:
    """The file, or those in a folder in order; hidden ones are left out."""
    inside = (
        [info] if info.is_file else [one for one in system.get_file_info(fs.FileSelector(info.path)) if one.is_file]
    )
    return sorted((one for one in inside if one.base_name[:1] not in "._"), key=lambda one: one.path)


def _groups(system: Any, path: str) -> range:
    """Row groups that are parts: of embeddings, the file is one part."""
    file = need_pyarrow("parquet").ParquetFile(system.open_input_file(path))
    return range(1 if EMBEDDING in file.schema_arrow.names else file.metadata.num_row_groups)


def _label(content: bytes, ending: str, where: str) -> str | None:
    """A label as WebDataset has it; None if the file has none."""
    try:
        text = content.decode().strip()
        value = text if ending == "cls" else json.loads(text).get("label")
    except (ValueError, AttributeError, RecursionError) as error:
        raise SourceError(f"{where} cannot be read ({shown(str(error))}).") from None
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
