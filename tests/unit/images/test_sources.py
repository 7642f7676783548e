"""Folders, manifests, lists, files of arrays: read in one order everywhere, every mistake reported by its place."""

import codecs
import json
import os

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from lpplusplus.encoders.class_text import display_name
from lpplusplus.images.opening import open_source, select
from lpplusplus.images.sources import SourceError, from_folder, from_list, open_images, read_arrays, sample_shots
from lpplusplus.images.sources.class_names import prompt_names, read_class_names
from lpplusplus.images.sources.image_set import from_manifest
from toy_images import toy_image


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


class TestFolder:
    def test_labels_names_and_order(self, tmp_path):
        touch(tmp_path, "red_kite/b.JPG", "red_kite/a.png", "red_kite/deep/er/c.webp", "Robin/z.gif", "Robin/a.b.tiff")
        images = from_folder(tmp_path)
        relative = [path.relative_to(tmp_path).as_posix() for path in images.items]
        assert relative == ["Robin/a.b.tiff", "Robin/z.gif", "red_kite/a.png", "red_kite/b.JPG",
                            "red_kite/deep/er/c.webp"]  # fmt: skip
        assert images.labels.tolist() == ["Robin"] * 2 + ["red_kite"] * 3
        assert images.classes == ("Robin", "red_kite")
        assert images.names == ("Robin", "red kite")
        assert images.source == str(tmp_path)

    def test_other_files_are_counted(self, tmp_path):
        touch(tmp_path, "a/1.jpg", "a/.hidden.jpg", "a/notes.txt", "a/.git/2.jpg", "b/1.jpg", "README.md", ".DS_Store")
        touch(tmp_path, "@eaDir/1.jpg/SYNOPHOTO_THUMB_M.jpg")
        images = from_folder(tmp_path)
        assert len(images) == 2
        assert images.ignored == 6

    @pytest.mark.parametrize("names", [("1.jpg", "a/1.jpg"), ("1.jpg",)])
    def test_images_beside_the_class_folders(self, tmp_path, names):
        with pytest.raises(SourceError, match=r"images directly in it.*'1\.jpg'"):
            from_folder(touch(tmp_path, *names))

    def test_empty_class_folders(self, tmp_path):
        touch(tmp_path, "a/1.jpg", "b/1.jpg", "c/notes.txt")
        (tmp_path / "d").mkdir()
        with pytest.raises(SourceError, match=r"without images: 'c', 'd'"):
            from_folder(tmp_path)
        images = from_folder(tmp_path, allow_empty=True)
        assert images.classes == ("a", "b", "c", "d")
        assert images.labels.tolist() == ["a", "b"]
        assert select(images, training=True) is images

    def test_nothing_there(self, tmp_path):
        with pytest.raises(SourceError, match="no class folders"):
            from_folder(tmp_path)
        with pytest.raises(SourceError, match="no images"):
            from_folder(tmp_path, labels=False)
        with pytest.raises(SourceError, match="not there"):
            from_folder(tmp_path / "absent")

    def test_names_that_are_the_same_after_mapping(self, tmp_path):
        with pytest.raises(SourceError, match=r"'great tit' and 'great_tit' are both called 'great tit'"):
            from_folder(touch(tmp_path, "great tit/1.jpg", "great_tit/1.jpg"))
        with pytest.raises(SourceError, match="'_' leaves no class name"):
            from_folder(touch(tmp_path / "other", "_/1.jpg", "a/1.jpg"))

    def test_a_name_that_is_not_unicode(self, tmp_path):
        os.mkdir(os.path.join(os.fsencode(tmp_path), b"caf\xe9"))
        touch(tmp_path, "a/1.jpg")
        with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9", b"1.jpg"), "wb"):
            pass
        with pytest.raises(SourceError, match="not valid Unicode"):
            from_folder(tmp_path)

    @pytest.mark.parametrize("labels", [True, False])
    def test_links_to_folders_are_told_and_not_followed(self, tmp_path, labels):
        """They may lead to the whole disk, in circles, or twice to each of forty levels."""
        touch(tmp_path, "photos/a/1.jpg", "photos/a/deep/2.jpg", "photos/b/1.jpg", "elsewhere/3.jpg")
        root = tmp_path / "photos"
        (root / "a/deep/up").symlink_to(root / "a")
        (root / "a/self.jpg").symlink_to(root / "a/self.jpg")
        (root / "a/linked.jpg").symlink_to(tmp_path / "elsewhere/3.jpg")
        (root / "b/disk").symlink_to("/")
        (root / "b/.hidden").symlink_to("/")
        images = from_folder(root, labels=labels)
        assert [problem.path for problem in images.problems] == [str(root / "a/deep/up"), str(root / "b/disk")]
        assert "is a link to a folder" in images.problems[0].reason
        assert len(images) == 5  # With the link to itself, an image that cannot be read.

    def test_a_class_that_is_a_link_is_told(self, tmp_path):
        touch(tmp_path, "photos/a/1.jpg", "elsewhere/3.jpg")
        (tmp_path / "photos/b").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(SourceError, match="b: is a link to a folder"):
            from_folder(tmp_path / "photos")
        (tmp_path / "way").symlink_to(tmp_path / "photos/a")
        assert len(from_folder(tmp_path / "way", labels=False)) == 1  # What the user names may be a link.

    @pytest.mark.parametrize("labels", [True, False])
    def test_a_folder_that_cannot_be_listed(self, tmp_path, labels, monkeypatch):
        """Root may list anything, so the system's refusal is put in by hand."""
        touch(tmp_path, "a/1.jpg", "a/locked/2.jpg", "b/1.jpg")
        real = os.scandir

        def scandir(path):
            if str(path).endswith("locked"):
                raise PermissionError(13, "Permission denied")
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)
        images = from_folder(tmp_path, labels=labels)
        assert len(images) == 2
        assert [str(problem) for problem in images.problems] == [
            f"{tmp_path / 'a/locked'}: cannot be read (Permission denied)."
        ]

    def test_without_labels(self, tmp_path):
        images = from_folder(touch(tmp_path, "z.jpg", "a/b.jpg", "c.txt"), labels=False)
        assert images.labels is None
        assert [path.name for path in images.items] == ["z.jpg", "b.jpg"]

    def test_parts_of_a_data_set(self, tmp_path):
        """`train/`, `val/` and `test/` instead of classes: the one that is meant, and a word about the others."""
        for part, count in (("train", 3), ("valid", 2), ("test", 1)):
            touch(tmp_path, *(f"{part}/{label}/{i}.jpg" for label in ("cat", "dog") for i in range(count)))
        touch(tmp_path, "README.md")
        with pytest.warns(
            UserWarning, match=rf"train/ is used, .*test, .*valid left aside.*lpp evaluate MODEL {tmp_path}"
        ):
            images = from_folder(tmp_path, part="train")
        assert (len(images), images.classes, images.source) == (6, ("cat", "dog"), str(tmp_path / "train"))
        with pytest.warns(UserWarning, match="valid/ is used"):
            assert len(from_folder(tmp_path, part="val")) == 4
        with pytest.warns(UserWarning, match="test/ is used"):
            assert len(open_images(tmp_path, part="test")) == 2
        with pytest.raises(SourceError, match=r"has test/ and train/ and valid/.*name one of them"):
            from_folder(tmp_path)
        assert len(from_folder(tmp_path, labels=False)) == 12

    def test_parts_that_are_missing(self, tmp_path):
        touch(tmp_path, "Training/a/1.jpg", "Training/b/1.jpg", "val/a/1.jpg")
        with pytest.warns(UserWarning, match="val/ is used"):
            assert len(from_folder(tmp_path, part="test")) == 1  # There is no better.
        touch(tmp_path / "x", "train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg")
        with pytest.raises(SourceError, match="has test/ and train/"):
            from_folder(tmp_path / "x", part="val")

    @pytest.mark.parametrize(
        "names",
        [
            ("train/1.jpg", "test/1.jpg"),
            ("train/1.jpg", "bus/1.jpg"),
            ("train/express/1.jpg", "bus/1.jpg"),
            ("train/a/1.jpg", "train/2.jpg", "test/b/1.jpg"),
        ],
    )
    def test_classes_that_are_called_like_parts(self, tmp_path, names):
        images = from_folder(touch(tmp_path, *names), part="train")
        assert set(images.classes) == {name.partition("/")[0] for name in names}

    def test_a_folder_around_the_classes(self, tmp_path):
        touch(tmp_path, "photos/a/1.jpg", "photos/b/1.jpg")
        assert from_folder(tmp_path, part="train").classes == ("a", "b")
        assert from_folder(tmp_path, part="test").classes == ("photos",)  # One class, in views of its own, to test.

    def test_raw_photos_are_left_out_with_advice(self, tmp_path):
        touch(tmp_path, "a/1.jpg", "a/1.CR2", "b/1.jpg", "b/2.nef", "b/3.dng", "a/2.CR2")
        with pytest.warns(UserWarning, match=r"3 RAW photos are left out, .*2\.CR2 first\. Export them as JPEG"):
            images = from_folder(tmp_path)
        assert (len(images), images.ignored) == (2, 4)  # Of a/1, nothing is missing.
        with pytest.raises(SourceError, match=r"without images: 'c'.*4 RAW photos"):
            from_folder(touch(tmp_path, "c/1.ARW"))

    def test_images_beside_their_list(self, tmp_path):
        with pytest.raises(SourceError, match=r"name the list that says what they show: .*labels\.csv"):
            from_folder(touch(tmp_path, "1.jpg", "2.jpg", "labels.csv"))


