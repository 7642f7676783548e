"""`lpp encoders`: what can embed images here?"""

from typing import Annotated

import typer
from typer import Argument

from .console import add_row, out, say, show_json, table
from .options import Json


def encoders(
    action: Annotated[str | None, Argument(help="pull: fetch an encoder, to use it offline later.")] = None,
    name: Annotated[str | None, Argument(help="The encoder to fetch.")] = None,
    as_json: Json = False,
) -> None:
    """List encoders, what each is good for and whether it is here; or fetch one.

    Examples
    --------
    lpp encoders
    lpp encoders --json
    lpp encoders pull clip
    """
    if action is not None:
        if action != "pull" or name is None:
            raise typer.BadParameter("write `lpp encoders`, or `lpp encoders pull NAME`.", param_hint="encoders")
        _pull(name, as_json)
        return
    from ..encoders import known_encoders

    rows = [(row, row.here() if row.usable else None) for row in known_encoders()]
    if as_json:
        told = ("scheme", "about", "needs", "usable", "size")
        show_json([{key: getattr(row, key) for key in told} | {"here": here} for row, here in rows])
        return
    shown = table("", "--encoder", "what it is good for", "size", "needs", "usable here", right=("size",))
    for row, here in rows:
        usable = ("yes, after a download" if here is False else "yes") if row.usable else "no"
        add_row(shown, row.scheme, row.about, size(row.size), f"lpplusplus[{row.needs}]", usable)
    out().print(shown)


def _pull(name: str, as_json: bool) -> None:
    from ..encoders import open_encoder

    opened = open_encoder(name)
    if as_json:
        show_json({"encoder": opened.spec, "fingerprint": opened.fingerprint, "dim": opened.dim})
        return
    say("{} is on this machine and needs no network from now on. Its exact name: {}", name, opened.spec)


def size(count: int | None) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(606_000_000)
    '606 MB'
    """
    return "" if count is None else f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
