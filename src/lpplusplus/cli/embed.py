"""`lpp embed`: images to a feature store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import bar, say, show_json, warn
from .options import (
    ByEngine,
    Engine,
    Json,
    On,
    OnError,
    RayAddress,
    Spec,
    Views,
    WorkerCpus,
    WorkerGpus,
    Workers,
    check_store,
    refuse_stopping,
    report_left_aside,
    report_skipped,
)

if TYPE_CHECKING:
    from ..cluster.slots import Slots


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder per class, .zip, or a .csv/.jsonl manifest; with Ray also Parquet files with images, .tar "
            "archives and addresses such as s3://bucket/photos.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder of the feature store; with Ray of Parquet files.", show_default=False
        ),
    ],
    encoder: Spec = None,
    views: Views = 0,
    labels: Annotated[bool, typer.Option(help="Whether the images have labels.")] = True,
    on_error: ByEngine = None,
    engine: On = Engine.local,
    ray_address: RayAddress = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = 1,
    worker_gpus: WorkerGpus = 0,
    as_json: Json = False,
) -> None:
    """Embed images once, to train on them many times. Goes on where it was interrupted.

    Examples
    --------
    lpp embed photos/ -o photos.features
    lpp embed photos.csv -o photos.features -e onnx:immich-app/ViT-B-32__openai
    lpp embed s3://bucket/photos -o s3://bucket/features --engine ray
    """
    if engine is Engine.ray:
        refuse_stopping(on_error)
        from ..cluster.slots import Slots

        _embed_on_ray(
            source, output, encoder, views, labels, Slots(worker_cpus, worker_gpus, workers), ray_address, as_json
        )
        return
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


def _embed_on_ray(
    source: Path,
    output: Path,
    encoder: str | None,
    views: int,
    labels: bool,
    slots: "Slots",
    address: str | None,
    as_json: bool,
) -> None:
    from ..cluster.embed import embed_on_ray
    from ..encoders import DEFAULT_ENCODER
    from ..images.parquet.addresses import masked, spelled

    with bar("Embedding on Ray") as progress:
        done = embed_on_ray(
            spelled(source), spelled(output), encoder or DEFAULT_ENCODER, views=views, labels=labels, slots=slots,
            address=address, progress=progress,
        )  # fmt: skip
    for path, reason in done.skipped:
        warn(f"skipped: {path}: {reason}")
    outcome = done.outcome
    if as_json:
        show_json(
            {
                "data_set": masked(output),
                "images": outcome.rows,
                "parts": len(outcome.receipts),
                "views": views,
                "dim": done.origin.dim,
                "classes": list(done.classes),
                "encoder": done.origin.spec,
                "computed": outcome.rows - outcome.reused,
                "reused": outcome.reused,
                "skipped": [{"path": path, "reason": reason} for path, reason in done.skipped],
                "ignored": done.ignored,
                "workers": outcome.workers,
                "batch_size": done.batch,
            }
        )
        return
    say(
        f"[bold]{{}}[/]: {outcome.rows} images of {len(done.classes)} classes in {len(outcome.receipts)} parts, "
        f"{done.origin.dim} dimensions, {outcome.rows - outcome.reused} computed now by {outcome.workers} workers, "
        f"{outcome.reused} reused, {len(done.skipped)} skipped",
        masked(output),
    )
