"""Hostile testing: programs for long runs (`PYTHONPATH=tests python -m reliability.fuzzing`), and short ones as tests.

docs/explanation/reliability.md has the commands and what they found.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))  # The programs start what tests start.
