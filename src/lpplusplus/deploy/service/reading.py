"""Reads a request within limits: image files, images in base64, or embeddings."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pydantic_core
from anyio import to_thread
from fastapi import Request
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictStr, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from .errors import Refusal, in_words
from .models import Picture
from .server import Settings

DOT = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mP8z0AaYGIY1TCqYdhqAABALgEfFO4+AgAAAABJRU5ErkJggg=="
"""A red square of 16 x 16 pixels, for examples."""


class Images(BaseModel):
    """Image files in base64, with or without "data:image/…;base64," before them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"images": [DOT]}]})
    images: list[StrictStr] = Field(min_length=1)


class EmbeddingRows(BaseModel):
    """Embeddings, as the model's encoder gives them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"embeddings": [[0.1, -0.2, 0.3]]}]})
    embeddings: list[list[FiniteFloat]] = Field(min_length=1)


Asked = list[Picture] | NDArray[np.float32]


class RequestReader:
    """Reads requests within the limits; there is also a limit on the bytes of all requests together."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._held = settings, 0

    @contextmanager
    def holding(self) -> Iterator[list[int]]:
        """Counts the bytes of a request, in a list of one number, until it is answered."""
        mine = [0]
        try:
            yield mine
        finally:
            self._held -= mine[0]

    async def read(self, request: Request, held: list[int], dim: int) -> Asked:
        """What was sent, to a model that takes embeddings of length `dim`."""
        kind, chunks = kind_of(request), self._chunks(request, held)
        if kind == "application/json":
            body = b"".join([chunk async for chunk in chunks])
            return await to_thread.run_sync(self._from_json, body, dim)
        if kind == "multipart/form-data":
            return await self._from_form(request, chunks)
        raise Refusal(415, "unknown_content_type", "send multipart/form-data, or images or embeddings in JSON.")

    async def _chunks(self, request: Request, held: list[int]) -> AsyncGenerator[bytes, None]:
        async for chunk in limited(request, self._settings.max_request):
            if self._held + len(chunk) > self._settings.max_bytes:
                raise Refusal(429, "busy", "the requests under way fill the memory for them: try again later.")
            held[0] += len(chunk)
            self._held += len(chunk)
            yield chunk

    async def _from_form(self, request: Request, chunks: AsyncGenerator[bytes, None]) -> list[Picture]:
        form = await read_form(request, chunks, self._settings.max_images)
        try:
            pictures: list[Picture] = []
            for field, value in form.multi_items():
                if field != "images" or not isinstance(value, UploadFile):
                    raise Refusal(422, "invalid", f'{field!r} is not expected: send files in fields "images".')
                self._check_size(value.size or 0, name := value.filename or "image")
                pictures.append((name, await value.read()))
        finally:
            await form.close()
        self._check_count(len(pictures))
        return pictures

    def _from_json(self, body: bytes, dim: int) -> Asked:
        """On a thread."""
        sent = from_json(body, self._settings.max_images * (dim + 2) + 2, allow_inf_nan=False)
        try:
            if isinstance(sent, dict) and "embeddings" in sent:
                return self._rows(EmbeddingRows.model_validate(sent))
            return self._pictures(Images.model_validate(sent))
        except ValidationError as error:
            raise Refusal(422, "invalid", in_words(error.errors(include_input=False, include_url=False))) from None

    def _pictures(self, asked: Images) -> list[Picture]:
        self._check_count(len(asked.images))
        pictures: list[Picture] = []
        for number, text in enumerate(asked.images):
            if text.startswith("data:image/"):
                text = text.partition(",")[2]
            self._check_size(len(text) * 3 // 4, name := f"images[{number}]")
            try:
                pictures.append((name, base64.b64decode(text, validate=True)))
            except (binascii.Error, ValueError) as error:
                raise Refusal(422, "bad_image", f"{name}: is not base64 ({error}).") from None
        return pictures

    def _rows(self, asked: EmbeddingRows) -> NDArray[np.float32]:
        self._check_count(len(asked.embeddings))
        lengths = {len(row) for row in asked.embeddings}
        if len(lengths) != 1:
            raise Refusal(422, "bad_embeddings", f"the embeddings have different lengths: {sorted(lengths)[:5]}.")
        with np.errstate(over="ignore"):
            rows = np.array(asked.embeddings, np.float64).astype(np.float32)
        if not np.isfinite(rows).all():
            raise Refusal(422, "bad_embeddings", "the embeddings have numbers beyond single precision.")
        return rows

    def _check_count(self, count: int) -> None:
        if not count:
            raise Refusal(422, "invalid", "the request has no images.")
        if count > self._settings.max_images:
            raise _too_many(self._settings.max_images)

    def _check_size(self, size: int, name: str) -> None:
        if size > self._settings.max_image:
            raise Refusal(413, "image_too_large", f"{name}: has more than {self._settings.max_image:,} bytes.")


def kind_of(request: Request) -> str:
    """The content type, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def limited(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body as it comes, with at most `most` bytes; a larger one is refused at once if its length was told."""
    length, total = request.headers.get("content-length", ""), 0
    refusal = Refusal(413, "request_too_large", f"a request may have {most:,} bytes: send several.")
    if length.isdigit() and int(length) > most:
        raise refusal
    async for chunk in request.stream():
        total += len(chunk)
        if total > most:
            raise refusal
        yield chunk


def from_json(body: bytes, most: int, *, allow_inf_nan: bool = True) -> Any:
    """JSON with at most `most` values. Small values take most time and memory: 64 MB of them several gigabytes.

    Commas and brackets tell, before anything is read, that there are not more.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > most:
        raise Refusal(413, "too_many_values", f"the JSON of this request may have {most:,} values: send several.")
    try:
        return pydantic_core.from_json(body, allow_inf_nan=allow_inf_nan)
    except ValueError as error:
        raise Refusal(400, "malformed", f"the body is not JSON: {error}.") from None


class _FormParser(MultiPartParser):
    """Starlette's, which does not tell whether the last boundary came."""

    ended = False

    def on_end(self) -> None:
        self.ended = True


async def read_form(request: Request, chunks: AsyncGenerator[bytes, None], most: int) -> FormData:
    """A form with at most `most` files, for the caller to close. Large parts go to temporary files without a name."""

    async def whole() -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            yield chunk
        if not parser.ended:  # An error here closes the files of the form.
            raise MultiPartException("it ends before its last boundary.")

    parser = _FormParser(request.headers, whole(), max_files=most, max_fields=1)
    try:
        return await parser.parse()
    except MultiPartException as error:
        if "Too many files" in error.message:
            raise _too_many(most) from None
        raise Refusal(400, "malformed", f"the body is not multipart/form-data: {error.message}") from None
    except (KeyError, ValueError, UnicodeError) as error:  # A header without a boundary, or with one that is not text.
        raise Refusal(400, "malformed", f"the body is not multipart/form-data ({error!r}).") from None


def _too_many(most: int) -> Refusal:
    return Refusal(413, "too_many_images", f"a request may have {most} images or embeddings: send several.")


def body_schema(most: int) -> dict[str, Any]:
    """The request's body, for OpenAPI."""
    files = {"type": "array", "minItems": 1, "maxItems": most, "items": {"type": "string", "format": "binary"}}
    form = {
        "type": "object",
        "required": ["images"],
        "additionalProperties": False,
        "properties": {"images": {**files, "description": "Image files."}},
    }
    kinds = [Images.model_json_schema(), EmbeddingRows.model_json_schema()]
    for kind, name in zip(kinds, ("images", "embeddings"), strict=True):
        kind["properties"][name]["maxItems"] = most
    examples = {
        "images": {"summary": "Images in base64", "value": {"images": [DOT]}},
        "embeddings": {
            "summary": "Embeddings, of the length that /classes tells",
            "value": {"embeddings": [[0.1, -0.2]]},
        },
    }
    return {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": form},
            "application/json": {"schema": {"oneOf": kinds}, "examples": examples},
        },
    }
