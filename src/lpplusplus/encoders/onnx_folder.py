"""A folder with CLIP exported to ONNX: where its files are in the two common layouts, and their fingerprint."""

import hashlib
import json
import mmap
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .base import EncoderError
from .pixels.configs import from_open_clip, from_transformers
from .pixels.preprocessing import Preprocessing

LAYOUTS = {
    "open_clip": {
        "visual": "visual/model.onnx",
        "textual": "textual/model.onnx",
        "preprocessing": "visual/preprocess_cfg.json",
        "tokenizer": "textual/tokenizer.json",
        "tokenizer_config": "textual/tokenizer_config.json",
        "config": "config.json",
    },
    "transformers": {
        "visual": "onnx/vision_model.onnx",
        "textual": "onnx/text_model.onnx",
        "preprocessing": "preprocessor_config.json",
        "tokenizer": "tokenizer.json",
        "tokenizer_config": "tokenizer_config.json",
        "config": "config.json",
    },
}
"""Which file is where."""
OPTIONAL = ("tokenizer_config", "config")
"""Files that a model may lack."""
LOCATION = re.compile(rb"\n\x08location\x12")
"""How an ONNX file names a file with weights outside of it: protobuf entries {1: "location", 2: file name}."""


@dataclass(frozen=True)
class ModelFolder:
    """Files and settings of one exported model."""

    visual: Path
    textual: Path
    tokenizer: Path
    tokenizer_config: dict[str, Any]
    config: dict[str, Any]
    preprocessing: Preprocessing

    def fingerprint(self) -> str:
        """SHA-256 of the weights, the tokenizer and its settings. Where the folder lies does not matter."""
        digest = hashlib.sha256()
        for role, model in (("visual", self.visual), ("textual", self.textual)):
            digest.update(f"{role} {file_digest(model)}\n".encode())
            for name in external_files(model):
                digest.update(f"{role} {name} {file_digest(model.parent / name)}\n".encode())
        digest.update(f"tokenizer {file_digest(self.tokenizer)}\n".encode())
        digest.update(json.dumps([self.tokenizer_config, self.config], sort_keys=True).encode())
        return f"onnx-{digest.hexdigest()}"


def open_folder(folder: Path) -> ModelFolder:
    """Find a model's files and read its settings.

    Raises
    ------
    EncoderError
        If the folder has neither layout, a file is missing, or a setting is not understood.
    """
    present = {
        name: files
        for name, files in LAYOUTS.items()
        if any((folder / files[tower]).is_file() for tower in ("visual", "textual"))
    }
    if not present:
        expected = " or ".join(f"{files['visual']} + {files['textual']}" for files in LAYOUTS.values())
        raise EncoderError(f"{folder} holds no CLIP model in ONNX form: expected {expected}.")
    layout, files = next(iter(present.items()))
    missing = [file for role, file in files.items() if role not in OPTIONAL and not (folder / file).is_file()]
    if missing:
        raise EncoderError(f"{folder} lacks {', '.join(missing)}: copy the whole model there.")
    for tower in ("visual", "textual"):
        for name in external_files(folder / files[tower]):
            if not ((folder / files[tower]).parent / name).is_file():
                raise EncoderError(f"{folder / files[tower]} keeps weights in {name}, which is missing beside it.")
    return ModelFolder(
        folder / files["visual"],
        folder / files["textual"],
        folder / files["tokenizer"],
        _json(folder / files["tokenizer_config"], optional=True),
        _json(folder / files["config"], optional=True),
        read_preprocessing(folder / files["preprocessing"], layout),
    )


def read_preprocessing(path: Path, layout: str) -> Preprocessing:
    """Read the settings of one of `LAYOUTS`, or raise `EncoderError`."""
    read = from_open_clip if layout == "open_clip" else from_transformers
    try:
        return read(_json(path))
    except (ValueError, TypeError, OverflowError) as error:
        raise EncoderError(f"{path}: {textwrap.shorten(str(error), 300, placeholder=' …')}") from error


def external_files(model: Path) -> list[str]:
    """Names of the files beside an ONNX file in which it keeps weights, sorted.

    Raises
    ------
    EncoderError
        If a name leads out of the model's folder.
    """
    names = set()
    with model.open("rb") as file:
        if model.stat().st_size == 0:
            raise EncoderError(f"{model} is empty: copy the model there again.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for match in LOCATION.finditer(content):
                length, start = content[match.end()], match.end() + 1
                if length & 0x80:
                    length, start = (length & 0x7F) | content[start] << 7, start + 1
                names.add(content[start : start + length].decode("utf-8", "replace"))
    root = model.parent.resolve()
    for name in names:
        # Links are followed by name only: the hub's cache links every file to a store elsewhere.
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise EncoderError(f"{model} points to {name!r}, outside {root}: refused.")
    return sorted(names)


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    status = path.stat()
    return _digest_of_content(path.resolve(), status.st_size, status.st_mtime_ns)


@cache
def _digest_of_content(path: Path, size: int, changed: int) -> str:
    """SHA-256 of a file. Large files are read once per process, unless their size or time of change differs."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{path} is not JSON ({error}): copy the model there again.") from error
    if not isinstance(value, dict):
        raise EncoderError(f"{path} should hold a JSON object, not a {type(value).__name__}.")
    return value
