"""Embeddings of a project's photos, found by content: a photo that was moved or renamed is not embedded again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._core.files import atomic_write
from ..encoders import Encoder
from ..images.embedder import embed
from ..images.embeddings import Embeddings, Origin
from ..images.errors import StoreError
from ..images.sources import ImageSet
from ..images.sources.class_names import prompt_names
from ..images.store import ROWS_PER_SHARD, FeatureStore, Shard, StoreWriter
from ..images.store.shards import list_digest
from .folder import Listing, Photo
from .photos import LIMITS
from .project import Project

FILES = "files.json"
LABELLED, OTHERS = "labelled", "unsorted"
"""Feature stores in `.lpp/features/<encoder>/`, of the classes and of the rest."""


class ProjectRows:
    """Embeddings of a project's photos by one encoder.

    Parameters
    ----------
    project, encoder
        Whose photos to embed, and with what.
    """

    def __init__(self, project: Project, encoder: Encoder) -> None:
        self.project, self.encoder, self.origin = project, encoder, Origin.of(encoder)
        self.bad: dict[tuple[int, int, int], str] = {}
        """Why a photo cannot be read."""
        self._content: dict[tuple[int, int, int], bytes] = {}
        self._rows: dict[bytes, NDArray[np.float32]] = {}
        self._shared: NDArray[np.float32] | None = None
        self._home = "features", re.sub(r"\W+", "-", encoder.spec)[:60].strip("-")
        self._load()

    def __contains__(self, photo: Photo) -> bool:
        return self._content.get(photo.key) in self._rows

    def missing(self, photos: Sequence[Photo]) -> list[Photo]:
        """Photos that are not embedded yet and can be read."""
        return [photo for photo in photos if photo not in self and photo.key not in self.bad]

    def embed(self, photos: Sequence[Photo]) -> None:
        """Embed photos; those that cannot be read are noted."""
        images = ImageSet([self.project.root / photo.path for photo in photos], source="the project")
        found = embed(images, self.encoder, on_error="skip", limits=LIMITS)
        assert found.positions is not None
        assert found.hashes is not None
        for row, position in enumerate(found.positions.tolist()):
            digest = found.hashes[row].tobytes()
            self._content[photos[position].key] = digest
            self._rows.setdefault(digest, found.X[row, 0])
        by_path = {(self.project.root / photo.path).as_posix(): photo for photo in photos}
        for problem in found.skipped:
            if isinstance(problem.__cause__, FileNotFoundError):
                continue  # Moved meanwhile: it has the same key elsewhere.
            self.bad[by_path[Path(problem.path).as_posix()].key] = problem.reason

    def of(self, photos: Sequence[Photo], *, labelled: bool = False) -> Embeddings:
        """Embeddings of those photos that have one."""
        there = [photo for photo in photos if photo in self]
        digests = [self._content[photo.key] for photo in there]
        X = np.array([self._rows[digest] for digest in digests], np.float32).reshape(-1, 1, self.origin.dim)
        return Embeddings(
            X,
            np.array([photo.label for photo in there], np.str_) if labelled else None,
            [photo.path for photo in there],
            origin=self.origin,
            hashes=np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32),
            items=[self.project.root / photo.path for photo in there],
        )

    def share(self, found: Embeddings) -> None:
        """Use the rows of `found` (from `of`) instead of our own copies: a classifier keeps them anyway."""
        assert found.hashes is not None
        before, self._shared = self._shared, found.X if found.X.base is None else found.X.base
        self._rows |= {digest.tobytes(): row[0] for digest, row in zip(found.hashes, found.X, strict=True)}
        for digest, row in self._rows.items():
            if before is not None and row.base is before:
                self._rows[digest] = row.copy()  # A view of one row would keep all rows in memory.

    def digest(self, photo: Photo) -> str | None:
        """SHA-256 of a photo's bytes, if it was read."""
        found = self._content.get(photo.key)
        return None if found is None else found.hex()

    def save(self, listing: Listing) -> None:
        """Write feature stores, as `lpp embed` would, and which file has which content."""
        with suppress(StoreError):  # Another process writes there; these files are only a cache.
            self._save(LABELLED, listing.labelled, tuple(listing.classes))
            self._save(OTHERS, listing.unsorted, ())
        known = {photo.key: self._content[photo.key].hex() for photo in listing.where().values() if photo in self}
        with atomic_write(self.project.own(FILES)) as file:
            file.write(json.dumps([[*key, digest] for key, digest in known.items()]).encode())

    def _save(self, name: str, photos: Sequence[Photo], classes: tuple[str, ...]) -> None:
        there, labelled = [photo for photo in photos if photo in self], name == LABELLED
        if not there:
            return
        parts = [there[a : a + ROWS_PER_SHARD] for a in range(0, len(there), ROWS_PER_SHARD)]
        paths = [[photo.path for photo in part] for part in parts]
        labels = [[photo.label for photo in part] if labelled else None for part in parts]
        listed = [*map(list_digest, paths, labels)]
        with StoreWriter(self.project.own(*self._home, name), self.origin, listed) as writer:
            for n, part in enumerate(parts):
                found, positions = self.of(part), np.arange(len(part), dtype=np.int32)
                assert found.hashes is not None
                if not writer.matches(n, found.hashes, positions):
                    shard = Shard(self.origin.key, listed[n], found.X, found.hashes, positions, paths[n], labels[n])
                    writer.put(n, shard)
            writer.finish(classes, tuple(prompt_names(classes).values()), labelled)

    def _load(self) -> None:
        for name in (LABELLED, OTHERS):
            with suppress(StoreError, OSError):
                store = FeatureStore(self.project.own(*self._home, name))
                if store.origin.key == self.origin.key:
                    found = store.load()
                    assert found.hashes is not None
                    self._rows |= {digest.tobytes(): row[0] for digest, row in zip(found.hashes, found.X, strict=True)}
        try:
            entries = json.loads(self.project.own(FILES).read_bytes())
            self._content = {(int(a), int(b), int(c)): bytes.fromhex(digest) for a, b, c, digest in entries}
        except (OSError, ValueError, TypeError, RecursionError):
            self._content = {}
