"""Saving and loading: bit for bit, atomic, and deaf to anything that is not ours."""

import errno
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import lpplusplus
from helpers import resign
from lpplusplus import LPPlusPlus, ModelFormatError
from lpplusplus._core.files import _nameless
from lpplusplus._core.model_file import atomic_write, is_classifier
from lpplusplus.solvers import BlockMM, Flow, HeavyBall
from tasks import small_task

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def task():
    return small_task(5, 4, 24, seed=0)


@pytest.fixture
def saved(task, tmp_path):
    F, y, T = task
    path = tmp_path / "birds.lpp"
    LPPlusPlus().fit(F, y, text=T).save(path)
    return path


@pytest.mark.parametrize("recipe", ["default", "paper", "released"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_probe_predicts_bit_for_bit(task, tmp_path, recipe, dtype):
    F, y, T = task
    F, T = F.astype(dtype), T.astype(dtype)
    X = np.random.default_rng(0).standard_normal((50, 24)).astype(dtype)
    solver = {"default": Flow, "paper": BlockMM, "released": HeavyBall}[recipe](cycle=(5, 1))
    probe = LPPlusPlus(recipe=recipe, solver=solver).fit(F, y, text=T)
    probe.save(tmp_path / "a.lpp", metadata={"encoder": "RN50", "prompts": ["a photo of a {}."]})
    again = lpplusplus.load(tmp_path / "a.lpp")
    assert (again.decision_function(X) == probe.decision_function(X)).all()
    assert (again.predict_proba(X) == probe.predict_proba(X)).all()
    assert (again.predict(X) == probe.predict(X)).all()
    assert again.get_params() == probe.get_params()
    assert again.metadata_ == {"encoder": "RN50", "prompts": ["a photo of a {}."]}
    assert again.history_ == probe.history_
    assert (again.n_updates_, again.selection_) == (probe.n_updates_, probe.selection_)
    assert (again.alpha_ == probe.alpha_).all()
    again.save(tmp_path / "b.lpp")
    assert (tmp_path / "a.lpp").read_bytes() == (tmp_path / "b.lpp").read_bytes()


def test_without_text(task, tmp_path):
    F, y, _ = task
    probe = LPPlusPlus().fit(F, y)
    probe.save(tmp_path / "visual.lpp")
    again = lpplusplus.load(tmp_path / "visual.lpp")
    assert again.alpha_ is None
    assert (again.predict(F) == probe.predict(F)).all()


@pytest.mark.parametrize(
    "labels",
    [
        ["été", "日本", "a b", "", "../x"],
        [1, 2, 3, 4, 5],
        [-1, 0, 7, 10**12, 3],
        [0.0, 1.0, 2.0, 5.0, 9.0],
        np.array(["x", "y", "z", "v", "w"], dtype=object),
        np.array([1, 2, 3, 4, 5], dtype=np.uint8),
    ],
)
def test_labels_come_back_as_they_were(task, tmp_path, labels):
    F, y, T = task
    labels = np.asarray(labels)
    probe = LPPlusPlus(updates=5).fit(F, labels[y], text=T, classes=labels)
    probe.save(tmp_path / "l.lpp")
    again = lpplusplus.load(tmp_path / "l.lpp")
    assert again.classes_.dtype == probe.classes_.dtype
    assert again.classes_.tolist() == labels.tolist()
    assert (again.predict(F) == probe.predict(F)).all()


def test_labels_that_json_cannot_hold_are_refused(task, tmp_path):
    F, y, _ = task
    labels = np.arange("2024-01-01", "2024-01-06", dtype="datetime64[D]").astype(object)
    probe = LPPlusPlus(updates=5).fit(F, labels[y])
    with pytest.raises(ValueError, match="cannot be saved"):
        probe.save(tmp_path / "l.lpp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [1, 2])
def test_the_golden_files_of_both_formats(number):
    """Each written once by version 0.1.0 and never again: every later version must read them."""
    golden = DATA / f"format{number}.lpp"
    probe = lpplusplus.load(golden)
    expected = json.loads(golden.with_suffix(".json").read_text())
    X = np.array(expected["X"], dtype=np.float32)
    assert probe.predict(X).tolist() == expected["predictions"]
    assert np.allclose(probe.decision_function(X), expected["scores"], rtol=1e-5)
    assert probe.classes_.tolist() == expected["classes"]
    assert probe.metadata_ == {"encoder": "a test"}
    if number == 1:
        with pytest.raises(ValueError, match="no longer has what it was fitted on"):
            probe.extend(X, expected["predictions"])
        return
    assert (probe.task_.X.dtype, probe.task_.X.shape) == (np.float16, (12, 8))
    again = probe.extend(X, expected["predictions"]).predict(X)
    assert again.tolist() == expected["predictions"]


# Files that are not ours --------------------------------------------------------------------------------------------


def test_damage_is_noticed(saved):
    whole = bytearray(saved.read_bytes())
    cuts = [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]
    for damaged in (*(whole[:length] for length in cuts), whole + b"x"):
        saved.write_bytes(damaged)
        with pytest.raises(ModelFormatError, match=r"birds.lpp"):
            lpplusplus.load(saved)
    rng = np.random.default_rng(0)
    for position in rng.choice(len(whole), 300, replace=False):
        damaged = whole.copy()
        damaged[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        if not same_content(damaged, whole):
            with pytest.raises(ModelFormatError):
                lpplusplus.load(saved)


def same_content(one, other):
    """Whether the headers say the same: the last of 17 digits may be another one and leave the number as it is."""
    end = 8 + int.from_bytes(other[:8], "little")
    headers = []
    for content in (one, other):
        try:
            header = json.loads(content[8:end])
            headers.append({**header, "__metadata__": {k: json.loads(v) for k, v in header["__metadata__"].items()}})
        except (ValueError, KeyError, AttributeError, TypeError):
            return False
    return one[:8] == other[:8] and one[end:] == other[end:] and headers[0] == headers[1]


class Trap:
    def __reduce__(self):
        return (os.mkdir, ("trapped",))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a model",
        pickle.dumps(Trap()),
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 4) + b"null",
        b"PK\x03\x04" + bytes(100),
    ],
)
def test_foreign_bytes(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "strange.lpp"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=r"strange.lpp"):
        lpplusplus.load(path)
    assert not (tmp_path / "trapped").exists()


def test_a_newer_format(saved):
    resign(saved, version=3)
    with pytest.raises(ModelFormatError, match="version 3, this lpplusplus reads 2: upgrade"):
        lpplusplus.load(saved)


@pytest.mark.parametrize("version", [0, "1", None, 1.5, True])
def test_a_version_that_never_was(saved, version):
    resign(saved, version=version)
    with pytest.raises(ModelFormatError, match="damaged header"):
        lpplusplus.load(saved)


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3"])
def test_numbers_that_numpy_does_not_have(tmp_path, kind):
    size = 2 if kind == "BF16" else 1
    entry = {"dtype": kind, "shape": [8], "data_offsets": [0, 8 * size]}
    header = json.dumps({"__metadata__": {"lpplusplus": "{}"}, "coef_": entry}).encode()
    path = tmp_path / "odd.lpp"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8 * size))
    with pytest.raises(ModelFormatError, match=r"odd.lpp"):
        lpplusplus.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(estimator="os.system"),
        lambda m: m.pop("classes"),
        lambda m: m["classes"].update(labels=[1, 2]),
        lambda m: m["classes"].update(dtype="V8"),
        lambda m: m["parameters"].update(solver="evil"),
        lambda m: m["parameters"].update(unknown=1),
        lambda m: m["fitted"].pop("n_updates_"),
        lambda m: m["fitted"].update(n_features_in_=3),
        lambda m: m.update(parameters=[]),
        lambda m: m["parameters"].update(tau_w=10**400),
        lambda m: m["classes"].update(labels=[300, 1, 2, 3, 4], dtype="|i1"),
        lambda m: m["classes"].update(labels=["crow", "daw", "jay", "owl", "tit"], dtype="<U3"),
        lambda m: m["classes"].update(dtype="9" * 5000),
        lambda m: m["classes"].update(labels=["crow", "daw", "jay", "owl", "tit"], dtype="<U99999999"),
        lambda m: m["classes"].update(labels=["a" * 10**5, *map(str, range(10**5))], dtype="<U100000"),
        lambda m: m["classes"].update(labels=[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]),
        lambda m: m["classes"].update(labels=[0, 0, 1, 2, 3]),
        lambda m: m["classes"].update(labels=[None, 1, 2, 3, 4], dtype="object"),
        lambda m: m["fitted"].update(n_updates_={"a": 1}),
        lambda m: m["fitted"].update(n_features_in_=24.0),
        lambda m: m["fitted"].update(feature_names_in_=["a", "b"]),
        lambda m: m["fitted"]["history"]["columns"].update(loss=["a"]),
    ],
)
def test_a_description_that_does_not_fit(saved, change):
    resign(saved, change)
    with pytest.raises(ModelFormatError, match=r"birds.lpp"):
        lpplusplus.load(saved)


