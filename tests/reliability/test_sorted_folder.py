"""A sorted folder against a model of it, in any order: sorts, undos, changes by hand, full disks, kills, two disks.

Every file has a text of its own. Whatever happens, each text is in some file, whole; and an undo brings back all that
nobody has touched. A longer run:

    LPP_EXAMPLES=5000 pytest -n 0 tests/reliability/test_sorted_folder.py
"""

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lpplusplus.images.answers import Answers
from lpplusplus.images.embeddings import Embeddings
from lpplusplus.images.photo_files import find_photos
from lpplusplus.images.safe_paths import FolderError
from lpplusplus.images.sorting import OWN, PAGE, UNSURE, SortedFolder
from reliability.test_page_project import KilledError, trouble

CLASSES = ["cat", "dog"]
CARDS = st.sampled_from(["one", "two"])
"""Folders that photos are in; the second is on another disk, where there is one."""
NAMES = st.sampled_from(["a.jpg", "A.jpg", "b.jpg", "a-2.jpg", "below/a.jpg"])
ALSO = st.sampled_from([".xmp", ".jpg.xmp", ".cr2", ".MOV", ".cr2.xmp"])
TROUBLE = st.one_of(st.just((None, 0)), st.tuples(st.sampled_from(["once", "full", "killed"]), st.integers(1, 30)))
OTHER_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def files(root):
    """What is in each file below a folder, but for our own files there."""
    return {
        path: path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and OWN not in path.parts and path.name != PAGE and not path.name.startswith(".")
    }


