"""CLIP exported to ONNX, from a folder or the hub: onnxruntime and tokenizers, no torch.

Two layouts are understood: `visual/model.onnx` and `textual/model.onnx` with `preprocess_cfg.json`, as exported from
open_clip, and `onnx/vision_model.onnx` and `onnx/text_model.onnx` with `preprocessor_config.json`, as exported from
transformers. Only operators built into onnxruntime run: a model file cannot bring code of its own.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core.threads import lazy
from .base import Access, Encoder, EncoderError, EncoderKind
from .onnx_files import external_files, locate, open_folder

if TYPE_CHECKING:
    from PIL import Image

    from .pixels.preprocessing import Preprocessing

OUTPUTS = (
    "image_embeds",
    "text_embeds",
    "image_embeddings",
    "text_embeddings",
    "embedding",
    "embeddings",
    "sentence_embedding",
)
"""Names of the embedding in exported graphs, the most specific first."""
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
"""Types of inputs that CLIP's towers have, in onnxruntime's words."""
SMALL = 64 * 2**20
"""In graphs of up to this many bytes, each thread runs its own images, one at a time: what a layer gives stays in the
core's cache. Divided among threads, such short layers would make them wait for each other, and for threads that decode
the next images. Embeddings do not depend on the number of threads."""


class OnnxEncoder(Encoder):
    """An exported CLIP.

    Parameters
    ----------
    source
        A folder, or a hub id with or without "@revision".
    threads
        For each tower; by default one per core that this process may use.
    download
        Whether a model that is not on this machine may be fetched from the hub.
    """

    def __init__(self, source: str, *, threads: int | None = None, download: bool = True) -> None:
        KIND.require()
        import joblib

        folder, name = locate(source, download=download)
        self.spec = f"onnx:{name}"
        self._files = open_folder(folder)
        self._threads = threads or joblib.cpu_count()
        self._prepare = self._files.preprocessing
        self.preprocessing = self._prepare.describe()
        self.fingerprint = self._files.fingerprint()
        self._visual = Tower(self._files.visual, self._threads, projected=self._projected)
        self._pixels = self._visual.only_input("tensor(float)", "tensor(float16)")
        shape, side = self._pixels.shape, self._prepare.size
        taken = [3, side, side]
        if len(shape) != 4 or any(
            isinstance(n, int) and n != m for n, m in zip(shape[1:], (3, side, side), strict=True)
        ):
            raise EncoderError(
                f"{self._files.visual} takes images of shape {shape}; its preprocessing gives (n, 3, {side}, {side})."
            )
        self.one_by_one = self._visual.one_by_one
        self.dim = self._visual.width or self.encode_prepared([np.zeros(taken, np.float32)]).shape[1]

    @property
    def image_tower(self) -> tuple[Path, str, str, Preprocessing]:
        """The file of the image tower, the names of its input and of its embedding, and its preprocessing."""
        return self._files.visual, self._pixels.name, self._visual.output, self._prepare

    @property
    def _projected(self) -> bool:
        # A CLIP tower's pooler_output is before the projection into the shared space; SigLIP's is that space.
        return str(self._files.config.get("model_type", "")) == "clip"

    @lazy
    def _textual(self) -> tuple[Tower, ClipTokenizer, list[str]]:
        """Tower, tokenizer and inputs, opened when first needed: predicting with a saved classifier needs no text."""
        files = self._files
        tower = Tower(files.textual, self._threads, projected=self._projected)
        ids = next((n for n in ("input_ids", "text", "tokens") if n in tower.inputs), None)
        ids = ids or tower.only_input("tensor(int32)", "tensor(int64)").name
        unknown = set(tower.inputs) - {ids, "attention_mask"}
        if unknown:
            raise EncoderError(f"{files.textual} has inputs that CLIP's text tower does not have: {sorted(unknown)}.")
        shape = tower.inputs[ids].shape
        length = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
        names = [ids, "attention_mask"][: len(tower.inputs)]
        tokenizer = ClipTokenizer(files.tokenizer, files.tokenizer_config, files.config, length, len(names) == 2)
        return tower, tokenizer, names

    def prepare(self, image: Image.Image, rng: np.random.Generator | None = None) -> NDArray[np.float32]:
        return self._prepare.centre(image) if rng is None else self._prepare.random_view(image, rng)

    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        if not len(batch):
            return np.empty((0, self.dim), np.float32)
        return self._visual.run({self._pixels.name: batch})

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._in_batches(texts, self._encode_texts)

    def _encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        tower, tokenizer, names = self._textual
        embeddings = tower.run(dict(zip(names, tokenizer(texts), strict=False)))
        if embeddings.shape[1] != self.dim:
            raise EncoderError(
                f"{self.spec}: texts have {embeddings.shape[1]} dimensions and images {self.dim}, so they do not "
                f"share a space. Export both towers with their projections."
            )
        return embeddings


def runtime() -> Any:
    """Import onnxruntime without its telemetry.

    From 1.29 on it reports the name and hashes of every model that is opened to its maker, and leaves an id of this
    machine in the cache folder. A user who wants that sets ORT_DISABLE_TELEMETRY=0.
    """
    refused = os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1") != "0"  # Read at the first import.
    import onnxruntime

    if refused:
        onnxruntime.disable_telemetry_events()  # If it was imported before.
    return onnxruntime


class Tower:
    """One ONNX graph that gives embeddings."""

    def __init__(self, path: Path, threads: int, *, projected: bool) -> None:
        onnxruntime = runtime()
        small = path.stat().st_size + sum((path.parent / name).stat().st_size for name in external_files(path)) <= SMALL
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = 1 if small else threads, 1
        options.log_severity_level = 3
        # Threads that wait actively would take cores from those that decode the next images.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no public base.
            raise EncoderError(f"{path} cannot be opened by onnxruntime: {error}") from error
        self._path = path
        self.inputs: dict[str, Any] = {one.name: one for one in self._session.get_inputs()}
        found = self._find_output(projected)
        self.output: str = found.name
        self.width: int | None = found.shape[-1] if isinstance(found.shape[-1], int) else None
        first = next(iter(self.inputs.values())).shape[0]
        self._batch: int | None = first if isinstance(first, int) else None
        self._side_by_side = threads if small else 1
        self._at_once = self._batch or (1 if small else None)
        self.one_by_one = small and self._at_once == 1

    def only_input(self, *types: str) -> Any:
        """The only input of these types."""
        found = [one for one in self.inputs.values() if one.type in types]
        if len(found) != 1:
            has = ", ".join(f"{one.name}: {one.type}" for one in self.inputs.values())
            raise EncoderError(f"{self._path} should have one input of type {' or '.join(types)}; it has {has}.")
        return found[0]

    def run(self, feed: Mapping[str, Sequence[Any] | NDArray[Any]]) -> NDArray[np.float32]:
        """Embeddings of all rows, in parts of the size that the graph needs, or of a fast size."""
        n = len(next(iter(feed.values())))
        step = self._at_once or n
        parts = [{name: rows[a : a + step] for name, rows in feed.items()} for a in range(0, n, step)]
        if len(parts) == 1 or self._side_by_side == 1:
            embeddings = np.concatenate([self._part(part) for part in parts])
        else:
            with ThreadPoolExecutor(self._side_by_side, thread_name_prefix="lpplusplus-encode") as pool:
                embeddings = np.concatenate(list(pool.map(self._part, parts)))
        if embeddings.ndim != 2 or len(embeddings) != n:
            raise EncoderError(f"{self._path}: {self.output} has shape {embeddings.shape} for {n} inputs.")
        if not np.isfinite(embeddings).all():
            raise EncoderError(f"{self._path} gives embeddings that are not finite: use a float32 export.")
        return embeddings

    def _part(self, part: Mapping[str, Sequence[Any] | NDArray[Any]]) -> NDArray[np.float32]:
        n = len(next(iter(part.values())))
        ready = {}
        for name, given in part.items():
            kind = self.inputs[name].type
            if kind not in TYPES:
                raise EncoderError(f"{self._path}: input {name} has type {kind}, which CLIP's towers do not have.")
            # A list of images becomes an array here: one part fits into a core's cache, and threads work in parallel.
            rows = np.asarray(given, TYPES[kind])
            if self._batch and n < self._batch:
                rows = np.resize(rows, (self._batch, *rows.shape[1:]))  # Filled up with copies.
            ready[name] = rows
        try:
            (values,) = self._session.run([self.output], ready)
        except Exception as error:
            raise EncoderError(f"{self._path} failed: {error}") from error
        return np.asarray(values, np.float32)[:n]

    def _find_output(self, projected: bool) -> Any:
        """The output that is an embedding in the space shared by images and texts."""
        outputs = {one.name: one for one in self._session.get_outputs()}
        named = [name for name in OUTPUTS if name in outputs]
        if not projected and "pooler_output" in outputs:
            named.append("pooler_output")
        flat = [name for name, one in outputs.items() if len(one.shape) == 2 and name != "pooler_output"]
        if len(flat) == 1:
            named += flat
        if not named:
            has = ", ".join(f"{name} {one.shape}" for name, one in outputs.items())
            raise EncoderError(
                f"{self._path} has no output that is an embedding in the shared space; it has {has}. Export it with "
                f"its projection, as image_embeds or text_embeds."
            )
        return outputs[named[0]]


CLIP_CONTEXT = 77
"""Default number of tokens per text."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
"""For `str.translate`: removes punctuation."""


