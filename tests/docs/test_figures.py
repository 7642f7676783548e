"""Programs of docs/figures draw what the pages show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import shared_data


def test_the_figures_of_the_flow_can_be_drawn(tmp_path):
    root = shared_data("whurs19/clip_rn50.npz").parents[1]
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    script = Path(__file__).parents[2] / "docs" / "figures" / "flow.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False,
                          env={**os.environ, "LPP_DATA": str(root)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in script.parent.glob("flow_*.png")}
