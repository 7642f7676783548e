"""Data sets: every layout read from disk up to embeddings, and everything from outside distrusted."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_trees import LISTED, PAPER, SHIFTS, TEST, TRAIN, VAL, WNIDS, Trees
from helpers import shared_data
from lpplusplus.bench.datasets import DatasetError, ImageSplits, OverlapError, Part, catalog, find
from lpplusplus.bench.datasets.description import safe_path
from lpplusplus.bench.datasets.features import count_features, read_feature_file
from lpplusplus.bench.datasets.splits import check_files, check_rows
from lpplusplus.bench.draw_task import draw_from
from lpplusplus.images.embedder import embed
from toy_encoder import ToyEncoder
from toy_images import make_folder

SETS = catalog()
NAMES_IN_FACTS = {"fgvc": "fgvc_aircraft"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """All fifteen data sets, as users have them."""
    trees = Trees(tmp_path_factory.mktemp("data"))
    for name in [*PAPER, *SHIFTS]:
        trees.make(name)
    return trees.root


def test_the_catalog_has_the_eleven_of_the_paper_and_four_shifts():
    groups = {group: [s.title for s in SETS.values() if s.group == group] for group in ("paper", "shift")}
    assert groups["paper"] == ["ImageNet", "SUN397", "DTD", "Caltech101", "UCF101", "Flowers102", "StanfordCars",
                               "FGVCAircraft", "EuroSAT", "OxfordPets", "Food101"]  # fmt: skip
    assert groups["shift"] == ["ImageNetV2", "ImageNet-Sketch", "ImageNet-A", "ImageNet-R"]
    assert set(PAPER + list(SHIFTS)) == {s.name for s in SETS.values() if s.has_images}
    assert all(s.get.endswith(".") and s.url.startswith("https://") for s in SETS.values())


def test_templates_and_numbers_of_classes_are_the_field_s():
    facts = json.loads(shared_data("benchmarks/classnames_templates.json").read_text())
    assert len(facts) == 11
    for name, fact in facts.items():
        ours = SETS[NAMES_IN_FACTS.get(name, name)]
        assert list(ours.templates) == fact["templates"], name
        assert ours.classes == len(fact["classnames"]), name
        assert set(ours.rename.values()) <= {*fact["classnames"]}, name


@pytest.mark.parametrize("name", ["caltech101", "dtd", "oxford_pets"])
def test_real_split_files(name, tmp_path):
    dataset = SETS[name]
    split = shared_data(f"benchmarks/splits/{dataset.options['split']}")
    (tmp_path / dataset.folder / dataset.options["images"]).mkdir(parents=True)
    shutil.copy(split, tmp_path / dataset.folder)
    splits = dataset.splits(tmp_path, check_files_exist=False)
    assert {part: len(splits.part(part)) for part in dataset.counts} == dict(dataset.counts)
    facts = json.loads(shared_data("benchmarks/classnames_templates.json").read_text())[name]
    assert [c.replace("_", " ") for c in facts["classnames"]] == list(splits.classnames)
    raw = json.loads(split.read_text())
    for part, entries in raw.items():
        assert [list(entry[:2]) for entry in entries] == [
            [file, int(label)] for file, label in zip(splits.part(part).files, splits.part(part).labels, strict=True)
        ]
    status = dataset.status(tmp_path)
    assert status.state == "incomplete"
    assert status.found == {"classes": dataset.classes, **dataset.counts}
    assert f"{sum(dataset.counts.values())} of {sum(dataset.counts.values())} images are missing" in status.problem


@pytest.mark.parametrize("name", PAPER)
def test_every_layout_from_disk_to_embeddings(root, name):
    splits = SETS[name].splits(root)
    K = len(splits.classes)
    expected = {"train": TRAIN, "val": VAL, "test": TEST}
    if name == "imagenet":
        expected = {"train": TRAIN + VAL, "test": TEST}
        assert splits.val is None
    encoder = ToyEncoder()
    for part, count in expected.items():
        assert np.bincount(splits.part(part).labels).tolist() == [count] * K
        assert all(path.is_file() for path, _ in splits.part(part))
    task = draw_from(splits, shots=2, seed=1)
    support = embed(splits.images("train", task.support), encoder)
    assert support.X.shape == (2 * K, 1, encoder.dim)
    assert support.labels.tolist() == [label for label in splits.classes for _ in range(2)]
    assert support.names == splits.classnames
    test = embed(splits.images("test", task.test), encoder)
    assert test.labels.tolist() == [splits.classes[label] for label in splits.part("test").labels]
    validation = embed(splits.images(task.validation_source, task.validation), encoder)
    assert task.validation_source == ("train" if name == "imagenet" else "val")
    check_rows({"support": support.X, "validation": validation.X, "test": test.X})


@pytest.mark.parametrize("name", SHIFTS)
def test_every_shift_from_disk_to_embeddings(root, name):
    splits, parent = SETS[name].splits(root), SETS["imagenet"].splits(root)
    wnids = list(WNIDS) if name == "imagenetv2" else SHIFTS[name][1]
    assert list(splits.classes) == wnids
    assert list(splits.classnames) == [WNIDS[wnid] for wnid in wnids]
    assert splits.train is splits.val is None
    assert not splits.pool
    assert [parent.classes[column] for column in splits.columns_of(parent)] == wnids
    assert splits.templates == SETS["imagenet"].templates
    assert len(splits.templates) == 7
    found = embed(splits.images("test"), ToyEncoder())
    assert found.labels.tolist() == [wnid for wnid in wnids for _ in range(TEST)]
    with pytest.raises(ValueError, match="for tests only"):
        draw_from(splits, shots=1, seed=1)


def test_a_shift_takes_imagenet_s_class_names_where_it_has_no_copy(root, tmp_path):
    shutil.copytree(root / "imagenet-adversarial", tmp_path / "imagenet-adversarial")
    (tmp_path / "imagenet-adversarial/classnames.txt").unlink()
    with pytest.raises(DatasetError, match=r"classnames\.txt is missing"):
        SETS["imagenet_a"].splits(tmp_path)
    (tmp_path / "imagenet").mkdir()
    shutil.copy(root / "imagenet/classnames.txt", tmp_path / "imagenet")
    assert len(SETS["imagenet_a"].splits(tmp_path).classes) == 2


def test_two_imagenet_classes_of_one_name_go_into_a_store(root, tmp_path):
    splits = SETS["imagenet"].splits(root)
    assert splits.classnames.count("missile") == 2
    found = embed(splits.images("test"), ToyEncoder(), store=tmp_path / "store")
    assert found.classes == tuple(WNIDS)


def test_class_names_are_mended(root):
    assert SETS["caltech101"].splits(root).classnames == ("face", "car side", "airplane")
    assert SETS["eurosat"].splits(root).classnames == ("Annual Crop Land", "Forest", "Sea or Lake")
    assert SETS["ucf101"].splits(root).classnames == ("Apply Eye Makeup", "Archery")
    assert SETS["fgvc_aircraft"].splits(root).classes == ("707-320", "F-16A/B", "BAE 146-200")


@pytest.mark.parametrize("name", [*PAPER, *SHIFTS])
def test_status(root, name, tmp_path):
    dataset = SETS[name]
    status = dataset.status(root)
    assert status.state == "different"
    assert status.usable
    assert str(dataset.classes) in status.problem
    assert status.advice == dataset.advice
    away = dataset.status(tmp_path)
    assert (away.state, away.usable, away.found) == ("missing", False, {})
    assert len(away.missing) >= 2
    with pytest.raises(DatasetError, match="is missing"):
        dataset.splits(tmp_path)


def test_status_is_complete_with_the_expected_numbers_and_without_opening_images(tmp_path):
    make_folder(tmp_path / "birds/all", {"robin": 3, "great_tit": 2})
    for file in (tmp_path / "birds/all").rglob("*.png"):
        file.write_bytes(b"no picture")
    own = tmp_path / "own.toml"
    own.write_text('[birds]\nfolder = "birds"\nreader = "folder-per-class"\nimages = "all"\n'
                   'templates = ["a photo of a {}."]\nclasses = 2\ncounts = { train = 5 }\n')  # fmt: skip
    status = catalog(own)["birds"].status(tmp_path)
    assert (status.state, status.problem, status.advice) == ("complete", "", "")
    assert status.found == {"classes": 2, "train": 5}


def test_images_that_are_listed_but_not_there(root, tmp_path):
    shutil.copytree(root / "dtd", tmp_path / "dtd")
    lost = next((tmp_path / "dtd/images/banded").iterdir())
    lost.unlink()
    with pytest.raises(DatasetError, match=f"1 images are listed but not there, such as .*{lost.name}"):
        SETS["dtd"].splits(tmp_path)
    status = SETS["dtd"].status(tmp_path)
    assert status.state == "incomplete"
    assert lost.name in status.problem
    shutil.rmtree(tmp_path / "dtd/images")
    status = SETS["dtd"].status(tmp_path)
    assert status.missing == ("dtd/images",)
    assert status.state == "incomplete"


def test_an_unsorted_validation_folder_of_imagenet(root, tmp_path):
    trees = Trees(tmp_path)
    trees.classnames("imagenet")
    trees.jpeg("imagenet/images/val/ILSVRC2012_val_00000001.JPEG")
    for wnid in WNIDS:
        trees.jpeg(f"imagenet/images/train/{wnid}/1.JPEG")
    with pytest.raises(DatasetError, match="sort them into one for each class"):
        SETS["imagenet"].splits(tmp_path)


def test_own_data_sets_take_no_code(tmp_path):
    make_folder(tmp_path / "birds/learn", {"robin": 3, "great_tit": 3})
    make_folder(tmp_path / "birds/exam", {"robin": 2, "great_tit": 2}, start=50)
    make_folder(tmp_path / "moths", {"luna": 4, "atlas": 5}, start=90)
    own = tmp_path / "own.toml"
    own.write_text("""
