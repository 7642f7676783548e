"""`lpp predict --engine ray`: images, or embeddings, to answers in Parquet files, on a cluster."""

import hashlib
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from .._core.files import canonical_json
from .._core.progress import Progress
from ..images.answers import Question, answers, check_question
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings, Origin
from ..images.parquet.columns import KEY, VERSION, text
from .connection import Slots, connected
from .embed import embedded, limit_threads
from .output import Output, PartReceipt, absolute
from .parts import WorkPart, plan
from .run import Outcome, run


@dataclass(frozen=True)
class Answering:
    """What every worker needs to answer.

    Attributes
    ----------
    model
        The bytes of the classifier's file, since a worker may not be able to read the driver's disk.
    question
        What to answer.
    encoder, allow_network
        As in `ImageClassifier.load`.
    cpus
        Threads of a worker.
    """

    model: bytes
    question: Question
    encoder: str | None
    allow_network: bool
    cpus: int


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
) -> tuple[Outcome, list[tuple[str, str]]]:
    """Classify images on a Ray cluster, part by part: no process holds more than one part.

    Writes Parquet files with the columns `path`, `label` and `probability` of the likeliest class, `top_labels` and
    `top_probabilities`, and if asked for `set` and `none_of_these`. Continues where it was stopped. Returns what was
    done, and the path and reason of each image that could not be read.

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
        content = file.read()
    work = Answering(content, question, encoder, allow_network, slots.cpus)
    clf = _classifier(work)
    check_question(clf, question)  # Raise here, not on a worker.
    listed = plan(source, labels=False)
    about = {"model": hashlib.sha256(content).hexdigest(), "question": asdict(question)}
    key = hashlib.sha256(canonical_json(about, compact=True).encode()).hexdigest()
    with connected(address):
        outcome = run(answer_part, work, listed, Output(output, key), slots, progress)
    return outcome, [*listed.problems, *outcome.skipped]


def answer_part(work: Answering, output: Output, part: WorkPart, number: int) -> PartReceipt:
    """On a worker: answer a part and write it."""
    start = time.perf_counter()
    clf = _classifier(work)
    opened = part.open()
    if isinstance(opened, Embeddings):
        found = opened
    else:
        encoder = clf.open_encoder()
        found = embedded(part, encoder, Origin.of(encoder))
    skipped = tuple((str(one.path), one.reason) for one in found.skipped)
    told = answers(clf, found, work.question).as_dicts(work.question.top) if len(found) else []
    rows = output.write(number, _table(told, work.question, output.about_part(number, part, skipped)))
    return PartReceipt(rows, frozenset(), skipped, time.perf_counter() - start)


def _classifier(work: Answering) -> ImageClassifier:
    limit_threads(work.cpus)
    return _loaded(work.model, work.encoder, work.allow_network)


@cache
def _loaded(model: bytes, encoder: str | None, allow_network: bool) -> ImageClassifier:
    """The classifier, read once in each worker process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.lpp")
        with open(path, "wb") as file:
            file.write(model)
        return ImageClassifier.load(path, encoder=encoder, on_error="skip", allow_network=allow_network)


def _table(told: list[dict[str, Any]], question: Question, about: dict[str, Any]) -> Any:
    import pyarrow as pa

    tops = [answer["top"] for answer in told]
    columns = {
        "path": pa.array([text(answer["path"]) for answer in told], pa.string()),
        "label": pa.array([top[0]["label"] for top in tops], pa.string()),
        "probability": pa.array([top[0]["probability"] for top in tops], pa.float32()),
        "top_labels": pa.array([[one["label"] for one in top] for top in tops], pa.list_(pa.string())),
        "top_probabilities": pa.array([[one["probability"] for one in top] for top in tops], pa.list_(pa.float32())),
    }
    if question.sets is not None:
        columns["set"] = pa.array([answer["set"] for answer in told], pa.list_(pa.string()))
    if question.none is not None:
        columns["none_of_these"] = pa.array([answer["none_of_these"] for answer in told], pa.bool_())
    head = canonical_json({"version": VERSION, **about}, compact=True)
    return pa.table(columns).replace_schema_metadata({KEY: head.encode()})