class SortedFolders(RuleBasedStateMachine):
    """What people and the command do with photos on two disks and the folder that they are sorted into."""

    def __init__(self):
        super().__init__()
        self.scratch = [Path(tempfile.mkdtemp()).resolve(), Path(tempfile.mkdtemp(dir=OTHER_DISK)).resolve()]
        self.cards = {"one": self.scratch[0] / "card", "two": self.scratch[1] / "card"}
        for card in self.cards.values():
            card.mkdir()
        self.root = self.scratch[0] / "sorted"
        self.folder = SortedFolder(self.root)
        self.count, self.killed = 0, False
        self.texts = set()
        """Of every file that nobody has deleted."""
        self.home = {}
        """The model: where each text is when nothing is sorted."""
        self.touched = set()
        """Texts whose file somebody has moved or changed, or whose place was taken."""

    def teardown(self):
        self.folder.close()
        for scratch in self.scratch:
            shutil.rmtree(scratch)

    def everywhere(self):
        """The files with each text."""
        found = {}
        for folder in (*self.cards.values(), self.root):
            for path, text in files(folder).items():
                found.setdefault(text, []).append(path)
        return found

    @invariant()
    def nothing_is_lost_and_nothing_is_half_there(self):
        found = self.everywhere()
        assert self.texts <= found.keys(), f"lost: {self.texts - found.keys()}"
        assert found.keys() <= self.texts, f"not whole: {found.keys() - self.texts}"

    @invariant()
    def what_nobody_touched_is_at_home_or_sorted(self):
        for text, paths in self.everywhere().items():
            if text not in self.touched:
                assert self.home[text] in paths or all(self.root in path.parents for path in paths)

    def attempt(self, what, wrong):
        """Do it, with trouble; whether it was done."""
        try:
            with trouble(*wrong):
                what()
            return True
        except KilledError:
            note("killed")
            self.killed = True  # An empty folder may be left.
        except (FolderError, OSError) as error:
            note(f"refused: {error}")
            if wrong[0] != "full":
                return False
        if wrong[0] == "full":  # Both disks are: then half of a move between them cannot be taken back.
            self.touched |= {text for text, home in self.home.items() if not home.exists()}
        self.folder._open.close()  # As after a kill: nothing of the old process is left, except that its lock is gone.
        self.folder = SortedFolder(self.root)
        return False

    # What the command does

    @rule(way=st.sampled_from(["copy", "move", "link"]), wrong=TROUBLE, numbers=st.lists(st.integers(0, 5), min_size=9),
          pattern=st.sampled_from(["{class}/{name}", "all/{class}-{name}"]))  # fmt: skip
    def sort(self, way, wrong, numbers, pattern):
        cards = [card for card in self.cards.values() if any(path.suffix == ".jpg" for path in files(card))]
        photos = find_photos(cards, self.root)[0] if cards else []
        photos = [photo for photo in photos if not photo.is_symlink() and not self.folder.sorted_before(photo)]
        if not photos:
            return
        numbers = [numbers[i % len(numbers)] for i in range(len(photos))]
        likely = np.array([[0.9, 0.1] if number % 2 else [0.2, 0.8] for number in numbers])
        sets = np.array([[number < 4, number > 2] for number in numbers])
        embedded = Embeddings(np.zeros((len(photos), 1, 2), np.float32), paths=[str(photo) for photo in photos])
        said = Answers(embedded, likely, CLASSES, sets, np.zeros(len(photos), bool))
        folders = [UNSURE if one.sum() != 1 else CLASSES[one.argmax()] for one in sets]
        chosen = list(zip(photos, folders, strict=True))
        texts = [photo.read_text() for photo in photos]
        placed = []
        if self.attempt(lambda: placed.extend(self.folder.sort(way, chosen, said, pattern)), wrong):
            assert [one.photo for one in placed] == photos
            for one, text in zip(placed, texts, strict=True):
                new = self.root / one.to
                assert new.read_text() == text
                assert new.is_symlink() == (way == "link") or one.there
                assert way != "move" or one.there or not one.photo.exists()
                if not one.there:  # What belongs to it has its name.
                    beside = {path.name for path in new.parent.iterdir() if path.name.startswith(f"{new.stem}.")}
                    assert len(beside) == 1 + one.companions
            self.folder.write_page()

    @rule(wrong=TROUBLE)
    def undo(self, wrong):
        if not self.attempt(lambda: self.folder.undo(), wrong):
            return
        for text, home in self.home.items():
            if text not in self.touched:
                assert home.read_text() == text
        if not self.touched:
            assert files(self.root) == {}, "not everything was put back"
            assert self.killed or not any(path.is_dir() for path in self.root.rglob("*"))
        self.folder.close()
        self.folder = SortedFolder(self.root)

    @rule()
    def another_command_is_refused(self):
        with pytest.raises(FolderError, match="another lpp sort"):
            SortedFolder(self.root)

    @rule()
    def only_look(self):
        before = {path: path.stat().st_mtime_ns for path in self.root.rglob("*") if path.is_file()}
        SortedFolder(self.root, only_look=True).close()
        assert {path: path.stat().st_mtime_ns for path in self.root.rglob("*") if path.is_file()} == before

    # What people do

    @rule(card=CARDS, name=NAMES, also=st.lists(ALSO, unique=True, max_size=3))
    def new_photo(self, card, name, also):
        photo = self.cards[card] / name
        names = [photo, *(photo.with_name(photo.stem + end) for end in also)]
        if any(os.path.lexists(path) for path in names) or any(path in self.home.values() for path in names):
            return  # Its place may be needed by an undo; `somebody_takes_a_place` does that.
        photo.parent.mkdir(exist_ok=True)
        for path in names:
            self.write(path)

    def write(self, path):
        self.count += 1
        text = f"file {self.count}"
        path.write_text(text)
        self.texts.add(text)
        self.home[text] = path

    @precondition(lambda self: self.home)
    @rule(data=st.data())
    def somebody_takes_a_place(self, data):
        text = data.draw(st.sampled_from(sorted(self.home)))
        home = self.home[text]
        if not os.path.lexists(home):
            self.touched |= {other for other, path in self.home.items() if path == home}
            home.parent.mkdir(exist_ok=True)
            self.count += 1
            home.write_text(f"file {self.count}")
            self.texts.add(f"file {self.count}")
            self.home[f"file {self.count}"] = home
            self.touched.add(f"file {self.count}")

    @rule(data=st.data(), what=st.sampled_from(["move", "change", "delete"]))
    def somebody_changes_the_sorted_folder(self, data, what):
        there = [path for path in files(self.root) if not path.is_symlink()]
        if not there:
            return
        path = data.draw(st.sampled_from(there))
        text = path.read_text()
        self.touched.add(text)
        if what == "move":
            target = self.root / "mine" / path.name
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                path.rename(target)
        elif what == "change":
            self.count += 1
            path.write_text(f"file {self.count}")
            self.texts.add(f"file {self.count}")
            self.home[f"file {self.count}"] = path
            self.touched.add(f"file {self.count}")
        else:
            path.unlink()
        self.texts &= self.everywhere().keys()  # They may have thrown the only one away.
        self.home = {text: home for text, home in self.home.items() if text in self.texts}


SortedFolders.TestCase.settings = settings(
    max_examples=int(os.environ.get("LPP_EXAMPLES", "60")), stateful_step_count=30, deadline=None,
    suppress_health_check=list(HealthCheck), report_multiple_bugs=False, phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
TestSortedFolders = SortedFolders.TestCase