class TestPromptNames:
    @pytest.mark.parametrize(
        ("labels", "names"),
        [
            (["001.Black_footed_Albatross", "150.Sage_Thrasher"], ["black footed albatross", "sage thrasher"]),
            (["n02085620-Chihuahua", "n02085936-Maltese_dog"], ["chihuahua", "maltese dog"]),
            (["747-400", "707-320", "A300B4", "737-MAX"], ["747-400", "707-320", "A300B4", "737-MAX"]),
            (["2012 Audi S4", "2011 BMW X3"], ["2012 Audi S4", "2011 BMW X3"]),
            (["1-cat", "2-dog", "3-bus"], ["cat", "dog", "bus"]),
            (["0 cat", "1 dog"], ["cat", "dog"]),
            (["1-cat", "3-dog"], ["1-cat", "3-dog"]),
            (["007", "12"], ["007", "12"]),
            (["001.cat", "002.cat", "003.dog"], ["001.cat", "002.cat", "dog"]),
            (["Great_Tit", "BMW_X3", "McLaren_F1"], ["great tit", "BMW X3", "McLaren F1"]),
            (["Robin", "Wren"], ["Robin", "Wren"]),
            (["05_鳥", "3d_printer"], ["鳥", "3d printer"]),
        ],
    )
    def test_what_only_a_computer_needs_is_left_out(self, tmp_path, labels, names):
        images = from_folder(touch(tmp_path, *(f"{label}/1.jpg" for label in labels)))
        assert set(images.classes) == set(labels)  # Labels stay.
        assert dict(zip(images.classes, images.names, strict=True)) == dict(zip(labels, names, strict=True))

    @given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6, unique=True))
    def test_never_fewer_names_than_the_plain_ones(self, labels):
        names = prompt_names(labels)
        plain = [display_name(label) for label in labels]
        assert list(names) == labels
        assert len(set(names.values())) >= len(set(plain))
        assert all(name or not display_name(label) for label, name in names.items())


