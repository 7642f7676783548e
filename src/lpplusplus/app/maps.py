"""The map of the photos: which are on it, and where. PCA takes milliseconds; UMAP runs in a separate process."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.parameters import Progress
from ..images.embeddings import Embeddings
from ..images.projection import FEWEST, FEWEST_FOR_UMAP, MOST, has_umap, pca
from ..images.safe_paths import FolderError
from .folder import Listing
from .learner import after_people
from .state import AppState

JOB = "map"
SECONDS_BETWEEN_LOOKS = 0.2
"""Between two checks whether the job was cancelled."""


def on_map(state: AppState, listing: Listing) -> Embeddings | None:
    """The photos on the map, evenly chosen from all; None if there are too few."""
    everything = sorted(listing.where().values())
    found = state.learner.embeddings(everything[:: -(-len(everything) // MOST) or 1])
    return None if found is None or len(found) < FEWEST else found


def points(state: AppState, found: Embeddings) -> tuple[NDArray[np.float64], str]:
    """Coordinates of the photos, and how they were made: by UMAP if it was drawn and there are no new photos."""
    keys = _keys(found)
    by_umap, by_pca = (state.drawn.get(kind, {}) for kind in ("UMAP", "PCA"))
    if by_umap and by_umap.keys() >= set(keys):
        return np.array([by_umap[key] for key in keys]), "UMAP"
    if by_pca.keys() != set(keys):
        by_pca = state.drawn["PCA"] = dict(zip(keys, pca(found.rows).tolist(), strict=True))
    return np.array([by_pca[key] for key in keys]), "PCA"


def _keys(found: Embeddings) -> list[str]:
    """A key of each embedding, from encoder and content."""
    assert found.origin is not None
    return [f"{found.origin.key} {digest.hex()}" for digest in found.digests()]


def can_have_umap(found: Embeddings) -> bool:
    """Whether UMAP can draw these photos here."""
    return has_umap() and len(found) >= FEWEST_FOR_UMAP


def draw(state: AppState, kind: str) -> None:
    """Draw it by "UMAP", in the background; or by "PCA" again."""
    if kind == "UMAP":
        state.start(JOB, lambda progress: _draw(state, progress))
    else:
        state.show_map("UMAP", {})


def _draw(state: AppState, progress: Progress) -> None:
    found = on_map(state, state.learner.snapshot.listing)
    if found is None or not can_have_umap(found):
        raise FolderError(f"UMAP needs {FEWEST_FOR_UMAP} photos.")
    after_people(10)
    xy = _umap(found.rows, progress)
    state.show_map("UMAP", dict(zip(_keys(found), xy.tolist(), strict=True)))


def _umap(rows: NDArray[Any], progress: Progress) -> NDArray[np.float64]:
    """UMAP in a separate process: it compiles for many seconds, blocks other threads, and stays in memory."""
    command = [sys.executable, "-m", "lpplusplus.images.projection"]
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made:
        np.save(given, rows, allow_pickle=False)
        given.seek(0)
        with subprocess.Popen(command, stdin=given, stdout=made, stderr=subprocess.PIPE, text=True) as child:
            said: list[str] = []
            assert child.stderr is not None
            reader = threading.Thread(target=said.extend, args=(child.stderr,), daemon=True)
            reader.start()
            try:
                while child.poll() is None:
                    progress(*_read(said))
                    reader.join(SECONDS_BETWEEN_LOOKS)
            finally:
                child.kill()
            reader.join()
        if child.returncode:
            raise FolderError(said[-1].strip() if said else "UMAP stopped without an error message.")
        made.seek(0)
        return np.asarray(np.load(io.BytesIO(made.read()), allow_pickle=False), np.float64)


def _read(said: list[str]) -> tuple[int, int]:
    """The last line of progress, such as "120 500"."""
    numbers = said[-1].split() if said else []
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else (0, 0)
