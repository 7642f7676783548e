"""One JSON request to an embedding service: patient, bounded in time and size, careful with the key."""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import json
import os
import random
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .base import EncoderError

TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
LONGEST_WAIT = 60.0
KEY_VARIABLE = "LPP_API_KEY"
READ = 1 << 16
"""Bytes of an unexpected answer that are searched for the key before the first of them are shown."""


class TooLargeError(EncoderError):
    """The service finds the request too large."""


@dataclass(frozen=True)
class Post:
    """How to ask.

    Parameters
    ----------
    url
        Where to.
    key
        Sent as a bearer token to this address and nowhere else; redirects are not followed.
    timeout
        Seconds without any sign of the service, connecting or reading.
    total
        Seconds for a request with all its repetitions.
    attempts
        How often a request that failed for a passing reason is sent.
    response_limit
        Bytes of an answer that are read at most.
    first_wait
        Seconds before the second attempt; doubled before each further one.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    total: float = 300.0
    attempts: int = 6
    response_limit: int = 256 << 20
    first_wait: float = 0.5

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if self.key is not None and parts.scheme != "https" and not is_local(parts.hostname or ""):
            raise EncoderError(
                f"{KEY_VARIABLE} is set, but {self.url} is not encrypted and not on this machine: use https, or unset "
                f"{KEY_VARIABLE} if the service needs no key."
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and " " not in self.key):
            raise EncoderError(f"{KEY_VARIABLE} has characters that no key has, such as spaces or line ends.")

    def __getstate__(self) -> dict[str, Any]:
        """Without the key: a copy in another process finds it where this one did, and a copy in a file has none."""
        return {**vars(self), "key": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "key": os.environ.get(KEY_VARIABLE) or None})

    def __call__(self, payload: dict[str, Any]) -> Any:
        """Send `payload`; the decoded JSON answer.

        Raises
        ------
        EncoderError
            For an answer that is an error, too large or not JSON, or none in time.
        """
        body = json.dumps(payload).encode()
        deadline = time.monotonic() + self.total
        for attempt in range(1, self.attempts + 1):
            wait = self.first_wait * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
            try:
                return self._decode(self._once(body, deadline))
            except urllib.error.HTTPError as error:
                with error:
                    problem = self._explain(error)
                    if error.code == 413:
                        raise TooLargeError(problem) from None
                    if error.code not in TRANSIENT:
                        raise EncoderError(problem) from None
                    wait = max(wait, _retry_after(error.headers.get("Retry-After")))
            except http.client.InvalidURL as error:
                raise EncoderError(f"{self.url} is not an address: {error}.") from error
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise EncoderError(f"{self.url} cannot prove who it is: {reason.verify_message}.") from error
                problem = f"{self.url} does not answer ({self._safe(str(reason) or type(reason).__name__)})"
            if attempt == self.attempts or time.monotonic() + wait > deadline:
                break
            time.sleep(wait)
        raise EncoderError(
            f"{problem}. Gave up after {attempt} {'attempt' if attempt == 1 else 'attempts'}; finished work is kept by "
            f"the feature store, so run the command again later."
        )

    def _once(self, body: bytes, deadline: float) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "lpplusplus"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, body, headers, method="POST")
        timeout = max(0.001, min(self.timeout, deadline - time.monotonic()))
        with self._opener().open(request, timeout=timeout) as response:
            blocks, size = [], 0
            while block := response.read1(1 << 16):
                size += len(block)
                if size > self.response_limit:
                    raise EncoderError(f"{self.url} answers with more than {self.response_limit} bytes: refused.")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"still answering after {self.total:g} s")
                blocks.append(block)
            announced = response.headers.get("Content-Length")
            if announced is not None and announced.isdecimal() and size < int(announced):
                raise http.client.IncompleteRead(b"".join(blocks), int(announced) - size)
        return b"".join(blocks)

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if is_local(urlsplit(self.url).hostname or ""):
            handlers.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*handlers)

    def _decode(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            start = self._safe(content[:READ].decode("utf-8", "replace"))[:80]
            raise EncoderError(f"{self.url} answers with something that is not JSON: {start!r}.") from error

    def _explain(self, error: urllib.error.HTTPError) -> str:
        if 300 <= error.code < 400:
            target = self._safe(str(error.headers.get("Location")))
            return f"{self.url} redirects to {target}: if you trust that address, use it in the encoder's name"
        try:
            said = self._safe(error.read(READ).decode("utf-8", "replace").strip())[:500]
        except (OSError, http.client.HTTPException):
            said = ""
        hint = f" Set {KEY_VARIABLE} to the service's key." if error.code in (401, 403) else ""
        return f"{self.url} answers {error.code} {self._safe(str(error.reason))}: {said}{hint}"

    def _safe(self, text: str) -> str:
        """Without the key, should a service repeat it."""
        return text.replace(self.key, "***") if self.key else text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could lead the key and the images to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def is_local(host: str) -> bool:
    """Whether a host name is this machine's.

    Examples
    --------
    >>> is_local("127.0.0.1"), is_local("localhost.example.org")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _retry_after(value: str | None) -> float:
    """Seconds that a service asks to wait, at most a minute; given as a number or a date."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT) if seconds == seconds else 0.0
