"""`lpp embed`, `lpp predict`, `lpp train` and `lpp bench run` with `--engine ray`."""

import hashlib
import os
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np

from .._core.base import FewShotClassifier
from .._core.files import canonical_json
from .._core.parameters import Progress
from ..bench.cell import Cell, EmbeddedDataset, Row
from ..bench.run_cell import run_cell, versions
from ..bench.runner import CellJob
from ..encoders import Encoder, open_encoder
from ..encoders.class_text import DEFAULT_TEMPLATE
from ..images.answers import Question, answers, check_question
from ..images.classifier import ImageClassifier
from ..images.embedder import embed
from ..images.embeddings import Embeddings, Origin
from ..images.errors import SourceError
from ..images.parquet.addresses import open_place, spelled
from ..images.parquet.tables import KEY, VERSION, named_classes, text, to_table, write_index
from ..images.sources import ImageSet
from ..images.store.feature_store import ShardIndex
from ..images.store.shards import Receipt
from .connection import ClusterError, Slots, connected, limit_threads, run_tasks
from .jobs import RunResult, absolute, run_parts
from .parts import WorkPart, plan
from .rows import distributed_rows


def embed_on_ray(
    source: str,
    output: str,
    encoder: str,
    *,
    views: int = 0,
    labels: bool = True,
    batch_size: int | None = None,
    slots: Slots | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
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
    batch_size
        Images that the encoder takes at once; by default its own, with which rows are those of the local engine.
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
    arguments = {"spec": encoder, "origin": origin, "batch_size": batch_size}
    about = {"origin": origin.key, "batch": batch_size}
    with connected(address):
        done = run_parts(embed_part, arguments, listed, output, about, slots, progress)
    if not done.rows:
        path, why = done.skipped[0]
        raise SourceError(f"no image of {spelled(source)} can be used. First skipped: {path}: {why}")
    classes, names = listed.classes, listed.names
    if listed.labelled and not classes:
        found = frozenset[str]().union(*(part.labels for part in done.parts))
        classes, names = named_classes(found, all(label.isdecimal() for label in found), spelled(source))
    system, folder = open_place(output)
    try:
        receipts = tuple(Receipt(part.rows) for part in done.parts)
        write_index(system, folder, ShardIndex(origin, classes, names, listed.labelled, receipts))
    except OSError as error:
        raise ClusterError(f"{spelled(output)} cannot be written ({error!s}).") from None
    return replace(done, origin=origin, classes=classes)


def embed_part(part: WorkPart, spec: str, origin: Origin, batch_size: int | None) -> tuple[Embeddings, Any]:
    """On a worker: the embeddings of a part, and its table."""
    encoder = _encoder(spec, batch_size)
    if not Origin.of(encoder).comparable(origin):
        raise ClusterError(
            f"{spec} is another model on {os.uname().nodename} than here: install the same files on every node."
        )
    images = part.open()
    if isinstance(images, Embeddings):
        raise SourceError("this Parquet data set has embeddings already: name images.")
    embeddings = _embedded(images, encoder, origin)
    return embeddings, to_table(embeddings, {})


@cache
def _encoder(spec: str, batch_size: int | None) -> Encoder:
    """An encoder, opened once in each worker process."""
    opened = open_encoder(spec)
    opened.batch_size = batch_size or opened.batch_size
    return opened


def _embedded(images: ImageSet, encoder: Encoder, origin: Origin) -> Embeddings:
    """The embeddings of a part, by the local engine's own code; bad images are among `skipped`."""
    if len(images):
        return embed(images, encoder, views=origin.views, on_error="skip")
    labels = None if images.labels is None else images.labels[:0]
    empty = np.empty((0, *origin.shape), np.float32)
    return Embeddings(empty, labels, origin=origin, hashes=np.empty((0, 32), np.uint8))


def predict_on_ray(
    model: str | os.PathLike[str],
    source: str,
    output: str,
    question: Question,
    *,
    encoder: str | None = None,
    allow_network: bool = False,
    slots: Slots | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Classify images on a Ray cluster, part by part: no process holds more than one part.

    Writes Parquet files with the columns `path`, `label` and `probability` of the likeliest class, `top_labels` and
    `top_probabilities`, and if asked for `set` and `none_of_these`. Continues where it was stopped.

    Parameters
    ----------
    model
        A classifier that `lpp train` wrote.
    source
        Images as `embed_on_ray` takes them, or a Parquet data set of embeddings.
    output
        Folder for the answers, by path or address.
    question
        What to answer.
    encoder, allow_network
        As in `ImageClassifier.load`.
    slots, address, progress
        As in `embed_on_ray`.
    """
    slots, output = slots or Slots(), absolute(output)
    with open(model, "rb") as file:
        content = file.read()  # A worker may not be able to read this machine's disk.
    check_question(_classifier(content, encoder, allow_network), question)  # Raise here, not on a worker.
    listed = plan(source, labels=False)
    about = {"model": hashlib.sha256(content).hexdigest(), "question": asdict(question)}
    arguments = {"model": content, "question": question, "encoder": encoder, "allow_network": allow_network}
    with connected(address):
        return run_parts(answer_part, arguments, listed, output, about, slots, progress)


def answer_part(
    part: WorkPart, model: bytes, question: Question, encoder: str | None, allow_network: bool
) -> tuple[Embeddings, Any]:
    """On a worker: the embeddings of a part, and the table of the answers about it."""
    clf = _classifier(model, encoder, allow_network)
    embeddings = part.open()
    if isinstance(embeddings, ImageSet):
        opened = clf.open_encoder()
        embeddings = _embedded(embeddings, opened, Origin.of(opened))
    told = answers(clf, embeddings, question).as_dicts(question.top) if len(embeddings) else []
    return embeddings, _table(told, question)


@cache
def _classifier(model: bytes, encoder: str | None, allow_network: bool) -> ImageClassifier:
    """The classifier, read once in each worker process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.lpp")
        with open(path, "wb") as file:
            file.write(model)
        return ImageClassifier.load(path, encoder=encoder, on_error="skip", allow_network=allow_network)


def _table(told: list[dict[str, Any]], question: Question) -> Any:
    """A row for each answer."""
    import pyarrow as pa

    kinds = {
        "path": pa.string(),
        "label": pa.string(),
        "probability": pa.float32(),
        "top_labels": pa.list_(pa.string()),
        "top_probabilities": pa.list_(pa.float32()),
    }
    if question.sets is not None:
        kinds["set"] = pa.list_(pa.string())
    if question.none is not None:
        kinds["none_of_these"] = pa.bool_()
    for answer in told:
        top = answer["top"]
        answer |= {"path": text(answer["path"]), **top[0], "top_labels": [one["label"] for one in top]}
        answer["top_probabilities"] = [one["probability"] for one in top]
    metadata = {KEY: canonical_json({"version": VERSION}).encode()}
    return pa.Table.from_pylist(told, pa.schema(kinds.items(), metadata))


def train_on_ray(
    source: str,
    *,
    encoder: str | None = None,
    template: str | Sequence[str] = DEFAULT_TEMPLATE,
    method: FewShotClassifier | None = None,
    names: Mapping[str, str] | None = None,
    val: Any = None,
    allow_network: bool = False,
    slots: Slots | None = None,
    address: str | None = None,
) -> tuple[ImageClassifier, dict[str, Any]]:
    """Train on embeddings that Ray workers hold. Up to rounding, the classifier is that of the local engine.

    Parameters
    ----------
    source
        Embeddings with labels, as in `distributed_rows`.
    encoder, template, method, allow_network
        As in `ImageClassifier`. The method must be one that is made of sums over rows: `LPPlusPlus` (the default),
        `GDA` or `ZeroShot`.
    names, val
        As in `ImageClassifier.fit`.
    slots, address
        As in `embed_on_ray`.

    Returns
    -------
    ImageClassifier
        Without embeddings: only the workers had them.
    dict
        How many `images` there were and how many `workers` held them; `accuracy`, the fraction of validation images or
        of held-out images that it gets right, or None; and on which of them it was `measured`.
    """
    if method is not None and method.memory is None:
        raise SourceError(
            f"{type(method).__name__} needs all embeddings in one process: train it with the local engine, or take "
            f"LPPlusPlus, GDA or ZeroShot."
        )
    clf = ImageClassifier(encoder, template=template, method=method, allow_network=allow_network)
    with connected(address), distributed_rows(source, slots) as support:
        if support.labels is None:
            raise SourceError(f"{spelled(source)} has no labels to train on.")
        clf.fit(support, val=val, names=names)
        workers = len(support.X._mine)  # type: ignore[attr-defined]
    validation = clf.validation_
    del clf.training_data_
    accuracy, measured = None, "not measured"
    if validation is not None:
        accuracy, measured = clf.evaluate(validation).accuracy, "validation images"
    else:
        history = clf.classifier_.history_.as_arrays()
        if len(history.get("held_out_loss", ())):
            accuracy = float(history["held_out_accuracy"][int(np.argmin(history["held_out_loss"]))])
            measured = "held-out images"
    return clf, {"images": len(support), "workers": workers, "measured": measured, "accuracy": accuracy}


class RayWorkers:
    """For the benchmark: runs cells on the connected cluster; only the driver writes results, as without Ray.

    Embeddings are put into the object store once, and sent to each node once. A cell whose node is lost runs again
    elsewhere. A cell asks for one processor, and for a GPU if its parameters name one (`device = "cuda"`).

    Parameters
    ----------
    slots
        What a cell asks for, and how many run at once.
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.count = slots.check()

    def start(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def run(self, data: EmbeddedDataset, jobs: Iterator[CellJob]) -> Iterator[list[Row]]:
        import ray

        everywhere = ray.put(data)
        tasks = ((everywhere, cell, draw, limit, self.slots.cpus) for cell, draw, limit in jobs)
        for ended in run_tasks(_cell, tasks, self.slots, asked=self._asked):
            yield [_failed(job[1], row) if isinstance(row, Exception) else row for job, row in ended]

    def _asked(self, job: tuple[Any, ...]) -> Slots:
        return Slots(self.slots.cpus, max(self.slots.gpus, float(on_gpu(job[1]))), self.slots.workers)


def on_gpu(cell: Cell) -> bool:
    """Whether a cell's method is told to train on a GPU."""
    return str(cell.parameters.get("device", "")).startswith("cuda")


def check_gpus(cells: Iterator[Cell]) -> None:
    """Refuse a plan with cells for a GPU if no node has one: they would wait for ever."""
    if any(map(on_gpu, cells)):
        Slots(gpus=1).check()


def _cell(data: EmbeddedDataset, cell: Cell, draw: Any, limit: float | None, cpus: int) -> Row:
    limit_threads(cpus)
    return run_cell(cell, data, draw, limit=limit)


def _failed(cell: Cell, error: Exception) -> Row:
    said = str(error) if isinstance(error, ClusterError) else "".join(traceback.format_exception(error))
    return Row(cell, "failed", versions=versions(), traceback=said, finished=time.time())
