"""Photos to and from the browser. In both directions they go through our own decoder, with its limits.

The browser never gets a file of the folder, only a new JPEG of its pixels: no script in an SVG, no place and time in
EXIF, no file of a wrong type. Uploaded photos are decoded before they are kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from PIL import Image
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .._core.files import atomic_write
from ..deploy.service.errors import Refusal, answer_failure, failed
from ..deploy.service.reading import kind_of, limited, read_form
from ..encoders.pixels.decoding import ImageError, Limits, decode, read_bytes
from ..images.errors import shown
from ..images.journal import MoveError
from ..images.safe_paths import FolderError
from .project import NoClassError, Project

LIMITS = Limits(max_bytes=64 * 2**20, max_pixels=100_000_000)
"""Limits of a photo: larger than a telephone's, small enough for a laptop's memory."""
MOST_FILES = 100
MOST_BYTES = 512 * 2**20
"""Most bytes of one request."""
SIZES = (160, 640)
"""Pixels of the longer side: in a list, and of a single photo."""
KEPT = SIZES[0]
"""The size that is kept on disk. The larger one is shown for one photo at a time."""
FOR_EVER = "private, max-age=31536000, immutable"


def routes(project: Project, changed: Callable[[], None] = lambda: None) -> list[Route]:
    """`GET /photo/PATH?size=160` shows a photo, `POST /upload/CLASS` adds some; then `changed` is called."""
    # Two at a time: the encoder needs the processor, too, and a photo may need hundreds of megabytes.
    workers = CapacityLimiter(2)

    async def show(request: Request) -> Response:
        size = next((one for one in SIZES if request.query_params.get("size") == str(one)), KEPT)
        try:
            path = project.path_of(request.path_params["path"])
            tag = f'"{_key(path)}-{size}"'
            # An address with "v" names the version of the photo; without it, the browser must ask again.
            headers = {"ETag": tag, "Cache-Control": FOR_EVER if "v" in request.query_params else "private, no-cache"}
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            content = await to_thread.run_sync(thumbnail, project, path, size, limiter=workers)
        except (FolderError, OSError):
            return failed(404, "no_such_photo", "there is no such photo.")
        except ImageError as error:
            return failed(422, "bad_image", f"the photo {error.reason}")
        return Response(content, media_type="image/jpeg", headers=headers)

    async def take(request: Request) -> Response:
        name, there = request.path_params["name"], False
        with suppress(FolderError):
            there = project.path_of(name).is_dir()
        if not there:
            raise NoClassError(f"there is no class {shown(name)}.")
        kept, refused = await read_uploads(request, project.incoming, workers)
        try:
            added = await to_thread.run_sync(project.add, name, kept)
            await to_thread.run_sync(changed)
        finally:
            discard(kept)
        return JSONResponse({"added": added, "refused": refused})

    return [
        Route("/photo/{path:path}", show, methods=["GET"]),
        Route("/upload/{name}", take, methods=["POST"]),
    ]


async def _refuse(_: Request, error: Any) -> Response:
    """The answer to what the project cannot do."""
    if isinstance(error, NoClassError):
        return failed(404, "no_such_class", str(error))
    if isinstance(error, FolderError):
        return failed(507 if isinstance(error, MoveError) else 422, "refused", str(error))
    return failed(507, "cannot_write", f"the photos cannot be kept ({error.strerror or error}).")


FAILURES: dict[Any, Any] = {
    Refusal: answer_failure,
    ClientDisconnect: answer_failure,
    FolderError: _refuse,
    OSError: _refuse,
}
"""What an application with these routes does about errors."""


async def read_uploads(
    request: Request, place: Callable[[], Path], workers: CapacityLimiter | None = None
) -> tuple[list[tuple[str, Path]], list[dict[str, str]]]:
    """The photos in a form, each written to a file that `place` names; and files that are no photos.

    Returns
    -------
    list of (str, Path)
        The sender's name of a photo, which may be any text, and its file.
    list of dict
        Name and reason of each file that cannot be read.

    Raises
    ------
    Refusal
        If the whole request is refused. Then no file is left behind.
    """
    kept: list[tuple[str, Path]] = []
    refused = []
    if kind_of(request) != "multipart/form-data":
        raise Refusal(415, "unknown_content_type", "send multipart/form-data with photos.")
    form = await read_form(request, limited(request, MOST_BYTES), MOST_FILES)
    try:
        for _, file in form.multi_items():
            if isinstance(file, UploadFile):
                name = file.filename or "photo"
                keep = partial(_keep, await file.read(LIMITS.max_bytes + 1), name, place())
                try:
                    kept.append((name, await to_thread.run_sync(keep, limiter=workers)))
                except ImageError as error:
                    refused.append({"name": shown(name), "reason": error.reason})
    except BaseException:
        discard(kept)
        raise
    finally:
        await form.close()
    return kept, refused


def discard(kept: Iterable[tuple[str, Path]]) -> None:
    """Delete files of `read_uploads` that were not used."""
    for _, path in kept:
        path.unlink(missing_ok=True)


def thumbnail(project: Project, path: Path, size: int) -> bytes:
    """A photo as a new JPEG, its longer side `size` pixels at most.

    A cached thumbnail is decoded as carefully as any photo, and encoded again: the folder may come from somebody else.
    """
    if size != KEPT:
        return _jpeg(_small(read_bytes(path, LIMITS), path, size), 85)
    key = _key(path)
    try:
        cached = project.own("thumbnails", key[:2], f"{key}.jpg")
    except OSError:
        return _jpeg(_small(read_bytes(path, LIMITS), path, size), 80)
    try:
        return _jpeg(_small(read_bytes(cached, LIMITS), cached, size), 80)
    except ImageError:
        picture = _small(read_bytes(path, LIMITS), path, size)
    with suppress(OSError):  # The photo is shown even if the disk is full.
        fresh = cached.with_suffix(f".{secrets.token_hex(4)}")  # No fsync: a damaged file is made again.
        fresh.write_bytes(_jpeg(picture, 90))
        fresh.replace(cached)
    return _jpeg(picture, 80)


def _small(content: bytes, path: Path, size: int) -> Image.Image:
    picture = decode(content, path, LIMITS, glance=size)
    picture.thumbnail((size, size), Image.Resampling.BILINEAR)
    return picture


def _jpeg(picture: Image.Image, quality: int) -> bytes:
    """Only the pixels: Pillow would also copy a comment."""
    picture.info.clear()
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def _key(path: Path) -> str:
    """A key that stays the same after a move, and changes with the content."""
    status = os.stat(path, follow_symlinks=False)
    text = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _keep(content: bytes, name: str, path: Path) -> Path:
    decode(content, name, LIMITS)
    with atomic_write(path) as file:
        file.write(content)
    return path
