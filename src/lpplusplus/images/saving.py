"""What a file of a classifier of images has besides its method, how it is read again, and the Hugging Face hub."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from .._core.model_file import ModelFormatError, load
from ..encoders.class_text import check_templates
from .embeddings import DIGEST, Origin
from .training_data import TrainingData, kept_in
from .words import short

if TYPE_CHECKING:
    from .classifier import ImageClassifier

_SAVED = ("spec", "fingerprint", "preprocessing", "dim")
"""What a file keeps of an `Origin`."""
MOST_DIGESTS = 100_000
"""Digests of training images in a file, to recognise them later; if there are more, the smallest digests are kept."""


def description(clf: ImageClassifier, *, support: bool = False) -> dict[str, Any]:
    """What a file has besides the method; with `support`, also data about its photos.

    For a loaded classifier it includes what was found when it was trained.
    """
    photos: dict[str, Any] = {"trained_on": b"".join(sorted(clf._seen)[:MOST_DIGESTS]).hex()}
    if support:
        held = () if clf.validation_ is None else clf.validation_.paths
        photos = {
            "trained_on": b"".join(clf.support_.digests()).hex(),
            "photos": [short(path) for path in clf.support_.paths],
            "validated_on": [short(path) for path in held],
        }
    found = clf.insight_.as_dict() if hasattr(clf, "insight_") else None
    return {
        "images": {
            "encoder": clf.origin_ and {name: getattr(clf.origin_, name) for name in _SAVED},
            "templates": list(clf._prompts),
            "names": list(clf.names_),
            "numbers": clf.classes_.dtype.kind in "iu",
            "views": clf._views,
            **photos,
        },
        "insight": found or getattr(clf.classifier_, "metadata_", {}).get("insight"),
    }


@dataclass(frozen=True, eq=False)
class Saved:
    """What a file says."""

    method: FewShotClassifier
    classes: NDArray[Any]
    names: tuple[str, ...]
    origin: Origin | None
    templates: tuple[str, ...]
    views: int
    seen: frozenset[bytes]
    data: TrainingData | None
    """None if it was saved without its photos."""


def read_saved(path: str | PathLike[str]) -> Saved:
    """Read and check a file that `ImageClassifier.save` wrote.

    Raises
    ------
    ModelFormatError
        It is not such a file.
    """
    model = load(path)
    try:
        about = model.metadata_["images"]
        names, made, views = tuple(about["names"]), about["encoder"], int(about["views"])
        origin = None if made is None else Origin.read({**made, "views": views})
        if len(names) != len(model.classes_) or not all(isinstance(name, str) for name in names):
            raise ValueError("names are not those of the classes")
        templates = check_templates(about["templates"])
        classes = model.classes_.astype(np.int64) if about["numbers"] else model.classes_
        seen = bytes.fromhex(about.get("trained_on", ""))  # Files of earlier versions do not say.
        data = kept_in(vars(model).get("task_"), [str(one) for one in classes], names, origin, seen, about)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFormatError(
            f"{path} holds a classifier of embeddings without an image encoder: use lpplusplus.load."
        ) from error
    digests = frozenset(seen[i : i + DIGEST] for i in range(0, len(seen), DIGEST))
    return Saved(model, classes, names, origin, templates, views, digests, data)


class Sharing:
    """The part of `ImageClassifier` that goes to the hub and comes from there."""

    def push_to_hub(  # type: ignore[misc]  # Of no other class.
        self: ImageClassifier,
        repo_id: str,
        *,
        private: bool | None = None,
        branch: str | None = None,
        message: str = "Upload a classifier of lpplusplus",
        card: bool = True,
        token: str | None = None,
    ) -> str:
        """Upload it to the Hugging Face hub, with a model card of what training found; returns the commit's address.

        Only the last two parts of the paths in training's findings are uploaded. The embeddings of the photos are not
        uploaded, so a fetched classifier cannot be changed by `add` and the like.

        Parameters
        ----------
        repo_id
            Repository, such as "me/birds". It is made if there is none.
        private, branch, message, token
            As huggingface_hub has them. The token is by default that of `hf auth login`.
        card
            Whether to write the model card, README.md; it replaces an existing one.
        """
        from .hub import push

        self._check_fitted()
        model = copy.copy(self.classifier_)
        model.metadata_ = description(self)
        options = {"private": private, "branch": branch, "commit_message": message, "token": token}
        return push(model, repo_id, ignore_patterns=None if card else ["README.md"], **options)

    @classmethod
    def from_pretrained(  # type: ignore[misc]
        cls: type[ImageClassifier],
        name: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        **opening: Any,
    ) -> ImageClassifier:
        """Load a classifier from the Hugging Face hub, or from a folder that is like a repository.

        Parameters
        ----------
        name
            Repository, such as "me/birds", or a folder.
        revision, token, cache_dir, local_files_only
            As huggingface_hub has them.
        **opening
            `encoder`, `on_error`, `progress` and `allow_network` of `load`. No downloaded file can set them.
        """
        from .hub import fetch

        path = fetch(
            os.fspath(name), revision=revision, token=token, cache_dir=cache_dir, local_files_only=local_files_only
        )
        return cls.load(path, **opening)
