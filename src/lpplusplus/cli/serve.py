"""`lpp serve`: saved classifiers behind HTTP."""

import logging
from collections.abc import Callable
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from .console import remark, say, show_json, warn
from .options import AllowNetwork, Host, Json, MaxImage, OtherSpec, Port, need

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MEGABYTE = 2**20


def serve(
    models: Annotated[list[Path], Argument(help="Classifiers that `lpp train` wrote; each is called after its file.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: Annotated[
        Path | None,
        Option(help="File with the token that requests must carry.", show_default="$LPP_SERVE_TOKEN, if set"),
    ] = None,
    max_image: MaxImage = 20,
    max_pixels: Annotated[int, Option(min=1, help="Largest image, in million pixels.")] = 50,
    max_request: Annotated[int, Option(min=1, help="Largest request, in MB.")] = 64,
    max_images: Annotated[int, Option(min=1, help="Most images in a request.")] = 64,
    queue: Annotated[int, Option(min=1, help="Longest queue, in images.")] = 128,
    timeout: Annotated[float, Option(min=0.1, help="Seconds until a request must be answered.")] = 30,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    as_json: Json = False,
) -> None:
    """Answer over HTTP: POST /predict with images; GET /classes, /health, /metrics and /openapi.json.

    A file that is replaced is loaded again. Ctrl-C or SIGTERM finishes the requests under way.

    Examples
    --------
    lpp serve birds.lpp
    lpp serve birds.lpp cars.lpp --port 8080
    LPP_SERVE_TOKEN=$(cat token) lpp serve birds.lpp --host 0.0.0.0
    curl -F images=@new.jpg http://127.0.0.1:8000/predict
    """
    need("serve", "fastapi", "uvicorn", "python_multipart", "prometheus_client")
    from ..deploy.service import make_app
    from ..deploy.service.registry import ModelRegistry
    from ..deploy.service.server import Settings, address_of, listen, read_token
    from ..encoders.http_post import is_local

    local = is_local(host)
    settings = Settings(
        max_image=max_image * MEGABYTE,
        max_request=max_request * MEGABYTE,
        max_pixels=max_pixels * 10**6,
        max_images=max_images,
        queue=queue,
        timeout=timeout,
        token=read_token(token_file),
        local=local,
    )
    registry = ModelRegistry(models, encoder=encoder, allow_network=allow_network)
    registry.warm_up()
    sock = listen(host, port)
    address, names = address_of(sock), [model.name for model in registry.models]
    if settings.token is None and not local:
        warn(f"everybody who can reach {address} may ask: set LPP_SERVE_TOKEN or --token-file.")

    def ready() -> None:
        if as_json:
            show_json({"address": address, "models": names})
        else:
            say("[bold]{}[/] answers for {}; Ctrl-C stops it", address, ", ".join(names))

    run_logged(make_app(registry, settings), sock, ready)
    remark("stopped; every request under way was answered.")


def run_logged(app: "ASGIApp", sock: socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; warnings are logged to standard error."""
    from ..deploy.service.server import run

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("lpplusplus").setLevel(logging.INFO)
    run(app, sock, ready)
