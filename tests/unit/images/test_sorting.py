"""New names of photos, what goes with them, and what a journal from somebody else may do."""

import errno
import json
import os

import numpy as np
import pytest
from PIL import Image

from lpplusplus.images.answers import Answers
from lpplusplus.images.embeddings import Embeddings
from lpplusplus.images.errors import SourceError
from lpplusplus.images.journal import JOURNAL
from lpplusplus.images.photo_files import Arrivals, companions, date_of, find_photos, watch_photos
from lpplusplus.images.safe_paths import FolderError
from lpplusplus.images.sorting import (
    BY_DATE,
    OWN,
    UNSURE,
    USUAL,
    SortedFolder,
    check_pattern,
    folders_of,
)  # fmt: skip
from toy_images import contents


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the file {name}")
    return [root / name for name in names]


def place(root, photos, *folders, way="copy", pattern=USUAL):
    """Sort photos into these folders; what was said of them does not matter."""
    n = len(photos)
    said = Answers(Embeddings(np.zeros((n, 1, 2), np.float32), paths=[str(photo) for photo in photos]),
                   np.tile([0.7, 0.3], (n, 1)), ["cat", "dog"], np.ones((n, 2), bool), np.zeros(n, bool))  # fmt: skip
    with SortedFolder(root) as folder:
        placed = folder.sort(way, list(zip(photos, folders, strict=True)), said, pattern)
        folder.write_page()
        return placed


def names(root):
    return sorted(name for name in contents(root) if not name.startswith(OWN))


def test_what_belongs_to_a_photo(tmp_path):
    write(tmp_path, "a.jpg", "A.xmp", "a.jpg.xmp", "a.CR2", "a.cr2.xmp", "a.MOV", "a.txt", "a.png", "a.png.xmp",
          "b.xmp", "ab.xmp", ".a.xmp")  # fmt: skip
    also = companions([tmp_path / "a.jpg", tmp_path / "a.png"])
    assert {photo.name: sorted(end for _, end in files) for photo, files in also.items()} == {
        "a.jpg": [".CR2", ".MOV", ".cr2.xmp", ".jpg.xmp", ".xmp"], "a.png": [".png.xmp"]}  # fmt: skip


def test_the_same_number_behind_all_that_belongs_together(tmp_path):
    photos = write(tmp_path, "one/a.jpg", "two/a.jpg", "three/a.jpg")
    write(tmp_path, "two/a.xmp", "three/a.xmp")
    write(tmp_path / "sorted", "cat/a-2.jpg.xmp", "cat/a-3.xmp")  # Somebody's: not to be taken for ours.
    placed = place(tmp_path / "sorted", photos, "cat", "cat", "cat")
    assert [one.to for one in placed] == ["cat/a.jpg", "cat/a-2.jpg", "cat/a-4.jpg"]
    assert [one.companions for one in placed] == [0, 1, 1]
    found = {name: content.decode() for name, content in contents(tmp_path / "sorted").items()}
    assert found["cat/a-2.xmp"] == "the file two/a.xmp"
    assert found["cat/a-4.xmp"] == "the file three/a.xmp"
    assert found["cat/a-3.xmp"] == "the file cat/a-3.xmp"


def test_the_same_content_is_not_there_twice(tmp_path):
    photos = write(tmp_path, "one/a.jpg")
    again = tmp_path / "two" / "a.jpg"
    again.parent.mkdir()
    again.write_bytes(photos[0].read_bytes())
    placed = place(tmp_path / "sorted", [*photos, again], "cat", "cat", way="move")
    assert [one.there for one in placed] == [False, True]
    assert names(tmp_path / "sorted") == ["cat/a.jpg"]
    assert again.exists()
    assert not photos[0].exists()


def test_sorted_before(tmp_path):
    (photo,) = write(tmp_path, "a.jpg")
    place(tmp_path / "sorted", [photo], UNSURE)
    (tmp_path / "sorted/cat").mkdir()
    (tmp_path / "sorted/unsure/a.jpg").rename(tmp_path / "sorted/cat/a.jpg")  # A person has decided.
    with SortedFolder(tmp_path / "sorted") as folder:
        assert folder.sorted_before(photo)
        photo.write_text("another photo of this name, from the emptied camera")
        assert not folder.sorted_before(photo)
        photo.unlink()
        assert not folder.sorted_before(photo)


