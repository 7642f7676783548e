"""Requests that are not answered: a status for programs, a code, and a sentence for people."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

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


class Problem(BaseModel):
    """What is wrong."""

    code: str
    message: str


class Failure(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


class Refusal(Exception):  # noqa: N818  (It is an answer, not a fault of ours.)
    """Ends a request with a status and a clear body."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, {k.replace("_", "-"): v for k, v in headers.items()}


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of a route: how it may fail."""
    return {status: {"model": Failure, "description": REASONS[status]} for status in statuses}


def failed(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """The answer to a request that is refused."""
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def add_handlers(app: FastAPI) -> None:
    """Give every failure the same body."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> JSONResponse:
        return failed(refusal.status, refusal.code, str(refusal), refusal.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return failed(422, "invalid", in_words(error.errors()))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        return failed(error.status_code, "http", str(error.detail), dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def mistake(_: Request, __: Exception) -> JSONResponse:
        return failed(500, "internal", "this is a mistake of the service; its log says more.")


def in_words(errors: Any) -> str:
    """What pydantic found, the first three: "images.0: Input should be a valid string"."""
    found = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in errors]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "") + "."
