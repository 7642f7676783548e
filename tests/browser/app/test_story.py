"""The whole story in a real browser: a project from nothing to an export. Its screenshots are the tutorial's pictures.

`LPP_SCREENSHOTS=docs/tutorials/app pytest tests/browser/app/test_story.py` makes them anew.
"""

import os
import shutil
import time
import zipfile
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from browsing import browser, need_browser, page, running
from commands import lpp
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import Scene, Thing
from tools.drawings.plain import render

CLASSES = {"red star": ("star", "red"), "blue heart": ("heart", "blue"), "green tree": ("tree", "green")}
PATIENCE = 300_000
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def drawing(name, seed):
    """A PNG of a class, as bytes."""
    file = BytesIO()
    render(Scene(Thing(*CLASSES[name])), np.random.default_rng(seed), size=256).save(file, "PNG")
    return file.getvalue()


def drop(tab, where, files):
    """Let files fall onto a place, as from the desktop."""
    data = [{"name": name, "body": b64encode(content).decode()} for name, content in files]
    transfer = tab.evaluate_handle(
        """(files) => { const transfer = new DataTransfer();
        for (const { name, body } of files) {
          const bytes = Uint8Array.from(atob(body), (c) => c.charCodeAt(0));
          transfer.items.add(new File([bytes], name, { type: "image/png" }));
        }
        return transfer; }""",
        data,
    )
    tab.dispatch_event(f'[data-drop="{where}"]', "drop", {"dataTransfer": transfer})


def count(tab, name, expected):
    """Wait until a column says that it has so many photos."""
    said = "1 photo" if expected == 1 else f"{expected} photos"
    tab.wait_for_selector(f'[data-drop="{name}"] .count:text-is("{said}")', timeout=PATIENCE)


def idle(tab):
    """Wait until it has learned and measured everything."""
    tab.wait_for_function("() => !document.querySelector('#status .progress')", timeout=PATIENCE)


class Camera:
    """Keeps the pictures where the documentation has them, if asked to; else where pytest puts files."""

    def __init__(self, tab, folder):
        self.tab, self.folder = tab, Path(os.environ.get("LPP_SCREENSHOTS") or folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, name):
        self.tab.wait_for_timeout(400)
        self.tab.wait_for_function("() => [...document.images].every((one) => one.complete || one.loading === 'lazy')")
        self.tab.mouse.move(0, 0)
        self.tab.screenshot(path=self.folder / f"{name}.png")


def test_the_story(tmp_path):
    need_browser()
    folder = tmp_path / "shapes"
    with (
        running(folder) as (address, process),
        browser() as chromium,
        page(chromium, address, accept_downloads=True) as tab,
    ):
        picture = Camera(tab, tmp_path / "pictures")
        names_and_photos(tab, folder, picture)
        try_a_photo(tab, folder, picture)
        correct_a_mistake(tab, folder, picture)
        label_suggestions(tab, folder, picture)
        ask_the_webcam(tab, folder)
        understand(tab, picture)
        take_along(tab, folder, picture, tmp_path)
        nothing_is_lost(tab, address, folder, process)
        hosts = {urlsplit(url).netloc for url in tab.requested if not url.startswith(("data:", "blob:"))}
        assert hosts == {urlsplit(address).netloc}
        assert tab.said == []
    assert "undone" in lpp("app", folder, "--undo")
    assert not (folder / "red star" / "more8.png").exists()
    with running(folder) as (address, _), browser() as chromium, page(chromium, address) as tab:
        count(tab, "red star", 8)
        tab.wait_for_selector(".accuracy")
        tab.click("text=Undo")
        count(tab, "red star", 7)


