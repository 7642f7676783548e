"""What a service allows, and whom."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_VARIABLE = "LPP_SERVE_TOKEN"
HERE = ["localhost", "127.0.0.1", "[::1]"]
"""Names of this machine."""
SHORTEST_TOKEN = 16
"""Fewest characters. Guesses are not slowed down, so a token must not be guessable."""


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