@pytest.mark.parametrize(
    "arrays",
    [
        {"coef_": np.full((5, 24), np.nan)},
        {"intercept_": np.full(5, np.inf)},
        {"coef_": np.zeros((5, 3))},
        {"coef_": np.zeros(5)},
        {"coef_": None},
        {"intercept_": None},
        {"alpha_": None},
        {"text_": np.zeros((2, 2))},
        {"coef_": np.zeros((5, 24), dtype=np.int64)},
        {"extra": np.zeros(3)},
    ],
)
def test_arrays_that_do_not_fit(saved, arrays):
    resign(saved, arrays=arrays)
    with pytest.raises(ModelFormatError, match=r"birds.lpp"):
        lpplusplus.load(saved)


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        lpplusplus.load(tmp_path / "nothing.lpp")


# What users keep with a classifier ----------------------------------------------------------------------------------


def test_metadata_comes_back_as_json_has_it(task, tmp_path):
    F, y, T = task
    probe, path = LPPlusPlus().fit(F, y, text=T), tmp_path / "a.lpp"
    probe.save(path, metadata={2: "a", 10: ("b", None)})
    again = lpplusplus.load(path)
    assert again.metadata_ == {"2": "a", "10": ["b", None]}
    for metadata in ({"x": np.float32(1)}, {(1, 2): 3}, {"x": float("nan")}):
        with pytest.raises(ValueError, match=r"metadata cannot be saved .*use dictionaries"):
            probe.save(path, metadata=metadata)
    assert lpplusplus.load(path).metadata_ == again.metadata_
    assert not hasattr(again.fit(F, y, text=T), "metadata_")  # It told of another classifier.


