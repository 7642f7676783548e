"""Label Studio's protocol for machine-learning backends: health, setup, predict, webhook."""

import base64
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pydantic_core
from anyio import to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response

from ... import __version__
from ..service.errors import Refusal, add_handlers, failed
from ..service.settings import HERE
from .config import LabelConfig
from .learner import AnnotationLearner

LARGEST = 64 * 2**20
"""Largest request in bytes: Label Studio sends tasks in batches, with addresses of images, not images."""
CREATED = {"ANNOTATION_CREATED", "ANNOTATION_UPDATED"}


async def content(request: Request) -> dict[str, Any]:
    """A request's JSON object, within limits. A web page cannot send JSON to another host without asking first."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "unknown_content_type", "send application/json.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise Refusal(413, "request_too_large", f"a request may have {LARGEST:,} bytes.")
    try:
        sent = pydantic_core.from_json(body or b"{}")
    except ValueError as error:
        raise Refusal(400, "malformed", f"the body is not JSON: {error}.") from None
    if not isinstance(sent, dict):
        raise Refusal(422, "invalid", "the body is not a JSON object.")
    return sent


Sent = Annotated[dict[str, Any], Depends(content)]


def make_backend(learner: AnnotationLearner, password: str | None = None, *, local: bool = True) -> FastAPI:
    """The backend as an ASGI application.

    Parameters
    ----------
    learner
        Gives the answers.
    password
        What Label Studio must send, by HTTP basic authentication with any user name; None needs no password.
    local
        Whether it listens on this machine only: see `service.settings`.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with learner:
            yield

    app = FastAPI(title="lpp label-studio", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    add_handlers(app)

    if local and password is None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=HERE)
    if password is not None:

        @app.middleware("http")
        async def admitted(request: Request, go_on: RequestResponseEndpoint) -> Response:
            if not _knows(request.headers.get("authorization", ""), password):
                return failed(401, "unauthorised", "send the password.", {"WWW-Authenticate": "Basic"})
            return await go_on(request)

    @app.get("/")
    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "UP", "model_class": "lpplusplus", "version": learner.version, "problem": learner.problem}

    @app.post("/setup")
    async def setup(sent: Sent) -> dict[str, Any]:
        await _in_thread(learner.configure, sent.get("schema"))
        project = _number(str(sent.get("project", "")).partition(".")[0])
        if project is not None:
            await _in_thread(learner.catch_up, project)
        return {"model_version": learner.version}

    @app.post("/validate")
    async def validate(sent: Sent) -> dict[str, Any]:
        await _in_thread(LabelConfig.read, sent.get("config"))
        return {"status": "ok"}

    @app.post("/predict")
    async def predict(sent: Sent) -> dict[str, Any]:
        config = await _in_thread(learner.configure, sent.get("label_config"))
        tasks = sent.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise Refusal(422, "invalid", "tasks is not a list of objects.")
        places = [(task.get("data") or {}).get(config.field) for task in tasks]
        version, said = learner.version, await _in_thread(learner.predict, places)
        results = [
            {"result": [], "score": 0.0, "model_version": version}
            if one is None
            else {"result": config.result(one[0]), "score": one[1], "model_version": version}
            for one in said
        ]
        return {"results": results, "model_version": version}

    @app.post("/webhook")
    async def webhook(sent: Sent) -> JSONResponse:
        """Answers at once: Label Studio waits a second, and fitting goes on in the background."""
        action, project = sent.get("action"), sent.get("project") or {}
        if "label_config" in project:
            await _in_thread(learner.configure, project["label_config"])
        if action in CREATED and learner.config is not None:
            task, annotation = sent.get("task") or {}, sent.get("annotation") or {}
            number, where = _number(annotation.get("id")), (task.get("data") or {}).get(learner.config.field)
            if number is None:
                raise Refusal(422, "invalid", "the annotation has no id.")
            cancelled = annotation.get("was_cancelled")
            learner.annotate(number, where, None if cancelled else learner.config.label_of(annotation.get("result")))
        elif action == "ANNOTATIONS_DELETED":
            gone = [_number(one.get("id")) for one in sent.get("annotations") or () if isinstance(one, dict)]
            learner.forget([number for number in gone if number is not None])
        elif action == "START_TRAINING" and (number := _number(project.get("id"))) is not None:
            await _in_thread(learner.catch_up, number)
        return JSONResponse({"status": "ok"}, 201)

    return app


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return await to_thread.run_sync(function, *arguments)
    except ValueError as error:  # A configuration that is not about images, a project that cannot be read.
        raise Refusal(422, "invalid", str(error)) from None


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _knows(header: str, password: str) -> bool:
    scheme, _, given = header.partition(" ")
    try:
        said = base64.b64decode(given, validate=True).partition(b":")[2] if scheme.lower() == "basic" else b""
    except ValueError:
        said = b""
    return hmac.compare_digest(said, password.encode())