class TestManifest:
    @pytest.fixture
    def here(self, tmp_path):
        return touch(tmp_path, "p/1.jpg", "p/2.jpg", "p/a, b.jpg")

    def test_csv(self, here):
        (here / "m.csv").write_bytes(
            codecs.BOM_UTF8 + b'extra,label, path\r\n1,great_tit,p/1.jpg\r\n\r\n2,"x, y","p/a, b.jpg"\r\n'
        )
        images = from_manifest(here / "m.csv")
        assert images.items == [here / "p/1.jpg", here / "p/a, b.jpg"]
        assert images.labels.tolist() == ["great_tit", "x, y"]
        assert images.names == ("great tit", "x, y")

    def test_jsonl(self, here):
        rows = [{"path": "p/1.jpg", "label": "a"}, {"path": str(here / "p/2.jpg"), "label": 7, "more": [1]}]
        (here / "m.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8-sig")
        images = from_manifest(here / "m.jsonl")
        assert images.items == [here / "p/1.jpg", here / "p/2.jpg"]
        assert images.labels.tolist() == ["a", "7"]

    def test_semicolons_of_spreadsheets(self, here):
        (here / "m.csv").write_text("path;label;note\np/1.jpg;a;1,5\n")
        assert from_manifest(here / "m.csv").labels.tolist() == ["a"]

    def test_without_labels(self, here):
        (here / "m.csv").write_text("path\np/1.jpg\n")
        assert from_manifest(here / "m.csv", labels=False).labels is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty: expected a header with path and label"),
            ("path,label\n", "lists no images"),
            (
                "file,label\np/1.jpg,a\n",
                r"line 1: expected .* path and a column label, found \['file', 'label'\]",
            ),
            ("path;name\np/1.jpg;a\n", r"line 1: expected a header .* found \['path', 'name'\]"),
            ("path,label\np/1.jpg,a\np/2.jpg,\n", "line 3: the label is empty"),
            ("path,label\n,a\n", "line 2: the path is empty"),
            ("path,label\np/1.jpg,a,b\n", "line 2: 3 cells under 2 columns"),
            ("path,label\np/1.jpg\n", "line 2: 1 cells under 2 columns"),
            ("path,label\np/1.jpg,a\np/9.jpg,a\n", r"line 3: .*9\.jpg does not exist; paths are relative"),
            ("path,label\np,a\n", "line 2: .* is a folder"),
            ('path,label\np/1.jpg,"a\n', "line 2: not CSV"),
            ("path,label\np/1.jpg,a\np/1.jpg,b\n", r"line 3: 'p/1.jpg' is 'b' here but 'a' in line 2"),
            ("path,label\np/1.jpg,_\n", "line 2: '_' leaves no class name"),
            ("path,label\np/1.jpg,a b\np/2.jpg,a_b\n", "both called 'a b'"),
        ],
    )
    def test_mistakes_in_csv(self, here, text, message):
        (here / "m.csv").write_text(text)
        with pytest.raises(SourceError, match=message):
            from_manifest(here / "m.csv")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "line 2: not JSON"),
            ("[" * 100_000, "line 2: not JSON"),
            ("[1]", "line 2: expected an object"),
            ('{"path": "p/1.jpg"}', "line 2: the label is missing or empty"),
            ('{"path": "p/1.jpg", "label": true}', "line 2: the label must be a string, not True"),
            ('{"path": 3, "label": "a"}', "line 2: the path must be a string"),
            ('{"path": "a\\u0000b", "label": "a"}', "line 2: .*"),
            ('{"path": "p/2.jpg", "label": "a\\u0000"}', "line 2: .*null character"),
            ('{"path": "p/2.jpg", "label": "\\ud800"}', "line 2: .*not valid Unicode"),
            ('{"path": " ", "label": "a"}', "line 2: the path is empty"),
        ],
    )
    def test_mistakes_in_jsonl(self, here, line, message):
        (here / "m.jsonl").write_text('{"path": "p/1.jpg", "label": "a"}\n' + line)
        with pytest.raises(SourceError, match=message):
            from_manifest(here / "m.jsonl")

    def test_other_files(self, here):
        (here / "m.csv").write_bytes(b"path,label\np/1.jpg,caf\xe9\n")
        with pytest.raises(SourceError, match="not UTF-8"):
            from_manifest(here / "m.csv")
        with pytest.raises(SourceError, match=r"absent\.csv cannot be read"):
            from_manifest(here / "absent.csv")
        with pytest.raises(SourceError, match=r"ends in \.csv or \.jsonl"):
            from_manifest(here / "m.xlsx")


