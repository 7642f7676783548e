"""The files of a CLIP in ONNX form, from a folder or from the Hugging Face hub at one commit; and their fingerprint."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import mmap
import re
import textwrap
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import FROM_HUB, EncoderError, NetworkNeededError, check_local

if TYPE_CHECKING:
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
TOWERS = ("visual", "textual")
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
        for role, model in zip(TOWERS, (self.visual, self.textual), strict=True):
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
    layouts = {name: {role: folder / file for role, file in files.items()} for name, files in LAYOUTS.items()}
    layout = next((name for name, at in layouts.items() if any(at[tower].is_file() for tower in TOWERS)), None)
    if layout is None:
        expected = " or ".join(f"{files['visual']} + {files['textual']}" for files in LAYOUTS.values())
        raise EncoderError(f"{folder} holds no CLIP model in ONNX form: expected {expected}.")
    at = layouts[layout]
    missing = [LAYOUTS[layout][role] for role in at if role not in OPTIONAL and not at[role].is_file()]
    if missing:
        raise EncoderError(f"{folder} lacks {', '.join(missing)}: copy the whole model there.")
    for tower in TOWERS:
        _check_data(at[tower])
    settings = {role: _json(at[role]) if at[role].is_file() else {} for role in OPTIONAL}
    preprocessing = read_preprocessing(at["preprocessing"], layout)
    return ModelFolder(at["visual"], at["textual"], at["tokenizer"], **settings, preprocessing=preprocessing)


def _check_data(model: Path) -> None:
    for name in external_files(model):
        if not (model.parent / name).is_file():
            raise EncoderError(f"{model} keeps weights in {name}, which is missing beside it.")


def read_preprocessing(path: Path, layout: str) -> Preprocessing:
    """Read the settings of one of `LAYOUTS`, or raise `EncoderError`."""
    from .pixels.preprocessing import from_open_clip, from_transformers

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


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{path} is not JSON ({error}): copy the model there again.") from error
    if not isinstance(value, dict):
        raise EncoderError(f"{path} should hold a JSON object, not a {type(value).__name__}.")
    return value


HUB_ID = re.compile(r"(?P<id>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def locate(source: str, *, download: bool = True) -> tuple[Path, str]:
    """Folder of a model, and the name that leads to exactly it again.

    Parameters
    ----------
    source
        A folder, or else a hub id such as "immich-app/ViT-B-32__openai", with "@revision" if wanted. A folder that
        exists wins.
    download
        Whether the hub may be asked; otherwise the model must be on this machine.
    """
    if not download:
        check_local(source)
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder, source
    match = HUB_ID.fullmatch(source)
    if match is None or source.startswith(("./", "~")) or ".." in source:
        raise EncoderError(
            f"onnx:{source}: no such folder, and not a hub id like immich-app/ViT-B-32__openai or name/model@revision."
        )
    snapshot = _snapshot(match["id"], match["revision"], download)
    _check(snapshot)
    # The hub's cache names a snapshot's folder after its commit.
    return snapshot, f"{match['id']}@{snapshot.name}"


def _snapshot(hub_id: str, revision: str | None, download: bool) -> Path:
    """The folder of the hub's cache with all files of the model, or an error that says what to do."""
    import huggingface_hub
    import huggingface_hub.utils

    errors: Any = huggingface_hub.utils  # Every version has the errors here.
    get = partial(huggingface_hub.snapshot_download, hub_id, local_files_only=not download)
    wanted = {f"{name}*" if name.endswith(".onnx") else name for files in LAYOUTS.values() for name in files.values()}
    try:
        if download:
            _fetch_large(hub_id, revision, wanted)
        snapshot = Path(get(revision=revision, allow_patterns=sorted(wanted)))
        missing = _missing_data(snapshot)
        if missing and not download:
            raise NetworkNeededError(FROM_HUB)
        return Path(get(revision=snapshot.name, allow_patterns=missing)) if missing else snapshot
    except errors.RevisionNotFoundError as error:
        raise EncoderError(f"onnx:{hub_id}: the hub has no revision {revision!r} of it.") from error
    except errors.GatedRepoError as error:
        raise EncoderError(
            f"onnx:{hub_id}: the hub asks you to accept this model's terms first: do so on its page, then log in "
            f"with `hf auth login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise EncoderError(f"onnx:{hub_id}: neither a folder here nor a public model on the hub.") from error
    except EncoderError:
        raise
    except Exception as error:  # The hub's client lets errors of whichever HTTP library it uses through.
        if not download:
            raise NetworkNeededError(FROM_HUB) from error
        at = f" --revision {revision}" if revision else ""
        problem = next(iter(str(error).strip().splitlines()), "")
        raise EncoderError(
            f"onnx:{hub_id} is not in the local cache and could not be downloaded ({type(error).__name__}: {problem}). "
            f"Where there is a network, run `hf download {hub_id}{at} --local-dir FOLDER`, copy FOLDER here and pass "
            f"onnx:FOLDER; or use --encoder embedded, which needs no network."
        ) from error


def _fetch_large(hub_id: str, revision: str | None, wanted: set[str]) -> None:
    """Say how much will be downloaded, if anything, and fetch large files; interrupted downloads are continued."""
    import huggingface_hub as hub

    try:
        hub.snapshot_download(hub_id, revision=revision, allow_patterns=sorted(wanted), local_files_only=True)
        return
    except Exception:  # Not here, or not all of it.
        info = hub.HfApi().model_info(hub_id, revision=revision, files_metadata=True, timeout=30)
    files = [f for f in info.siblings or () if any(fnmatch.fnmatch(f.rfilename, pattern) for pattern in wanted)]
    logging.getLogger(__name__).warning(
        "%s is downloaded once from the Hugging Face hub, %.0f MB, and kept in %s.",
        hub_id, sum(f.size or 0 for f in files) / 1e6, hub.constants.HF_HUB_CACHE,
    )  # fmt: skip
    for file in files:
        if file.lfs is not None:
            _resume(hub_id, info.sha, file.rfilename, file.lfs)


def _resume(hub_id: str, commit: str | None, name: str, lfs: Any) -> None:
    """Put a large file into the hub's cache. The hub's own client would start an interrupted file again from zero."""
    import huggingface_hub as hub
    from huggingface_hub import file_download, utils

    tools: Any = utils  # Every version has the tools here.
    blobs = Path(hub.constants.HF_HUB_CACHE, file_download.repo_folder_name(repo_id=hub_id, repo_type="model"), "blobs")
    blobs.mkdir(parents=True, exist_ok=True)
    part, whole = blobs / f"{lfs.sha256}.lpp-part", blobs / lfs.sha256
    with tools.WeakFileLock(blobs / f"{lfs.sha256}.lpp-lock"):
        if whole.exists():
            return
        with part.open("ab") as file:
            url, headers = hub.hf_hub_url(hub_id, name, revision=commit), tools.build_hf_headers()
            at = {"resume_size": file.tell(), "expected_size": lfs.size}
            file_download.http_get(url, file, headers=headers, displayed_filename=name, **at)
        if file_digest(part) != lfs.sha256:
            part.unlink()
            raise EncoderError(f"onnx:{hub_id}: {name} arrived damaged and was removed: try again.")
        part.replace(whole)


def _check(snapshot: Path) -> None:
    """Refuse large files that differ from the hub's: the cache names files after their SHA-256."""
    for path in snapshot.rglob("*"):
        blob = path.resolve()
        if path.is_file() and re.fullmatch(r"[0-9a-f]{64}", blob.name) and file_digest(path) != blob.name:
            raise EncoderError(f"{path} is damaged: remove {blob}, then it is downloaded again.")


def _missing_data(snapshot: Path) -> list[str]:
    """Weights kept outside the ONNX files under names that the first download could not know."""
    models = [snapshot / files[tower] for files in LAYOUTS.values() for tower in TOWERS]
    data = [model.parent / name for model in models if model.is_file() for name in external_files(model)]
    return [path.relative_to(snapshot).as_posix() for path in data if not path.exists()]