def names_and_photos(tab, folder, picture):
    """Names alone answer; then photos are learned as they fall, and accuracy comes by itself."""
    tab.wait_for_selector("#new-class")
    for name in CLASSES:
        tab.fill("#new-class", name)
        tab.press("#new-class", "Enter")
        count(tab, name, 0)
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [".lpp", *sorted(CLASSES), "unsorted"]
    tab.wait_for_selector("text=Answers by the names alone")
    picture("1-names")
    for k, name in enumerate(CLASSES):
        drop(tab, name, [(f"{i}.png", drawing(name, 100 * k + i)) for i in range(6)])
        count(tab, name, 6)
    drop(tab, "blue heart", [("star.png", drawing("red star", 50)), ("notes.txt", b"no photo")])
    tab.wait_for_selector("#messages >> text=notes.txt")
    count(tab, "blue heart", 7)
    tab.wait_for_selector(".accuracy")
    tab.wait_for_selector(".curve svg")
    idle(tab)
    picture("2-photos")


def try_a_photo(tab, folder, picture):
    """Bars, and the nearest photos as the reason."""
    tab.click("#tab-try")
    drop(tab, "try", [("new.png", drawing("green tree", 900))])
    tab.wait_for_selector(".bars")
    assert tab.inner_text(".bars li:first-child .name") == "green tree"
    assert tab.locator(".photos .note:text-is('green tree')").count() >= 2
    picture("3-try")
    assert len(list((folder / "green tree").iterdir())) == 6  # What is tried is not kept.


def correct_a_mistake(tab, folder, picture):
    """The star among the hearts is found; one click moves it. Undo takes it back, redo does it again."""
    tab.click("#tab-review")
    card = tab.locator('li:has([data-photo="blue heart/star.png"])').first
    card.wait_for()
    assert "looks like red star" in card.inner_text()
    picture("4-review")
    card.locator("text=Move to red star").click()
    tab.wait_for_selector('[data-photo="blue heart/star.png"]', state="detached")
    assert (folder / "red star" / "star.png").is_file()
    tab.click("text=Undo")
    tab.wait_for_selector("#messages >> text=Undone")
    assert (folder / "blue heart" / "star.png").is_file()
    tab.click("text=Redo")
    tab.click("#tab-classes")
    count(tab, "red star", 7)
    # By hand: drag one over, then with the keyboard back.
    idle(tab)
    there = set(os.listdir(folder / "green tree"))
    tab.drag_and_drop('[data-photo="red star/0.png"]', '[data-drop="green tree"] .zone')
    count(tab, "green tree", 7)
    (moved,) = set(os.listdir(folder / "green tree")) - there
    tab.focus(f'[data-photo="green tree/{moved}"]')
    tab.keyboard.press("3")
    count(tab, "red star", 7)
    tab.keyboard.press("Tab")
    # By name: Teachable Machine cannot.
    tab.click('[aria-label="Rename green tree"]')
    tab.fill("form[data-do=rename] input", "fir tree")
    tab.press("form[data-do=rename] input", "Enter")
    count(tab, "fir tree", 6)
    assert (folder / "fir tree").is_dir()


def ask_the_webcam(tab, folder):
    """A photo taken with the (made-up) webcam is none of these, by now."""
    tab.click("#tab-try")
    tab.click("[data-webcam=try]")
    tab.wait_for_selector("#webcam-dialog video")
    tab.wait_for_function("() => document.querySelector('#webcam-dialog video').videoWidth > 0")
    tab.click("text=Take photo")
    tab.wait_for_selector(".bars")
    tab.wait_for_selector("text=None of these")


