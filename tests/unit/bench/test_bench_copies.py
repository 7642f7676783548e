"""Images that a benchmark would both learn from and be examined on are found and refused."""

import shutil

import numpy as np
import pytest

from bench_trees import Trees
from lpplusplus.bench.datasets import OverlapError
from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import parse_plan
from lpplusplus.bench.results import Results
from lpplusplus.bench.runner import run_plan
from tasks import small_task
from toy_encoder import ToyEncoder
from toy_images import make_folder, toy_image


def test_the_same_image_twice_is_refused_unless_allowed(tmp_path):
    """A leak made on purpose: one image of the pool under another number."""
    X, y, T = small_task(5, 12, 24, seed=0)
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    X[7] = X[3]
    classes = np.array(["ant", "bee", "cat", "dog", "eel"])
    np.savez(tmp_path / "one.npz", images=X, labels=y, text=T, classnames=classes)
    made = {"folder": ".", "reader": "feature-file", "files": {"one": "one.npz"}}
    keys = {"datasets": ["made"], "encoders": ["one"], "methods": ["Zero-shot", "Tip-Adapter"], "shots": [1, 2],
            "draws": 1, "dataset": {"made": made}}  # fmt: skip
    results = Results(tmp_path / "results")
    run_plan(parse_plan(keys, "plan.toml"), results, DatasetLoader(tmp_path, tmp_path / "features"), n_jobs=1)
    assert not results.rows()
    (reason,) = {row.traceback.strip().splitlines()[-1] for row in results.rows(failed=True)}
    assert "OverlapError: made: train has the same image twice, row 3 and row 7" in reason
    assert reason.endswith('Or set duplicates = "allow" in the plan, or a list of data sets.')
    allowed = parse_plan({**keys, "duplicates": "allow"}, "plan.toml")
    summary = run_plan(allowed, results, DatasetLoader(tmp_path, tmp_path / "features"), n_jobs=1)
    assert (summary.run, summary.failed, len(results.rows())) == (4, 0, 4)


def toy_data(root, cache, name, **keys):
    """A data set as a small encoder sees it, with a task that takes every image."""
    plan = parse_plan({"datasets": [name], "encoders": ["toy"], "methods": ["Zero-shot"], "shots": [10], "draws": 1,
                       **keys}, "plan.toml")  # fmt: skip
    loader = DatasetLoader(root, cache, encoders={"toy": ToyEncoder(batch_size=1)})
    return loader.load(plan, name, "toy")[0]


@pytest.mark.parametrize(("one", "other"), [("train", "val"), ("train", "test"), ("val", "test")])
@pytest.mark.parametrize("views", [0, 2])
def test_a_copy_of_a_picture_in_another_split_is_refused(tmp_path, one, other, views):
    """By its bytes: with views, embeddings of training images are like no others."""
    Trees(tmp_path).make("dtd")
    toy_data(tmp_path, tmp_path / "before", "dtd", views=views)
    images = tmp_path / "dtd" / "images"
    source, copy = (images / "banded" / f"banded_{part}00001.jpg" for part in (one, other))
    shutil.copyfile(source, copy)
    with pytest.raises(OverlapError) as error:
        toy_data(tmp_path, tmp_path / "features", "dtd", views=views)
    assert f"{one} and {other} have 1 image in common" in str(error.value)
    assert f"{source} of {one} = {copy} of {other}: remove one of the two. Or set duplicates" in str(error.value)
    allowed = toy_data(tmp_path, tmp_path / "features", "dtd", views=views, duplicates="allow")
    assert {name: len(part.X) for name, part in allowed.parts.items()} == {"train": 12, "val": 8, "test": 6}


def test_a_picture_that_was_saved_again_is_refused_by_its_embedding(tmp_path):
    make_folder(tmp_path / "birds" / "learn", {"robin": 4, "great_tit": 4})
    make_folder(tmp_path / "birds" / "exam", {"robin": 3, "great_tit": 3}, start=100)
    toy_image(2).save(tmp_path / "birds" / "exam" / "robin" / "other.bmp")
    birds = {"folder": "birds", "reader": "folder-per-class", "train": "learn", "test": "exam", "templates": ["{}"]}
    keys = {"dataset": {"birds": birds}}
    with pytest.raises(OverlapError, match=r"learn/robin/002\.png of train = .*exam/robin/other\.bmp of test"):
        toy_data(tmp_path, tmp_path / "features", "birds", **keys)
    assert len(toy_data(tmp_path, tmp_path / "features", "birds", duplicates="allow", **keys).parts["test"].X) == 7


def test_a_training_image_of_imagenet_in_a_shift_is_refused(tmp_path):
    trees = Trees(tmp_path)
    for name in ("imagenet", "imagenet_a"):
        trees.make(name)
    toy_data(tmp_path, tmp_path / "before", "imagenet_a")
    copied = tmp_path / "imagenet" / "images" / "train" / "n01440764" / "n01440764_2.JPEG"
    shutil.copyfile(copied, tmp_path / "imagenet-adversarial" / "imagenet-a" / "n01440764" / "1.jpg")
    with pytest.raises(OverlapError, match=r"n01440764_2\.JPEG of train = .*imagenet-a/n01440764/1\.jpg of test"):
        toy_data(tmp_path, tmp_path / "features", "imagenet_a")
    assert toy_data(tmp_path, tmp_path / "features", "imagenet_a", duplicates="allow").columns is not None