class TestList:
    def test_paths_and_images(self, tmp_path):
        image = toy_image()
        images = from_list(["a.jpg", tmp_path / "b.jpg", image], ["x", "y", "x"])
        assert images.items[2] is image
        assert images.paths() == ["a.jpg", (tmp_path / "b.jpg").as_posix(), "<image 2>"]
        assert images.classes == ("x", "y")
        assert from_list(["a.jpg"]).labels is None

    def test_labels_of_any_kind_become_strings(self):
        assert from_list(["a", "b"], np.array([3, 1])).labels.tolist() == ["3", "1"]
        assert from_list(["a", "b"], np.array(["p", "q"], object)).classes == ("p", "q")

    def test_mistakes(self):
        with pytest.raises(SourceError, match="2 images need as many labels"):
            from_list(["a", "b"], ["x"])
        with pytest.raises(SourceError, match=r"single 'a\.jpg'"):
            from_list("a.jpg")
        with pytest.raises(SourceError, match="item 1 is a int"):
            from_list(["a", 3])
        with pytest.raises(SourceError, match="all strings or all whole numbers"):
            from_list(["a", "b"], [1.5, 2])
        with pytest.raises(SourceError, match="whole numbers, but one is True"):
            from_list(["a", "b"], [2, True])
        with pytest.raises(SourceError, match="leaves no class name"):
            from_list(["a", "b"], ["x", ""])
        with pytest.raises(SourceError, match="has no labels"):
            select(from_list(["a"]), training=True)

    def test_subset(self):
        images = from_list(["a", "b", "c"], ["x", "y", "z"]).subset(np.array([2, 0]))
        assert images.paths() == ["c", "a"]
        assert images.labels.tolist() == ["z", "x"]
        assert images.classes == ("x", "y", "z")
        assert len(images.subset([])) == 0


