"""How long a person waits for `lpp app`: for the first answer, after a move, and with ten thousand photos.

    python -m benchmarks.app --photos $LPP_DATA/photos/pets --json
    python -m benchmarks.app --photos $LPP_DATA/photos/pets --rounds 0 --moves 0 --label 100 --pace 1 --json
    python -m benchmarks.app --photos $LPP_DATA/photos/pets --rounds 0 --moves 0 --large 10000 --json

answer      20 photos are dropped on two empty classes: until the classifier answers that knows all of them. Beside it
            what embedding them and one fit take by themselves.
refit       a photo is moved between two of 20 classes with 20 photos each: until the classifier answers that knows it.
            Beside it, in turns, a fit on the same embeddings.
label       so many unsorted photos, with 5 photos in each of ten classes, are labelled with the keyboard in a real
            browser: Enter for a right guess, else the class's number. A key is pressed `--pace` seconds after the one
            before, but not before the next photo is seen. Beside it, how long the page takes to show that.
large       so many photos in 50 classes. The page opens in a real browser, first while the photos are being embedded
            and again afterwards: until its first photos are seen. While it embeds, how long a click and a small photo
            take. Memory of the process, at its highest.

The first two run in this process, through what the page itself calls. The others run `lpp app`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.embedding import render
from benchmarks.measure import median, show
from lpplusplus.app.learner import Learner
from lpplusplus.app.project import Project
from lpplusplus.encoders import open_encoder
from lpplusplus.images import ImageClassifier
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import ImageSet, from_folder

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip


def files_of(options: argparse.Namespace, scratch: Path) -> dict[str, list[Path]]:
    """Photos by class: those of the folder, or rendered ones in 20 classes."""
    if options.photos is None:
        images = render(scratch / "photos", 400, 500, 375)
        paths = [Path(str(item)) for item in images.items]
        return {f"class {number}": paths[number * 20 : number * 20 + 20] for number in range(20)}
    images = from_folder(options.photos)
    assert images.labels is not None
    found: dict[str, list[Path]] = {}
    for item, label in zip(images.items, images.labels.tolist(), strict=True):
        found.setdefault(str(label), []).append(Path(str(item)))
    return found


def drop(project: Project, name: str, files: Sequence[Path]) -> None:
    """As the page takes photos: each copied in, then all moved to their class."""
    arrived = []
    for file in files:
        target = project.incoming()
        shutil.copyfile(file, target)
        arrived.append((file.name, target))
    project.add(name, arrived)


def until(condition: Callable[[], bool], seconds: float = 300) -> None:
    """Wait for it."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.002)


def answer(options: argparse.Namespace, scratch: Path) -> dict[str, float]:
    """Seconds from 20 dropped photos to the first answer."""
    two = list(files_of(options, scratch).items())[:2]
    seconds, alone = [], []
    for turn in range(options.rounds):
        with Project(scratch / f"answer{turn}") as project, Learner(project) as learner:
            for name, _ in two:
                project.add_class(name)
            learner.look()
            learner.wait()  # Names alone answer by now; a person has typed them and seen the page.
            began = time.perf_counter()
            for name, files in two:
                drop(project, name, files[:10])
            learner.look()
            until(lambda learner=learner: learner.snapshot.learned == 20)  # type: ignore[misc]
            seconds.append(time.perf_counter() - began)
        paths = [file for _, files in two for file in files[:10]]
        labels = np.array([name for name, _ in two for _ in range(10)])
        encoder = open_encoder("embedded")
        began = time.perf_counter()
        embed(ImageSet(paths), encoder)
        embedded = time.perf_counter() - began
        ImageClassifier(encoder).fit(paths, labels)  # Embeds them again: that time is taken off.
        alone.append(time.perf_counter() - began - embedded)
    return {"seconds": median(seconds), "embedding_and_fit_seconds": median(alone)}


def refit(options: argparse.Namespace, scratch: Path) -> dict[str, float]:
    """Milliseconds from a move to its classifier, 20 classes × 20 photos."""
    with Project(scratch / "refit") as project, Learner(project) as learner:
        for name, files in itertools.islice(files_of(options, scratch).items(), 20):
            drop(project, project.add_class(name), files[:20])
        learner.look()
        learner.wait()
        classes, moved, alone = project.classes(), [], []
        for turn in range(options.moves):
            before, here, there = learner.snapshot.classifier, *classes[turn : turn + 2]
            assert before is not None
            began = time.perf_counter()
            project.move(project.photos(here)[:1], there)
            learner.look()
            until(lambda before=before: learner.snapshot.classifier is not before)  # type: ignore[misc]
            moved.append(time.perf_counter() - began)
            learner.wait()
            began = time.perf_counter()
            ImageClassifier("embedded").fit(before.support_)
            alone.append(time.perf_counter() - began)
    return {
        "ms": 1000 * median(moved),
        "slowest_ms": 1000 * max(moved),
        "fit_ms": 1000 * median(alone),
        "over_fit": median([a / b for a, b in zip(moved, alone, strict=True)]),
    }


