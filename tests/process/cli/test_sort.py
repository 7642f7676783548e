"""`lpp sort`, as a person runs it."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from commands import LPP, ask, complaint, environment, lpp, run, usage
from lpplusplus.images.drawings import write_demo
from toy_images import contents

KINDS = ("cup", "fish", "house")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    root = tmp_path_factory.mktemp("model")
    write_demo(root / "photos", 4, size=48, seed=1)
    for other in set((root / "photos").iterdir()) - {root / "photos" / kind for kind in KINDS}:
        shutil.rmtree(other)
    lpp("train", root / "photos", "-e", "drawings", "-o", root / "m.lpp")
    return root / "m.lpp"


@pytest.fixture
def card(tmp_path):
    """Twelve drawings of the three classes and four of another, what belongs to one, and a broken one."""
    write_demo(tmp_path / "drawn", 4, size=48, seed=2)
    (tmp_path / "card").mkdir()
    for kind in (*KINDS, "tree"):
        for path in sorted((tmp_path / "drawn" / kind).iterdir()):
            path.rename(tmp_path / "card" / f"{kind}{path.name}")
    shutil.rmtree(tmp_path / "drawn")
    (tmp_path / "card/cup0000.xmp").write_text("settings")
    (tmp_path / "card/cup0000.CR2").write_text("raw")
    (tmp_path / "card/broken.jpg").write_text("no photo")
    return tmp_path / "card"


def own(folder):
    return {name: value for name, value in contents(folder).items() if not name.startswith(".lpp-sort/")}


def test_sort_and_undo(model, card, tmp_path):
    before, out = contents(card), tmp_path / "sorted"
    dry = ask("sort", model, card, "-o", out, "--dry-run")
    assert not out.exists()
    told = ask("sort", model, card, "-o", out)
    assert contents(card) == before
    assert dry["counts"] == told["counts"]
    assert dry["photos"] == told["photos"]
    assert sum(told["counts"].values()) == 16
    assert set(told["counts"]) <= {*KINDS, "unsure"}
    assert [Path(one["path"]).name for one in told["skipped"]] == ["broken.jpg"]
    for one in told["photos"]:
        assert (out / one["to"]).read_bytes() == Path(one["photo"]).read_bytes()
        assert one["to"].split("/")[0] == (one["class"] or "unsure")
    cup = next(one for one in told["photos"] if one["photo"].endswith("cup0000.jpg"))
    assert cup["companions"] == 2
    assert (out / cup["to"]).with_suffix(".xmp").read_text() == "settings"
    assert told["page"] == (str(out / "unsure.html") if "unsure" in told["counts"] else None)
    again = ask("sort", model, card, "-o", out)
    assert again["sorted_before"] == 16
    assert again["photos"] == []
    assert ask("sort", "--undo", out) == {"folder": str(out), "put_back": 18, "left": []}
    assert contents(out) == {}
    assert "nothing that lpp sort" in complaint("sort", "--undo", out)


def test_move_link_and_names(model, card, tmp_path):
    before = contents(card)
    lpp("sort", model, card, "-o", tmp_path / "links", "--link", "--by-date")
    assert all(path.is_symlink() for path in (tmp_path / "links").glob("*/*/*.jpg"))
    year = time.strftime("%Y", time.localtime((card / "cup0000.jpg").stat().st_mtime))
    lpp("sort", model, card, "-o", tmp_path / "moved", "--move", "--sure", "0", "--name", "{year}/{class}-{name}")
    assert sorted(contents(card)) == ["broken.jpg"]
    moved = own(tmp_path / "moved")
    assert sorted(moved.values()) == sorted(content for name, content in before.items() if name != "broken.jpg")
    assert all(name.startswith(f"{year}/") and "unsure" not in name for name in moved)
    lpp("sort", "--undo", tmp_path / "moved")
    assert contents(card) == before
    lpp("sort", "--undo", tmp_path / "links")
    assert not any(path.is_file() or path.is_symlink() for path in (tmp_path / "links").rglob("*"))


def test_what_it_says(model, card, tmp_path):
    done = run("sort", model, card, "-o", tmp_path / "sorted")
    assert "16 photos copied, and 2 files that belong to them" in done.stdout
    assert f"lpp sort --undo {tmp_path / 'sorted'}" in done.stdout
    assert "RAW" not in done.stderr  # It is sorted with its JPEG.
    assert "broken.jpg: is not a JPEG" in done.stderr
    assert "16 photos were sorted before" in lpp("sort", model, card, "-o", tmp_path / "sorted")
    dry = lpp("sort", model, card, "-o", tmp_path / "other", "--dry-run", "--sure", "0")
    assert "16 photos would be copied" in dry
    assert "cup0000.jpg" in dry


def test_refusals(model, card, tmp_path):
    out = tmp_path / "sorted"
    assert "lpp sort MODEL PHOTOS" in usage("sort", model, card)
    assert "choose one" in usage("sort", model, card, "-o", out, "--move", "--link")
    assert "name only the folder" in usage("sort", model, card, "--undo", out)
    assert "must have {class}" in complaint("sort", model, card, "-o", out, "--name", "{name}")
    out.mkdir()
    (out / "unsure.html").write_text("mine")
    assert "is not a page of unsure photos" in usage("sort", model, card, "-o", out)
    lpp("train", model.parent / "photos", "--shots", 1, "-e", "drawings", "-o", tmp_path / "one.lpp")
    assert "--sure 0" in complaint("sort", tmp_path / "one.lpp", card, "-o", tmp_path / "other")
    assert sorted(contents(out)) == ["unsure.html"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupted(model, card, tmp_path):
    """Ctrl-C: exit 130, one line, no half of a photo; the next run goes on."""
    photos = sorted(card.glob("*0*.jpg"))
    for number in range(1200):
        (card / f"more{number}.jpg").write_bytes(photos[number % 16].read_bytes() + b"%d" % number)
    (card / "broken.jpg").unlink()
    out = tmp_path / "sorted"
    process = subprocess.Popen(
        [*LPP, "sort", str(model), str(card), "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(), preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not any(out.glob("*/*.jpg")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said == ""
    assert complained == ("lpp: interrupted; nothing half-written is left, and finished photos are kept: the same "
                          "command goes on from there.\n")  # fmt: skip
    whole = {path.name: path.read_bytes() for path in card.glob("*.jpg")}
    assert all(path.read_bytes() == whole[path.name] for path in out.glob("*/*.jpg"))
    assert not list(out.rglob("*.tmp"))
    told = ask("sort", model, card, "-o", out)
    assert 0 < told["sorted_before"] < 1216
    assert told["sorted_before"] + len(told["photos"]) == 1216
    assert {path.name: path.read_bytes() for path in out.glob("*/*.jpg")} == whole


def test_tags(model, card, tmp_path):
    before = {path.name: path.read_bytes() for path in card.glob("*.jpg")}
    (card / "cup0000.xmp").unlink()
    dry = ask("sort", model, card, "--tags", "--dry-run", "--sure", "0")
    assert not list(card.glob("*.xmp"))
    told = ask("sort", model, card, "--tags", "--sure", "0")
    assert told["photos"] == dry["photos"]
    assert len(told["photos"]) == sum(told["counts"].values()) == 16
    for one in told["photos"]:
        assert one["sidecars"] == [f"{one['photo']}.xmp"]
        assert f"<rdf:li>{one['keyword']}</rdf:li>" in Path(one["sidecars"][0]).read_text("utf-8")
    assert {path.name: path.read_bytes() for path in card.glob("*.jpg")} == before
    again = lpp("sort", model, card, "--tags", "--sure", "0")
    assert "0 photos have got a keyword, 16 had theirs; 0 are unsure" in again
    assert "leave out -o" in usage("sort", model, card, "--tags", "-o", tmp_path / "sorted")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_watch(model, card, tmp_path):
    """A photo that arrives in two halves is sorted once, whole; a second command is refused; Ctrl-C ends it."""
    pytest.importorskip("watchfiles")
    (tmp_path / "upload").mkdir()
    out, upload = tmp_path / "sorted", tmp_path / "upload"
    process = subprocess.Popen(
        [*LPP, "sort", str(model), str(upload), "-o", str(out), "--move", "--watch", "--sure", "0"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        assert "watching" in process.stderr.readline()
        whole = (card / "cup0001.jpg").read_bytes()
        with open(upload / "cup.jpg", "wb") as file:
            file.write(whole[:500])
            file.flush()
            assert "another lpp sort" in complaint("sort", model, card, "-o", out)
            file.write(whole[500:])
        assert "1 photos moved" in process.stdout.readline()
        assert [path.read_bytes() for path in out.glob("*/*.jpg")] == [whole]
        assert list(upload.iterdir()) == []
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in complained
    assert "is no folder" in usage("sort", model, card / "cup0001.jpg", "-o", out, "--watch")
    assert ask("sort", "--undo", out)["put_back"] == 1
