"""An embedding service behind an address, in OpenAI's form: `POST …/v1/embeddings`.

Texts are sent as {"model": NAME, "input": ["…", …], "encoding_format": "float"}. Services differ in how they take
images, so the address may say which form, `?images=`:

- `data-url` (default, as Infinity has it): "input" holds `data:image/png;base64,…`, with "modality": "image";
- `jina`: "input" holds {"image": base64} objects, and {"text": …} for texts;
- `vllm`: "messages" with one `image_url` each, one image a request.

The key comes from the environment variable LPP_API_KEY; it is not kept, printed or sent anywhere else.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from ._packages import require
from ._post import KEY_VARIABLE, Post, TooLargeError
from .base import Encoder, EncoderError

if TYPE_CHECKING:
    from PIL import Image

PACKAGES = ("PIL",)
EXTRA = "images"
SHORT_SIDE = 512
PROBE = ("a photo of a cat.", "the stock market fell sharply on Monday")

Payload = Callable[[Sequence[str]], dict[str, Any]]


def _strings(items: Sequence[str]) -> dict[str, Any]:
    return {"input": list(items)}


def _data_urls(items: Sequence[str]) -> dict[str, Any]:
    return {"input": [f"data:image/png;base64,{item}" for item in items], "modality": "image"}


def _messages(items: Sequence[str]) -> dict[str, Any]:
    (item,) = items
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{item}"}}
    return {"messages": [{"role": "user", "content": [part]}]}


FORMS: dict[str, tuple[Payload, Payload, int | None]] = {
    "data-url": (_strings, _data_urls, None),
    "jina": (
        lambda texts: {"input": [{"text": text} for text in texts]},
        lambda images: {"input": [{"image": image} for image in images]},
        None,
    ),
    "vllm": (_strings, _messages, 1),
}
"""How texts and images are sent, and how many images at once."""


class HttpEncoder(Encoder):
    """A service that embeds images and texts.

    Images are sent as PNG, reduced to 512 pixels on the shorter side; the service crops and scales as it likes.

    `fingerprint` covers the address, the model's name, the form of the requests, the number of dimensions, and where
    the embeddings of two fixed texts differ most. The last finds a model exchanged behind the same name (but for one
    case in `dim`), and unlike a hash of the numbers it does not change with their last digits.

    Parameters
    ----------
    address
        "https://host/v1", with "?model=NAME" or "#NAME" and perhaps "images=FORM".
    batch_size, request_limit
        Items and bytes of a request at most.
    limits
        Of `Post`: timeout, total, attempts, response_limit, first_wait.
    """

    def __init__(self, address: str, *, batch_size: int = 32, request_limit: int = 8 << 20, **limits: Any) -> None:
        require("an embedding service", PACKAGES, EXTRA)
        self.spec = address
        self.batch_size = batch_size
        self._request_limit = request_limit
        url, self._model, form = _parse(address)
        self._texts, self._images, self._images_at_once = FORMS[form]
        self._post = Post(url, os.environ.get(KEY_VARIABLE) or None, **limits)
        self.preprocessing = json.dumps({"format": "png", "resize": "bicubic", "shorter side at most": SHORT_SIDE})
        self.dim = 0
        one, two = self.encode_texts(PROBE)
        self.dim = len(one)
        identity = [url, self._model, form, self.dim, int(np.argmax(np.abs(one - two)))]
        self.fingerprint = f"http-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()}"

    def prepare(self, image: Image.Image, rng: np.random.Generator | None = None) -> str:
        from PIL import Image

        from ..pixels.preprocessing import random_crop

        if rng is not None:
            image = random_crop(image, rng)
        scale = SHORT_SIDE / min(image.size)
        if scale < 1:
            width, height = (max(SHORT_SIDE, round(side * scale)) for side in image.size)
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        file = io.BytesIO()
        image.save(file, "PNG")
        return base64.b64encode(file.getbuffer()).decode()

    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        return self._encode(batch, self._images, self._images_at_once or self.batch_size)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(texts, self._texts, self.batch_size)

    def _encode(self, items: Sequence[str], payload: Payload, at_once: int) -> NDArray[np.float32]:
        parts = [self._ask(some, payload) for some in self._batches(items, at_once)]
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)

    def _batches(self, items: Sequence[str], at_once: int) -> Iterator[list[str]]:
        batch: list[str] = []
        envelope = len(json.dumps(self._model)) + 128
        size = envelope
        for item in items:
            length = len(json.dumps(item)) + 64  # What surrounds an item in any of the forms.
            if envelope + length > self._request_limit:
                raise EncoderError(
                    f"an input of {length} bytes is more than the {self._request_limit} of a request to {self.spec}."
                )
            if batch and (len(batch) == at_once or size + length > self._request_limit):
                yield batch
                batch, size = [], envelope
            batch.append(item)
            size += length
        if batch:
            yield batch

    def _ask(self, items: Sequence[str], payload: Payload) -> NDArray[np.float32]:
        named = {"model": self._model} if self._model else {}
        try:
            answer = self._post(named | payload(items) | {"encoding_format": "float"})
        except TooLargeError:
            if len(items) == 1:
                raise
            half = len(items) // 2
            return np.concatenate([self._ask(items[:half], payload), self._ask(items[half:], payload)])
        try:
            return _embeddings(answer, len(items), self.dim)
        except ValueError as error:
            raise EncoderError(f"{self._post.url} answers wrongly: {error}.") from error


def _parse(address: str) -> tuple[str, str | None, str]:
    """The address to post to, the model's name and the form of requests."""
    parts = urlsplit(address)
    if parts.username is not None or parts.password is not None:
        raise EncoderError(f"an encoder's address must not hold a password: set {KEY_VARIABLE} instead.")
    if not parts.hostname:
        raise EncoderError(f"{address!r} has no host: write https://HOST/v1?model=NAME.")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    model = options.pop("model", None) or unquote(parts.fragment) or None
    form = options.pop("images", "data-url")
    if options:
        # Values are not shown: one of them could be a key.
        raise EncoderError(f"the address of {parts.hostname} may have model= and images=, not {sorted(options)}.")
    if form not in FORMS:
        raise EncoderError(f"images={form} is not known: use one of {', '.join(FORMS)}.")
    path = parts.path.rstrip("/")
    path = path if path.endswith("/embeddings") else f"{path}/embeddings"
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), model, form


