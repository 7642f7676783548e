"""One ONNX file from a trained classifier, photo in, probabilities out; and two small programs that use it.

`pixels.py` prepares a photo, `tower.py` encodes it, `head.py` classifies; here they are joined, compared with the
classifier, and written. `photo.py` and `photo.html` are the programs. Here is also how to tell our files from others.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import compose
from PIL import Image

from ... import __version__
from ..._core.base import FewShotClassifier
from ..._core.files import atomic_write, seal, sealed
from ..._core.parameters import Progress
from ...encoders import Encoder
from ...encoders.onnx import runtime
from ...images.answers import FALSE_ALARMS, none_threshold
from ...images.classifier import ImageClassifier
from ...images.hub import public_spec
from .head import IR_VERSION, OPSET, ExportError, head_model
from .pixels import pixels_model
from .tower import image_tower, in_eight_bits

PRODUCER = "lpplusplus"
LARGEST = 2**31 - 1
"""Largest size of a protobuf file, in bytes."""
TOLERANCE = 1e-4
"""Largest difference in probability between a classifier and its export."""
TRIED = ((300, 200), (120, 260))
"""Sizes of the made-up images on which an export is compared with its classifier."""
ABOUT, TITLE = "/*about*/null", "<!--title-->"
"""Placeholders in the page, for its data and its title."""
EARLIER = frozenset(
    {
        "d0dcebd40203083cd00d2c0fb09b447f914a100b981a335e5da3ddda568add5c",
        "a3da26e954a8f688ef8c38548d843067a9a3429600b040c313f1b274918c9cd1",
    }
)
"""SHA-256 of the programs that were written before they were sealed, with placeholders."""
LARGEST_PROGRAM = 2**20
"""Bytes of a program that are read."""
_ONNX = re.compile(rb"\x08[\x01-\x7f]\x12\x0alpplusplus\x1a", re.DOTALL)
"""How an exported model begins: its IR version and its producer's name."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    takes: str
    """"image" or "embedding", the name of the input."""
    why_head_only: str
    """Why it takes embeddings; empty if it takes photos."""
    bytes: int
    difference: float
    """Largest difference in probability from the classifier on a few made-up inputs."""
    metadata: dict[str, str]
    """Metadata in the file."""


def export_onnx(
    classifier: ImageClassifier | FewShotClassifier,
    path: str | os.PathLike[str],
    *,
    head_only: bool = False,
    int8: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write a classifier as one ONNX file, atomically, after comparing both on made-up inputs.

    Parameters
    ----------
    classifier
        Trained or loaded. A classifier of embeddings, or one whose encoder is a service, gives a file that takes
        embeddings.
    path
        The file; ".onnx" is usual.
    head_only
        Leave the encoder out: embeddings in, probabilities out.
    int8
        Store the encoder's weights in eight bits.
    progress
        Called as `progress(done, total)`.

    Raises
    ------
    ExportError
        If the classifier cannot be exported, or the export would answer differently.
    """
    images = classifier if isinstance(classifier, ImageClassifier) else None
    method = classifier.classifier_ if isinstance(classifier, ImageClassifier) else classifier
    why = "--head-only was asked for" if head_only else why_head_only(images)
    if why and int8:
        raise ExportError(f"--int8 is for the weights of an encoder, and this export has none: {why}.")
    told = progress or (lambda done, total: None)
    told(0, 3)
    model = head_model(method, OPSET, IR_VERSION) if images is None or why else _whole(images, method, int8)
    metadata = _metadata(method, images)
    _describe(model, metadata)
    told(1, 3)
    if model.ByteSize() > LARGEST:
        size = model.ByteSize() / 1e9
        raise ExportError(f"it has {size:.1f} GB, and an ONNX file at most 2: try --int8, or --head-only.")
    content, takes = bytes(model.SerializeToString()), model.graph.input[0].name
    difference = _difference(content, takes, images, method)
    if difference > TOLERANCE and not int8:
        raise ExportError(f"the export differs from the classifier by {difference:.2g} in probability: report this.")
    told(2, 3)
    with atomic_write(path) as file:
        file.write(content)
    told(3, 3)
    return Exported(takes, why, len(content), difference, metadata)


def why_head_only(images: ImageClassifier | None) -> str:
    """Why a file cannot hold the classifier's encoder; empty if it can."""
    if images is None or images.origin_ is None:
        return "it was trained on embeddings, and does not know their encoder"
    spec = images.origin_.spec if isinstance(images.encoder, Encoder | None) else images.encoder
    return f"its encoder is a service, {spec}" if spec.startswith(("http://", "https://")) else ""


def _whole(images: ImageClassifier, method: FewShotClassifier, int8: bool) -> onnx.ModelProto:
    """Preprocessing, encoder and head in one graph."""
    tower = image_tower(images.open_encoder())
    if int8:
        in_eight_bits(tower.model)
    encoder, prefix = tower.model, "encoder_"
    embedding = prefix + tower.output
    head = head_model(method, tower.opset, encoder.ir_version, tower.dtype(tower.output))
    pixels = pixels_model(tower.preprocessing, "pixels", tower.dtype(tower.input), tower.opset, encoder.ir_version)
    del encoder.metadata_props[:]
    seen = compose.merge_models(pixels, encoder, [("pixels", tower.input)], prefix2=prefix, outputs=[embedding])
    return compose.merge_models(seen, head, [(embedding, "embedding")], name="lpplusplus")


def _describe(model: onnx.ModelProto, metadata: dict[str, str]) -> None:
    onnx.helper.set_model_props(model, metadata)
    model.producer_name, model.producer_version = PRODUCER, __version__
    versions = {one.domain: one.version for one in model.opset_import}  # `compose` repeats them at every merge.
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in versions.items())


