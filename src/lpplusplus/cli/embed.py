"""`lpp embed`: images to a feature store."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from .console import bar, say, show_json, tell_skipped
from .options import OnError, Spec, Views
from .outputs import check_store
from .ray import PANEL, ByEngine, Engine, EngineOption, RayAddress, RayOptions, WorkerCpus, WorkerGpus, Workers


def embed(
    source: Annotated[
        Path,
        Argument(help="Folder per class, .zip or manifest; with Ray also Parquet, .tar and addresses such as s3://…"),
    ],
    output: Annotated[Path, Option("--output", "-o", help="Folder of the feature store; with Ray of Parquet files.")],
    encoder: Spec = None,
    views: Views = 0,
    labels: Annotated[bool, Option(help="Whether the images have labels.")] = True,
    batch_size: Annotated[
        int | None, Option(min=1, help="Images at once.", show_default="the encoder's own", rich_help_panel=PANEL)
    ] = None,
    on_error: ByEngine = None,
    engine: EngineOption = Engine.local,
    ray_address: RayAddress = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = 1,
    worker_gpus: WorkerGpus = 0,
) -> None:
    """Embed images once, to train on them many times. Goes on where it was interrupted.

    Examples
    --------
    lpp embed photos/ -o photos.features
    lpp embed photos.csv -o photos.features -e onnx:immich-app/ViT-B-32__openai
    lpp embed s3://bucket/photos -o s3://bucket/features --engine ray
    """
    if engine is Engine.ray:
        ray = RayOptions(ray_address, workers, worker_cpus, worker_gpus)
        more = {"views": views, "labels": labels, "batch_size": batch_size}
        _tell(ray.embed(source, output, encoder, on_error, **more))
        return
    if batch_size is not None:
        raise typer.BadParameter("only with --engine ray.", param_hint="--batch-size")
    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..images.embedder import embed as embed_images
    from ..images.sources import open_images

    check_store(output, source, encoder, views, "-o")
    images = open_images(source, labels=labels)
    opened = open_encoder(encoder or DEFAULT_ENCODER)
    with bar("Embedding") as progress:
        found = embed_images(
            images, opened, store=output, views=views, on_error=(on_error or OnError.stop).value, progress=progress
        )
    about = {
        "store": str(output),
        "images": len(found.X),
        "views": views,
        "dim": found.X.shape[2],
        "classes": list(found.classes),
        "encoder": opened.spec,
        "computed": found.computed,
        "reused": found.reused,
        "left_aside": 0,  # Of version 0.1; stores of other images are refused now.
        "skipped": tell_skipped(found.skipped),
        "ignored": images.ignored,
    }
    _tell(about)


def _tell(about: dict[str, Any]) -> None:
    show_json(about)
    place, *_ = about.values()
    parts = f" in {about['parts']} parts" if "parts" in about else ""
    workers = f" by {about['workers']} workers" if "workers" in about else ""
    say(
        f"[bold]{{}}[/]: {about['images']} images of {len(about['classes'])} classes{parts}, {about['dim']} "
        f"dimensions, {about['computed']} computed now{workers}, {about['reused']} reused, {len(about['skipped'])} "
        f"skipped",
        place,
    )
