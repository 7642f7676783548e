"""`lpp embed`: images to a feature store."""

from pathlib import Path
from typing import Annotated

import typer

from .console import bar, say, show_json
from .options import Errors, Json, OnError, Spec, Views, check_store, report_left_aside, report_skipped


def embed(
    source: Annotated[
        Path, typer.Argument(help="Folder per class, .zip, or a .csv/.jsonl manifest.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the feature store.", show_default=False)],
    encoder: Spec = None,
    views: Views = 0,
    labels: Annotated[bool, typer.Option(help="Whether the images have labels.")] = True,
    on_error: Errors = OnError.stop,
    as_json: Json = False,
) -> None:
    """Embed images once, to train on them many times. Goes on where it was interrupted.

    Examples
    --------
    lpp embed photos/ -o photos.features
    lpp embed photos.csv -o photos.features -e onnx:immich-app/ViT-B-32__openai
    """
    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..images.embedder import embed as embed_images
    from ..images.sources import open_images

    check_store(output, source, encoder, views, "-o")
    images = open_images(source, labels=labels)
    opened = open_encoder(encoder or DEFAULT_ENCODER)
    with bar("Embedding") as progress:
        found = embed_images(images, opened, store=output, views=views, on_error=on_error.value, progress=progress)
    report_left_aside(found.left_aside, output)
    skipped = report_skipped(found.skipped)
    if as_json:
        show_json(
            {
                "store": str(output),
                "images": len(found.X),
                "views": views,
                "dim": found.X.shape[2],
                "classes": list(found.classes),
                "encoder": opened.spec,
                "computed": found.computed,
                "reused": found.reused,
                "left_aside": found.left_aside,
                "skipped": skipped,
                "ignored": images.ignored,
            }
        )
        return
    say(
        f"[bold]{{}}[/]: {len(found.X)} images of {len(found.classes)} classes, {found.X.shape[2]} dimensions, "
        f"{found.computed} computed now, {found.reused} reused, {len(found.skipped)} skipped",
        output,
    )
