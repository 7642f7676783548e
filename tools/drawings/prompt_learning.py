"""Run docs/plans/prompt-learning.toml: `python -m tools.drawings.prompt_learning results/`, then `lpp bench report`."""

from __future__ import annotations

import sys
from pathlib import Path

from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import read_plan
from lpplusplus.bench.results import Results
from lpplusplus.bench.runner import run_plan

from .as_open_clip import as_open_clip

PLAN = Path(__file__).parents[2] / "docs" / "plans" / "prompt-learning.toml"


def main(folder: Path) -> None:
    """Run what is missing."""
    plan = read_plan(PLAN)
    loader = DatasetLoader(None, folder / "features", encoders={plan.encoders[0]: as_open_clip()})
    run_plan(plan, Results(folder), loader, n_jobs=1, progress=lambda *told: print(*told, file=sys.stderr))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
