"""How a classifier of images is kept: in a file, and on the Hugging Face hub."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._core import model_file
from .._core.model_file import ModelFormatError
from .._core.parameters import Progress
from ..encoders import DEFAULT_ENCODER, Encoder
from ..encoders.class_text import check_templates
from .embeddings import DIGEST, Origin
from .training_data import TrainingData, short

if TYPE_CHECKING:
    from .classifier import ImageClassifier

_OF_ORIGIN = ("spec", "fingerprint", "preprocessing", "dim")
"""What a file keeps of an `Origin`."""
MOST_DIGESTS = 100_000
"""Digests of training images in a file, to recognise them later; if there are more, the smallest digests are kept."""


def description(clf: ImageClassifier, *, support: bool = False) -> dict[str, Any]:
    """What a file has besides the method; with `support`, also data about its photos.

    For a loaded classifier it includes what was found when it was trained.
    """
    photos: dict[str, Any] = {"trained_on": b"".join(sorted(clf._seen)[:MOST_DIGESTS]).hex()}
    if support:
        held = clf.validation_
        photos = {
            "trained_on": b"".join(clf.support_.digests()).hex(),
            "photos": [short(path) for path in clf.support_.paths],
            "validated_on": [] if held is None else [short(path) for path in held.paths],
        }
        if held is not None and held.hashes is not None:
            photos["validation_digests"] = b"".join(held.digests()).hex()
    insight = clf.insight_.as_dict() if hasattr(clf, "insight_") else None
    return {
        "images": {
            "encoder": clf.origin_ and {name: getattr(clf.origin_, name) for name in _OF_ORIGIN},
            "templates": list(clf._prompts),
            "names": list(clf.names_),
            "numbers": clf.classes_.dtype.kind in "iu",
            "views": 0 if clf.origin_ is None else clf.origin_.views,
            **photos,
        },
        "insight": insight or getattr(clf.classifier_, "metadata_", {}).get("insight"),
    }


class Saving:
    """The part of `ImageClassifier` that goes to a file or to the hub, and comes from there."""

    def save(self: ImageClassifier, path: str | os.PathLike[str], *, support: bool = True) -> None:  # type: ignore[misc]
        """Write the classifier to one file, with what identifies its encoder; atomically.

        Parameters
        ----------
        path
            The file.
        support
            Keep the embeddings of the photos, without which it cannot be changed (`add`, `remove`, `rename`, `merge`)
            or checked. The photos themselves are not kept, only the last two parts of their paths.
        """
        self._check_fitted()
        support = support and hasattr(self, "support_")
        self.classifier_.save(path, metadata=description(self, support=support), support=support)

    @classmethod
    def load(  # type: ignore[misc]
        cls: type[ImageClassifier],
        path: str | os.PathLike[str],
        *,
        encoder: str | Encoder | None = None,
        on_error: Literal["stop", "skip"] = "stop",
        progress: Progress | None = None,
        allow_network: bool = False,
    ) -> ImageClassifier:
        """Read what `save` wrote.

        Parameters
        ----------
        path
            The file.
        encoder
            Where the encoder is now; by default where it was. A different model is refused at first use.
        on_error, progress, allow_network
            As in the constructor.

        Raises
        ------
        ModelFormatError
            It is not such a file.
        """
        model = model_file.load(path)
        clf = cls(encoder, on_error=on_error, progress=progress, allow_network=allow_network)
        try:
            about = model.metadata_["images"]
            clf.names_, made, clf.views = tuple(about["names"]), about["encoder"], int(about["views"])
            clf.origin_ = None if made is None else Origin.read({**made, "views": clf.views})
            if len(clf.names_) != len(model.classes_) or not all(isinstance(name, str) for name in clf.names_):
                raise ValueError("names are not those of the classes")
            clf._prompts = check_templates(about["templates"])
            clf.template = list(clf._prompts)
            clf.classifier_ = model
            clf.classes_ = model.classes_.astype(np.int64) if about["numbers"] else model.classes_
            seen = bytes.fromhex(about.get("trained_on", ""))  # Files of earlier versions do not say.
            clf._seen = frozenset(seen[i : i + DIGEST] for i in range(0, len(seen), DIGEST))
            if "task_" in vars(model):
                labels = [str(label) for label in clf.classes_.tolist()]
                clf.training_data_ = TrainingData.read(model.task_, labels, clf.names_, clf.origin_, about)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelFormatError(
                f"{path} holds a classifier of embeddings without an image encoder: use lpplusplus.load."
            ) from error
        if encoder is None and clf.origin_ is not None:
            clf.encoder = clf.origin_.spec
            clf._named_by = {clf.origin_.spec: os.fspath(path)}
        clf._where = DEFAULT_ENCODER if clf.encoder is None else clf.encoder
        return clf

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
        options: dict[str, Any] = {"private": private, "revision": branch, "commit_message": message, "token": token}
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
