"""The page in a process: routes, guard, server."""

from __future__ import annotations

import ctypes
import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from socket import socket

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ..deploy.service.errors import failed
from ..deploy.service.server import run
from ..encoders.pixels.decoding import ImageError, quiet_pillow
from ..images.errors import shown
from . import guard, jobs, page, photos
from .learner import Learner
from .project import Project
from .state import AppState


def make_app(state: AppState) -> Starlette:
    """The page and all its routes, without the guard."""
    files = Starlette(
        routes=[*photos.routes(state.project, state.learner.look), *_routes(state)], exception_handlers=photos.FAILURES
    )
    own = StaticFiles(directory=Path(__file__).parent / "static")
    return Starlette(routes=[*page.routes(state), Mount("/lpp", own), Mount("/", files)])


def serve(
    folder: Path,
    sock: socket,
    *,
    password: str | None = None,
    hosts: set[str],
    ready: Callable[[str], None] = lambda token: None,
) -> None:
    """Serve the page of a folder until SIGTERM or Ctrl-C.

    Parameters
    ----------
    folder
        The project.
    sock
        Where to listen.
    password, hosts
        As in `guard.protect`.
    ready
        Called with the token, when the page is about to answer.
    """
    _share_heaps()
    token = secrets.token_urlsafe(32)
    with ExitStack() as stack:
        stack.enter_context(quiet_pillow())
        project = stack.enter_context(Project(folder))
        learner = stack.enter_context(Learner(project))
        learner.look()
        state = stack.enter_context(closing(AppState(project, learner)))
        app: ASGIApp = guard.protect(make_app(state), token=token, password=password, hosts=hosts)
        run(app, sock, lambda: ready(token), seconds_to_finish=2)


def _share_heaps() -> None:
    """Let threads share two heaps. By default each thread keeps freed memory in its own: 200 MB after 10 000 photos."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX


def _routes(state: AppState) -> list[Route]:
    async def ask(request: Request) -> Response:
        """Upload a photo to try. The answer is a key; the page then shows the result for this key."""
        kept, refused = await photos.read_uploads(request, state.project.tried)
        key = None
        try:
            if kept:
                key = await to_thread.run_sync(state.try_photo, *kept[0])
        except ImageError as error:
            refused.append({"name": shown(kept[0][0]), "reason": error.reason})
        finally:
            photos.discard(kept[1:] if key else kept)
        return JSONResponse({"key": key, "refused": refused})

    async def tried(request: Request) -> Response:
        path = state.tried_file(request.path_params["key"])
        if path is None or not path.is_file():
            return failed(404, "no_such_photo", "there is no such photo.")
        content = await to_thread.run_sync(photos.thumbnail, state.project, path, 640)
        return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, no-cache"})

    async def exported(request: Request) -> Response:
        path = jobs.path_of(state, request.path_params["name"])
        if path is None or not path.is_file():
            return failed(404, "no_such_file", "there is no such file: make it first.")
        name = f"{state.project.root.name}{path.suffix}"
        return FileResponse(path, media_type="application/octet-stream", filename=name)

    return [
        Route("/try", ask, methods=["POST"]),
        Route("/tried/{key}", tried, methods=["GET"]),
        Route("/exports/{name}", exported, methods=["GET"]),
    ]
