"""`lpp label-studio`: a machine-learning backend that learns while people label."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from .console import remark, say, show_json, warn
from .options import Host, Json, MaxImage, Port, Spec, need
from .outputs import check_model
from .serve import MEGABYTE, run_logged


def label_studio(
    output: Annotated[Path, Argument(help="File that always has the newest classifier.")],
    url: Annotated[str, Option(help="Where Label Studio is.")] = "http://localhost:8080",
    token_file: Annotated[
        Path | None, Option(help="File with your token for Label Studio.", show_default="$LABEL_STUDIO_API_KEY, if set")
    ] = None,
    files: Annotated[
        Path | None, Option(help="Folder that Label Studio serves as local files, if it is here too.")
    ] = None,
    encoder: Spec = None,
    template: Annotated[str, Option("--template", "-t", help="Sentence with {} for the class name.")] = (
        "a photo of a {}."
    ),
    host: Host = "127.0.0.1",
    port: Port = 9090,
    max_image: MaxImage = 20,
    as_json: Json = False,
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
    from ..encoders.http_post import is_local
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
        if as_json:
            show_json({"address": address, "label_studio": url})
        else:
            say("[bold]{}[/] is the backend for {}: add it under Settings, Model; Ctrl-C stops it", address, url)

    run_logged(make_backend(learner, password, local=is_local(host)), sock, ready)
    remark(f"stopped; {output} has what was learned." if output.exists() else "stopped.")
