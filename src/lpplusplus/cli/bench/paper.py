"""`lpp bench paper`: the paper's grid."""

from ..options import Json
from .options import Draws, Jobs, NewResults, RootFolder
from .run import run


def paper(
    output: NewResults,
    root: RootFolder = None,
    jobs: Jobs = None,
    draws: Draws = None,
    as_json: Json = False,
) -> None:
    """Run the paper's grid: eleven data sets, thirteen methods, 1 to 16 shots, ten draws, RN50.

    Examples
    --------
    lpp bench paper --root /data -o results/
    lpp bench paper --root /data -o results/ --draws 1 --jobs 4
    """
    run("paper", output, root, None, jobs, draws, as_json=as_json)