class TestOpening:
    def test_mistakes(self, tmp_path):
        with pytest.raises(SourceError, match="does not exist"):
            open_images(tmp_path / "absent")
        with pytest.raises(SourceError, match="neither a folder nor a manifest"):
            open_images(touch(tmp_path, "a.jpg") / "a.jpg")
        with pytest.raises(SourceError, match="belong to a list"):
            open_images(tmp_path, ["a"])


class TestClassNames:
    def test_reading(self, tmp_path):
        path = tmp_path / "names.txt"
        path.write_text("#1 fan\r\n\r\nred_kite\nn01\tgreat {} tit\n", encoding="utf-8-sig")
        assert read_class_names(path) == {"#1 fan": "#1 fan", "red_kite": "red kite", "n01": "great {} tit"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a\nb\na\n", "line 3: class 'a' was named before"),
            ("a_b\na b\n", "'a_b' and 'a b' are both called 'a b'"),
            ("x\tcat\ny\tcat\n", "'x' and 'y' are both called 'cat'"),
            ("\n \n", "has no class names"),
            ("\tcat\n", "line 1: expected a name"),
            ("cat\t\n", "line 1: expected a name"),
        ],
    )
    def test_mistakes(self, tmp_path, text, message):
        (tmp_path / "names.txt").write_text(text)
        with pytest.raises(SourceError, match=message):
            read_class_names(tmp_path / "names.txt")

    def test_unreadable(self, tmp_path):
        with pytest.raises(SourceError, match="cannot be read"):
            read_class_names(tmp_path / "absent.txt")
        (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
        with pytest.raises(SourceError, match="UTF-8"):
            read_class_names(tmp_path / "latin.txt")

    def test_they_rename_order_and_add(self):
        images = from_list(["1", "2"], ["b_c", "a"])
        named = select(images, names={"z": "zebra", "b c": "bee", "a": "ay"})
        assert named.classes == ("z", "b_c", "a")
        assert named.names == ("zebra", "bee", "ay")
        with pytest.raises(SourceError, match="has 'b_c', which the list"):
            select(images, names={"a": "ay"})
        with pytest.raises(SourceError, match="two lines for one class"):
            select(images, names={"a": "ay", "b c": "1", "b_c": "2"})


class TestArrays:
    X = np.arange(12, dtype=np.float32).reshape(4, 3)

    def test_npz(self, tmp_path):
        path = tmp_path / "f.npz"
        np.savez(path, embeddings=self.X, labels=np.array(["a", "b", "a", "b"]), text=self.X[:2], other=np.ones(3))
        arrays = read_arrays(path)
        assert np.array_equal(arrays.X, self.X[:, None].astype(np.float32))
        assert arrays.labels.tolist() == ["a", "b", "a", "b"]
        assert arrays.text.shape == (2, 3)
        assert (arrays.classes, arrays.names) == (("a", "b"), ("a", "b"))
        assert arrays.origin is None

    def test_positions_become_names(self, tmp_path):
        np.savez(tmp_path / "f.npz", embeddings=self.X[:, None], labels=[1, 0, 1, 1], classes=["a", "b"])
        arrays = read_arrays(tmp_path / "f.npz")
        assert arrays.labels.tolist() == ["b", "a", "b", "b"]
        tensors = {"embeddings": self.X.astype(np.float16), "labels": np.array([1, 0, 1, 1])}
        safetensors.numpy.save_file(tensors, tmp_path / "f.safetensors", {"classes": '["a", "b"]'})
        arrays = read_arrays(tmp_path / "f.safetensors")
        assert arrays.labels.tolist() == ["b", "a", "b", "b"]
        assert arrays.classes == ("a", "b")

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"X": X}, r"has the arrays \['X'\], expected 'embeddings'"),
            ({"embeddings": X[0]}, r"shape \(3,\), expected real numbers of shape \(n, D\) or \(n, V, D\)"),
            ({"embeddings": X.astype(int)}, "int64"),
            ({"embeddings": X[:0]}, r"shape \(0, 3\)"),
            ({"embeddings": X * np.nan}, "NaN or infinity in row"),
            ({"embeddings": X, "labels": [1, 2]}, r"labels are int64 of shape \(2,\), expected 4"),
            ({"embeddings": X, "labels": [0.5] * 4}, "labels are float64"),
            ({"embeddings": X, "labels": [0, 1, 2, 3], "classes": ["a", "b"]}, "from 0 to 3 are not positions in 2"),
            ({"embeddings": X, "labels": [0, -1, 1, 1], "classes": ["a", "b"]}, "from -1 to 1"),
            ({"embeddings": X, "labels": list("abca"), "classes": ["a", "b"]}, "'c' is not among its classes"),
            ({"embeddings": X, "classes": ["a", "a"]}, "different names"),
            ({"embeddings": X, "text": X[:, :2]}, "text has 2 dimensions, embeddings 3"),
            ({"embeddings": X, "text": X, "classes": ["a"]}, "4 rows for 1 classes"),
            ({"embeddings": np.array([{}], object)}, "Python objects, which are never loaded"),
            ({"embeddings": X, "labels": np.full(4, 0x110000, np.uint32).view("U1")}, "damaged"),  # Beyond Unicode.
        ],
    )
    def test_mistakes(self, tmp_path, arrays, message):
        np.savez(tmp_path / "f.npz", **arrays)
        with pytest.raises(SourceError, match=message):
            read_arrays(tmp_path / "f.npz")

    def test_other_files(self, tmp_path):
        for name in ("f.npz", "f.safetensors"):
            (tmp_path / name).write_bytes(b"PK\3\4 not really")
            with pytest.raises(SourceError, match="damaged"):
                read_arrays(tmp_path / name)
            with pytest.raises(SourceError, match="cannot be read"):
                read_arrays(tmp_path / f"absent-{name}")
        with pytest.raises(SourceError, match=r"ends in \.npz or \.safetensors"):
            read_arrays(tmp_path / "f.pkl")
        np.save(tmp_path / "one.npy", self.X)
        os.rename(tmp_path / "one.npy", tmp_path / "one.npz")
        with pytest.raises(SourceError, match="single array"):
            read_arrays(tmp_path / "one.npz")
        safetensors.numpy.save_file({"embeddings": self.X}, tmp_path / "c.safetensors", {"classes": "a, b"})
        with pytest.raises(SourceError, match="not a JSON list"):
            read_arrays(tmp_path / "c.safetensors")


