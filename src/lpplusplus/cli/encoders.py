"""`lpp encoders`: what can embed images here?"""

from .console import add_row, out, show_json, table
from .options import Json


def encoders(as_json: Json = False) -> None:
    """List the kinds of encoders and whether they can be used here.

    Examples
    --------
    lpp encoders
    lpp encoders --json
    """
    from ..encoders import known_encoders

    rows = known_encoders()
    if as_json:
        show_json([{key: getattr(row, key) for key in ("scheme", "about", "needs", "usable")} for row in rows])
        return
    shown = table("", "--encoder", "what it is", "needs", "usable here")
    for row in rows:
        add_row(shown, row.scheme, row.about, f"lpplusplus[{row.needs}]", "yes" if row.usable else "no")
    out().print(shown)
