"""`lpp bench paper`: the paper's grid."""

from ..options import Json
from .options import Jobs, NewResults, RootFolder, Tasks
from .run import run


def paper(
    output: NewResults,
    root: RootFolder = None,
    jobs: Jobs = None,
    tasks: Tasks = None,
    as_json: Json = False,
) -> None:
    """Run the paper's grid: eleven data sets, thirteen methods, 1 to 16 shots, ten tasks, RN50.

    Examples
    --------
    lpp bench paper --root /data -o results/
    lpp bench paper --root /data -o results/ --tasks 1 --jobs 4
    """
    run("paper", output, root, None, jobs, tasks, as_json=as_json)