def test_the_page_shows_what_is_still_unsure(tmp_path):
    photos = write(tmp_path, "a #1.jpg", "<b>.jpg", "c.jpg")
    place(tmp_path / "sorted", photos, UNSURE, UNSURE, "cat")
    page = (tmp_path / "sorted/unsure.html").read_text("utf-8")
    assert "2 photos are not sorted" in page
    assert 'src="unsure/a%20%231.jpg"' in page
    assert "&lt;b&gt;.jpg" in page
    assert "<b>" not in page
    assert "cat 70.0" in page
    assert "c.jpg" not in page
    (tmp_path / "sorted/unsure/<b>.jpg").unlink()
    with SortedFolder(tmp_path / "sorted") as folder:
        assert folder.write_page() == 1
        assert "1 photo is not sorted" in (tmp_path / "sorted/unsure.html").read_text("utf-8")
        assert folder.undo() == (2, [])
    assert list((tmp_path / "sorted").iterdir()) == []


def test_a_page_of_somebody_else_stays(tmp_path):
    (tmp_path / "sorted").mkdir()
    (tmp_path / "sorted/unsure.html").write_text("mine")
    place(tmp_path / "sorted", write(tmp_path, "a.jpg"), UNSURE)
    assert (tmp_path / "sorted/unsure.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [("{class}/{size}/{name}", "a name can have"), ("{class}/{name", "a name can have"), ("{year}/{name}", "must have"),
     ("{class}/{year}", "must have"), ("../{class}/{name}", "no path"), ("/{class}/{name}", "no path"),
     (".lpp-sort/{class}-{name}", "no path"), ("{class}/{class.__init__}/{name}", "a name can have")],
)  # fmt: skip
def test_patterns_that_are_refused(pattern, wrong):
    with pytest.raises(SourceError, match=wrong):
        check_pattern(pattern)


def test_by_date(tmp_path):
    (photo,) = write(tmp_path, "old.jpg")
    os.utime(photo, (10**9, 10**9))
    told = tmp_path / "told.jpg"
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2019:07:04 12:00:00"
    Image.new("RGB", (8, 8)).save(told, exif=exif)
    assert date_of(told).isoformat() == "2019-07-04"
    check_pattern(BY_DATE)
    placed = place(tmp_path / "sorted", [photo, told], "cat", "dog", pattern=BY_DATE)
    assert [one.to for one in placed] == ["cat/2001-09/old.jpg", "dog/2019-07/told.jpg"]


def test_photos_that_are_in_the_folder_already_are_not_sorted_again(tmp_path):
    photos = write(tmp_path, "a.jpg", "below/b.jpg", "sorted/cat/c.jpg")
    assert find_photos([tmp_path, tmp_path / "below", photos[0]], tmp_path / "sorted") == (photos[:2], [])
    assert find_photos([tmp_path / "sorted/cat"], tmp_path / "sorted")[0] == photos[2:]  # It was named on purpose.


def test_classes_that_cannot_have_a_folder():
    assert folders_of(["great  tit"]) == {"great  tit": "great tit"}
    for name in ("Unsure", "a/b", ".."):
        with pytest.raises(FolderError):
            folders_of([name])


