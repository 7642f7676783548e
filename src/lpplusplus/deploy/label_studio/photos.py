"""Images of tasks, only from places that the user named: one Label Studio and one folder."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2 as httpx

from ..._core.addresses import only_for, origin, same_origin
from ...encoders.pixels.decoding import ImageError, Limits, read_bytes

LOCAL = "/data/local-files/"
"""Path under which Label Studio serves files of its own machine: `?d=` names one."""
LARGEST_EXPORT = 2**28
SECONDS = 30


class Photos:
    """Reads images.

    Parameters
    ----------
    url
        Address of Label Studio, as the user gave it. No other host is asked, and redirects are not followed.
    token
        The user's token for it: a personal access token, or a legacy one.
    folder
        Where "/data/local-files/?d=…" is on this machine; None asks Label Studio for these too.
    limits
        Largest image that is read.
    """

    def __init__(self, url: str, token: str | None, folder: Path | None, limits: Limits) -> None:
        if origin(url) is None:
            raise ValueError(f"{url!r} is not the address of Label Studio, such as http://localhost:8080.")
        self.url, self._token = url.rstrip("/") + "/", token
        self._folder, self._limits = folder and folder.resolve(), limits
        hooks = {"request": [only_for(self.url, "Authorization", self._authorization)]}
        self._client = httpx.Client(timeout=SECONDS, follow_redirects=False, trust_env=False, event_hooks=hooks)
        self._lock = threading.Lock()
        self._access: str | None = None

    @property
    def has_token(self) -> bool:
        """Whether there is a token, with which Label Studio gives images and annotations."""
        return self._token is not None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def read(self, where: Any) -> bytes:
        """The file that a task names; `ImageError` if it is elsewhere, or cannot be read."""
        if not isinstance(where, str) or len(where) > 4096:
            raise ImageError("<task>", "does not say where its image is.")
        is_path = where.startswith("/") and not where.startswith("//")
        address = self.url + where[1:] if is_path else where
        if not same_origin(address, self.url):
            raise ImageError(where, f"is not at {self.url}, so it is not fetched.")
        parts = urlsplit(address)
        if self._folder is not None and parts.path.endswith(LOCAL):
            return self._local(parse_qs(parts.query).get("d", [""])[0], where)
        return self._get(address, where, self._limits.max_bytes)

    def annotated(self, project: int) -> list[dict[str, Any]]:
        """All tasks of a project with their annotations."""
        address = f"{self.url}api/projects/{int(project)}/export?exportType=JSON"
        found = json.loads(self._get(address, f"project {project}", LARGEST_EXPORT))
        return [task for task in found if isinstance(task, dict)]

    def _local(self, name: str, where: str) -> bytes:
        assert self._folder is not None
        path = (self._folder / unquote(name)).resolve()
        if not path.is_relative_to(self._folder):
            raise ImageError(where, "is outside of the folder for local files.")
        return read_bytes(path, self._limits)

    def _get(self, address: str, where: str, most: int) -> bytes:
        try:
            with self._client.stream("GET", address) as answer:
                if answer.status_code != 200:
                    raise ImageError(where, f"Label Studio answers {answer.status_code}: is the token right?")
                content = bytearray()
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > most:
                        raise ImageError(where, f"has more than the {most:,} bytes allowed.")
                return bytes(content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ImageError(where, f"cannot be fetched ({type(error).__name__}).") from error

    def _authorization(self) -> str | None:
        """The header for Label Studio; a personal token is a JSON web token, which is good for short-lived ones."""
        if self._token is None or self._token.count(".") != 2:
            return self._token and f"Token {self._token}"
        with self._lock:
            if self._access is None or _expires_soon(self._access):
                address, sent = f"{self.url}api/token/refresh", {"refresh": self._token}
                answer = httpx.post(address, json=sent, timeout=SECONDS, follow_redirects=False, trust_env=False)
                if answer.status_code != 200:
                    raise ImageError(self.url, f"does not accept the token ({answer.status_code}).")
                self._access = str(answer.json()["access"])
            return f"Bearer {self._access}"


def _expires_soon(token: str) -> bool:
    """Whether a JSON web token is good for less than a minute; the signature is not ours to check."""
    try:
        part = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["exp"]) < time.time() + 60
    except (ValueError, KeyError, IndexError, TypeError):
        return True
