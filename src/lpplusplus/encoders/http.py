"""An embedding service behind an address, in OpenAI's form: `POST …/v1/embeddings`.

Texts are sent as {"model": NAME, "input": ["…", …], "encoding_format": "float"}. Services differ in how they take
images, so the address may say which form, `?images=`:

- `data-url` (default, as Infinity has it): "input" holds `data:image/png;base64,…`, with "modality": "image";
- `jina`: "input" holds {"image": base64} objects, and {"text": …} for texts;
- `vllm`: "messages" with one `image_url` each, one image per request.

The key comes from the environment variable LPP_API_KEY. It is sent only to a host that the user named, by choosing the
encoder or in the variable LPP_API_HOST, and it is not kept or printed.
"""

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

from .._core.threads import lazy
from .base import Access, Encoder, EncoderError, EncoderKind, NetworkNeededError

if TYPE_CHECKING:
    from PIL import Image

    from .http_post import Post

SHORT_SIDE = 512
"""Most pixels on the shorter side of an image that is sent."""
PROBE = ("a photo of a cat.", "the stock market fell sharply on Monday")
"""Texts whose embeddings help to tell models apart."""

Payload = Callable[[Sequence[str]], dict[str, Any]]


def _strings(texts: Sequence[str]) -> dict[str, Any]:
    return {"input": list(texts)}


def _data_urls(images: Sequence[str]) -> dict[str, Any]:
    return {"input": [f"data:image/png;base64,{image}" for image in images], "modality": "image"}


def _message(images: Sequence[str]) -> dict[str, Any]:
    (image,) = images
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    return {"messages": [{"role": "user", "content": [part]}]}


def _objects(kind: str) -> Payload:
    return lambda items: {"input": [{kind: item} for item in items]}


FORMS: dict[str, tuple[Payload, Payload, int | None]] = {
    "data-url": (_strings, _data_urls, None),
    "jina": (_objects("text"), _objects("image"), None),
    "vllm": (_strings, _message, 1),
}
"""How texts and images are sent, and how many images per request if that is limited."""


class HttpEncoder(Encoder):
    """A service that embeds images and texts.

    Images are sent as PNG, reduced to 512 pixels on the shorter side; the service crops and scales as it likes.

    `fingerprint` covers the address, the model's name, the form of the requests, the number of dimensions, and the
    dimension in which the embeddings of two fixed texts differ most. So a model exchanged behind the same name is
    noticed (except by chance, 1 in `dim`), but a change in the last digits is not.

    Parameters
    ----------
    address
        "https://host/v1", with "?model=NAME" or "#NAME" and perhaps "images=FORM".
    batch_size, request_limit
        Largest number of items and of bytes per request.
    send_key
        Whether the service gets the key.
    limits
        Parameters of `Post`: timeout, total, attempts, response_limit, first_wait.
    """

    def __init__(
        self,
        address: str,
        *,
        batch_size: int = 32,
        request_limit: int = 8 << 20,
        send_key: bool = True,
        **limits: Any,
    ) -> None:
        KIND.require()
        url, self._model, form = _parse(address)
        self.spec, self.batch_size, self._request_limit = address, batch_size, request_limit
        self._texts, self._images, self._images_at_once = FORMS[form]
        self._service = {"url": url, "send_key": send_key, **limits}
        self.preprocessing = json.dumps({"format": "png", "resize": "bicubic", "shorter side at most": SHORT_SIDE})
        self.dim = 0
        one, two = self.encode_texts(PROBE)
        self.dim = len(one)
        identity = [url, self._model, form, self.dim, int(np.argmax(np.abs(one - two)))]
        self.fingerprint = f"http-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()}"

    @lazy
    def _post(self) -> "Post":
        from .http_post import Post

        return Post(**self._service)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_post"}  # A connection stays here.

    def prepare(self, image: "Image.Image", rng: np.random.Generator | None = None) -> str:
        from PIL import Image

        from .pixels.preprocessing import random_crop

        if rng is not None:
            image = random_crop(image, rng)
        ratio = SHORT_SIDE / min(image.size)
        if ratio < 1:
            width, height = (max(SHORT_SIDE, round(side * ratio)) for side in image.size)
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
        from .http_post import TooLargeError

        named = {"model": self._model} if self._model else {}
        try:
            answer = self._post(named | payload(items) | {"encoding_format": "float"})
        except TooLargeError:
            if len(items) == 1:
                raise
            half = len(items) // 2
            return np.concatenate([self._ask(items[:half], payload), self._ask(items[half:], payload)])
        try:
            return _numbers(_embeddings(answer, len(items)), self.dim)
        except ValueError as error:
            raise EncoderError(f"{self._post.url} answers wrongly: {error}.") from error


def _parse(address: str) -> tuple[str, str | None, str]:
    """The address to post to, the model's name and the form of requests."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise EncoderError(f"{address} is not an address: {error}.") from error
    if parts.username is not None or parts.password is not None:
        raise EncoderError("an encoder's address must not hold a password: set LPP_API_KEY instead.")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EncoderError(f"{address!r} has no host: write {KIND.scheme}.")
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
    url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    if " " in url or not address.isprintable():
        raise EncoderError(f"{address!r} is not an address: it has spaces or control characters.")
    return url, model, form


def _embeddings(answer: Any, n: int) -> list[Any]:
    """What the answer gives as embeddings, in the order of the request."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "embedding" in row for row in rows):
        raise ValueError('expected {"data": [{"index": …, "embedding": […]}, …]}')
    if len(rows) != n:
        raise ValueError(f"{len(rows)} embeddings for {n} inputs")
    if any("index" in row for row in rows):
        if sorted(str(row.get("index")) for row in rows) != sorted(map(str, range(n))):
            raise ValueError(f"the indices of its embeddings are not 0 to {n - 1}")
        rows = sorted(rows, key=lambda row: int(row["index"]))
    return [row["embedding"] for row in rows]


def _numbers(lists: list[Any], dim: int) -> NDArray[np.float32]:
    """Embeddings as an array (n, dim), if they are lists of finite numbers; `dim` 0 allows any width."""
    if not all(isinstance(numbers, list) and all(isinstance(one, int | float) for one in numbers) for numbers in lists):
        raise ValueError("an embedding is not a list of numbers")
    widths = {len(numbers) for numbers in lists}
    if widths != {dim or max(widths)} or 0 in widths:
        raise ValueError(f"embeddings of {sorted(widths)} dimensions{f' instead of {dim}' if dim else ''}")
    try:
        with np.errstate(over="ignore"):
            values = np.array(lists, np.float64).astype(np.float32)
    except OverflowError:
        values = np.array([np.inf], np.float32)
    if not np.isfinite(values).all():
        raise ValueError("an embedding has entries that are not finite numbers")
    return values


def _open(spec: str, access: Access) -> HttpEncoder:
    url = urlsplit(_parse(spec)[0])
    named = os.environ.get("LPP_API_HOST", "").lower() in (url.hostname, url.netloc.lower())
    if access is Access.LOCAL and not named:
        raise NetworkNeededError(f"it sends images and class names to {url.netloc}")
    return HttpEncoder(spec, send_key=named or access is Access.KEY)


KIND = EncoderKind(
    scheme="https://HOST/v1?model=NAME",
    about="an embedding service, OpenAI-style",
    needs="images",
    packages=("PIL", "httpx2"),
    open=_open,
)
