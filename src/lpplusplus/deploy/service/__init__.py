"""`lpp serve`: saved classifiers behind HTTP.

Here are the routes. A request goes through `reading.py` (what was sent, within limits), `models.py` (images to
embeddings, several requests at once; it also keeps the classifiers and looks for newer files) and `images/answers.py`.
`errors.py` has what every refusal looks like, and the numbers for Prometheus; `server.py` the limits.
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import anyio
import numpy as np
from anyio import to_thread
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.security import HTTPBearer
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ... import __version__
from ..._core.threads import WORTH_A_THREAD
from ...encoders.pixels.decoding import Limits, quiet_pillow
from ...images.answers import Question, answers
from ...images.embeddings import Embeddings
from ...images.hub import public_spec
from .errors import FAILURES, Counting, Metrics, Refusal, failures
from .models import Batcher, Model, ModelRegistry
from .reading import RequestReader, body_schema
from .server import HERE, Settings

SECONDS_BETWEEN_LOOKS = 1.0
"""Seconds between two checks for newer files of the models."""


class Guess(BaseModel):
    """A class and its probability."""

    label: str
    probability: float


class Prediction(BaseModel):
    """The answer for one image."""

    image: str
    """The file's name, or its number in the request."""
    top: list[Guess]
    """The likeliest classes, the likeliest first."""
    set: list[str] | None = None
    """The prediction set, if `coverage` was asked for."""
    none_of_these: bool | None = None
    """Whether it shows none of the classes, if `false_alarms` was given."""


class Predictions(BaseModel):
    """The answers for a request, in its order."""

    model: str
    predictions: list[Prediction]


class ClassName(BaseModel):
    """A class: its label, and its name in prompts."""

    label: str
    name: str


class EncoderAbout(BaseModel):
    """The encoder of a model."""

    name: str
    fingerprint: str
    dimensions: int


class Classes(BaseModel):
    """The classes of a model."""

    model: str
    method: str
    dimensions: int
    """Length of an embedding."""
    encoder: EncoderAbout | None
    """None for a model that takes embeddings only."""
    classes: list[ClassName]


class ModelHealth(BaseModel):
    """A model, and why its newer file is not used, if there is one."""

    loaded: str
    problem: str | None


class Health(BaseModel):
    """`stale` means: all models answer, but a newer file could not be loaded."""

    status: str
    version: str | None = None
    models: dict[str, ModelHealth] | None = None
    """Only for those who have the token."""


