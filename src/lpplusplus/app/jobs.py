"""Long work that the page starts: files to download, encoders to fetch, and the map of the photos."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.files import atomic_write
from .._core.parameters import Progress
from ..encoders import known_encoders
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings
from ..images.projection import FEWEST, FEWEST_FOR_UMAP, MOST, has_umap, pca
from ..images.safe_paths import FolderError
from .folder import Listing
from .learner import after_people
from .state import AppState

MEGABYTE = 10**6
PULL = ("-m", "lpplusplus", "encoders", "pull")
"""The command that fetches an encoder."""
MAP = "map"
"""The job that draws the map."""
SECONDS_BETWEEN_LOOKS = 0.2
"""Between two looks at a process, and whether its job was cancelled."""


# Files


def _classifier(state: AppState) -> ImageClassifier:
    found = state.learner.snapshot.classifier
    if found is None:
        raise FolderError("there is no classifier yet: add photos to two classes.")
    return found


def _onnx(state: AppState, path: Path, progress: Progress) -> None:
    from ..deploy.export import export_onnx

    export_onnx(_classifier(state), path, progress=progress)


def _photos(state: AppState, path: Path, progress: Progress) -> None:
    """A zip file without compression: photos are compressed already."""
    photos = state.project.listing().labelled
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for done, photo in enumerate(photos):
            progress(done, len(photos))
            if state.project.path_of(photo.path).is_file():
                archive.write(state.project.path_of(photo.path), photo.path)


class FileKind(NamedTuple):
    """A kind of file that can be made."""

    name: str
    make: Callable[[AppState, Path, Progress], object]
    title: str
    about: str


FILES = {
    "file": FileKind(
        "classifier.lpp", lambda state, path, _: _classifier(state).save(path), "The classifier",
        "For lpp predict, lpp serve and Python. It holds no photos, only numbers made from them.",
    ),
    "onnx": FileKind(
        "classifier.onnx", _onnx, "One ONNX file",
        "Photo in, probabilities out, for onnxruntime on any machine, phone or web page.",
    ),
    "report": FileKind(
        "report.html", lambda state, path, progress: _classifier(state).report(path, progress=progress), "A report",
        "How good it is and where it errs, as one page with small copies of some photos.",
    ),
    "photos": FileKind("photos.zip", _photos, "The labelled photos", "A zip file with a folder per class."),
}  # fmt: skip


def export(state: AppState, kind: str) -> None:
    """Make a file in the background, in `.lpp/exports/`."""
    wanted = FILES[kind]

    def make(progress: Progress) -> str:
        progress(0, 1)
        wanted.make(state, state.project.own("exports", wanted.name), progress)
        return wanted.name

    state.start(kind, make)


def path_of(state: AppState, name: str) -> Path | None:
    """Path of an exported file."""
    return state.project.hidden / "exports" / name if name in {kind.name for kind in FILES.values()} else None


# Encoders


def switch(state: AppState, name: str) -> None:
    """Use another encoder; fetch it first if it is not here."""
    (kind,) = [kind for kind in known_encoders() if kind.scheme == name]
    if kind.here() is not False:
        state.learner.use(name)
        return

    def fetch(progress: Progress) -> None:
        import huggingface_hub.constants

        total = round((kind.size or 0) / MEGABYTE)
        cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
        before = _size(cache)
        # The same command as on the command line: it can be stopped at any time, and continues the next time.
        _run([*PULL, name], lambda _: progress(min(total, (_size(cache) - before) // MEGABYTE), total),
             f"{name} cannot be fetched.", stdout=subprocess.DEVNULL)  # fmt: skip
        state.learner.use(name)

    state.start(f"encoder {name}", fetch)


def _size(folder: Path) -> int:
    """Bytes of all files below a folder; links count nothing."""
    paths = (os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)
    return sum(os.lstat(path).st_size for path in paths if not os.path.islink(path) and os.path.exists(path))


# The map. PCA takes milliseconds; UMAP runs in a separate process.


def on_map(state: AppState, listing: Listing) -> Embeddings | None:
    """Embeddings of the photos that are on the map, evenly chosen from all; None if there are too few."""
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

    def by_umap(progress: Progress) -> None:
        found = on_map(state, state.learner.snapshot.listing)
        if found is None or not can_have_umap(found):
            raise FolderError(f"UMAP needs {FEWEST_FOR_UMAP} photos.")
        after_people(10)
        state.show_map("UMAP", dict(zip(_keys(found), _umap(found.rows, progress).tolist(), strict=True)))

    if kind == "UMAP":
        state.start(MAP, by_umap)
    else:
        state.show_map("UMAP", {})


def _umap(rows: NDArray[Any], progress: Progress) -> NDArray[np.float64]:
    """UMAP in a separate process: it compiles for many seconds, blocks other threads, and stays in memory."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made:
        np.save(given, rows, allow_pickle=False)
        given.seek(0)
        _run(("-m", "lpplusplus.images.projection"), lambda said: progress(*_read(said)),
             "UMAP stopped without an error message.", stdin=given, stdout=made)  # fmt: skip
        made.seek(0)
        return np.asarray(np.load(io.BytesIO(made.read()), allow_pickle=False), np.float64)


def _read(said: list[str]) -> tuple[int, int]:
    """The last line of progress, such as "120 500"."""
    numbers = said[-1].split() if said else []
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else (0, 0)


def _run(arguments: Sequence[str], look: Callable[[list[str]], object], failure: str, **streams: Any) -> None:
    """Run a program of ours; `look`, called with what it has said on standard error, may raise, and ends it then."""
    said: list[str] = []
    with subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True, **streams) as child:
        reader = threading.Thread(target=said.extend, args=(child.stderr,), daemon=True)
        reader.start()
        try:
            while child.poll() is None:
                look(said)
                time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            child.kill()
        reader.join()
    if child.returncode:
        raise RuntimeError(next((line.strip() for line in reversed(said) if line.strip()), failure))
