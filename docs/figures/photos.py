"""The picture of docs/tutorials/photos.md: runs its commands up to the report, then takes a screenshot with chromium.

python docs/figures/photos.py
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1]


def main() -> None:
    """Write photos_report.png beside this file."""
    page = (DOCS / "tutorials" / "photos.md").read_text(encoding="utf-8")
    lines = re.findall(r"^lpp .*", page.partition("## 5.")[0], re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            if " --photos " not in line:
                subprocess.run([sys.executable, "-m", "lpplusplus", *shlex.split(line)[1:]], cwd=folder, check=True)
        shot = Path(folder) / "shot.png"
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            raise SystemExit("this needs chromium")
        subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", f"--user-data-dir={folder}/profile", f"--screenshot={shot}",
             "--window-size=800,1500", (Path(folder) / "shapes.html").as_uri()],
            check=True, capture_output=True)  # fmt: skip
        from PIL import Image

        with Image.open(shot) as image:
            image.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(
                Path(__file__).with_name("photos_report.png"), optimize=True
            )


if __name__ == "__main__":
    main()
