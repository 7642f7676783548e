"""`lpp app`: a page on this machine to build, correct and export a classifier."""

import logging
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from .._core.addresses import is_local
from .console import remark, say, show_json
from .options import Port, need


def app(
    folder: Annotated[Path, Argument(help="The project: a folder per class. Made if it is not there.")] = Path(
        "my-photos"
    ),
    host: Annotated[str, Option(help="Address to listen on; another needs --password.")] = "127.0.0.1",
    port: Port = 0,
    password: Annotated[str | None, Option(envvar="LPP_APP_PASSWORD", help="Password for other machines.")] = None,
    undo: Annotated[bool, Option("--undo", help="Take back the last change of a page to the folder, and end.")] = False,
    redo: Annotated[bool, Option("--redo", help="Do again what was undone last, and end.")] = False,
    keep: Annotated[
        str | None, Option(help='Say that a photo, such as "a/3.jpg", has the right class, and end.')
    ] = None,
    open_page: Annotated[bool, Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Open a page where photos are dropped, classes named, and a classifier learns while you watch.

    Nothing leaves this machine. Everything is in the folder, and can be changed there while the page is open. Ctrl-C
    ends it; nothing is lost.

    Examples
    --------
    lpp app birds/
    lpp app birds/ --port 8080 --no-open
    lpp app birds/ --undo
    lpp app birds/ --keep robin/3.jpg
    LPP_APP_PASSWORD=$(cat password) lpp app birds/ --host 0.0.0.0
    """
    need("app", "websockets", "onnx", "multipart")
    if undo or redo or keep is not None:
        if undo + redo + (keep is not None) > 1:
            raise typer.BadParameter("choose one of --undo, --redo and --keep.")
        _change(folder, redo, keep)
        return
    from ..app import guard
    from ..app.serve import serve
    from ..deploy.service.server import address_of, listen

    try:
        guard.check_password(host, password, is_local(host))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--password") from None
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    sock = listen(host, port)
    address = address_of(sock)

    def ready(token: str) -> None:
        whole = f"{address}/?token={token}"
        show_json({"address": whole, "folder": str(folder)})
        say("[bold]{}[/] is the page of {}; Ctrl-C ends it", whole, folder)
        if open_page:
            webbrowser.open(whole)

    serve(folder, sock, password=password, hosts=guard.names_of(host), ready=ready)
    remark("stopped; everything is in the folder.")


def _change(folder: Path, redo: bool, keep: str | None) -> None:
    """The same as buttons of the page, while no page is open."""
    from ..app.project import Project, about_turn

    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder.", param_hint="FOLDER")
    with Project(folder) as project:
        if keep is not None:
            project.keep_label(keep)
            show_json({"kept": keep})
            say("kept: {}", keep)
            return
        found = project.redo() if redo else project.undo()
    about, what, done = found and about_turn(found), *(("redo", "done again") if redo else ("undo", "undone"))
    show_json({done.replace(" ", "_"): about})
    say(f"{done}: {{}}", about) if about else say(f"nothing to {what}")
