"""`lpp encoders`: what can embed images here."""

from __future__ import annotations

from dataclasses import asdict

from .console import add_row, out, show_json, table
from .options import Debug, Json


def encoders(as_json: Json = False, debug: Debug = False) -> None:
    """List the kinds of encoders and whether they can be used here."""
    from ..encoders import known_encoders

    rows = known_encoders()
    if as_json:
        show_json([asdict(row) for row in rows])
        return
    shown = table("", "--encoder", "what it is", "needs", "usable here")
    for row in rows:
        add_row(shown, row.scheme, row.about, f"lpplusplus[{row.needs}]", "yes" if row.usable else "no")
    out().print(shown)
