"""A service in a process: what it allows and whom, listening, and stopped without losing a request."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

TOKEN_VARIABLE = "LPP_SERVE_TOKEN"
HERE = ["localhost", "127.0.0.1", "[::1]"]
"""Names of this machine."""
SHORTEST_TOKEN = 16
"""Fewest characters. Guesses are not slowed down, so a token must not be guessable."""
LARGEST_HEADER = 2**16
"""Most bytes of a request's headers, of all together."""
MOST_LINES = 500
"""Line ends that a client may send at once without waiting for its turn: chunks of one byte have two each."""
TURN = 2**12
"""Bytes that are parsed in one turn of a client that sends more."""
SECONDS_TO_FINISH = 60
"""Seconds after a signal to stop, to finish running requests."""


@dataclass(frozen=True)
class Settings:
    """Limits of a service.

    Attributes
    ----------
    max_image, max_request
        Most bytes of an image, and of a whole request.
    max_pixels
        Most pixels of an image.
    max_images
        Most images, or embeddings, in a request.
    queue
        Images of all requests that may wait.
    timeout
        Seconds from the first byte of a request to its answer.
    token
        What a request must carry; with None, everybody who can reach the service may use it.
    local
        Whether the service listens on this machine only. Without a token, requests must then use a host name of this
        machine: otherwise a web page could reach it by DNS rebinding.
    """

    max_image: int = 20 * 2**20
    max_request: int = 64 * 2**20
    max_pixels: int = 50_000_000
    max_images: int = 64
    queue: int = 128
    timeout: float = 30.0
    token: str | None = field(default=None, repr=False)
    local: bool = True

    def __post_init__(self) -> None:
        if self.queue < self.max_images:
            raise ValueError(
                f"a queue of {self.queue} images has no room for a request of {self.max_images}: allow a longer queue "
                f"or fewer images per request."
            )

    @property
    def max_bytes(self) -> int:
        """Bytes that all requests together may hold."""
        return 4 * self.max_request


def read_token(file: Path | None, variable: str = TOKEN_VARIABLE) -> str | None:
    """The token in a file, else in the environment, else None. Never from the command line, which others can see."""
    if file is None and variable not in os.environ:
        return None
    where = variable if file is None else str(file)
    token = (os.environ[variable] if file is None else file.read_text(encoding="utf-8")).strip()
    if len(token) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise ValueError(
            f"the token in {where} must have {SHORTEST_TOKEN} or more letters, digits and signs, without spaces: "
            f'make one with python -c "import secrets; print(secrets.token_urlsafe())".'
        )
    return token


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
    """Serve until SIGTERM or Ctrl-C. Running requests are answered first; a second Ctrl-C does not wait for them.

    Headers are limited by h11, before anything reads them. The other parser of uvicorn, httptools, has no limit.
    """
    config = uvicorn.Config(
        app, http=_Turns, h11_max_incomplete_event_size=LARGEST_HEADER, log_config=None, access_log=False,
        server_header=False, timeout_graceful_shutdown=seconds_to_finish,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again after a normal end, which is no failure.
    ready()
    uvicorn.Server(config).run(sockets=[sock])


class _Flow(FlowControl):
    """Reading goes on when neither uvicorn nor `_Turns` wants it to wait."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.line, self.full = transport, False

    def pause_reading(self) -> None:
        self.read_paused = True
        self.line.pause_reading()

    def resume_reading(self) -> None:
        self.read_paused = False
        if not self.full:
            self.line.resume_reading()


class _Turns(H11Protocol):
    """Parses many small chunks a few at a time, so that others are answered in between."""

    flow: _Flow

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow, self._rest = _Flow(transport), b""

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
        elif data.count(b"\r\n") <= MOST_LINES:
            super().data_received(data)
        else:
            self._rest = data
            self._turn()

    def _turn(self) -> None:
        if not self.transport.is_closing():
            part, self._rest = self._rest[:TURN], self._rest[TURN:]
            super().data_received(part)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._rest = b""
            return
        self.flow.full = bool(self._rest)
        if self._rest:
            self.transport.pause_reading()
            self.loop.call_soon(self._turn)
        elif not self.flow.read_paused:
            self.transport.resume_reading()
