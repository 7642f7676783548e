"""The page's project against a model of it, in any order: changes by page and hand, full disks, kills, restarts.

The model is a dictionary: where each photo is that was ever given. Every photo must exist exactly once, in the folder
or in `removed/`, and the project must say truly where it is. A longer run:

    LPP_EXAMPLES=5000 pytest -n 0 tests/reliability/test_page_project.py
"""

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from lpplusplus.app.project import FolderError, Project

CLASSES = ("cat", "Cat", "dog", "owl")
PLACES = st.sampled_from([*CLASSES, "unsorted"])
NAMES = st.sampled_from(["a.png", "A.png", "b.png", "a-2.png", "../x.jpg"])
CALLS = ("write", "sendfile", "fsync", "rename", "mkdir", "replace", "link", "symlink", "truncate", "ftruncate",
         "unlink", "rmdir")  # fmt: skip
MAKES_ROOM = CALLS[-4:]
"""These work on a full disk, too."""


class KilledError(BaseException):
    """The process ends here."""


@contextmanager
def trouble(kind, at):
    """The `at`-th call that writes fails once, it and all later ones fail, or the process is killed at it."""
    count, real = 0, {name: getattr(os, name) for name in CALLS}

    def wrapped(name):
        def call(*arguments, **options):
            nonlocal count
            count += kind is not None
            if kind == "killed" and count >= at:  # Nothing that handles errors may do anything any more.
                raise KilledError
            if kind and (count == at or (kind == "full" and count > at)) and name not in MAKES_ROOM:
                if name == "write" and at % 2:  # The first half fits.
                    real["write"](arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real[name](*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(name))
    try:
        yield
    finally:
        for name in CALLS:
            setattr(os, name, real[name])


def prefixed(path, name, to):
    """Where a photo is after its class was renamed."""
    return f"{to}/{path.partition('/')[2]}" if (path or "").startswith(f"{name}/") else path


TROUBLE = st.one_of(st.just((None, 0)), st.tuples(st.sampled_from(["once", "full", "killed"]), st.integers(1, 14)))


class PageProject(RuleBasedStateMachine):
    """What people and the page do with a project."""

    photos = Bundle("photos")

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp()) / "pets"
        self.project = Project(self.root)
        self.count = 0
        self.where = {}
        """The model: photo -> its path in the folder, or None if it was removed."""
        self.done, self.undone = [], []
        """What the folder should be after an undo and a redo; None where somebody has changed it by hand since."""

    def teardown(self):
        self.project.close()
        shutil.rmtree(self.root.parent)

    # What is on the disk

    def on_disk(self):
        """Paths of every photo, also of those in `removed/`."""
        found = {}
        for path in self.root.rglob("*"):
            parts = path.relative_to(self.root).parts
            if path.is_file() and path.suffix in (".png", ".jpg") and parts[:2] != (".lpp", "incoming"):
                found.setdefault(path.read_bytes().decode(), []).append("/".join(parts))
        return found

    def look(self):
        """The model, as the disk has it."""
        found = self.on_disk()
        seen = {photo: [None if path.startswith(".lpp/") else path for path in paths] for photo, paths in found.items()}
        assert {photo: paths for photo, paths in seen.items() if len(paths) > 1} == {}, "a photo is there twice"
        return {photo: paths[0] for photo, paths in seen.items()}

    @invariant()
    def every_photo_is_somewhere_once(self):
        now = self.look()
        assert self.where.keys() <= now.keys(), f"lost: {self.where.keys() - now.keys()}"
        assert {photo: now[photo] for photo in self.where} == self.where

    @invariant()
    def the_project_says_truly_where_it_is(self):
        listing = self.project.listing()
        visible = {path for path in self.where.values() if path is not None}
        assert set(listing.where()) == visible
        assert {path for photos in listing.classes.values() for path in (one.path for one in photos)} == {
            path for path in visible if path.partition("/")[0] != "unsorted"
        }
        assert all(self.project.path_of(path).read_bytes().decode() in self.where for path in visible)

    # Doing things

    def restart(self):
        """As after a kill: nothing of the old process is left, except that its lock is gone."""
        if self.project is not None:
            self.project._open.close()
        self.project = Project(self.root)

    def history(self):
        last, following = self.project.journal.last, self.project.journal.next
        return last and last.number, following and following.number

    def attempt(self, what, wrong):
        """Do it, with trouble; what it returns, or None if it did not happen."""
        before, was = dict(self.where), self.history()
        answer, ended = None, "refused"
        try:
            with trouble(*wrong):
                answer = what()
            ended = "done"
        except KilledError:
            self.restart()
            ended = "killed"
        except (FolderError, OSError) as error:
            note(f"refused: {error}")
            if self.project is None:
                self.project = Project(self.root)
        now = self.look()
        if ended == "refused":
            assert self.history() == was, "refused, and yet it counts"
            if wrong[0] != "full":
                assert {photo: now[photo] for photo in before} == before, "refused, and yet photos moved"
        happened = self.history() != was
        if ended == "done":
            assert happened == (answer not in (None, []))
        self.where = {photo: now[photo] for photo in before}
        if wrong[0] == "full" and ended == "refused" and self.where != before:
            self.by_hand()  # Half of it could not be taken back.
        return answer, before, happened, ended == "done"

    def change(self, what, wrong, expected):
        """A change that can be undone; `expected` tells from the places before what they may be after."""
        _, before, happened, done = self.attempt(what, wrong)
        if happened:
            self.done.append(before)
            self.undone.clear()
            expected(before, done)
        return happened

    def by_hand(self):
        self.done, self.undone = [None] * len(self.done), [None] * len(self.undone)

    def turn(self, what, came, went, wrong):
        _, before, happened, done = self.attempt(what, wrong)
        if happened:
            wanted = came.pop()
            went.append(before if wanted is not None else None)
            if wanted is not None:
                told = {photo: self.where[photo] for photo in wanted}
                assert told == wanted, "undo or redo did something else"
        elif done:
            assert not came

    # What the page does

    @rule(target=photos, to=PLACES, names=st.lists(NAMES, min_size=1, max_size=3), wrong=TROUBLE)
    def upload(self, to, names, wrong):
        files, contents = [], []
        for name in names:
            self.count += 1
            path = self.project.incoming()
            contents.append(f"photo {self.count}")
            path.write_bytes(contents[-1].encode())
            files.append((name, path))
        before = dict(self.where)
        added, _, happened, done = self.attempt(lambda: self.project.add(to, files), wrong)
        for _, path in files:
            path.unlink(missing_ok=True)  # As the page does.
        now = self.look()
        given = [photo for photo in contents if photo in now]  # Refused ones need not exist.
        if happened:
            assert given == contents
            assert all(now[photo].startswith(f"{to}/") for photo in contents)
            self.done.append(before | dict.fromkeys(contents))
            self.undone.clear()
        elif wrong[0] != "full":
            assert all(now[photo] is None for photo in given), "refused, and yet it is shown"
        if done:
            assert [now[photo] for photo in contents] == added
        self.where |= {photo: now[photo] for photo in given}
        if not happened and any(now[photo] for photo in given):
            self.by_hand()
        return multiple(*given)

    @rule(photos=st.lists(photos, min_size=1, max_size=3), to=PLACES, wrong=TROUBLE)
    def move(self, photos, to, wrong):
        def expected(before, _):
            assert all(self.where[photo].startswith(f"{to}/") for photo in photos)
            assert all(self.where[photo] == path for photo, path in before.items() if photo not in photos)

        self.change(lambda: self.project.move([self.where[photo] or "gone" for photo in photos], to), wrong, expected)

    @rule(photos=st.lists(photos, min_size=1, max_size=3), wrong=TROUBLE)
    def remove(self, photos, wrong):
        def removed():
            self.project.remove([self.where[photo] or "gone" for photo in photos])
            return True

        def expected(before, _):
            assert self.where == before | dict.fromkeys(photos)

        self.change(removed, wrong, expected)

    @rule(name=st.sampled_from(CLASSES), wrong=TROUBLE)
    def add_class(self, name, wrong):
        def expected(before, _):
            assert name in self.project.classes()
            assert self.where == before

        self.change(lambda: self.project.add_class(name), wrong, expected)

    @rule(name=st.sampled_from(CLASSES), to=st.sampled_from(CLASSES), wrong=TROUBLE)
    def rename(self, name, to, wrong):
        def renamed():
            new = self.project.rename(name, to)
            return new if new != name else None

        def expected(before, _):
            assert name not in self.project.classes()
            moved = {photo: prefixed(path, name, to) for photo, path in before.items()}
            assert self.where == moved

        self.change(renamed, wrong, expected)

    @rule(name=st.sampled_from(CLASSES), wrong=TROUBLE)
    def remove_class(self, name, wrong):
        def removed():
            self.project.remove_class(name)
            return True

        def expected(before, _):
            inside = [photo for photo, path in before.items() if (path or "").startswith(f"{name}/")]
            assert self.where == before | dict.fromkeys(inside)

        self.change(removed, wrong, expected)

    @rule(wrong=TROUBLE)
    def undo(self, wrong):
        self.turn(lambda: self.project.undo(), self.done, self.undone, wrong)

    @rule(wrong=TROUBLE)
    def redo(self, wrong):
        self.turn(lambda: self.project.redo(), self.undone, self.done, wrong)

    # What people and the world do

    @rule(wrong=TROUBLE)
    def start_again(self, wrong):
        self.attempt(self.close_and_open, wrong)

    def close_and_open(self):
        self.project.close()
        self.project = None
        self.project = Project(self.root)

    @rule(rest=st.sampled_from([b'{"change": 9, "abo', b"nonsense\n", b'{"undo": 99}\n']))
    def the_journal_is_damaged(self, rest):
        self.project.close()
        with open(self.project.hidden / "journal.jsonl", "ab") as file:
            file.write(rest)
        self.project = Project(self.root)
        if rest.endswith(b"\n"):
            self.done, self.undone = [], []

    @rule(photo=photos, to=PLACES, name=NAMES.filter(lambda name: "/" not in name))
    def by_hand_move(self, photo, to, name):
        target = self.root / to / name
        if self.where[photo] is not None and not target.exists():
            target.parent.mkdir(exist_ok=True)
            (self.root / self.where[photo]).rename(target)
            self.where[photo] = f"{to}/{name}"
            self.by_hand()

    @rule(photo=consumes(photos))
    def by_hand_delete(self, photo):
        if self.where[photo] is not None:
            (self.root / self.where[photo]).unlink()
            del self.where[photo]
            self.by_hand()

    @rule(target=photos, to=PLACES, name=NAMES.filter(lambda name: "/" not in name))
    def by_hand_copy(self, to, name):
        target = self.root / to / name
        if target.exists():
            return multiple()
        self.count += 1
        target.parent.mkdir(exist_ok=True)
        target.write_text(f"photo {self.count}")
        self.where[f"photo {self.count}"] = f"{to}/{name}"
        self.by_hand()
        return f"photo {self.count}"

    @rule(name=st.sampled_from(CLASSES), to=st.sampled_from(CLASSES))
    def by_hand_rename(self, name, to):
        if (self.root / name).is_dir() and not (self.root / to).exists():
            (self.root / name).rename(self.root / to)
            self.where = {photo: prefixed(path, name, to) for photo, path in self.where.items()}
            self.by_hand()


PageProject.TestCase.settings = settings(
    max_examples=int(os.environ.get("LPP_EXAMPLES", "60")), stateful_step_count=30, deadline=None,
    suppress_health_check=list(HealthCheck), report_multiple_bugs=False, phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
TestPageProject = PageProject.TestCase
