"""Who may use the page: one ASGI application around all others, for HTTP and websockets.

The page can read and move the photos of a folder, so nobody else may reach it: no other user of this machine, no
machine of the network, and no web page that is open in another tab. In the order of the checks:

1. **Host** must be a name of this machine. A web page whose own name points to this machine (DNS rebinding) sends
   that name.
2. **Origin**, if a browser sends one, must be the page itself; without it nothing is changed and no websocket opens.
   Requests from other pages, even on another port of this machine, are refused by `Sec-Fetch-Site`.
3. **Cookie.** The address that `lpp app` prints has a random token. Whoever opens it gets a cookie, and the token is
   removed from the address. With a password, whoever knows it gets the cookie, too.

Headers tell the browser to contact no other host, to show the page in no frame, and not to guess file types.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
import time
from base64 import b64encode
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode, urlsplit

from markupsafe import Markup
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..deploy.service.server import HERE
from .views import render_page

SHORTEST_PASSWORD = 8
SECONDS_BETWEEN_GUESSES = 1.0
"""Wait after a wrong password. Together with the password's length it prevents guessing."""
LARGEST_FORM = 4096
"""Most bytes of the form with the password."""
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d+)?", re.ASCII)
ELSEWHERE = "The request comes from another page."
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

STYLE = Markup(
    ":root{color-scheme:light dark}body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;"
    "padding:0 1rem}input,button{font:inherit;padding:.4rem .8rem}"
)
"""Of the guard's own pages, which have no other files."""
_STYLE_HASH = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Nothing that a name or a photo contains is run as a script, or makes the page contact another host.
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", f"style-src 'self' 'sha256-{_STYLE_HASH}'", "img-src 'self'",
    "connect-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}


def protect(app: ASGIApp, *, token: str, password: str | None = None, hosts: Collection[str] = HERE) -> ASGIApp:
    """Let only users with the token or the password use `app`.

    Parameters
    ----------
    app
        The page, with all its routes.
    token
        Part of the address: `http://127.0.0.1:PORT/?token=TOKEN`.
    password
        For other machines; with it, the host may also be an IP address.
    hosts
        Allowed host names: see `names_of`.
    """
    return _Guard(app, token, password, frozenset(name.lower() for name in hosts))


def names_of(host: str) -> set[str]:
    """Allowed host names of a page that listens on `host`."""
    if host in ("0.0.0.0", "::"):
        here = socket.gethostname().lower()
        return {*HERE, here, f"{here.partition('.')[0]}.local"}
    return {*HERE, f"[{host}]" if ":" in host else host.lower()}


def check_password(host: str, password: str | None, local: bool) -> None:
    """Raise a `ValueError` if other machines can reach the page without a good password."""
    if password is None and not local:
        raise ValueError(
            f"--host {host} lets other machines reach your photos: choose a password with --password as well."
        )
    if password is not None and len(password) < SHORTEST_PASSWORD:
        raise ValueError(f"the password must have {SHORTEST_PASSWORD} or more characters.")


class _Guard:
    def __init__(self, app: ASGIApp, token: str, password: str | None, hosts: frozenset[str]) -> None:
        self._app, self._token, self._password, self._hosts = app, token, password, hosts
        self._session = secrets.token_urlsafe(32)
        # Cookies do not depend on the port: two pages on this machine need different names.
        self._cookie = f"lpp-{hashlib.sha256(token.encode()).hexdigest()[:8]}"
        self._next_guess = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            if self._stranger(scope) or not self._known(scope):
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
        elif scope["type"] == "http":

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    headers.update(HEADERS)
                    headers.setdefault("Cache-Control", "no-store")
                await send(message)

            answer = await self._answer(scope, receive)
            await (answer or self._app)(scope, receive, send_with_headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        """The answer instead of the page; None lets the request pass."""
        if reason := self._stranger(scope):
            return _page(403, reason)
        asked = Request(scope, receive)
        given = asked.query_params.get("token")
        if given is not None and asked.method == "GET" and scope["path"] == "/":
            if hmac.compare_digest(given.encode(), self._token.encode()):
                rest = urlencode([pair for pair in asked.query_params.multi_items() if pair[0] != "token"])
                return self._welcome(f"/?{rest}" if rest else "/")
        elif self._known(scope):
            return None
        if self._password is None:
            return _page(401, "Open the whole address that lpp app printed, with its ?token=.")
        if asked.method == "POST" and scope["path"] == "/":
            return await self._guess(asked)
        return _page(401, form=True)

    async def _guess(self, asked: Request) -> Response:
        now = time.monotonic()
        if now < self._next_guess:
            return _page(429, "Wait a second, then try again.", form=True)
        # Set before the first await, so that many guesses at the same time count as one.
        self._next_guess = now + SECONDS_BETWEEN_GUESSES
        body = b""
        async for chunk in asked.stream():
            body += chunk
            if len(body) > LARGEST_FORM:
                return _page(413, "That is too long for a password.", form=True)
        given = dict(parse_qsl(body.decode("utf-8", "replace"))).get("password", "")
        if not hmac.compare_digest(given.encode(), (self._password or "").encode()):
            return _page(401, "That is not the password.", form=True)
        self._next_guess = 0.0
        return self._welcome("/")

    def _welcome(self, to: str) -> Response:
        """Set the cookie, with a page that leads on: browsers send no strict cookie after a redirect from elsewhere."""
        answer = _page(200, to=to)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _known(self, scope: Scope) -> bool:
        given = HTTPConnection(scope).cookies.get(self._cookie, "")
        return hmac.compare_digest(given.encode(), self._session.encode())

    def _stranger(self, scope: Scope) -> str:
        """Why a request is foreign; empty if it is not."""
        headers = Headers(scope=scope)
        named, origins = headers.getlist("host"), headers.getlist("origin")
        if len(named) != 1 or not self._is_ours(named[0]):
            return "The page is not called by that name: use the address that lpp app printed."
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if (origins or changes) and not (len(origins) == 1 and _is_origin(origins[0], named[0])):
            return ELSEWHERE
        came_from, navigates = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode") == "navigate"
        if came_from not in ("none", "same-origin") and not (navigates and headers.get("sec-fetch-dest") == "document"):
            return ELSEWHERE
        return ""

    def _is_ours(self, named: str) -> bool:
        """Whether a Host is one of ours. Any port is allowed, because of tunnels."""
        parts = HOST.fullmatch(named.lower())
        if parts is None:
            return False
        name = parts[1]
        if name in self._hosts:
            return True
        if self._password is None:
            return False
        try:  # DNS rebinding needs a name; an IP address is safe.
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def _is_origin(origin: str, named: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == named.lower()


def _page(status: int, text: str = "", *, form: bool = False, to: str | None = None) -> Response:
    return HTMLResponse(render_page("guard.html", style=STYLE, text=text, form=form, to=to), status)
