"""Whom a request goes to: a token is sent to the server that it is for, and to no other."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

_PLAIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?(?=[/?#]|\Z)",
    re.ASCII | re.IGNORECASE,
)
"""Addresses whose host all programs read alike: it has no user name, backslash, space, escape or foreign letter."""
_DROPPED = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters: some programs leave them out before they look."""


def origin(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an HTTP address; None if it is not complete, or if programs may read it differently.

    >>> origin("HTTPS://Example.org/a"), origin("http://example.org@other.org"), origin("/a")
    (('https', 'example.org', 443), None, None)
    """
    parts = None if _DROPPED.search(address) else _PLAIN.match(address)
    if parts is None:
        return None
    scheme, host, port = parts["scheme"].lower(), parts["host"].lower(), parts["port"]
    return scheme, host, int(port) if port else {"http": 80, "https": 443}[scheme]


def same_origin(address: str, base: str) -> bool:
    """Whether a request to `address`, the complete and final one, goes to the server of `base`.

    >>> same_origin("http://a.org:80/x", "http://A.org"), same_origin("http://a.org:8080/x", "http://a.org")
    (True, False)
    """
    there = origin(address)
    return there is not None and there == origin(base)


def only_for(base: str, header: str, value: Callable[[], str | None]) -> Callable[[Any], None]:
    """A hook for requests of an httpx2 client: those to the server of `base` get the header, all others lose it.

    A client calls its `event_hooks["request"]` before each request, also before one that follows a redirect. A secret
    is given to a client in this way only, not as its `headers` or `auth`.
    """

    def hook(request: Any) -> None:
        request.headers.pop(header, None)
        secret = value() if same_origin(str(request.url), base) else None
        if secret is not None:
            request.headers[header] = secret

    return hook


def is_local(host: str) -> bool:
    """Whether a host name is this machine's.

    >>> is_local("127.0.0.1"), is_local("localhost.example.org")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