def make_app(registry: ModelRegistry, settings: Settings | None = None) -> FastAPI:
    """The service as an ASGI application, for uvicorn or any other server."""
    settings = settings or Settings()
    metrics = Metrics()
    reader = RequestReader(settings)
    batcher = Batcher(Limits(settings.max_image, settings.max_pixels), settings.queue, metrics)
    registry.on_reload = lambda name, success: metrics.reloads.labels(name, "success" if success else "failure").inc()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with quiet_pillow():
            working = [asyncio.create_task(work) for work in (batcher.run(), _watch(registry))]
            yield
            for task in working:
                task.cancel()

    app = FastAPI(
        title="lpp serve",
        version=__version__,
        description="Which class does an image belong to? Saved classifiers of lpplusplus answer.",
        lifespan=lifespan,
        exception_handlers=FAILURES,
        docs_url=None,  # Its page would load scripts from another host.
        redoc_url=None,
    )
    app.state.batcher = batcher
    app.add_middleware(Counting, metrics=metrics)
    if settings.local and settings.token is None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=HERE)

    bearer = HTTPBearer(auto_error=False)

    async def known(request: Request) -> bool:
        """Whether the request carries the token, or none is needed."""
        given = await bearer(request)
        said = "" if given is None else given.credentials
        return settings.token is None or hmac.compare_digest(said.encode(), settings.token.encode())

    async def admitted(is_known: Annotated[bool, Depends(known)]) -> None:
        if not is_known:
            raise Refusal(401, "unauthorised", "send the header Authorization: Bearer TOKEN.", "Bearer")

    described = [] if settings.token is None else [Depends(bearer)]  # In the service's own description.
    guarded: dict[str, Any] = {"dependencies": [Depends(admitted), *described]}
    some = [registry.models[0].name]
    ModelName = Annotated[
        str | None, Query(alias="model", description="Which model; by default the first.", examples=some)
    ]

    @app.post(
        "/predict",
        **guarded,
        summary="Classify images or embeddings",
        responses=failures(400, 401, 404, 408, 413, 415, 422, 429, 503, 504),
        openapi_extra={"requestBody": body_schema(settings.max_images)},
    )
    async def predict(
        request: Request,
        name: ModelName = None,
        top: Annotated[
            int, Query(ge=1, le=1000, description="How many of the likeliest classes to tell.", examples=[3])
        ] = 5,
        coverage: Annotated[
            float | None,
            Query(gt=0, lt=1, description="Also tell a set that has the right class this often.", examples=[0.9]),
        ] = None,
        false_alarms: Annotated[
            float | None,
            Query(gt=0, lt=1, description="Also tell none of these, wrongly this often at most.", examples=[0.05]),
        ] = None,
    ) -> Predictions:
        began, question = time.monotonic(), Question(top, coverage, false_alarms)
        model = registry.pick(name)
        with reader.holding() as held:
            with _within(settings.timeout, began, 408, "too_slow", "the request did not arrive in time."):
                asked = await reader.read(request, held, model.dim)
            with _within(settings.timeout, began, 504, "timeout", "the answer was not ready in time: try again later."):
                if isinstance(asked, list):
                    names = [name for name, _ in asked]
                    if model.encoder is None:
                        raise Refusal(
                            422, "embeddings_only", f"{model.name} was trained on arrays: send embeddings, not images."
                        )
                    rows = await batcher.embed(model.encoder, asked)
                else:
                    names, rows = [f"embeddings[{number}]" for number in range(len(asked))], asked
                if rows.size * len(model.method.classes_) < WORTH_A_THREAD:
                    said = _answer(model, names, rows, question)
                else:
                    said = await to_thread.run_sync(_answer, model, names, rows, question)
        metrics.images.labels(model.name, "image" if isinstance(asked, list) else "embedding").inc(len(names))
        return said

    @app.get("/classes", **guarded, summary="What a model can answer", responses=failures(401, 404, 422))
    async def classes(name: ModelName = None) -> Classes:
        model = registry.pick(name)
        origin, about = model.origin, None
        if origin is not None:
            about = EncoderAbout(name=public_spec(origin.spec), fingerprint=origin.fingerprint, dimensions=origin.dim)
        return Classes(
            model=model.name,
            method=type(model.method).__name__,
            dimensions=model.dim,
            encoder=about,
            classes=[ClassName(label=label, name=said) for label, said in model.names.items()],
        )

    @app.get("/health", summary="Whether the service answers")
    async def health(is_known: Annotated[bool, Depends(known)]) -> Health:
        status = "stale" if any(model.problem for model in registry.models) else "ok"
        if not is_known:
            return Health(status=status)
        told = {model.name: ModelHealth(loaded=model.loaded, problem=model.problem) for model in registry.models}
        return Health(status=status, version=__version__, models=told)

    @app.get(
        "/metrics",
        **guarded,
        summary="Numbers for Prometheus",
        response_class=Response,
        responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}, **failures(401)},
    )
    async def numbers() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return app


def _answer(model: Model, names: Sequence[str], rows: NDArray[np.float32], question: Question) -> Predictions:
    if rows.shape[1] != model.dim:
        raise Refusal(422, "bad_embeddings", f"{model.name} takes rows of {model.dim} numbers, not of {rows.shape[1]}.")
    doubts = question.sets is not None or question.none is not None
    able = getattr(model.method, "held_out_losses_", None) is not None
    try:
        said = answers(model.classifier, Embeddings(rows[:, None], paths=names), question).as_dicts(question.top)
    except ValueError as error:  # Such as a row of zeros, which has no direction.
        raise Refusal(422, "cannot_doubt" if doubts and not able else "bad_embeddings", str(error)) from None
    found = [Prediction(image=one.pop("path"), **one) for one in said]
    return Predictions(model=model.name, predictions=found)


@contextmanager
def _within(seconds: float, began: float, status: int, code: str, message: str) -> Iterator[None]:
    """Refuse with `status` if the block is not done `seconds` after `began`."""
    try:
        with anyio.fail_after(max(0.0, began + seconds - time.monotonic())):
            yield
    except TimeoutError:
        raise Refusal(status, code, message) from None


async def _watch(registry: ModelRegistry) -> None:
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        await to_thread.run_sync(registry.refresh)
