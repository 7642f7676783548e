"""Other people's files: the few-shot splits of 2SFS, and the features that CLIP_benchmark caches."""

import json

import numpy as np
import pytest

from bench_trees import LISTED, Trees
from lpplusplus.bench.datasets import DatasetError, catalog
from lpplusplus.bench.draw_task import draw_task
from lpplusplus.bench.draws import Draw, DrawError, public_draw
from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import parse_plan
from lpplusplus.bench.results import Results
from lpplusplus.bench.runner import run_plan
from tasks import small_task
from toy_encoder import ToyEncoder

SET = "dtd"


def lists(root, name, shots, seed):
    """Files as 2SFS has them: the first images of the split file, in a shuffled order."""
    images, split, _, _ = LISTED[name]
    content, rng = json.loads((root / split).read_text()), np.random.default_rng(seed)
    folder = (root / split).parent / "split_fewshot"
    folder.mkdir(exist_ok=True)
    chosen = {}
    for part, most in (("train", shots), ("val", min(shots, 4))):
        labels = sorted({label for _, label, _ in content[part]})
        items = [item for k in labels for item in [i for i in content[part] if i[1] == k][seed : seed + most]]
        rng.shuffle(items)
        chosen[part] = [f"{images}/{file}" for file, _, _ in items]
        lines = [json.dumps({"_impath": f"{images}/{file}", "_label": label, "_domain": 0, "_classname": word})
                 for file, label, word in items]  # fmt: skip
        (folder / f"shot_{shots}-seed_{seed}_{part}.jsonl").write_text("\n".join(lines) + "\n")
    return chosen


@pytest.fixture
def root(tmp_path):
    trees = Trees(tmp_path / "data")
    for name in (SET, "stanford_cars"):
        trees.make(name)
    return trees.root


@pytest.mark.parametrize("name", [SET, "stanford_cars"])
def test_splits_of_2sfs(root, name):
    chosen = lists(root, name, 2, 1)
    data = catalog()[name].splits(root)
    draw = public_draw(data, root, catalog()[name].folder, shots=2, seed=1, validation="coop")
    for rows, part in ((draw.support, "train"), (draw.validation, "val")):
        found = data.part(part)
        files = [f"{found.root.relative_to(root).as_posix()}/{found.files[row]}" for row in rows]
        assert sorted(files) == sorted(chosen[part])
        np.testing.assert_array_equal(np.bincount(found.labels[rows]), [2] * len(data.classes))
    assert len(draw.test) == len(data.test)
    assert (draw.sources, draw.short) == ({"support": "train", "validation": "val", "test": "test"}, {})
    assert Draw.from_dict(json.loads(json.dumps(draw.as_dict()))).sha256 == draw.sha256
    draw.check(data)
    without = public_draw(data, root, catalog()[name].folder, shots=2, seed=1, validation="none")
    assert (len(without.validation), without.validation_source) == (0, "none")
    np.testing.assert_array_equal(without.support, draw.support)


def test_an_image_that_is_listed_twice(root):
    """2SFS fills up a class that has too few images by repeating some."""
    lists(root, SET, 2, 1)
    file = root / SET / "split_fewshot" / "shot_2-seed_1_train.jsonl"
    first, second, *rest = sorted(file.read_text().splitlines(), key=lambda line: json.loads(line)["_label"])
    file.write_text("\n".join([first, first, *rest]))
    data = catalog()[SET].splits(root)
    draw = public_draw(data, root, SET, shots=2, seed=1, validation="coop")
    assert draw.short == {"support": (0,)}
    assert (draw.support[0], len(draw.support)) == (draw.support[1], 4)
    assert second != first


def test_a_plan_takes_them(root, tmp_path):
    for seed in (1, 2):
        lists(root, SET, 1, seed)
    plan = parse_plan({"datasets": [SET], "encoders": ["toy"], "methods": ["Zero-shot", "LP++ (default)"],
                       "shots": [1], "draws": 2, "generator": "2sfs", "validation": "coop"}, "plan.toml")  # fmt: skip
    results = Results(tmp_path / "results")
    loader = DatasetLoader(root, tmp_path / "features", encoders={"toy": ToyEncoder()})
    summary = run_plan(plan, results, loader, n_jobs=1)
    assert (summary.run, summary.failed) == (4, 0), results.rows(failed=True)[0].traceback
    drawn = {row.draw for row in results.rows()}
    assert drawn == {draw["sha256"] for draw in results.draws().values()}
    assert len(drawn) == 2
    assert {row.cell.protocol["generator"] for row in results.rows()} == {"2sfs"}


