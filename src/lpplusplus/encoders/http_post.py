"""One JSON request to an embedding service: bounded in time and size, tried again where that helps.

The key is read from the environment for each request. It is sent to the server of the encoder's address only, and only
if that server may have it. It is never shown.
"""

import email.utils
import json
import os
import random
import socket
import ssl
import threading
import time
import weakref
from contextlib import suppress
from functools import cache
from typing import Any

import httpx2 as httpx

from .._core.addresses import is_local, only_for
from .base import EncoderError

KEY_VARIABLE = "LPP_API_KEY"
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "lpplusplus",
}
TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""HTTP status codes after which the same request may succeed later."""
LONGEST_WAIT = 60.0
"""Most seconds that a service may ask us to wait."""
SHOWN_FROM = 1 << 16
"""Bytes to read of an unexpected answer. The key is removed from all of them; only the first are shown."""


class TooLargeError(EncoderError):
    """The service finds the request too large."""


class _PassingError(EncoderError):
    """A fault that may be gone when the request is sent again, after as many seconds as the service asks to wait."""

    wait = 0.0


class Post:
    """A client that keeps its connection; one request goes at a time.

    Parameters
    ----------
    url
        Where to. Redirects are not followed: they could lead the images to another host.
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

    def __init__(
        self,
        url: str,
        send_key: bool = True,
        *,
        timeout: float = 30.0,
        total: float = 300.0,
        attempts: int = 6,
        response_limit: int = 256 << 20,
        first_wait: float = 0.5,
    ) -> None:
        self.url, self._send_key, self._timeout, self._total = url, send_key, timeout, total
        self._attempts, self._response_limit, self._first_wait = attempts, response_limit, first_wait
        try:
            host = httpx.URL(url).host
        except httpx.InvalidURL as error:
            raise EncoderError(f"{url} is not an address: {error}.") from error
        self._client = httpx.Client(
            headers=HEADERS,
            verify=_certificates(),
            trust_env=not is_local(host),  # Proxies are for other machines.
            event_hooks={"request": [only_for(url, "Authorization", lambda: _bearer(url))] if send_key else []},
        )
        weakref.finalize(self, self._client.close)
        self._turn = threading.Lock()
        self._connection: Any = None

    def __call__(self, payload: dict[str, Any]) -> Any:
        """Send `payload`; returns the decoded JSON answer.

        Raises
        ------
        EncoderError
            If the answer is an error, too large or not JSON, or does not come in time.
        """
        body = json.dumps(payload).encode()
        with self._turn:
            deadline = time.monotonic() + self._total
            watchdog = threading.Timer(self._total, self._cut)  # A service can be slow without ever being silent.
            watchdog.daemon = True
            watchdog.start()
            try:
                content = self._ask(body, deadline)
            finally:
                watchdog.cancel()
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            start = _readable(content)[:80]
            raise EncoderError(f"{self.url} answers with something that is not JSON: {start!r}.") from error

    def _note(self, event: str, about: dict[str, Any]) -> None:
        """Keep the connection that the client has opened."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._connection = about["return_value"]

    def _cut(self) -> None:
        """End what the connection is waiting for; called by another thread."""
        with suppress(OSError, AttributeError):  # It is closed already, or was never open.
            self._connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def _ask(self, body: bytes, deadline: float) -> bytearray:
        """The answer, after as many attempts as it takes."""
        for attempt in range(1, self._attempts + 1):
            try:
                return self._once(body, deadline)
            except _PassingError as error:
                wait = max(error.wait, self._first_wait * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))
                now = time.monotonic()
                if now < deadline and (attempt == self._attempts or now + wait > deadline):
                    raise EncoderError(
                        f"{error}. Gave up after {attempt} {'attempt' if attempt == 1 else 'attempts'}: try again "
                        f"later. What a feature store holds is not asked for again."
                    ) from error
            if now >= deadline:
                break
            time.sleep(wait)
        raise EncoderError(f"{self.url} has not answered in full after {self._total:g} s: try again later.")

    def _once(self, body: bytes, deadline: float) -> bytearray:
        content = bytearray()
        timeout = min(self._timeout, max(deadline - time.monotonic(), 0.001))
        watched = {"trace": self._note}
        try:
            with self._client.stream("POST", self.url, content=body, timeout=timeout, extensions=watched) as response:
                limit = self._response_limit if response.is_success else SHOWN_FROM
                for block in response.iter_raw():
                    content += block
                    if len(content) > limit:
                        break
        except httpx.TransportError as error:
            raise self._no_answer(error) from error
        if time.monotonic() >= deadline:  # A body that ends with the connection has no other mark of being cut.
            raise _PassingError(f"{self.url} answers too late")
        if not response.is_success:
            raise self._refusal(response, _readable(content)[:500])
        if len(content) > limit:
            raise EncoderError(f"{self.url} answers with more than {limit} bytes: refused.")
        return content

    def _refusal(self, response: httpx.Response, said: str) -> EncoderError:
        status = response.status_code
        if 300 <= status < 400:
            target = _readable(response.headers.get("Location", ""))
            return EncoderError(f"{self.url} redirects to {target}. If you trust that address, name it as the encoder.")
        hint = ""
        if status in (401, 403):
            hint = f" Set {KEY_VARIABLE} to the service's key."
            if not self._send_key:
                hint = " No key was sent, since a file named this service: name it with --encoder, or in LPP_API_HOST."
        kind = _PassingError if status in TRANSIENT else TooLargeError if status == 413 else EncoderError
        refusal = kind(f"{self.url} answers {status} {_readable(response.reason_phrase)}: {said}{hint}")
        if isinstance(refusal, _PassingError):
            refusal.wait = _retry_after(response.headers.get("Retry-After", ""))
        return refusal

    def _no_answer(self, error: httpx.TransportError) -> EncoderError:
        cause: BaseException = error  # Libraries say that it failed; the system's error below says why.
        while below := cause.__cause__ or cause.__context__:
            cause = below
        if isinstance(cause, ssl.SSLCertVerificationError):
            return EncoderError(f"{self.url} cannot prove who it is: {cause.verify_message}.")
        reason = getattr(cause, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            reason = f"timed out after {self._timeout:g} s"
        return _PassingError(f"{self.url} does not answer ({_readable(reason)})")


def _bearer(url: str) -> str | None:
    """The header with the key, if there is one; refused if it could be read on the way."""
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        return None
    if not url.startswith("https:") and not is_local(httpx.URL(url).host):
        raise EncoderError(
            f"{KEY_VARIABLE} is set, but {url} is not encrypted and not on this machine: use https, or unset "
            f"{KEY_VARIABLE} if the service needs no key."
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise EncoderError(f"{KEY_VARIABLE} has characters that no key has, such as spaces or line ends.")
    return f"Bearer {key}"


@cache
def _certificates() -> ssl.SSLContext:
    """Certificates that are trusted; read once, which takes longer than a request."""
    return httpx.create_ssl_context()


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
