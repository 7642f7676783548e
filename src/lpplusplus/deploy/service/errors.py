"""Requests that are refused: a status, a code and a sentence for each. And the numbers that count all requests."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REASONS = {
    400: "The body is not what its Content-Type says, or the Host is not allowed.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "An image, the request or its number of images is too large.",
    415: "The body is neither multipart/form-data nor JSON.",
    422: "Something in the request cannot be used: the message says what.",
    429: "Too much is waiting: try again later.",
    503: "The encoder failed.",
    504: "The answer was not ready in time.",
}
LONGEST = 400
"""Most characters of a message: names in it may come from the request."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Problem(BaseModel):
    """What is wrong."""

    code: str
    message: str


class Failure(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


class Refusal(Exception):  # noqa: N818  (It is an answer, not a fault of ours.)
    """Ends a request with a status and a clear body."""

    def __init__(self, status: int, code: str, message: str, scheme: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.headers = {401: {"WWW-Authenticate": scheme}, 429: {"Retry-After": "1"}}.get(status, {})


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of a route: how it may fail."""
    return {status: {"model": Failure, "description": REASONS[status]} for status in statuses}


def failed(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """The answer to a request that is refused."""
    message = message if len(message) <= LONGEST else f"{message[: LONGEST - 2]}…."
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


async def answer_failure(_: Request, error: Exception) -> Response:
    """The answer to a request that ended in an error."""
    match error:
        case Refusal():
            return failed(error.status, error.code, str(error), error.headers)
        case RequestValidationError():
            return failed(422, "invalid", in_words(error.errors()))
        case HTTPException():
            return failed(error.status_code, "http", str(error.detail), dict(error.headers or {}))
        case ClientDisconnect():
            return Response(status_code=499)  # Nobody reads it; the metrics count it.
    return failed(500, "internal", "this is a mistake of the service; its log says more.")


FAILURES: dict[Any, Any] = dict.fromkeys(
    (Refusal, RequestValidationError, HTTPException, ClientDisconnect, Exception), answer_failure
)
"""What an application does about errors: every failure has the same body."""


def in_words(errors: Any) -> str:
    """What pydantic found, the first three: "images.0: Input should be a valid string"."""
    found = [f"{'.'.join(str(part)[:80] for part in one['loc'])}: {one['msg']}" for one in errors]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "") + "."


class Metrics:
    """Numbers for Prometheus. Each service has its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("lpp_requests", "Requests answered", ["path", "status"], **own)
        self.seconds = Histogram("lpp_request_seconds", "From request to answer", ["path"], buckets=SECONDS, **own)
        self.images = Counter("lpp_images", "Images and embeddings classified", ["model", "kind"], **own)
        self.queue = Gauge("lpp_queue_images", "Images waiting for their embedding", **own)
        sizes = (1, 2, 4, 8, 16, 32, 64)
        self.batch_images = Histogram("lpp_batch_images", "Images embedded together", buckets=sizes, **own)
        self.encoder_seconds = Histogram("lpp_encoder_seconds", "Time of the encoder per batch", buckets=SECONDS, **own)
        self.reloads = Counter("lpp_reloads", "Newer files of models that were tried", ["model", "result"], **own)


class Counting:
    """Count requests by route and status. All unknown paths count as one route, so that nobody can create labels."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)
