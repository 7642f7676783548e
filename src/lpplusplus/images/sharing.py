"""A classifier of images on the Hugging Face hub."""

import copy
import os
from typing import TYPE_CHECKING, Any

from .saved import description

if TYPE_CHECKING:
    from .classifier import ImageClassifier


class Sharing:
    """The part of `ImageClassifier` that goes to the hub and comes from there."""

    def push_to_hub(  # type: ignore[misc]  # Of no other class.
        self: "ImageClassifier",
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
        cls: "type[ImageClassifier]",
        name: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        **opening: Any,
    ) -> "ImageClassifier":
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