def _metadata(method: FewShotClassifier, images: ImageClassifier | None) -> dict[str, str]:
    """What a program or a person needs to know: text, or JSON of lists and tables."""
    about: dict[str, Any] = {
        "classes": [str(label) for label in method.classes_.tolist()],
        "method": type(method).__name__,
        "made_by": f"lpplusplus {__version__}",
    }
    limit = none_threshold(method)
    if limit is not None and np.isfinite(limit):
        about["none_of_these"] = {"false_alarms": FALSE_ALARMS, "below": limit}
    if images is not None:
        about["names"] = list(images.names_)
        if images.origin_ is not None:
            made_by = ("spec", "fingerprint", "preprocessing", "dim")
            about["encoder"] = {name: getattr(images.origin_, name) for name in made_by}
            about["encoder"]["spec"] = public_spec(images.origin_.spec)
            about["templates"] = list(images._prompts)
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in about.items()
    }


def _difference(content: bytes, takes: str, images: ImageClassifier | None, method: FewShotClassifier) -> float:
    """The largest difference in probability between an export and what it was made from."""
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def answer(feed: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return np.asarray(session.run(["probabilities"], dict(feed))[0])

    rng = np.random.default_rng(0)
    if takes == "embedding" or images is None:
        rows = rng.standard_normal((8, method.n_features_in_)).astype(np.float32)
        return float(np.abs(answer({takes: rows}) - method.predict_proba(rows)).max())
    made = [Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize(size) for size in TRIED]
    ours = images.predict_proba(made)
    theirs = np.concatenate([answer({takes: np.asarray(one)}) for one in made])
    return float(np.abs(ours - theirs).max())


def is_export(path: Path) -> bool:
    """Whether a file was written by `lpp export`, and a program is still as it was written: nothing is lost with it."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        if path.suffix.lower() == ".onnx":
            return _ONNX.match(file.read(64)) is not None
        content = file.read(LARGEST_PROGRAM)
    return sealed(content, "export") or _template_digest(content) in EARLIER


def _template_digest(content: bytes) -> str:
    """Digest of a program with the placeholders in their places, as the template has them."""
    content = re.sub(rb"\A(\"\"\".* `python )[^\n]*( photo\.jpg)", rb"\1THIS_FILE\2", content)
    content = re.sub(rb"(?m)^(<title>|<h1>)[^\n]*(</title>|</h1>)$", rb"\1" + TITLE.encode() + rb"\2", content)
    content = re.sub(rb"(?m)^const about = [^\n]*;$", b"const about = " + ABOUT.encode() + b";", content)
    return hashlib.sha256(content).hexdigest()


def program_paths(model: Path) -> tuple[Path, Path]:
    """Paths of the programs of `birds.onnx`: `birds.py`, and `birds.onnx.html`, since a report may be `birds.html`."""
    return model.with_suffix(".py"), model.with_name(f"{model.name}.html")


def write_programs(model: Path, classes: Sequence[str]) -> list[Path]:
    """Write the programs for the exported `model`, each atomically: a Python program and a page; their paths."""
    here = files(__package__)
    page = (here / "photo.html").read_text(encoding="utf-8")
    about = json.dumps({"model": model.name, "classes": [*classes]})
    # Only "</" and "<!" could end a script element, and JSON has "<" inside strings only.
    page = page.replace(ABOUT, about.replace("<", "\\u003c")).replace(TITLE, html.escape(model.stem))
    program = (here / "photo.py").read_text(encoding="utf-8").replace("THIS_FILE", model.with_suffix(".py").name)
    paths = program_paths(model)
    for path, text in zip(paths, (seal(program, "export", "# {}"), seal(page, "export")), strict=True):
        with atomic_write(path) as file:
            file.write(text.encode())
    return [*paths]