def test_scalars_of_numpy_are_saved_as_numbers(task, tmp_path):
    F, y, T = task
    names = np.array([np.int64(k) for k in range(5)], dtype=object)
    probe = LPPlusPlus(solver=Flow(cycle=(np.int64(5), np.int64(1)))).fit(F, names[y], text=T)
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp")
    assert again.solver.cycle == (5, 1)
    assert (again.predict(F) == probe.predict(F)).all()


# Writing ------------------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("lpplusplus._core.files._nameless", lambda folder: None)  # As where there is no such thing.
    path = tmp_path / "model.lpp"
    path.write_text("old")
    writing = atomic_write(path)
    writing.__enter__().write(b"half")
    assert len(list(tmp_path.iterdir())) == 2
    assert not writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_an_error_names_the_file_that_was_to_be(tmp_path, monkeypatch, step):
    if step == "link" and not (file := _nameless(tmp_path)):
        pytest.skip("the system has no files without a name")
    elif step == "link":
        file.close()

    def fails(*names, **options):
        raise OSError(errno.ENOSPC, "no space", *([names[0], None, names[1]] if len(names) > 1 else []))

    monkeypatch.setattr(f"lpplusplus._core.files.os.{step}", fails)
    with pytest.raises(OSError, match="no space") as caught, atomic_write(tmp_path / "model.lpp") as file:
        file.write(b"x")
    assert caught.value.filename == str(tmp_path / "model.lpp")
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_has_the_rights_that_the_user_gives_new_files(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "model.lpp") as file:
        file.write(b"x")
    assert (tmp_path / "model.lpp").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_no_such_folder(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"there is no such folder: .*nowhere'$"),
        atomic_write(tmp_path / "nowhere" / "model.lpp"),
    ):
        pass


def test_a_class_that_load_does_not_know_is_not_saved(task, tmp_path):
    class Mine(LPPlusPlus):
        pass

    F, y, T = task
    with pytest.raises(ValueError, match=r"Mine is not one of lpplusplus's own classifiers"):
        Mine(updates=0).fit(F, y, text=T).save(tmp_path / "x.lpp")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_classifier_is_not_saved(task, tmp_path):
    F, y, T = task
    probe = LPPlusPlus(updates=0).fit(F, y, text=T)
    probe.coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="coef_ has non-finite"):
        probe.save(tmp_path / "x.lpp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["metadata"].update(a=float("nan")),
        lambda m: m["fitted"].update(n_updates_="12"),
        lambda m: m["fitted"].update(n_updates_=True),
        lambda m: m["fitted"].update(selection_=3),
        lambda m: m["fitted"].update(learning_rate_="0.1"),
        lambda m: m["fitted"].update(n_updates_="x" * 1_000_000),
    ],
)
def test_a_description_of_the_wrong_kind_is_refused_in_one_line(saved, change):
    resign(saved, change, careless=True)
    with pytest.raises(ModelFormatError, match=r"birds.lpp") as caught:
        lpplusplus.load(saved)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("depth", [100, 900, 5000])
