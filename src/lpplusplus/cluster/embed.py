"""`lpp embed --engine ray`: images to a Parquet data set, on a cluster."""

import hashlib
import os
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from .._core.files import canonical_json
from .._core.progress import Progress
from ..encoders import Encoder, open_encoder
from ..images.embedder import embed
from ..images.embeddings import Embeddings, Origin
from ..images.errors import SourceError
from ..images.parquet.addresses import open_place, spelled
from ..images.parquet.columns import named_classes, to_table
from ..images.parquet.index import ParquetIndex
from ..images.sources.image_set import ImageSet
from .batches import measured_batch
from .connection import Slots, connected
from .errors import ClusterError
from .output import Output, PartReceipt, absolute, keep_settings, settings
from .parts import WorkPart, WorkPlan, plan
from .run import Outcome, run
from .tasks import run_tasks

MEASURE_FROM = 20
"""Fewest parts for which the batch size is measured: in a shorter run the measurement takes longer than it saves."""


@dataclass(frozen=True)
class Embedding:
    """What every worker needs to embed.

    Attributes
    ----------
    spec
        Name of the encoder.
    origin
        The encoder that workers must have: one with another model refuses.
    cpus
        Threads of a worker.
    batch
        Images per batch; None for the encoder's own.
    """

    spec: str
    origin: Origin
    cpus: int
    batch: int | None = None


@dataclass(frozen=True)
class Embedded:
    """What `embed_on_ray` did."""

    outcome: Outcome
    origin: Origin
    classes: tuple[str, ...]
    skipped: list[tuple[str, str]]
    ignored: int
    batch: int | None


def embed_on_ray(
    source: str,
    output: str,
    encoder: str,
    *,
    views: int = 0,
    labels: bool = True,
    slots: Slots | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Embedded:
    """Embed images on a Ray cluster into a Parquet data set that `lpplusplus.images.parquet` reads.

    Rows are those of the local engine, bit for bit on the same kind of machine, each once. Images that cannot be read
    are left out and listed. A stopped run continues where it was: parts that have a file are not done again.

    Parameters
    ----------
    source
        A folder of images, a manifest, Parquet files with images or tar archives, by path or address.
    output
        Folder of the data set, by path or address.
    encoder
        Name of the encoder, which every node must be able to open.
    views, labels
        As in `lpp embed`.
    slots
        What each worker asks for.
    address
        Address of the cluster; see `connected`.
    progress
        Called as `progress(done, total)`, in parts.
    """
    slots, output = slots or Slots(), absolute(output)
    origin = Origin.of(open_encoder(encoder), views)
    listed = plan(source, labels=labels)
    with connected(address):
        slots.check()
        work = _measured(Embedding(encoder, origin, slots.cpus), listed, slots, output)
        about = {"origin": origin.key, "batch": work.batch}
        key = hashlib.sha256(canonical_json(about, compact=True).encode()).hexdigest()
        target = Output(output, key)
        outcome = run(embed_part, work, listed, target, slots, progress)
    if not outcome.rows:
        first = (*listed.problems, *outcome.skipped)[0]
        raise SourceError(f"no image of {spelled(source)} can be used. First skipped: {first[0]}: {first[1]}")
    classes, names = _classes(listed, outcome, spelled(source))
    system, folder = open_place(output)
    try:
        rows = tuple(receipt.rows for receipt in outcome.receipts)
        ParquetIndex(origin, classes, names, listed.labelled, rows).write(system, folder)
    except OSError as error:
        raise ClusterError(f"{spelled(output)} cannot be written ({error!s}).") from None
    skipped = [*listed.problems, *outcome.skipped]
    return Embedded(outcome, origin, classes, skipped, listed.ignored, work.batch)


def embed_part(work: Embedding, output: Output, part: WorkPart, number: int) -> PartReceipt:
    """On a worker: embed a part and write it."""
    start = time.perf_counter()
    found = embedded(part, _encoder(work), work.origin)
    skipped = tuple((str(one.path), one.reason) for one in found.skipped)
    rows = output.write(number, to_table(found, output.about_part(number, part, skipped)))
    labels = frozenset(() if found.labels is None else found.labels.tolist())
    return PartReceipt(rows, labels, skipped, time.perf_counter() - start)


def embedded(part: WorkPart, encoder: Encoder, origin: Origin) -> Embeddings:
    """The embeddings of a part, by the local engine's own code; bad images are among `skipped`."""
    opened = part.open()
    if isinstance(opened, Embeddings):
        raise SourceError("this Parquet data set has embeddings already: name images.")
    return embed(opened, encoder, views=origin.views, on_error="skip") if len(opened) else _nothing(opened, origin)


def limit_threads(cpus: int) -> None:
    """Let joblib, which encoders ask for the number of processors, see only those of this worker."""
    os.environ["LOKY_MAX_CPU_COUNT"] = str(cpus)


def _encoder(work: Embedding) -> Encoder:
    limit_threads(work.cpus)
    encoder = opened_encoder(work.spec)
    if not Origin.of(encoder).comparable(work.origin):
        raise ClusterError(
            f"{work.spec} is another model on {os.uname().nodename} than here: install the same files on every node."
        )
    if work.batch is not None:
        encoder.batch_size = work.batch
    return encoder


@cache
def opened_encoder(spec: str) -> Encoder:
    """An encoder, opened once in each worker process."""
    return open_encoder(spec)


def _nothing(images: ImageSet, origin: Origin) -> Embeddings:
    labels = None if images.labels is None else images.labels[:0]
    empty = np.empty((0, *origin.shape), np.float32)
    return Embeddings(empty, labels, origin=origin, hashes=np.empty((0, 32), np.uint8))


def _measured(work: Embedding, listed: WorkPlan, slots: Slots, output: str) -> Embedding:
    """With the batch size that is fastest on a worker, if the run is long enough to gain by it."""
    if len(listed.parts) < MEASURE_FROM:
        return work
    kept = settings(output)
    if kept is None:
        (((_, found),),) = run_tasks(_measure, [(work, listed.parts[0])], replace(slots, workers=1), ahead=0)
        if isinstance(found, Exception):
            raise ClusterError(str(found)) from None
        kept = {"batch": found}
        keep_settings(output, kept)
    return replace(work, batch=kept.get("batch"))


def _measure(work: Embedding, part: WorkPart) -> int | None:
    try:
        opened: Any = part.open()
        return measured_batch(_encoder(work), opened)
    except Exception as error:
        raise ClusterError(str(error)) from None


def _classes(listed: WorkPlan, outcome: Outcome, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if listed.classes or not listed.labelled:
        return listed.classes, listed.names
    labels = frozenset().union(*(receipt.labels for receipt in outcome.receipts))
    return named_classes(labels, all(label.isdecimal() for label in labels), where)