def label_suggestions(tab, folder, picture):
    """Unsorted photos, labelled with the keyboard alone; u takes the last one back."""
    truth = {f"u{k}{i}.png": name for k, name in enumerate(CLASSES) for i in range(2)}
    drop(tab, "unsorted", [(one, drawing(name, 500 + n)) for n, (one, name) in enumerate(truth.items())])
    count(tab, "unsorted", 6)
    (folder / "unsorted" / "copied by hand.png").write_bytes(drawing("red star", 777))
    count(tab, "unsorted", 7)
    idle(tab)
    tab.click("#tab-suggest")
    tab.wait_for_selector("[data-keys=suggest]")
    picture("5-suggest")
    tab.evaluate("document.activeElement.blur()")
    first = tab.get_attribute("[data-keys=suggest]", "data-photo")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("(was) => document.querySelector('[data-keys]').dataset.photo !== was", arg=first)
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_function("(was) => document.querySelector('[data-keys]').dataset.photo === was", arg=first)
    places = {name: str(number) for number, name in enumerate(sorted([*CLASSES, "fir tree"], key=str), 1)}
    del places["green tree"]
    order = sorted(places)
    for left in range(7, 4, -1):
        photo = tab.get_attribute("[data-keys=suggest]", "data-photo")
        name = truth.get(photo.rpartition("/")[2], "red star").replace("green tree", "fir tree")
        guess = tab.inner_text("[data-keys=suggest] h2")
        tab.keyboard.press("Enter" if guess.startswith(f"{name}?") else str(order.index(name) + 1))
        tab.wait_for_selector(f"text={left - 1} unsorted photos left")
        assert not (folder / photo).exists()
    tab.keyboard.press("u")
    tab.wait_for_selector("text=5 unsorted photos left")
    # The photo comes a moment after the count.
    tab.wait_for_function("(was) => document.querySelector('[data-keys=suggest]').dataset.photo === was", arg=photo)


def understand(tab, picture):
    """A map with photos at the pointer, and a matrix to look into."""
    idle(tab)
    tab.click("#tab-understand")
    tab.wait_for_selector(".map circle")
    tab.hover(".map circle >> nth=0", force=True)
    tab.wait_for_selector("#preview.shown img")
    cell = tab.locator(".matrix button").first
    cell.click()
    tab.wait_for_selector("#cell .photo")
    tab.evaluate("scrollTo(0, 0)")
    tab.set_viewport_size({"width": 1280, "height": 1150})
    picture("6-understand")
    tab.set_viewport_size({"width": 1280, "height": 800})


def take_along(tab, folder, picture, tmp_path):
    """Four files, each of them good for something."""
    tab.click("#tab-export")
    found = {}
    for kind in ("file", "onnx", "report", "photos"):
        tab.click(f'[data-do=export][data-to="{kind}"]')
        link = tab.locator(f'li[data-key="{kind}"] a')
        link.wait_for(timeout=PATIENCE)
        with tab.expect_download() as download:
            link.click()
        found[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(found[kind])
    picture("7-export")
    new = tmp_path / "new.png"
    new.write_bytes(drawing("blue heart", 901))
    assert ImageClassifier.load(found["file"]).predict([new]).tolist() == ["blue heart"]
    assert ImageClassifier.load(folder / "classifier.lpp").predict([new]).tolist() == ["blue heart"]
    assert "recognised" in found["report"].read_text(encoding="utf-8")
    with zipfile.ZipFile(found["photos"]) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"blue heart", "fir tree", "red star"}
    import onnxruntime
    from PIL import Image

    session = onnxruntime.InferenceSession(found["onnx"], providers=["CPUExecutionProvider"])
    (said,) = session.run(["probabilities"], {"image": np.asarray(Image.open(new).convert("RGB"))})
    assert said.argmax() == 0


def nothing_is_lost(tab, address, folder, process):
    """A reload keeps the place, a second tab shows the same, and a kill loses nothing."""
    tab.reload()
    tab.wait_for_selector('#tab-export[aria-selected="true"]')
    other = tab.context.new_page()
    other.goto(address.partition("?")[0])
    other.click("#tab-classes")
    here = len(list((folder / "red star").iterdir()))
    shutil.copy(folder / "blue heart" / "1.png", folder / "red star" / "wrong.png")
    count(other, "red star", here + 1)
    other.click('[data-photo="red star/wrong.png"]')
    other.wait_for_selector("#photo-dialog h2:text-is('red star/wrong.png')")
    other.click("#photo-dialog >> text=Remove")
    tab.click("#tab-classes")
    count(tab, "red star", here)
    while here < 9:
        drop(tab, "red star", [(f"more{here}.png", drawing("red star", 600 + here))])
        here += 1
        count(tab, "red star", here)
    other.close()
    process.kill()
    process.wait()
    time.sleep(0.5)
