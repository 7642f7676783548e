"""Files to download: the classifier, one ONNX file, a report, the labelled photos. Also fetches encoders."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from .._core.files import atomic_write
from .._core.parameters import Progress
from ..encoders import known_encoders
from ..encoders.base import EncoderError
from ..images.classifier import ImageClassifier
from .desk import Desk
from .journal import ProjectError

FILES = {
    "file": "classifier.lpp",
    "onnx": "classifier.onnx",
    "report": "report.html",
    "photos": "photos.zip",
}
KINDS = tuple(FILES)
MEGABYTE = 10**6
PULL = ("-m", "lpplusplus", "encoders", "pull")
"""The command that fetches an encoder."""


def export(desk: Desk, kind: str) -> None:
    """Make a file in the background, in `.lpp/exports/`."""
    desk.start(kind, lambda progress: _make(desk, kind, progress))


def path_of(desk: Desk, name: str) -> Path | None:
    """Path of an exported file."""
    return desk.project.hidden / "exports" / name if name in FILES.values() else None


def _make(desk: Desk, kind: str, progress: Progress) -> str:
    name = FILES[kind]
    makers: dict[str, Callable[[Desk, Path, Progress], None]] = {
        "file": _file, "onnx": _onnx, "report": _report, "photos": _photos
    }  # fmt: skip
    progress(0, 1)
    makers[kind](desk, desk.project.own("exports", name), progress)
    return name


def _classifier(desk: Desk) -> ImageClassifier:
    found = desk.learner.snapshot.classifier
    if found is None:
        raise ProjectError("there is no classifier yet: add photos to two classes.")
    return found


def _file(desk: Desk, path: Path, _: Progress) -> None:
    _classifier(desk).save(path)


def _onnx(desk: Desk, path: Path, progress: Progress) -> None:
    from ..deploy.export import export_onnx

    export_onnx(_classifier(desk), path, progress=progress)


def _report(desk: Desk, path: Path, progress: Progress) -> None:
    _classifier(desk).report(path, progress=progress)


def _photos(desk: Desk, path: Path, progress: Progress) -> None:
    """A zip file without compression: photos are compressed already."""
    photos = [photo for some in desk.project.listing().classes.values() for photo in some]
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for done, photo in enumerate(photos):
            progress(done, len(photos))
            if desk.project.path_of(photo.path).is_file():
                archive.write(desk.project.path_of(photo.path), photo.path)


def switch(desk: Desk, name: str) -> None:
    """Use another encoder; fetch it first if it is not here."""
    (kind,) = [kind for kind in known_encoders() if kind.scheme == name]
    if kind.here() is not False:
        desk.learner.use(name)
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
        desk.learner.use(name)

    desk.start(f"encoder {name}", fetch)


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
