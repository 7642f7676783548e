"""Options that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from .console import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..pixels.decoding import ImageError

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
Spec = Annotated[
    str,
    typer.Option("--encoder", "-e", help="embedded, onnx:FOLDER-OR-ID, open_clip:ARCH/PRETRAINED or https://…"),
]
OtherSpec = Annotated[
    Optional[str],  # noqa: UP045 - typer reads annotations at run time, and Python 3.10's `str | None` it does not like.
    typer.Option("--encoder", "-e", help="Where the encoder is, if it has moved since training."),
]
Views = Annotated[
    int, typer.Option("--views", min=0, help="Average this many random crops of an image instead of its centre.")
]


class OnError(str, Enum):
    """What to do about a bad image."""

    stop = "stop"
    skip = "skip"


Errors = Annotated[OnError, typer.Option("--on-error", help="What to do about a bad image.")]
Model = Annotated[Path, typer.Argument(help="A classifier that `lpp train` wrote.", show_default=False)]


def check_store(store: Path, source: Path, encoder: str, views: int, option: str) -> None:
    """Refuse a store among the images, or of other embeddings: it would be computed anew, and they be lost."""
    from ..encoders import open_encoder
    from ..store import FeatureStore, StoreError, is_store

    if source.is_dir() and source.resolve() in store.resolve().parents:
        raise typer.BadParameter(
            f"{store} is in the folder of the images, where it would be taken for a class: name one outside.",
            param_hint=option,
        )
    if not is_store(store):
        return
    try:
        held = FeatureStore(store).settings
    except StoreError:
        return  # Interrupted or damaged, which embedding repairs.
    if held.views != views or held.fingerprint != open_encoder(encoder).fingerprint:
        raise typer.BadParameter(
            f"{store} holds embeddings by --encoder {held.encoder} --views {held.views}: use these, name another "
            f"store, or remove it first.",
            param_hint=option,
        )


def report_left_aside(count: int, store: Path) -> None:
    """Warn of embeddings that the store held of other images."""
    if count:
        warn(
            f"{store} held the embeddings of {count} other images, and none of these. They are kept in "
            f"{store / 'replaced'}, where embedding those images again finds them; give each list a store of its own."
        )


def report_skipped(skipped: Sequence[ImageError]) -> list[dict[str, Any]]:
    """Warn of each picture that was left out; the same for JSON."""
    for problem in skipped:
        warn(f"skipped: {problem}")
    return [{"path": str(problem.path), "reason": problem.reason} for problem in skipped]
