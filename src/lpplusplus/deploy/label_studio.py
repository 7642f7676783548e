"""`lpp label-studio`: a machine-learning backend for Label Studio that learns from every annotation.

Here is all that is said between the two: `make_backend` answers Label Studio's requests (health, setup, predict,
webhook), `LabelConfig` reads a project's labelling configuration, and `Photos` asks Label Studio for images and
annotations. `annotation_learner.py` fits.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

import httpx2 as httpx
from anyio import to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from starlette.middleware.trustedhost import TrustedHostMiddleware

from .._core.addresses import only_for, origin, same_origin
from ..encoders.pixels.decoding import ImageError, Limits, read_bytes
from .service.errors import FAILURES, Refusal
from .service.reading import from_json, kind_of, limited
from .service.server import HERE

if TYPE_CHECKING:
    from .annotation_learner import AnnotationLearner

CREATED = {"ANNOTATION_CREATED", "ANNOTATION_UPDATED"}
LONGEST = 2**18
"""Most characters of a configuration."""
LOCAL = "/data/local-files/"
"""Path under which Label Studio serves files of its own machine: `?d=` names one."""
LARGEST = 64 * 2**20
"""Largest request in bytes: Label Studio sends tasks in batches, with addresses of images, not images."""
MOST_VALUES = 2**20
"""Most values in the JSON of a request."""
LARGEST_EXPORT = 2**28
SECONDS = 30


async def content(request: Request) -> dict[str, Any]:
    """A request's JSON object, within limits. A web page cannot send JSON to another host without asking first."""
    if kind_of(request) != "application/json":
        raise Refusal(415, "unknown_content_type", "send application/json.")
    body = b"".join([chunk async for chunk in limited(request, LARGEST)])
    sent = await to_thread.run_sync(from_json, body or b"{}", MOST_VALUES)
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
        Whether it listens on this machine only: see `service.server`.
    """

    async def admitted(given: Annotated[HTTPBasicCredentials | None, Depends(HTTPBasic(auto_error=False))]) -> None:
        said = "" if given is None else given.password
        if password is not None and not hmac.compare_digest(said.encode(), password.encode()):
            raise Refusal(401, "unauthorised", "send the password.", "Basic")

    app = FastAPI(
        lifespan=lambda _: learner.running(),
        exception_handlers=FAILURES,
        dependencies=[Depends(admitted)],
        openapi_url=None,
    )
    if local and password is None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=HERE)

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
        places = [_at(task, "data", config.field) for task in tasks]
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
        action, config = sent.get("action"), _at(sent, "project", "label_config")
        if config is not None:
            await _in_thread(learner.configure, config)
        if action in CREATED and learner.config is not None:
            number, result = _number(_at(sent, "annotation", "id")), _at(sent, "annotation", "result")
            if number is None:
                raise Refusal(422, "invalid", "the annotation has no id.")
            label = None if _at(sent, "annotation", "was_cancelled") else learner.config.label_of(result)
            where = str(_at(sent, "task", "data", learner.config.field))
            learner.annotate({number: None if label is None else (where, label)})
        elif action == "ANNOTATIONS_DELETED":
            listed = sent.get("annotations")
            gone = [_number(_at(one, "id")) for one in (listed if isinstance(listed, list) else [])]
            learner.annotate(dict.fromkeys(number for number in gone if number is not None))
        elif action == "START_TRAINING" and (number := _number(_at(sent, "project", "id"))) is not None:
            await _in_thread(learner.catch_up, number)
        return JSONResponse({"status": "ok"}, 201)

    return app


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return await to_thread.run_sync(function, *arguments)
    except ValueError as error:  # A configuration that is not about images, a project that cannot be read.
        raise Refusal(422, "invalid", str(error)) from None


def _at(value: Any, *names: str) -> Any:
    """What an object has under a name, and that under the next; None where there is no such object or name."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class LabelConfig:
    """An image, and a single choice of its class."""

    choices: str
    """Name of the `Choices` tag."""
    image: str
    """Name of the `Image` tag that it is about."""
    field: str
    """The part of a task's data that says where the image is."""
    labels: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes in prompts."""
        return tuple(label.replace("_", " ") for label in self.labels)

    @classmethod
    def read(cls, text: Any) -> LabelConfig:
        """From XML; ValueError if it is not about one image and one choice.

        >>> LabelConfig.read('<View><Image name="i" value="$photo"/><Choices name="c" toName="i"><Choice value="cat"/>'
        ...                  '<Choice value="dog"/></Choices></View>')
        LabelConfig(choices='c', image='i', field='photo', labels=('cat', 'dog'))
        """
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError("the labelling configuration is missing or too long.")
        if "<!" in text.replace("<!--", ""):  # Entities can fill the memory, and no configuration needs them.
            raise ValueError("the labelling configuration has a document type, which is not read.")
        try:
            tree = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise ValueError(f"the labelling configuration is not XML ({error}).") from None
        images = {tag.get("name", ""): tag.get("value", "") for tag in tree.iter("Image")}
        for tag in tree.iter("Choices"):
            about, many = tag.get("toName", ""), tag.get("choice", "single")
            if about not in images or many not in ("single", "single-radio"):
                continue
            labels = tuple(dict.fromkeys(one.get("value", "") for one in tag.iter("Choice")))
            if len(labels) > 1 and all(labels) and images[about].startswith("$"):
                return cls(tag.get("name", ""), about, images[about][1:], labels)
        raise ValueError(
            "the labelling configuration needs an Image and Choices for it, with two or more choices of which one is "
            'taken (choice="single").'
        )

    def label_of(self, result: Any) -> str | None:
        """The choice in an annotation's result; None if there is none that is known."""
        for part in result if isinstance(result, list) else ():
            if _at(part, "from_name") == self.choices and _at(part, "type") == "choices":
                chosen = _at(part, "value", "choices")
                if isinstance(chosen, list) and len(chosen) == 1 and chosen[0] in self.labels:
                    return str(chosen[0])
        return None

    def result(self, label: str) -> list[dict[str, Any]]:
        """A choice, as Label Studio has it in predictions."""
        return [
            {"from_name": self.choices, "to_name": self.image, "type": "choices", "value": {"choices": [label]}}
        ]  # fmt: skip


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
        self._access, self._until = "", 0.0  # A short-lived token, and when to ask for another one.

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
        try:
            path = (self._folder / unquote(name)).resolve()
        except (OSError, RuntimeError, ValueError):  # A link that leads to itself, or a character that no name has.
            raise ImageError(where, "does not name a file.") from None
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
        """The header for Label Studio; a personal token, a JSON web token, is good for tokens of some minutes."""
        if self._token is None or self._token.count(".") != 2:
            return self._token and f"Token {self._token}"
        with self._lock:
            if time.monotonic() > self._until:
                address, sent = f"{self.url}api/token/refresh", {"refresh": self._token}
                answer = httpx.post(address, json=sent, timeout=SECONDS, follow_redirects=False, trust_env=False)
                if answer.status_code != 200:
                    raise ImageError(self.url, f"does not accept the token ({answer.status_code}).")
                self._access, self._until = str(answer.json()["access"]), time.monotonic() + 60
            return f"Bearer {self._access}"
