"""One JSON request to an embedding service: bounded in time and size, tried again where that helps.

The key is read from the environment for each request. It is sent to the address of the request only, and only if that
address may have it. It is never shown.
"""

import email.utils
import ipaddress
import json
import os
import random
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyio
import httpx2 as httpx
from anyio.from_thread import start_blocking_portal

from .base import EncoderError

KEY_VARIABLE = "LPP_API_KEY"
TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""HTTP status codes after which the same request may succeed later."""
LONGEST_WAIT = 60.0
"""Most seconds that a service may ask us to wait."""
SHOWN_FROM = 1 << 16
"""Bytes to read of an unexpected answer. The key is removed from all of them; only the first are shown."""


class TooLargeError(EncoderError):
    """The service finds the request too large."""


class _PassingError(EncoderError):
    """A fault that may be gone when the request is sent again after `wait` seconds."""

    def __init__(self, problem: str, wait: float = 0.0) -> None:
        super().__init__(problem)
        self.wait = wait


@dataclass(frozen=True)
class Post:
    """Where to send requests, and for how long.

    Parameters
    ----------
    url
        Where to. Redirects are not followed: they could lead the key and the images to another host.
    send_key
        Whether the service gets the key, if there is one.
    timeout
        Seconds that the service may be silent while connecting, sending or reading.
    total
        Seconds for a request with all its repetitions, whatever the service does. Finding the host's address is left
        to the system, which has its own limit.
    attempts
        How often a request is sent, if it fails for a passing reason.
    response_limit
        Largest answer in bytes.
    first_wait
        Seconds before the second attempt; doubled before each further one.
    """

    url: str
    send_key: bool = True
    timeout: float = 30.0
    total: float = 300.0
    attempts: int = 6
    response_limit: int = 256 << 20
    first_wait: float = 0.5

    def __post_init__(self) -> None:
        try:
            httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise EncoderError(f"{self.url} is not an address: {error}.") from error

    def __call__(self, payload: dict[str, Any]) -> Any:
        """Send `payload`; returns the decoded JSON answer.

        Raises
        ------
        EncoderError
            If the answer is an error, too large or not JSON, or does not come in time.
        """
        # Only an event loop can stop a request at every point. It runs in a thread: a notebook has a loop already.
        with start_blocking_portal() as portal:
            content = portal.call(self._ask, json.dumps(payload).encode(), self._headers())
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            start = _readable(content)[:80]
            raise EncoderError(f"{self.url} answers with something that is not JSON: {start!r}.") from error

    def _headers(self) -> dict[str, str]:
        headers = dict.fromkeys(("Content-Type", "Accept"), "application/json")
        headers |= {"User-Agent": "lpplusplus", "Accept-Encoding": "identity"}
        key = os.environ.get(KEY_VARIABLE)
        if not key or not self.send_key:
            return headers
        url = httpx.URL(self.url)
        if url.scheme != "https" and not is_local(url.host):
            raise EncoderError(
                f"{KEY_VARIABLE} is set, but {self.url} is not encrypted and not on this machine: use https, or unset "
                f"{KEY_VARIABLE} if the service needs no key."
            )
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise EncoderError(f"{KEY_VARIABLE} has characters that no key has, such as spaces or line ends.")
        return headers | {"Authorization": f"Bearer {key}"}

    async def _ask(self, body: bytes, headers: dict[str, str]) -> bytes:
        """The answer, after as many attempts as it takes."""
        deadline = anyio.current_time() + self.total
        options: dict[str, Any] = {"headers": headers, "timeout": self.timeout, "verify": _certificates()}
        if is_local(httpx.URL(self.url).host):
            options["trust_env"] = False  # No proxy.
        with anyio.CancelScope(deadline=deadline):
            async with httpx.AsyncClient(**options) as client:
                for attempt in range(1, self.attempts + 1):
                    try:
                        return await self._once(client, body)
                    except _PassingError as error:
                        wait = max(error.wait, self.first_wait * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))
                        if attempt == self.attempts or anyio.current_time() + wait > deadline:
                            raise EncoderError(
                                f"{error}. Gave up after {attempt} {'attempt' if attempt == 1 else 'attempts'}: try "
                                f"again later. What a feature store holds is not asked for again."
                            ) from error
                    await anyio.sleep(wait)
        raise EncoderError(f"{self.url} has not answered in full after {self.total:g} s: try again later.")

    async def _once(self, client: httpx.AsyncClient, body: bytes) -> bytes:
        content = bytearray()
        try:
            async with client.stream("POST", self.url, content=body) as response:
                limit = self.response_limit if response.is_success else SHOWN_FROM
                async for block in response.aiter_raw():
                    content += block
                    if len(content) > limit:
                        break
        except httpx.TransportError as error:
            raise self._no_answer(error) from error
        if not response.is_success:
            raise self._refusal(response, _readable(content)[:500])
        if len(content) > limit:
            raise EncoderError(f"{self.url} answers with more than {limit} bytes: refused.")
        return bytes(content)

    def _refusal(self, response: httpx.Response, said: str) -> EncoderError:
        status = response.status_code
        if 300 <= status < 400:
            target = _readable(response.headers.get("Location", ""))
            return EncoderError(f"{self.url} redirects to {target}. If you trust that address, name it as the encoder.")
        hint = ""
        if status in (401, 403):
            hint = f" Set {KEY_VARIABLE} to the service's key."
            if not self.send_key:
                hint = " No key was sent, since a file named this service: name it with --encoder, or in LPP_API_HOST."
        problem = f"{self.url} answers {status} {_readable(response.reason_phrase)}: {said}{hint}"
        if status in TRANSIENT:
            return _PassingError(problem, _retry_after(response.headers.get("Retry-After", "")))
        return TooLargeError(problem) if status == 413 else EncoderError(problem)

    def _no_answer(self, error: httpx.TransportError) -> EncoderError:
        reason = str(error) or type(error).__name__
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                return EncoderError(f"{self.url} cannot prove who it is: {cause.verify_message}.")
            if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
                # Errors of looking up a name have negative numbers and texts of their own.
                reason = os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        if isinstance(error, httpx.TimeoutException):
            reason = f"timed out after {self.timeout:g} s"
        return _PassingError(f"{self.url} does not answer ({_readable(reason)})")


@cache
def _certificates() -> ssl.SSLContext:
    """Certificates that are trusted; read once, which takes longer than a request."""
    return httpx.create_ssl_context()


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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it. Libraries say that all attempts failed; the system's error below says why."""
    while error is not None:
        yield error
        error = next(iter(getattr(error, "exceptions", ())), error.__cause__ or error.__context__)


def _readable(said: bytes | bytearray | str) -> str:
    """What a service says, safe for a terminal, and without the key if the service repeats it."""
    text = said if isinstance(said, str) else said[:SHOWN_FROM].decode("utf-8", "replace")
    text = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    key = os.environ.get(KEY_VARIABLE)
    return text.replace(key, "***") if key else text


def _retry_after(value: str) -> float:
    """Seconds that a service asks to wait, at most a minute; given as a number or a date."""
    seconds = 0.0
    with suppress(ValueError):
        seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    with suppress(ValueError):
        seconds = float(value)
    return min(max(0.0, seconds), LONGEST_WAIT)
