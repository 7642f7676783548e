"""`lpp push` and `lpp pull`: classifiers on the Hugging Face hub."""

import shutil
from typing import Annotated

from typer import Argument, Option

from .console import bar, remark, say, show_json
from .options import Json, ModelFile, NewModel
from .outputs import check_model

Repository = Annotated[str, Argument(help="Repository on the hub, such as me/birds.")]


def push(
    model: ModelFile,
    repository: Repository,
    private: Annotated[
        bool, Option("--private", help="Make a new repository that only you and those you name can see.")
    ] = False,
    branch: Annotated[str | None, Option(help="Branch to push to.", show_default="main")] = None,
    message: Annotated[
        str, Option("--message", "-m", help="Message of the commit.")
    ] = "Upload a classifier of lpplusplus",
    card: Annotated[bool, Option(help="Whether to write the model card over what is there.")] = True,
    as_json: Json = False,
) -> None:
    """Upload a classifier to the Hugging Face hub, with a model card of what training found.

    Log in first, with `hf auth login`.

    Examples
    --------
    lpp push birds.lpp me/birds --private
    lpp push birds.lpp me/birds -m "Two more species" --no-card
    """
    from .._core.model_file import load
    from ..images.hub import push as push_to_hub

    classifier = load(model)
    with bar("Uploading"):
        commit = push_to_hub(
            classifier,
            repository,
            private=True if private else None,
            branch=branch,
            commit_message=message,
            ignore_patterns=None if card else ["README.md"],
        )
    if as_json:
        show_json({"model": str(model), "repository": repository, "commit": commit})
    else:
        say("[bold]{}[/] is on the hub: {}", model, commit)


def pull(
    repository: Repository,
    output: NewModel,
    revision: Annotated[str | None, Option(help="Branch, tag or commit.", show_default="main")] = None,
    as_json: Json = False,
) -> None:
    """Download a classifier from the Hugging Face hub. The file is checked; its encoder is not opened.

    Examples
    --------
    lpp pull me/birds -o birds.lpp
    lpp pull me/birds -o birds.lpp --revision v2
    """
    check_model(output)
    from .._core.files import atomic_write
    from .._core.model_file import load
    from ..images.hub import fetch

    with bar("Downloading"):
        found = fetch(repository, revision=revision)
    classifier = load(found)
    with open(found, "rb") as source, atomic_write(output) as target:
        shutil.copyfileobj(source, target)
    labels = [str(label) for label in classifier.classes_.tolist()]
    encoder = (classifier.metadata_.get("images", {}).get("encoder") or {}).get("spec")
    if as_json:
        show_json({"model": str(output), "repository": repository, "classes": labels, "encoder": encoder})
        return
    say(
        "[bold]{}[/]: {} classes: {}", output, len(labels), ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
    )
    if encoder:
        remark(f"It was trained with the encoder {encoder}; lpp predict opens it if it is on this machine.")
