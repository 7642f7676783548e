"""A classifier behind HTTP, asked by another process: python examples/served.py

Trains on drawings, saves, starts `lpp serve` (extra `serve`), sends it images as any client would, and stops it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2

from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo


def ask(address: str, path: Path) -> dict:
    """What the service says about one file; its errors are JSON, too."""
    return httpx2.post(f"{address}/predict", files=[("images", (path.name, path.read_bytes()))], timeout=60).json()


def main(folder: Path) -> None:
    """Train, save, serve from another process, ask, stop."""
    write_demo(folder / "train", 4, seed=1)
    write_demo(folder / "new", 1, seed=2)
    ImageClassifier("drawings", template="a picture of a {}.").fit(folder / "train").save(folder / "shapes.lpp")
    (folder / "note.txt").write_text("hello")
    # Port 0: any free one. The first line of --json tells which.
    command = [sys.executable, "-m", "lpplusplus", "serve", str(folder / "shapes.lpp"), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        assert service.stdout is not None
        address = json.loads(service.stdout.readline())["address"]
        for path in sorted(folder.glob("new/*/*.jpg"))[::6]:
            best = ask(address, path)["predictions"][0]["top"][0]
            print(f"{path.parent.name}: {best['label']} ({100 * best['probability']:.0f} %)")
        print(ask(address, folder / "note.txt")["error"]["message"])
        service.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