def test_lists_that_do_not_fit(root):
    lists(root, SET, 1, 1)
    data = catalog()[SET].splits(root)
    file = root / SET / "split_fewshot" / "shot_1-seed_1_train.jsonl"
    good = json.loads(file.read_text().splitlines()[0])
    image, label = good["_impath"], good["_label"]
    wrong = {
        "not an image of the split": good | {"_impath": "dtd/images/banded/none.jpg"},
        f"has label {1 - label}, but {label} in the split file": good | {"_label": 1 - label},
        "line 1: .*_impath and _label": {"path": image, "label": label},
        "is refused": good | {"_impath": "../secret.jpg"},
        "expected an object": [image, label],
    }
    for message, line in wrong.items():
        file.write_text(json.dumps(line))
        with pytest.raises(DrawError, match=message):
            public_draw(data, root, SET, shots=1, seed=1, validation="none")
    file.write_text("\n")
    with pytest.raises(DrawError, match="lists no images"):
        public_draw(data, root, SET, shots=1, seed=1, validation="none")
    with pytest.raises(DatasetError, match=r"shot_16-seed_1_train.jsonl cannot be read"):
        public_draw(data, root, SET, shots=16, seed=1, validation="none")
    with pytest.raises(DrawError, match="write validation = 'coop'"):
        public_draw(data, root, SET, shots=1, seed=1, validation="paper")
    with pytest.raises(DrawError, match="not drawn but read from files"):
        draw_task("a", [0, 1], shots=1, seed=1, n_test=1, generator="2sfs")


X, Y, T = small_task(4, 12, 16, seed=5)


@pytest.fixture
def cached(tmp_path, torch):
    """A folder as CLIP_benchmark writes it (`linear_probe.py`: half or single precision, labels as int64)."""
    folder = tmp_path / "cache" / "ViT-B-32-openai-wds_vtab-dtd"
    folder.mkdir(parents=True)
    for part, rows in (("train", slice(0, 30)), ("test", slice(30, None))):
        torch.save(torch.tensor(X[rows]).half(), folder / f"features_{part}.pt")
        torch.save(torch.tensor(Y[rows]), folder / f"targets_{part}.pt")
    return folder


ENTRY = """
[cached]
title = "Cached"
folder = "cache"
reader = "clip-benchmark"
files = { "ViT-B/32" = "ViT-B-32-openai-wds_vtab-dtd" }
"""


@pytest.fixture
def entry(cached):
    file = cached.parents[1] / "mine.toml"
    file.write_text(ENTRY)
    return catalog(file)["cached"]


def test_features_of_clip_benchmark(cached, entry, torch):
    root = cached.parents[1]
    found = entry.features(root)
    assert found.text is None
    assert found.classes == ("0", "1", "2", "3")
    np.testing.assert_allclose(found.train.rows, X[:30].astype(np.float16), atol=0)
    assert found.train.X.dtype == np.float32
    np.testing.assert_array_equal(found.test.labels, Y[30:])
    assert entry.status(root).state == "complete"
    assert entry.status(root).found == {"classes": 4, "train": 30, "test": 18}
    np.savez(cached / "text.npz", text=np.stack([T, T + 0.1]), prompts=np.array(["a {}", "the {}"]),
             classnames=np.array(["d", "c", "b", "a"]))  # fmt: skip
    named = entry.features(root, prompt="a {}")
    assert named.classes == ("d", "c", "b", "a")
    np.testing.assert_allclose(named.text, T, atol=1e-6)
    assert entry.features(root, prompt="all").text.shape == (2, 4, 16)
    assert entry.status(root).found == {"classes": 4, "train": 30, "test": 18}
    torch.save(torch.tensor(X[:6]), cached / "features_val.pt")
    torch.save(torch.tensor(Y[:6]), cached / "targets_val.pt")
    assert len(entry.features(root, allow_duplicates=True).val) == 6


def test_a_plan_on_features_without_text(cached, entry, tmp_path):
    plan = parse_plan({"datasets": ["cached"], "encoders": ["ViT-B/32"], "methods": ["LP++ (default)", "Standard LP"],
                       "shots": [2], "draws": 1}, "plan.toml")  # fmt: skip
    plan = plan.with_catalogs([cached.parents[1] / "mine.toml"])
    results = Results(tmp_path / "results")
    summary = run_plan(plan, results, DatasetLoader(cached.parents[1], tmp_path / "features"), n_jobs=1)
    assert (summary.run, summary.failed) == (2, 0), results.rows(failed=True)[0].traceback


class Harmful:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code of a file was run')",))


def test_files_that_are_no_tensors(cached, entry, torch):
    root = cached.parents[1]
    target, features = cached / "targets_train.pt", cached / "features_train.pt"
    good = target.read_bytes(), features.read_bytes()

    def refused(message):
        with pytest.raises(DatasetError, match=message):
            entry.features(root)
        target.write_bytes(good[0])
        features.write_bytes(good[1])

    torch.save(Harmful(), features)
    refused("features_train.pt cannot be read as a tensor")
    torch.save({"features": torch.ones(3)}, features)
    refused("holds dict, expected a tensor")
    features.write_bytes(good[1][:100])
    refused("features_train.pt cannot be read as a tensor")
    torch.save(torch.ones(30), features)
    refused(r"found float32 of shape \(30,\), expected embeddings")
    torch.save(torch.ones((30, 4)), target)
    refused(r"targets_train.pt: found float32 of shape \(30, 4\), expected class numbers")
    torch.save(torch.tensor(Y[:29]), target)
    refused("do not fit together")
    target.unlink()
    refused("must have features_train.pt, targets_train.pt")