class ClipTokenizer:
    """A tokenizer that gives all texts of a batch the same length.

    Parameters
    ----------
    path
        The `tokenizer.json`.
    settings
        `tokenizer_config.json`: the padding token and the longest text.
    config
        The model's `config.json`, in open_clip's or transformers' form.
    length
        Tokens per text, if the model's input has a fixed length.
    masks
        Whether the model masks padding. Then a batch need not be longer than its longest text.
    """

    def __init__(
        self, path: Path, settings: dict[str, Any], config: dict[str, Any], length: int | None, masks: bool
    ) -> None:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # The library raises bare Exception.
            raise EncoderError(f"{path} is not a tokenizer that this version of tokenizers reads: {error}") from error
        self.length = length or _context_length(settings, config)
        pad = settings.get("pad_token") or (tokenizer.padding or {}).get("pad_token") or ""
        pad = str(pad.get("content", "") if isinstance(pad, dict) else pad)
        pad_id = tokenizer.token_to_id(pad) if pad else 0
        if pad_id is None:
            raise EncoderError(f"{path} has no token {pad!r}, which its settings name for padding.")
        # Truncation leaves room for the end token, which the post-processor adds afterwards.
        tokenizer.enable_truncation(self.length)
        # Models that pool the last position need the padding; so do those whose length is fixed.
        shortens = masks and length is None and not str(config.get("model_type", "")).startswith("siglip")
        tokenizer.enable_padding(pad_id=pad_id, pad_token=pad, length=None if shortens else self.length)
        self._tokenizer = tokenizer
        cleaning = (config.get("text_cfg") or {}).get("tokenizer_kwargs") or {}
        self._canonical = cleaning.get("clean") == "canonicalize"

    def __call__(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids and mask, each (n, length)."""
        encoded = self._tokenizer.encode_batch([self._clean(text) for text in texts])
        ids = np.array([one.ids for one in encoded], np.int64)
        return ids, np.array([one.attention_mask for one in encoded], np.int64)

    def _clean(self, text: str) -> str:
        if self._canonical:
            text = text.replace("_", " ").translate(PUNCTUATION).lower()
        return " ".join(text.split())


def _context_length(settings: dict[str, Any], config: dict[str, Any]) -> int:
    candidates = (
        (config.get("text_cfg") or {}).get("context_length"),
        (config.get("text_config") or {}).get("max_position_embeddings"),
        settings.get("context_length"),
        settings.get("model_max_length"),
    )
    # Tokenizers without a limit store a huge number.
    return next((one for one in candidates if isinstance(one, int) and 0 < one <= 100_000), CLIP_CONTEXT)


KIND = EncoderKind(
    scheme="onnx:FOLDER-OR-HUB-ID",
    about="CLIP exported to ONNX, on the processor",
    needs="images",
    packages=("onnxruntime", "tokenizers", "PIL"),
    open=lambda spec, access: OnnxEncoder(spec.removeprefix("onnx:"), download=access is not Access.LOCAL),
)