def label(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Seconds to label unsorted photos with the keyboard."""
    folder, truth = scratch / "label", {}
    for number, (name, files) in enumerate(itertools.islice(files_of(options, scratch).items(), 10)):
        (folder / name).mkdir(parents=True)
        for file in files[:5]:
            shutil.copyfile(file, folder / name / file.name)
        (folder / "unsorted").mkdir(exist_ok=True)
        for file in files[5 : 5 + options.label // 10]:
            shutil.copyfile(file, folder / "unsorted" / f"{number} {file.name}")
            truth[f"unsorted/{number} {file.name}"] = name
    waits, right = [], 0
    with chromium() as browser, page(folder) as (address, _):
        tab, _ = opened(browser, address)
        tab.wait_for_selector(".accuracy", timeout=120_000)
        tab.click("#tab-suggest")
        tab.evaluate("document.activeElement.blur()")
        began = pressed = time.perf_counter()
        was = ""
        while truth:
            tab.wait_for_function(NEXT_PHOTO, arg=was, timeout=120_000)
            waits.append(time.perf_counter() - pressed)
            was = tab.get_attribute("[data-keys=suggest]", "data-photo")
            name = truth.pop(was)
            guessed = tab.inner_text("[data-keys=suggest] h2").startswith(f"{name}?")
            right += guessed
            number = tab.locator(f"[data-keys=suggest] button[data-to={json.dumps(name)}] kbd")
            key = "Enter" if guessed or not number.count() else number.inner_text()
            time.sleep(max(0.0, options.pace - (time.perf_counter() - pressed)))
            pressed = time.perf_counter()
            tab.keyboard.press(key)
        tab.wait_for_selector("text=No unsorted photos", timeout=120_000)
        whole = time.perf_counter() - began
        browser.close()
    left = list((folder / "unsorted").iterdir())
    assert not left, left
    return {
        "photos": options.label,
        "seconds": whole,
        "next_photo_ms": 1000 * median(waits[1:]),
        "slowest_next_photo_ms": 1000 * max(waits[1:]),
        "guessed_right": right / options.label,
    }


NEXT_PHOTO = """(was) => {
  const at = document.querySelector("[data-keys=suggest]");
  const image = at && at.querySelector(".large img");
  return image && at.dataset.photo !== was && image.complete && image.naturalWidth > 0;
}"""


def fill(options: argparse.Namespace, scratch: Path, classes: int = 50) -> Path:
    """A project with so many photos, no two files alike: the same photos with another number at their end."""
    folder = scratch / "large"
    files = itertools.cycle(file for some in files_of(options, scratch).values() for file in some)
    for name in range(classes):
        (folder / f"kind {name:02}").mkdir(parents=True)
    for number, file in zip(range(options.large), files, strict=False):
        target = folder / f"kind {number % classes:02}" / f"{number:05}{file.suffix}"
        target.write_bytes(file.read_bytes() + str(number).encode())
    return folder


@contextmanager
def page(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """`lpp app` on any free port."""
    command = [sys.executable, "-m", "lpplusplus", "app", str(folder), "--port", "0", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"], psutil.Process(process.pid)
        finally:
            process.terminate()


def highest(process: psutil.Process) -> float:
    """MiB that a process held at its highest."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def chromium() -> Iterator[Any]:
    """A real browser."""
    from playwright.sync_api import sync_playwright

    file = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as play:
        yield play.chromium.launch(executable_path=file, args=list(FLAGS))


def opened(browser: Any, address: str) -> tuple[Any, float]:
    """A new tab, and seconds until it shows photos."""
    tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    began = time.perf_counter()
    tab.goto(address)
    tab.wait_for_function(SEES_PHOTOS, timeout=120_000)
    return tab, time.perf_counter() - began


SEES_PHOTOS = """() => {
  const seen = [...document.images].filter((one) => one.src.includes("/photo/")).filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  });
  return seen.length > 3 && seen.every((one) => one.complete && one.naturalWidth);
}"""
FETCH = """async (photo) => {
  const began = performance.now();
  await (await fetch(photo, {cache: "no-store"})).arrayBuffer();
  return performance.now() - began;
}"""


def large(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The page with many photos."""
    folder = fill(options, scratch)
    clicks, fetches = [], []
    with chromium() as browser, page(folder) as (address, process):
        tab, first = opened(browser, address)
        photos = sorted(path.relative_to(folder).as_posix() for path in folder.glob("kind*/*"))
        tabs = tab.get_by_role("tab")
        for turn in range(options.clicks):
            began = time.perf_counter()
            one = tabs.nth(turn % tabs.count())
            one.click()
            tab.wait_for_function("(one) => one.getAttribute('aria-selected') == 'true'", arg=one.element_handle())
            clicks.append(time.perf_counter() - began)
            some = photos[turn * 97 % len(photos)]
            fetches.append(tab.evaluate(FETCH, f"/photo/{some.replace(' ', '%20')}?size=160"))
        during = highest(process)
        began = time.perf_counter()
        until(lambda: (folder / "classifier.lpp").exists(), 1800)
        learned = time.perf_counter() - began
        time.sleep(options.longer)
        _, again = opened(browser, address)
        browser.close()
        return {
            "photos": options.large,
            "opens_seconds": first,
            "click_ms": 1000 * median(clicks),
            "slowest_click_ms": 1000 * max(clicks),
            "photo_ms": median(fetches),
            "slowest_photo_ms": max(fetches),
            "embedding_mib": during,
            "seconds_until_learned": learned,
            "opens_again_seconds": again,
            "highest_mib": highest(process),
        }


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, help="a folder per class, 20 classes or more; else rendered pictures")
    parser.add_argument("--rounds", type=int, default=3, help="for the first answer")
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--label", type=int, default=0, help="photos to label; by default none")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between two keys, at least")
    parser.add_argument("--large", type=int, default=0, help="photos in 50 classes; by default it is not measured")
    parser.add_argument("--longer", type=float, default=60, help="seconds after that, while it measures")
    parser.add_argument("--clicks", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.rounds:
            found["answer"] = answer(options, Path(folder))
        if options.moves:
            found["refit"] = refit(options, Path(folder))
        if options.label:
            found["label"] = label(options, Path(folder))
        if options.large:
            found["large"] = large(options, Path(folder))
    show(found, options.json)


if __name__ == "__main__":
    main()
