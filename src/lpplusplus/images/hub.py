"""Classifiers on the Hugging Face hub. A safetensors file is fetched, never code."""

import errno
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import huggingface_hub.utils
from huggingface_hub import HfApi, ModelCardData, hf_hub_download
from jinja2 import Environment, FileSystemLoader

from .. import __version__
from .._core.base import FewShotClassifier
from ..encoders.onnx_files import HUB_ID
from .embeddings import DIGEST
from .errors import SourceError
from .training_data import short
from .words import percent

FILE = "model.safetensors"
"""The classifier's file in a repository: the hub shows what is in files of that name."""
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES)
MOST_CLASSES = 100
"""Classes that a model card names."""
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#{}!&~$"})
errors: Any = huggingface_hub.utils  # Every version has the errors here.
_REASONS: tuple[tuple[Any, str], ...] = (
    (errors.HFValidationError, "this is not the name of a repository, such as me/birds"),
    (errors.RevisionNotFoundError, "the hub has no such revision of it"),
    (errors.GatedRepoError, "accept the terms on its page first, then log in with `hf auth login`"),
    (errors.RepositoryNotFoundError, "not on the hub, or not for you: log in with `hf auth login`"),
    ((errors.EntryNotFoundError, errors.LocalEntryNotFoundError), f"has no file {FILE} that could be fetched: it may "
     "be no classifier of lpplusplus"),
)  # fmt: skip


def push(
    classifier: FewShotClassifier,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    **options: Any,
) -> str:
    """Upload a classifier whose `metadata_` is that of a saved file; returns the address of the commit."""
    with _in_words(repo_id, writes_to=gettempdir()), TemporaryDirectory() as folder:
        hub = HfApi(token=token)
        name = hub.create_repo(repo_id, private=private, exist_ok=True).repo_id
        write_repository(classifier, Path(folder), repo_id)
        done: Any = hub.upload_folder(repo_id=name, folder_path=folder, **options)
    return str(done.commit_url)  # As text, older clients give the address of the branch.


def write_repository(classifier: FewShotClassifier, folder: Path, repo_id: str) -> None:
    """Write all that is uploaded: the classifier's file, and a card for people who find the repository."""
    (folder / "config.json").write_text(json.dumps({"lpplusplus": __version__}))  # Counts downloads.
    classifier.save(folder / FILE, metadata=public(classifier.metadata_), support=False)
    about = ModelCardData(library_name="lpplusplus", pipeline_tag="image-classification", tags=["few-shot", "lp++"])
    card = f"---\n{about.to_yaml()}\n---\n\n{model_card(classifier, repo_id)}"
    (folder / "README.md").write_text(card, encoding="utf-8")


def fetch(name: str, **options: Any) -> Path:
    """The path of a classifier's file, in a folder or in the cache of the hub's client.

    A repository's `config.json`, a stranger's file, is fetched to be counted and not read: only the user decides about
    encoder and network.
    """
    if Path(name).is_dir():
        return Path(name) / FILE
    with _in_words(name, writes_to=options.get("cache_dir") or huggingface_hub.constants.HF_HUB_CACHE):
        with suppress(errors.EntryNotFoundError, errors.LocalEntryNotFoundError):
            hf_hub_download(name, "config.json", **options)
        return Path(hf_hub_download(name, FILE, **options))


def public(metadata: dict[str, Any]) -> dict[str, Any]:
    """What others may see of a file's description: no path of this machine, no list of all photos."""
    shown: dict[str, Any] = json.loads(json.dumps(metadata), object_hook=_with_short_paths)
    images = shown.get("images", {})
    for all_of_them in ("photos", "validated_on"):
        images.pop(all_of_them, None)
    if images.get("encoder"):
        images["encoder"]["spec"] = public_spec(images["encoder"]["spec"])
    return shown


def public_spec(spec: str) -> str:
    """The name of an encoder without the folders in which its files are.

    >>> public_spec("onnx:/home/me/clip"), public_spec("open_clip:RN50/~/mine.pt"), public_spec("open_clip:RN50/cc12m")
    ('onnx:clip', 'open_clip:RN50/mine.pt', 'open_clip:RN50/cc12m')
    """
    scheme, _, model = spec.partition(":")
    here = Path(model).expanduser()
    if scheme == "onnx" and (here.is_dir() or not HUB_ID.fullmatch(model)):
        return f"onnx:{_last(here.resolve())}"
    if scheme == "open_clip" and not model.startswith("hf-hub:"):
        if model.startswith("local-dir:"):
            return f"open_clip:local-dir:{_last(model)}"
        arch, slash, weights = model.partition("/")
        return f"open_clip:{arch}{slash}{_last(weights)}"
    return spec


def _last(path: str | Path) -> str:
    """The last part of a path, of Windows too."""
    return re.split(r"[/\\]", str(path).rstrip("/\\"))[-1]


def _with_short_paths(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: short(value) if key in ("path", "first", "second") else value for key, value in entry.items()}


def model_card(model: FewShotClassifier, repo_id: str) -> str:
    """The card's text, in Markdown. Everything in it comes from the classifier's file."""
    metadata = public(model.metadata_)
    images = metadata.get("images", {})
    page = Environment(loader=FileSystemLoader(Path(__file__).parent), keep_trailing_newline=True)
    page.filters |= {"plain": _plain, "percent": percent}
    return page.get_template("model_card.md").render(
        repo_id=repo_id,
        method=type(model).__name__,
        labels=[str(label) for label in model.classes_.tolist()],
        most=MOST_CLASSES,
        images=images,
        count=len(images.get("trained_on", "")) // (2 * DIGEST),
        insight=defaultdict(lambda: None, metadata.get("insight") or {}),
    )


def _plain(text: object) -> str:
    """Text that Markdown shows as it is.

    >>> _plain("<b>reed_warbler</b>")
    '\\\\<b\\\\>reed\\\\_warbler\\\\</b\\\\>'
    """
    return " ".join(str(text).split()).translate(SPECIAL)


@contextmanager
def _in_words(name: str, writes_to: str | PathLike[str]) -> Iterator[None]:
    """Errors of the hub's client, in one line that says what to do."""
    try:
        yield
    except Exception as error:  # The client lets errors of its HTTP library through.
        raise SourceError(f"{name}: {_reason(error, writes_to)}.") from error


def _reason(error: Exception, writes_to: str | PathLike[str]) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    if isinstance(error, errors.HfHubHTTPError):
        status = getattr(getattr(error, "response", None), "status_code", None)
        may_not = status in (401, 403)
        remedy = "log in with `hf auth login`, with a token that may write" if may_not else "try again later"
        return f"the hub refuses ({status}): {remedy}"
    if isinstance(error, OSError) and error.errno in _OF_DISKS:
        return f"{error.filename or writes_to}: {error.strerror}"
    first = (str(error).strip().splitlines() or [""])[0]
    return f"the hub cannot be asked ({type(error).__name__}: {first})"
