"""Files to download: the classifier, one ONNX file, a report, the labelled photos. Also fetches encoders."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .._core.files import atomic_write
from .._core.parameters import Progress
from ..encoders import known_encoders
from ..encoders.base import EncoderError
from ..images.classifier import ImageClassifier
from ..images.safe_paths import FolderError
from .state import AppState

MEGABYTE = 10**6
PULL = ("-m", "lpplusplus", "encoders", "pull")
"""The command that fetches an encoder."""


def _classifier(state: AppState) -> ImageClassifier:
    found = state.learner.snapshot.classifier
    if found is None:
        raise FolderError("there is no classifier yet: add photos to two classes.")
    return found


def _file(state: AppState, path: Path, _: Progress) -> None:
    _classifier(state).save(path)


def _onnx(state: AppState, path: Path, progress: Progress) -> None:
    from ..deploy.export import export_onnx

    export_onnx(_classifier(state), path, progress=progress)


def _report(state: AppState, path: Path, progress: Progress) -> None:
    _classifier(state).report(path, progress=progress)


def _photos(state: AppState, path: Path, progress: Progress) -> None:
    """A zip file without compression: photos are compressed already."""
    photos = [photo for some in state.project.listing().classes.values() for photo in some]
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for done, photo in enumerate(photos):
            progress(done, len(photos))
            if state.project.path_of(photo.path).is_file():
                archive.write(state.project.path_of(photo.path), photo.path)


class FileKind(NamedTuple):
    """A kind of file that can be made."""

    name: str
    make: Callable[[AppState, Path, Progress], None]
    title: str
    about: str


FILES = {
    "file": FileKind(
        "classifier.lpp", _file, "The classifier",
        "For lpp predict, lpp serve and Python. It holds no photos, only numbers made from them.",
    ),
    "onnx": FileKind(
        "classifier.onnx", _onnx, "One ONNX file",
        "Photo in, probabilities out, for onnxruntime on any machine, phone or web page.",
    ),
    "report": FileKind(
        "report.html", _report, "A report",
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
    made = {kind.name for kind in FILES.values()}
    return state.project.hidden / "exports" / name if name in made else None


def switch(state: AppState, name: str) -> None:
    """Use another encoder; fetch it first if it is not here."""
    (kind,) = [kind for kind in known_encoders() if kind.scheme == name]
    if kind.here() is not False:
        state.learner.use(name)
        return

    def fetch(progress: Progress) -> None:
        total = round((kind.size or 0) / MEGABYTE)
        cache = _cache()
        before = _size(cache)
        # The same command as on the command line: it can be stopped at any time, and continues the next time.
        command = [sys.executable, *PULL, name]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as pull:
            try:
                while pull.poll() is None:
                    progress(min(total, (_size(cache) - before) // MEGABYTE), total)
                    time.sleep(0.5)
            finally:
                pull.kill()
            said = pull.stderr.read() if pull.stderr else ""
        if pull.returncode:
            raise EncoderError(said.strip().splitlines()[-1] if said.strip() else f"{name} cannot be fetched.")
        state.learner.use(name)

    state.start(f"encoder {name}", fetch)


def _cache() -> Path:
    import huggingface_hub.constants

    return Path(huggingface_hub.constants.HF_HUB_CACHE)


def _size(folder: Path) -> int:
    """Bytes of all files below a folder; links count nothing."""
    return sum(
        os.lstat(os.path.join(top, name)).st_size
        for top, _, names in os.walk(folder)
        for name in names
        if not os.path.islink(os.path.join(top, name)) and os.path.exists(os.path.join(top, name))
    )
