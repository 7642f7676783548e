"""The pictures of docs/tutorials/sort.md: runs its lines up to `lpp sort`, then takes screenshots with chromium.

python docs/figures/sort.py
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1]
STYLE = """body { font: 16px system-ui, sans-serif; margin: 16px } h2 { font-size: 17px; margin: 14px 0 6px }
img { width: 56px; margin: 0 4px 2px 0; border-radius: 4px }"""


def overview(folders: list[Path], many: int) -> str:
    """Folders with their first photos, as a file manager shows them."""
    rows = []
    for folder in folders:
        photos = sorted(folder.glob("*.jpg"))
        shown = "".join(f'<img src="{photo.as_uri()}">' for photo in photos[:many])
        rows.append(f"<h2>{folder.relative_to(Path().resolve())}/ · {len(photos)} photos</h2>{shown}")
    return f"<!DOCTYPE html><meta charset='utf-8'><style>{STYLE}</style>{''.join(rows)}"


def shoot(page: Path, name: str, width: int, height: int) -> None:
    """A screenshot of a page beside this file."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("this needs chromium")
    shot = page.with_suffix(".png")
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", f"--user-data-dir={Path().resolve()}/profile", f"--screenshot={shot}",
         f"--window-size={width},{height}", page.as_uri()],
        check=True, capture_output=True)  # fmt: skip
    from PIL import Image

    with Image.open(shot) as image:
        image.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(
            Path(__file__).with_name(name), optimize=True
        )


def main() -> None:
    """Write sort_folders.png and sort_unsure.png beside this file."""
    page = (DOCS / "tutorials" / "sort.md").read_text(encoding="utf-8").partition("## 4.")[0]
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        here = Path().resolve()
        exec(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0], {})
        for line in re.findall(r"^lpp .*", page, re.MULTILINE):
            subprocess.run([sys.executable, "-m", "lpplusplus", *shlex.split(line)[1:]], check=True)
        shoot(Path(here, "sorted/unsure.html"), "sort_unsure.png", 800, 800)
        sorted_ = [
            folder for folder in sorted(Path(here, "sorted").iterdir()) if folder.is_dir() and folder.name[0] != "."
        ]
        Path("overview.html").write_text(overview([Path(here, "holiday"), *sorted_], 24), encoding="utf-8")
        shoot(Path(here, "overview.html"), "sort_folders.png", 800, 820)
        os.chdir("/")


if __name__ == "__main__":
    main()