def test_metadata_that_are_nested_deeply(saved, depth):
    nested = []
    for _ in range(depth):
        nested = [nested]
    try:
        resign(saved, lambda m: m["metadata"].update(a=nested), careless=True)
    except RecursionError:
        pytest.skip("json itself writes nothing this deep")
    with pytest.raises(ModelFormatError, match=r"nested|recursion"):
        lpplusplus.load(saved)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["coef_", "intercept_"])
def test_huge_weights(saved, name, dtype):
    huge = np.full({"coef_": (5, 24), "intercept_": (5,)}[name], 0.5 * np.finfo(dtype).max, dtype)
    huge[::2] *= -1
    resign(saved, arrays={name: huge})
    with pytest.raises(ModelFormatError, match=rf"{name} has entries beyond"):
        lpplusplus.load(saved)


def test_half_precision_weights(saved):
    resign(saved, arrays={"coef_": np.full((5, 24), 6e4, np.float16)})
    with pytest.raises(ModelFormatError, match="float16"):
        lpplusplus.load(saved)


@pytest.mark.parametrize(
    ("arrays", "fitted"),
    [
        ({"keys_": np.full((20, 24), 1e9)}, {}),
        ({}, {"beta_": "5"}),
        ({}, {"alpha_": None}),
        ({}, {"beta_": 1e300}),
        ({}, {"beta_": -1e5}),
        ({}, {"alpha_": 1e300}),
    ],
)
def test_a_cache_whose_scores_would_not_be_numbers(task, tmp_path, arrays, fitted):
    F, y, T = task
    path = tmp_path / "tip.lpp"
    lpplusplus.TipAdapter().fit(F, y, text=T).save(path)
    assert np.isfinite(lpplusplus.load(path).predict_proba(F)).all()
    resign(path, lambda m: m["fitted"].update(fitted), arrays)
    with pytest.raises(ModelFormatError, match=r"tip.lpp"):
        lpplusplus.load(path)


WRONG = ["x", "", -1, 0, 1.5, 1e300, 10**400, True, None, [], [1, 2], {}, {"a": 1}, float("nan")]


@pytest.mark.parametrize("method", [LPPlusPlus, lpplusplus.LinearProbe, lpplusplus.TipAdapter, lpplusplus.ZeroShot])
def test_whatever_stands_in_a_description_it_is_refused_or_predicts(task, tmp_path, method):
    """Every entry in turn, replaced by every wrong thing, with a right checksum."""
    F, y, T = task
    path = tmp_path / "good.lpp"
    method().fit(F, y, text=T).save(path)
    good = path.read_bytes()
    with safetensors.safe_open(path, framework="numpy") as file:
        model = json.loads(file.metadata()["lpplusplus"])["model"]
    for part, entries in ((part, model[part]) for part in ("parameters", "fitted", "classes")):
        for name in entries:
            for wrong in WRONG:
                path.write_bytes(good)
                resign(path, lambda m, part=part, name=name, wrong=wrong: m[part].update({name: wrong}), careless=True)
                try:
                    again = lpplusplus.load(path)
                except ModelFormatError:
                    continue
                assert np.isfinite(again.predict_proba(F)).all(), (part, name, wrong)
                again.predict(F)
                str(again)


@pytest.mark.skipif(not hasattr(os.stat_result, "st_blocks"), reason="no way to see that a file is sparse")
@pytest.mark.parametrize("size", [10 * 2**30, 2**30])
def test_a_sparse_file_is_refused_before_its_arrays_are_read(saved, tmp_path, size, monkeypatch):
    entry = {"dtype": "F64", "shape": [2, size // 16], "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": {"lpplusplus": '{"version": 1, "digest": ""}'}, "coef_": entry}).encode()
    path = tmp_path / "sparse.lpp"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    with monkeypatch.context() as watched:
        watched.setattr(safetensors, "safe_open", lambda *_, **__: pytest.fail("the file was read"))
        with pytest.raises(ModelFormatError, match=r"sparse.lpp has .* bytes"):
            lpplusplus.load(path)
        assert not is_classifier(path)
    assert is_classifier(saved)
