"""The service in a process: warmed up, listening, and stopped without losing a request."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import numpy as np
import uvicorn
from starlette.types import ASGIApp

from .shelf import Shelf

SECONDS_TO_FINISH = 60
"""Seconds after a signal to stop, to finish running requests."""


def warm_up(shelf: Shelf) -> None:
    """Run every encoder and every model once, so that no user waits for the slow first run."""
    from PIL import Image

    grey = Image.new("RGB", (64, 64), "grey")
    for model in shelf.models:
        rows = np.ones((1, model.dim), np.float32) if model.encoder is None else model.encoder.encode_images([grey])
        model.probabilities(rows)


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on; with port 0 any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from None


def address_of(sock: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    app: ASGIApp,
    sock: socket.socket,
    ready: Callable[[], None] = lambda: None,
    *,
    seconds_to_finish: int = SECONDS_TO_FINISH,
) -> None:
    """Serve until SIGTERM or Ctrl-C. Running requests are answered first; a second Ctrl-C does not wait for them."""
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=seconds_to_finish
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again after a normal end, which is no failure.
    ready()
    uvicorn.Server(config).run(sockets=[sock])
