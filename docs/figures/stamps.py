"""README's picture: the page of `lpp app`, with eight photos of each of six kinds, by chromium.

python docs/figures/stamps.py /usr/share/tuxpaint/stamps

The photos come with Tux Paint, in Debian's package tuxpaint-stamps-default, under the GNU GPL, version 2; the
picture is, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect, sync_playwright

KINDS = {
    "bird": "animals/birds",
    "fish": "animals/fish",
    "flower": "plants/flowers",
    "fruit": "food/fruit",
    "insect": "animals/insects",
    "vegetable": "food/vegetables",
}
SHOTS = 8


def main(stamps: Path) -> None:
    """Write stamps.png beside this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "stamps")
        for kind, place in KINDS.items():
            (folder / kind).mkdir(parents=True)
            for photo in sorted((stamps / place).glob("*.png"))[:SHOTS]:
                shutil.copy(photo, folder / kind)
        command = [sys.executable, "-m", "lpplusplus", "app", str(folder), "--no-open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as driver:
            address = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
            browser = driver.chromium.launch(executable_path=shutil.which("chromium") or shutil.which("google-chrome"))
            page = browser.new_page(viewport={"width": 1200, "height": 760})
            page.goto(address)
            expect(page.locator("main")).to_contain_text("With 32 photos per class", timeout=60_000)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=Path(name, "shot.png"))
            browser.close()
            process.terminate()
        with Image.open(Path(name, "shot.png")) as image:
            image.convert("RGB").quantize(200).save(Path(__file__).with_name("stamps.png"), optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