def test_undo_after_changes_by_hand(tmp_path):
    """What was changed is left and named; what has another file in its place comes back beside it."""
    photos = write(tmp_path, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    place(tmp_path / "sorted", photos, *["cat"] * 4, way="move")
    (tmp_path / "sorted/cat/a.jpg").rename(tmp_path / "sorted/mine.jpg")
    write(tmp_path, "b.jpg")
    photos[2].write_text("another")
    with SortedFolder(tmp_path / "sorted") as folder:
        assert folder.undo() == (2, ["cat/b.jpg"])
    assert names(tmp_path / "sorted") == ["cat/b.jpg", "mine.jpg"]
    assert (tmp_path / "c-2.jpg").read_text() == "the file c.jpg"
    assert photos[3].read_text() == "the file d.jpg"


def test_a_copy_without_its_original_stays(tmp_path):
    photos = write(tmp_path, "a.jpg", "b.jpg")
    place(tmp_path / "sorted", photos, "cat", "cat")
    photos[0].unlink()
    with SortedFolder(tmp_path / "sorted") as folder:
        assert folder.undo() == (1, ["cat/a.jpg"])
    assert names(tmp_path / "sorted") == ["cat/a.jpg"]


@pytest.mark.parametrize("outside", ["/home/me/.bashrc", "/home/me/x.py", "/home/me/.a.jpg", "/home/../etc/a.jpg"])
def test_a_journal_from_somebody_else_names_photos_only(tmp_path, outside):
    """It is damaged then: set aside, and nothing of it is done."""
    write(tmp_path / "sorted", "cat/a.jpg")
    (tmp_path / "sorted" / OWN).mkdir()
    line = {"change": 1, "about": {"what": "sort"}, "moves": [[outside, "cat/a.jpg"]], "version": 2}
    (tmp_path / "sorted" / OWN / JOURNAL).write_text(json.dumps(line) + "\n" + '{"done": 1}\n')
    with SortedFolder(tmp_path / "sorted") as folder:
        assert folder.undo() == (0, [])
    assert names(tmp_path / "sorted") == ["cat/a.jpg"]


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sorted").mkdir()
    (tmp_path / "sorted/cat").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match="through a link"):
        place(tmp_path / "sorted", write(tmp_path, "a.jpg"), "cat")
    (tmp_path / "sorted" / OWN).rename(tmp_path / "own")
    (tmp_path / "sorted" / OWN).symlink_to(tmp_path / "own")
    with pytest.raises(FolderError, match="is a link"):
        SortedFolder(tmp_path / "sorted")


def test_a_photo_is_given_when_it_is_whole(tmp_path):
    """Not while it grows, nor while what belongs to it does; again when it has changed; never an empty file."""
    (photo,) = write(tmp_path, "a.jpg")
    (tmp_path / "empty.jpg").touch()
    now = [0.0]
    arrivals = Arrivals(lambda: now[0])

    def look(seconds):
        now[0] += seconds
        return arrivals.look([photo, tmp_path / "empty.jpg"])

    assert look(0) == []
    assert look(2) == []
    photo.write_text("the first half, ")
    assert look(2) == []
    (tmp_path / "a.xmp").write_text("settings")
    assert look(2) == []
    assert look(2) == []
    assert look(2) == [photo]
    assert look(9) == []
    photo.write_text("another one of that name")
    assert look(9) == []
    assert look(9) == [photo]
    photo.unlink()
    assert arrivals.look([]) == []
    assert not arrivals.waiting


def test_watching(tmp_path, monkeypatch):
    """It looks at once, then when something changes, and until nothing is waiting."""
    monkeypatch.setattr("lpplusplus.images.photo_files.QUIET", 0.0)
    (tmp_path / "card").mkdir()

    def changes():
        yield set()
        write(tmp_path, "card/a.jpg")
        yield {"something"}
        yield set()
        yield set()
        write(tmp_path, "card/b.jpg")
        yield set()  # Nobody has told of it.
        yield {"something"}
        yield set()

    found = watch_photos([tmp_path / "card"], tmp_path / "sorted", lambda photo: False, changes())
    assert [[photo.name for photo in some] for some in found] == [["a.jpg"], ["b.jpg"]]


def test_two_files_of_one_name_in_two_cases(tmp_path):
    """One goes with the photo; the other stays, since both cannot have one name."""
    (photo,) = write(tmp_path, "card/A.jpg")
    write(tmp_path, "card/a.MOV", "card/A.mov")
    (placed,) = place(tmp_path / "sorted", [photo], "cat", way="move")
    assert placed.companions == 1
    assert names(tmp_path / "sorted") == ["cat/A.jpg", "cat/A.mov"]
    assert sorted(contents(tmp_path / "card")) == ["a.MOV"]


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    """The error of a write has no file; it was taken for one of standard output."""
    photos = write(tmp_path, "a.jpg")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        place(tmp_path / "sorted", photos, "cat")
    assert raised.value.filename == str(tmp_path / "sorted" / OWN / JOURNAL)
    assert names(tmp_path / "sorted") == []