def _embeddings(answer: Any, n: int, dim: int) -> NDArray[np.float32]:
    """Rows in the order of the request; `dim` 0 allows any width."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "embedding" in row for row in rows):
        raise ValueError('expected {"data": [{"index": …, "embedding": […]}, …]}')
    if len(rows) != n:
        raise ValueError(f"{len(rows)} embeddings for {n} inputs")
    if any("index" in row for row in rows):
        if sorted(str(row.get("index")) for row in rows) != sorted(map(str, range(n))):
            raise ValueError(f"the indices of its embeddings are not 0 to {n - 1}")
        rows = sorted(rows, key=lambda row: int(row["index"]))
    lists = [row["embedding"] for row in rows]
    if not all(isinstance(one, list) and one for one in lists):
        raise ValueError("an embedding is not a list of numbers")
    widths = {len(one) for one in lists}
    if len(widths) > 1 or (dim and widths != {dim}):
        raise ValueError(f"embeddings of {sorted(widths)} dimensions{f' instead of {dim}' if dim else ''}")
    if not all(isinstance(value, int | float) for one in lists for value in one):
        raise ValueError("an embedding is not a list of numbers")
    try:
        with np.errstate(over="ignore"):
            values = np.array(lists, np.float64).astype(np.float32)
    except OverflowError:
        values = np.array([np.inf], np.float32)
    if not np.isfinite(values).all():
        raise ValueError("an embedding has entries that are not finite numbers")
    return values