[birds]
folder = "birds"
reader = "folder-per-class"
train = "learn"
test = "exam"
templates = ["a photo of a {}, a bird."]
rename = { robin = "European robin" }

[moths]
folder = "moths"
reader = "folder-per-class"
templates = ["{}"]
""")
    sets = catalog(own)
    birds = sets["birds"].splits(tmp_path)
    assert birds.classnames == ("great tit", "European robin")
    assert (len(birds.train), birds.val, len(birds.test), birds.pool) == (6, None, 4, False)
    assert embed(birds.images("train"), ToyEncoder()).names == ("great tit", "European robin")
    moths = sets["moths"].splits(tmp_path)
    assert moths.pool
    task = draw_from(moths, shots=1, seed=3)
    assert sorted([*task.support, *task.validation, *task.test]) == list(range(9))
    assert task.validation_source == "pool"


@pytest.mark.parametrize(("text", "message"), [
    ("[dtd]\nfolder='x'\nreader='folder-per-class'\ntemplates=['{}']", "there is a data set 'dtd' already"),
    ("[a]\nfolder='x'\nreader='magic'\ntemplates=['{}']", "expected one of split-json, aircraft-lists"),
    ("[a]\nfolder='x'\nreader='split-json'\ntemplates=['{}']", "key 'split' is missing"),
    ("[a]\nreader='folder-per-class'\ntemplates=['{}']", "key 'folder' is missing"),
    ("[a]\nfolder='x'\nreader='folder-per-class'", "key 'templates' is missing"),
    ("[a]\nfolder='x'\nreader='folder-per-class'\ntemplates=['{} {}']", "exactly once"),
    ("[a]\nfolder='x'\nreader='folder-per-class'\ntemplates='{}'", "templates must be a list of text"),
    ("[a]\nfolder='x'\nreader='folder-per-class'\ntemplates=['{}']\nimage='y'", "no key 'image'"),
    ("[a]\nfolder='../x'\nreader='folder-per-class'\ntemplates=['{}']", "is refused"),
    ("[a]\nfolder='/x'\nreader='folder-per-class'\ntemplates=['{}']", "is refused"),
    ("[a]\nfolder='x'\nreader='split-json'\nsplit='../../secret'\ntemplates=['{}']", "is refused"),
    ("[a]\nfolder='x'\nreader='feature-file'\nfiles={RN50='/etc/x.npz'}", "is refused"),
    ("[a]\nfolder='x'\nreader='feature-file'\nfiles={}", "a file for each encoder"),
    ("[a]\nfolder='x'\nreader='folder-per-class'\ntrain='y'\ntemplates=['{}']", "train, test and perhaps val"),
    ("[a]\nfolder='x'\nreader='folder-per-class'\ntemplates=['{}']\ncounts={tests=3}", "train, val and test"),
    ("[a]\nfolder='x'\nreader='folder-per-class'\ntemplates=['{}']\nclasses='3'", "a whole number"),
    ("[a]\nfolder='x'\nreader='imagenet-shift'\nimages='y'\nparent='b'", "its parent 'b' is not a data set"),
    ("['../a']\nfolder='x'\nreader='folder-per-class'\ntemplates=['{}']", "a name of letters"),
    ("a = 1", "expected a table"),
    ("[a", "is not TOML"),
])  # fmt: skip
def test_mistakes_in_an_own_catalog(text, message, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(DatasetError, match=message):
        catalog(own)


def test_data_sets_are_found_by_name_and_title():
    assert find("Flowers102").name == "oxford_flowers"
    assert find("imagenet-a").title == "ImageNet-A"
    assert find("FGVC aircraft").name == "fgvc_aircraft"
    with pytest.raises(DatasetError, match="did you mean 'food101'"):
        find("fod101")


# What comes from outside


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.jpg", "a/../../x.jpg", "a/..", "C:/x.jpg", "C:x", "\\\\host\\x",
                                  "a\\..\\x.jpg", "//host/x", "a\0b", "", None, 3, ["a"]])  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(root, tmp_path, path):
    shutil.copytree(root / "dtd", tmp_path / "dtd")
    split = tmp_path / LISTED["dtd"][1]
    whole = json.loads(split.read_text())
    whole["test"][1][0] = path
    split.write_text(json.dumps(whole))
    with pytest.raises(DatasetError, match=r"test, entry 1: .*(is refused|is not a path)"):
        SETS["dtd"].splits(tmp_path)
    assert SETS["dtd"].status(tmp_path).state == "incomplete"


def test_lists_of_aircraft_are_distrusted_as_well(root, tmp_path):
    shutil.copytree(root / "fgvc_aircraft", tmp_path / "fgvc_aircraft")
    file = tmp_path / "fgvc_aircraft/images_variant_val.txt"
    good = file.read_text()
    for line, message in (("../../1 707-320", "is refused"), ("1 Concorde", "not in variants.txt")):
        file.write_text(f"{good}{line}\n")
        with pytest.raises(DatasetError, match=rf"images_variant_val\.txt, line 13: .*{message}"):
            SETS["fgvc_aircraft"].splits(tmp_path)


@given(st.text(max_size=30) | st.lists(st.sampled_from(["..", "a", "/", "\\", "C:", ".", ""])).map("/".join))
@settings(max_examples=300, deadline=None)
def test_an_accepted_path_stays_below(tmp_path_factory, text):
    try:
        accepted = safe_path(text, "here")
    except DatasetError:
        return
    base = tmp_path_factory.getbasetemp() / "base"
    resolved = (base / accepted).resolve()
    assert resolved == base.resolve() or base.resolve() in resolved.parents


@pytest.mark.parametrize(("change", "message"), [
    (lambda w: w["val"][0].__setitem__(1, 7), "labels .* are not 0 to"),
    (lambda w: w["val"][0].__setitem__(1, -1), "a label from 0"),
    (lambda w: w["val"][0].__setitem__(1, True), "a label from 0"),
    (lambda w: w["val"][0].__setitem__(2, "striped"), "label 0 is 'striped' here, 'banded' before"),
    (lambda w: [e.__setitem__(2, "banded") for p in w.values() for e in p], "two labels are both called"),
    (lambda w: w["val"].append(["x.jpg", 0]), "expected .path, label, class name."),
    (lambda w: w.pop("test"), "expected the lists"),
    (lambda w: w["train"].clear(), "and not empty"),
])  # fmt: skip
def test_mistakes_in_a_split_file(root, tmp_path, change, message):
    shutil.copytree(root / "dtd", tmp_path / "dtd")
    split = tmp_path / LISTED["dtd"][1]
    whole = json.loads(split.read_text())
    change(whole)
    split.write_text(json.dumps(whole))
    with pytest.raises(DatasetError, match=message):
        SETS["dtd"].splits(tmp_path)


# No leak


@pytest.mark.parametrize(("one", "other"), [("train", "test"), ("val", "test"), ("train", "val")])
def test_a_file_in_two_splits_is_refused(root, tmp_path, one, other):
    shutil.copytree(root / "dtd", tmp_path / "dtd")
    split = tmp_path / LISTED["dtd"][1]
    whole = json.loads(split.read_text())
    leaked = whole[one][2][0]
    whole[other].append([f"./{leaked}", *whole[one][2][1:]])
    split.write_text(json.dumps(whole))
    with pytest.raises(OverlapError, match=f"{one} and {other} have 1 image in common, such as {leaked}"):
        SETS["dtd"].splits(tmp_path)
    assert SETS["dtd"].status(tmp_path).state == "incomplete"


def test_one_folder_under_two_names_is_refused(tmp_path):
    make_folder(tmp_path / "birds/learn", {"robin": 3, "great_tit": 3})
    (tmp_path / "birds/exam").symlink_to(tmp_path / "birds/learn")
    own = tmp_path / "own.toml"
    own.write_text("[birds]\nfolder='birds'\nreader='folder-per-class'\ntrain='learn'\ntest='exam'\ntemplates=['{}']")
    with pytest.raises(OverlapError, match="6 images in common"):
        catalog(own)["birds"].splits(tmp_path)


def test_an_image_twice_where_support_and_validation_are_drawn_from_is_refused(tmp_path):
    part = Part(tmp_path, ("a.jpg", "b.jpg", "a.jpg"), np.array([0, 1, 0]))
    test = Part(tmp_path, ("c.jpg",), np.array([0]))
    for splits in (ImageSplits("s", ("x", "y"), ("x", "y"), ("{}",), part),
                   ImageSplits("s", ("x", "y"), ("x", "y"), ("{}",), part, None, test)):  # fmt: skip
        with pytest.raises(OverlapError, match=r"the same image twice, a\.jpg and a\.jpg"):
            check_files(splits)


# Feature files


def features(n=12, K=3, D=5, P=None, seed=0):
    random = np.random.default_rng(seed)
    text = random.standard_normal((K, D) if P is None else (P, K, D)).astype(np.float32)
    arrays = {"images": random.standard_normal((n, D)).astype(np.float32), "labels": np.arange(n) % K, "text": text}
    if P is not None:
        arrays["prompts"] = np.array([f"photo {p} of a {{}}" for p in range(P)])
    return arrays | {"classnames": np.array([f"class_{k}" for k in range(K)])}


def saved(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        lists = {name: json.dumps(a.tolist()) for name, a in arrays.items() if a.dtype.kind == "U"}
        safetensors.numpy.save_file({n: a for n, a in arrays.items() if n not in lists}, path, lists)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_feature_files(tmp_path, suffix):
    arrays = features(P=4)
    path = saved(tmp_path / f"f{suffix}", arrays)
    found = read_feature_file(path, prompt="photo 2 of a {}")
    assert found.pool
    assert found.text.shape == (3, 5)
    assert found.classes == ("class_0", "class_1", "class_2")
    assert found.classnames[0] == "class 0"
    np.testing.assert_array_equal(found.text, arrays["text"][2])
    np.testing.assert_array_equal(found.train.rows, arrays["images"])
    np.testing.assert_array_equal(found.train.labels, arrays["labels"])
    unit = arrays["text"] / np.linalg.norm(arrays["text"], axis=2, keepdims=True)
    mean = unit.mean(axis=0)
    for prompt in (None, "average"):
        averaged = read_feature_file(path, prompt=prompt)
        np.testing.assert_allclose(averaged.text, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-6)
        assert averaged.prompt == "average"
    every = read_feature_file(path, prompt="all")
    np.testing.assert_array_equal(every.text, arrays["text"])
    assert (every.prompt, every.classes) == ("all", found.classes)
    with pytest.raises(DatasetError, match=r"has prompts such as 'photo 0 of a \{\}', not 'photo 9'"):
        read_feature_file(path, prompt="photo 9")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("words", [False, True])
def test_feature_files_with_splits_and_names_as_labels(tmp_path, suffix, words):
    arrays = features()
    arrays["embeddings"] = arrays.pop("images")
    arrays["classes"] = arrays.pop("classnames")
    numbers = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    arrays["split"] = np.array(["train", "val", "test"])[numbers] if words else numbers
    if words:
        arrays["labels"] = arrays["classes"][arrays["labels"]]
    found = read_feature_file(saved(tmp_path / f"f{suffix}", arrays))
    assert not found.pool
    for part, value in (("train", 0), ("val", 1), ("test", 2)):
        np.testing.assert_array_equal(found.part(part).rows, arrays["embeddings"][numbers == value])
        np.testing.assert_array_equal(found.part(part).labels, (np.arange(12) % 3)[numbers == value])
    assert found.prompt == ""
    task = draw_from(found, shots=1, seed=0)
    assert (task.validation_source, task.test_source) == ("val", "test")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("train", ["train", "pool"])
def test_feature_files_with_an_array_for_each_split(tmp_path, suffix, train):
    arrays = features()
    images, labels = arrays.pop("images"), arrays.pop("labels")
    for name, rows in ((train, slice(0, 8)), ("test", slice(8, 12))):
        arrays |= {name: images[rows], f"{name}_labels": labels[rows]}
    path = saved(tmp_path / f"f{suffix}", arrays)
    found = read_feature_file(path)
    assert (found.pool, found.val) == (False, None)
    np.testing.assert_array_equal(found.train.rows, images[:8])
    np.testing.assert_array_equal(found.test.labels, labels[8:])
    assert count_features(path) == {"classes": 3, "train": 8, "test": 4}
    task = draw_from(found, shots=1, seed=0)
    assert (task.validation_source, task.test_source) == ("train", "test")
    saved(path, arrays | {"test": images[:3]})
    with pytest.raises(DatasetError, match="11 embeddings and 12 labels"):
        read_feature_file(path)
    saved(path, {name: array for name, array in arrays.items() if name != "test"})
    with pytest.raises(DatasetError, match=r"splits .*test do not fit together"):
        read_feature_file(path)


@pytest.mark.parametrize(("change", "message"), [
    ({"images": None}, "expected 'images', 'labels' and 'text'"),
    ({"text": None}, "expected 'images', 'labels' and 'text'"),
    ({"labels": None}, "labels are missing"),
    ({"images": np.full((12, 5), np.nan)}, "NaN or infinity in row 0"),
    ({"images": np.ones((12, 5), int)}, "expected real numbers"),
    ({"images": np.ones((12, 2, 5))}, "expected .n, D."),
    ({"images": np.ones((12, 4))}, "have 4 dimensions"),
    ({"labels": np.arange(11) % 3}, "12 embeddings and 11 labels"),
    ({"labels": np.arange(12) % 4}, "labels from 0 to 3 are not positions"),
    ({"labels": np.arange(12) % 3 - 1}, "labels from -1 to 1"),
    ({"labels": np.array(["class_0"] * 11 + ["dog"])}, "label 'dog' is not among"),
    ({"labels": np.linspace(0, 1, 12)}, "expected n whole numbers or names"),
    ({"classnames": np.array(["a", "a", "b"])}, "different texts"),
    ({"classnames": np.array(["a", "b"])}, "not positions|class names"),
    ({"split": np.arange(12)}, "split must give each of 12 images"),
    ({"split": np.zeros(12, int)}, "none for test"),
    ({"prompts": np.array(["a", "b"])}, "for 2 prompts"),
])  # fmt: skip
def test_mistakes_in_feature_files(tmp_path, change, message):
    arrays = {name: array for name, array in (features() | change).items() if array is not None}
    with pytest.raises(DatasetError, match=message):
        read_feature_file(saved(tmp_path / "f.npz", arrays))


def test_feature_files_are_never_unpickled(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, **(features() | {"labels": np.array([object()] * 12)}))
    with pytest.raises(DatasetError, match="Python objects, which are never loaded"):
        read_feature_file(path)


def test_equal_embeddings_in_a_feature_file_are_refused_unless_allowed(tmp_path):
    arrays = features()
    arrays["images"][7] = arrays["images"][2]
    (tmp_path / "own").mkdir()
    saved(tmp_path / "own/f.npz", arrays)
    own = tmp_path / "own.toml"
    own.write_text("[own]\nfolder='own'\nreader='feature-file'\nfiles={RN50='f.npz'}")
    dataset = catalog(own)["own"]
    with pytest.raises(OverlapError, match="twice, row 2 and row 7"):
        dataset.features(tmp_path)
    assert len(dataset.features(tmp_path, allow_duplicates=True).train) == 12
    with pytest.raises(DatasetError, match="features of RN50, not of 'ViT'"):
        dataset.features(tmp_path, encoder="ViT")
    with pytest.raises(DatasetError, match="not images: ask for its features"):
        dataset.splits(tmp_path)


@pytest.mark.parametrize(("encoder", "dim", "zero_shot"),
                         [("RN50", 1024, 71.54), ("ViT-B/32", 512, 81.29), ("ViT-L/14", 768, 85.47)])  # fmt: skip
def test_whurs19(encoder, dim, zero_shot):
    root = shared_data("whurs19").parent
    dataset = SETS["whurs19"]
    assert dataset.status(root).state == "complete"
    found = dataset.features(root, encoder=encoder)
    assert (found.prompt, found.text.shape[1], len(found.classes), found.pool) == (
        "a satellite image of a {}",
        dim,
        19,
        True,
    )
    averaged = dataset.features(root, encoder=encoder, prompt="average")
    right = (averaged.train.rows @ averaged.text.T).argmax(axis=1) == averaged.train.labels
    assert abs(100 * right.mean() - zero_shot) <= 0.15
