"""`lpp serve`: saved classifiers behind HTTP. `lpp label-studio`: one that learns while people label."""

import logging
from collections.abc import Callable
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from .._core.addresses import is_local
from .console import remark, say, show_json, warn
from .options import AllowNetwork, Host, MaxImage, OtherSpec, Port, Spec, need
from .outputs import check_model

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MEGABYTE = 2**20


def serve(
    models: Annotated[list[Path], Argument(help="Classifiers that `lpp train` wrote; each is called after its file.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: Annotated[
        Path | None, Option(help="File with the token of requests.", show_default="$LPP_SERVE_TOKEN, if set")
    ] = None,
    max_image: MaxImage = 20,
    max_pixels: Annotated[int, Option(min=1, help="Largest image, in million pixels.")] = 50,
    max_request: Annotated[int, Option(min=1, help="Largest request, in MB.")] = 64,
    max_images: Annotated[int, Option(min=1, help="Most images in a request.")] = 64,
    queue: Annotated[int, Option(min=1, help="Longest queue, in images.")] = 128,
    timeout: Annotated[float, Option(min=0.1, help="Seconds until a request must be answered.")] = 30,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
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
    from ..deploy.service.models import ModelRegistry
    from ..deploy.service.server import Settings, address_of, listen, read_token

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
        show_json({"address": address, "models": names})
        say("[bold]{}[/] answers for {}; Ctrl-C stops it", address, ", ".join(names))

    run_logged(make_app(registry, settings), sock, ready)
    remark("stopped; every request under way was answered.")


def run_logged(app: "ASGIApp", sock: socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; warnings are logged to standard error."""
    from ..deploy.service.server import run

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("lpplusplus").setLevel(logging.INFO)
    run(app, sock, ready)


def label_studio(
    output: Annotated[Path, Argument(help="File that always has the newest classifier.")],
    url: Annotated[str, Option(help="Where Label Studio is.")] = "http://localhost:8080",
    token_file: Annotated[
        Path | None, Option(help="File with your token for Label Studio.", show_default="$LABEL_STUDIO_API_KEY, if set")
    ] = None,
    files: Annotated[Path | None, Option(help="Folder of Label Studio's local files, if it is here too.")] = None,
    encoder: Spec = None,
    template: Annotated[str, Option("--template", "-t", help="Sentence with {} for the class name.")] = (
        "a photo of a {}."
    ),
    host: Host = "127.0.0.1",
    port: Port = 9090,
    max_image: MaxImage = 20,
) -> None:
    """Suggest labels in Label Studio, and learn from every annotation.

    Images are fetched from --url, with your token, or read from --files; from nowhere else. If LPP_SERVE_TOKEN is set,
    Label Studio must send it as its password.

    Examples
    --------
    LABEL_STUDIO_API_KEY=$(cat token) lpp label-studio birds.lpp --url http://localhost:8080
    lpp label-studio birds.lpp --token-file token --files photos/ -e clip
    """
    need("serve", "fastapi", "uvicorn", "python_multipart", "prometheus_client")
    check_model(output)
    from ..deploy.annotation_learner import AnnotationLearner
    from ..deploy.label_studio import Photos, make_backend
    from ..deploy.service.server import address_of, listen, read_token
    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..encoders.class_text import check_templates
    from ..encoders.pixels.decoding import Limits

    (sentence,) = check_templates(template)
    if files is not None and not files.is_dir():
        raise typer.BadParameter(f"{files} is not a folder.", param_hint="--files")
    token, password = read_token(token_file, "LABEL_STUDIO_API_KEY"), read_token(None)
    limits = Limits(max_image * MEGABYTE)
    photos = Photos(url, token, files, limits)
    learner = AnnotationLearner(open_encoder(encoder or DEFAULT_ENCODER), sentence, photos, output, limits)
    sock = listen(host, port)
    address = address_of(sock)
    if token is None:
        warn("there is no token for Label Studio: uploaded images cannot be read, nor earlier annotations.")
    if password is None and not is_local(host):
        warn(f"everybody who can reach {address} may ask and teach: set LPP_SERVE_TOKEN.")

    def ready() -> None:
        show_json({"address": address, "label_studio": url})
        say("[bold]{}[/] is the backend for {}: add it under Settings, Model; Ctrl-C stops it", address, url)

    run_logged(make_backend(learner, password, local=is_local(host)), sock, ready)
    remark(f"stopped; {output} has what was learned." if output.exists() else "stopped.")