class TestShots:
    @given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60), st.integers(1, 8), st.integers(0, 99))
    def test_that_many_of_each_and_nested(self, labels, shots, seed):
        indices = sample_shots(labels, shots, seed, allow_fewer=True)
        assert sorted(set(indices.tolist())) == indices.tolist()
        chosen = [labels[index] for index in indices]
        assert {label: chosen.count(label) for label in labels} == {
            label: min(shots, labels.count(label)) for label in labels
        }
        assert np.array_equal(indices, sample_shots(labels, shots, seed, allow_fewer=True))
        assert set(indices) <= set(sample_shots(labels, shots + 1, seed, allow_fewer=True))

    def test_seeds_differ_and_all_images_have_a_chance(self):
        labels = np.repeat(["a", "b"], 10)
        draws = {tuple(sample_shots(labels, 2, seed)) for seed in range(200)}
        assert len(draws) > 150
        assert {index for draw in draws for index in draw} == set(range(20))

    def test_mistakes(self):
        with pytest.raises(SourceError, match=r"fewer than 3 images in b \(1\), c \(2\)"):
            sample_shots(list("aaabcc"), 3)
        for shots in (0, 1.5, True, "2"):
            with pytest.raises(SourceError, match="shots must be"):
                sample_shots(["a"], shots)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.csv", "a.jsonl", "a.zip", "a.parquet"])
def test_a_named_pipe_is_not_waited_for(tmp_path, name):
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    os.mkfifo(tmp_path / name)
    with pytest.raises(SourceError, match="regular file"):
        open_source(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_in_place_of_class_names(tmp_path):
    os.mkfifo(tmp_path / "names.txt")
    with pytest.raises(SourceError, match="regular file"):
        read_class_names(tmp_path / "names.txt")
