"""Numbers for Prometheus, and the middleware that counts requests."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Metrics of a service. Each service has its own registry."""

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
