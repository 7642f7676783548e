"""`lpp bench draws`: the draws of a run, as a file."""

from pathlib import Path
from typing import Annotated

from typer import Option

from ..console import say, show_json
from ..options import Json
from ..outputs import check_file
from .options import ResultsFolder


def draws(
    results: ResultsFolder,
    output: Annotated[Path, Option("--output", "-o", help="JSON file to write.")],
    as_json: Json = False,
) -> None:
    """Export the draws of a run: which images are support, validation and test. A plan's `draws_file` key reads it.

    Examples
    --------
    lpp bench draws results/ -o draws.json
    """
    check_file(output, "-o", "a list of tasks")
    from ...bench.draws import Draw, write_draws
    from ...bench.results import Results

    found = [Draw.from_dict(saved) for saved in Results(results, create=False).draws().values()]
    write_draws(output, sorted(found, key=lambda draw: (draw.dataset, draw.shots, draw.seed)))
    if as_json:
        show_json({"file": str(output), "tasks": len(found)})
        return
    say("[bold]{}[/]: {} draws", output, len(found))
