"""Draws: independent, balanced, different for every seed, and never an image with two purposes."""

import hashlib
import json
from itertools import combinations
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whurs19
from helpers import shared_data
from lpplusplus.bench.datasets import ImageSplits, OverlapError, Part
from lpplusplus.bench.draw_task import draw_from, draw_task
from lpplusplus.bench.draws import Draw, DrawError, labels_digest, read_draws, write_draws
from lpplusplus.bench.sampling import combination, shuffled, stream

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def labels_of(sizes, seed=0):
    """Labels with so many images a class, in no order."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(seed).permutation(labels)


def counts(labels, rows, K):
    return np.bincount(labels[rows], minlength=K).tolist()


@given(SIZES, st.data(), st.integers(1, 9), st.integers(0, 2**70), st.sampled_from(["paper", "coop", "none"]))
@settings(max_examples=150, deadline=None)
def test_fixed_splits(sizes, data, shots, seed, validation):
    K = len(sizes)
    val_sizes = data.draw(st.lists(st.integers(1, 12), min_size=K, max_size=K))
    train, val = labels_of(sizes), labels_of(val_sizes, 1)
    task = draw_task("set", train, val, shots=shots, seed=seed, n_test=7, validation=validation)
    wanted = {"paper": shots, "coop": min(shots, 4), "none": 0}[validation]
    assert counts(train, task.support, K) == [min(size, shots) for size in sizes]
    assert counts(val, task.validation, K) == [min(size, wanted) for size in val_sizes]
    assert len(set(task.support.tolist())) == len(task.support)
    assert len(set(task.validation.tolist())) == len(task.validation)
    assert task.test.tolist() == list(range(7))
    assert task.short.get("support", ()) == tuple(k for k in range(K) if sizes[k] < shots)
    assert task.short.get("validation", ()) == tuple(k for k in range(K) if val_sizes[k] < wanted)
    assert task.sources == {"support": "train", "validation": "none" if validation == "none" else "val",
                            "test": "test"}  # fmt: skip


@given(SIZES, st.integers(1, 6), st.integers(0, 100), st.sampled_from(["paper", "coop", "none"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_validation_from_train_or_from_a_pool_is_disjoint(sizes, shots, seed, validation, pool):
    K, labels = len(sizes), labels_of(sizes)
    wanted = {"paper": shots, "coop": min(shots, 4), "none": 0}[validation]
    taken = [min(size, shots) for size in sizes]
    held = [min(size - gone, wanted) for size, gone in zip(sizes, taken, strict=True)]
    options = {"pool": True} if pool else {"n_test": 3}
    if pool and sum(sizes) == sum(taken) + sum(held):
        with pytest.raises(DrawError, match="no image is left for test"):
            draw_task("set", labels, shots=shots, seed=seed, validation=validation, **options)
        return
    task = draw_task("set", labels, shots=shots, seed=seed, validation=validation, **options)
    assert counts(labels, task.support, K) == taken
    assert counts(labels, task.validation, K) == held
    used = [*task.support, *task.validation, *(task.test if pool else ())]
    assert len(set(used)) == len(used)
    if pool:
        assert sorted(used) == list(range(len(labels)))
        assert task.short.get("test", ()) == tuple(k for k in range(K) if sizes[k] == taken[k] + held[k])


@given(SIZES, st.integers(1, 4), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_the_support_does_not_depend_on_validation_or_on_other_draws(sizes, shots, seed):
    labels = labels_of(sizes)
    first = draw_task("set", labels, shots=shots, seed=seed, n_test=1, validation="none").support
    for other in range(3):
        draw_task("other set", labels, shots=shots, seed=other, n_test=1)
    for options in ({"validation": "paper"}, {"validation": "coop"}, {"labels_val": labels}, {"n_test": 9}):
        again = draw_task("set", labels, **{"shots": shots, "seed": seed, "n_test": 1, **options}).support
        np.testing.assert_array_equal(first, again)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(1, 4), st.text(min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_the_first_seeds_have_every_support_once(sizes, shots, name):
    labels = labels_of(sizes)
    total = prod(comb(size, min(size, shots)) for size in sizes)
    if total > 500:
        return
    found = {tuple(sorted(draw_task(name, labels, shots=shots, seed=seed, n_test=1).support)) for seed in range(total)}
    assert len(found) == total
    wrapped = draw_task(name, labels, shots=shots, seed=total, n_test=1).support
    np.testing.assert_array_equal(wrapped, draw_task(name, labels, shots=shots, seed=0, n_test=1).support)


def test_every_image_is_chosen_equally_often():
    """Chi-square of how often each image is support, over 1500 seeds; classes by number and from the stream alike."""
    sizes, shots, seeds = [10] * 20, 3, 1500
    labels = np.repeat(np.arange(20), sizes)
    assert comb(10, shots) ** 10 > 2**64 > comb(10, shots) ** 9  # Both ways occur.
    times = np.zeros(len(labels))
    for seed in range(seeds):
        times[draw_task("uniform", labels, shots=shots, seed=seed, n_test=1, validation="none").support] += 1
    for part in (times[:100], times[100:]):
        expected = seeds * shots / 10
        spread = expected * (1 - shots / 10)
        statistic = ((part - expected) ** 2 / spread).mean()
        assert 0.6 < statistic < 1.4


def test_the_generator_is_what_is_documented():
    """Transcribed from the text of `choosing`, for validation images and for a support chosen by number."""

    def numbers(*names):
        digest = hashlib.sha256("\0".join(map(str, ("lpplusplus-1", *names))).encode()).hexdigest()
        return np.random.PCG64(np.random.SeedSequence(int(digest, 16)))

    train, val = [0, 1, 0, 1, 0, 1, 1], [1, 0, 0, 1, 0, 1, 1, 0]
    task = draw_task("set", train, val, shots=2, seed=5, n_test=1)
    bits = numbers("set", "validation", 2, 5)
    expected = []
    for label in (0, 1):
        rows = [i for i, y in enumerate(val) if y == label]
        keyed = sorted(zip(bits.random_raw(len(rows)).tolist(), rows, strict=True))
        expected += sorted(row for _, row in keyed[:2])
    assert task.validation.tolist() == expected
    all_supports = [list(a + b) for b in combinations([1, 3, 5, 6], 2) for a in combinations([0, 2, 4], 2)]
    assert task.support.tolist() == all_supports[shuffled(5, 18, "lpplusplus-1\0set\x002")]
    assert stream("a").random_raw() == numbers("a").random_raw()


def test_ranks_and_permutations_are_bijections():
    assert [tuple(combination(r, 6, 3)) for r in range(20)] == list(combinations(range(6), 3))
    for total in (1, 2, 3, 17, 256, 1000):
        assert sorted(shuffled(i, total, "key") for i in range(total)) == list(range(total))
    assert [shuffled(i, 1000, "a") for i in range(50)] != [shuffled(i, 1000, "b") for i in range(50)]


# Too few images


def test_the_policies_for_classes_with_too_few_images():
    train, val = labels_of([10, 3]), labels_of([2, 10], 1)
    base = {"shots": 4, "seed": 1, "n_test": 5}
    fewer = draw_task("set", train, val, **base)
    assert counts(train, fewer.support, 2) == [4, 3]
    assert counts(val, fewer.validation, 2) == [2, 4]
    repeat = draw_task("set", train, val, shortage="repeat", **base)
    assert counts(train, repeat.support, 2) == [4, 4]
    assert counts(val, repeat.validation, 2) == [4, 4]
    assert dict(repeat.short) == dict(fewer.short) == {"support": (1,), "validation": (0,)}
    np.testing.assert_array_equal(repeat.support[:4], fewer.support[:4])
    with pytest.raises(DrawError, match=r"set: fewer than 4 images for support in class 1"):
        draw_task("set", train, val, shortage="error", **base)
    with pytest.raises(DrawError, match=r"fewer than 4 images for validation in class 0"):
        draw_task("set", labels_of([10, 10]), val, shortage="error", **base)
    assert draw_task("set", labels_of([4, 4]), labels_of([4, 4]), shortage="error", **base).short == {}


def test_drawing_with_replacement_has_the_expected_number_of_different_images():
    """FACTS 14: sixteen of ten are 8.1 different ones."""
    val = labels_of([10] * 50)
    task = draw_task("set", labels_of([20] * 50), val, shots=16, seed=0, n_test=1, shortage="repeat")
    different = [len(np.unique(rows)) for rows in np.split(task.validation, 50)]
    assert abs(np.mean(different) - 10 * (1 - 0.9**16)) < 0.5


def test_a_class_without_images():
    labels = np.array([0] * 5 + [2] * 5)
    task = draw_task("set", labels, labels, shots=2, seed=0, n_test=4)
    assert counts(labels, task.support, 3) == [2, 0, 2]
    assert task.short == {"support": (1,), "validation": (1,)}
    with pytest.raises(DrawError, match="fewer than 1 images for support in class 1"):
        draw_task("set", labels, labels, shots=2, seed=0, n_test=4, shortage="repeat")
    assert draw_task("set", labels, labels, shots=2, seed=0, n_test=4, classes=4).short["support"] == (1, 3)


def test_a_pool_that_leaves_no_test_images():
    with pytest.raises(DrawError, match="for test in class 1"):
        draw_task("set", labels_of([9, 4]), shots=2, seed=0, pool=True, shortage="error")
    assert draw_task("set", labels_of([9, 4]), shots=2, seed=0, pool=True).short == {"test": (1,)}


@pytest.mark.parametrize(("change", "message"), [
    ({"shots": 0}, "shots must be"), ({"shots": True}, "shots must be"), ({"shots": 1.0}, "shots must be"),
    ({"seed": -1}, "seed must be"), ({"name": ""}, "name must be"), ({"n_test": None}, "n_test"),
    ({"validation": "test"}, "validation must be one of paper, coop, none"),
    ({"shortage": "less"}, "shortage must be one of"), ({"generator": "mine"}, "generator must be one of"),
    ({"pool": True}, "neither validation labels nor test"), ({"labels_train": ["a"]}, "whole numbers"),
    ({"labels_train": [0, -1]}, "whole numbers"), ({"labels_val": [[0]]}, "whole numbers"),
    ({"classes": 1}, "1 classes"), ({"generator": "whurs19-table"}, "draws from a pool"),
])  # fmt: skip
def test_questions_that_make_no_sense(change, message):
    base = {"name": "set", "labels_train": [0, 1], "labels_val": [0, 1], "shots": 1, "seed": 1, "n_test": 1}
    with pytest.raises(DrawError, match=message):
        draw_task(**{**base, **change})


# Saved and read again


@given(SIZES, st.integers(1, 4), st.integers(0, 9), st.sampled_from(["fixed", "no val", "pool"]))
@settings(max_examples=60, deadline=None)
def test_export_and_import(sizes, shots, seed, kind):
    labels = labels_of([size + 9 for size in sizes])
    options = {"fixed": {"labels_val": labels, "n_test": 4}, "no val": {"n_test": 4}, "pool": {"pool": True}}[kind]
    task = draw_task("set", labels, shots=shots, seed=seed, **options)
    back = Draw.from_dict(json.loads(json.dumps(task.as_dict())))
    assert back.sha256 == task.sha256
    assert back.as_dict() == task.as_dict()
    for name in ("support", "validation", "test"):
        np.testing.assert_array_equal(getattr(back, name), getattr(task, name))


def test_files_of_draws(tmp_path):
    labels = labels_of([20] * 4)
    tasks = [draw_task("set", labels, shots=2, seed=seed, pool=True) for seed in range(3)]
    write_draws(tmp_path / "draws.json", tasks)
    assert [task.sha256 for task in read_draws(tmp_path / "draws.json")] == [task.sha256 for task in tasks]
    for content in ("{}", "nonsense", "[1]", ""):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(DrawError):
            read_draws(tmp_path / "bad.json")


TASK = draw_task("set", labels_of([20] * 4), shots=2, seed=1, pool=True).as_dict()


@pytest.mark.parametrize("key", [key for key in TASK if key not in ("sha256",)])
def test_a_changed_draw_is_refused(key):
    for value in (None, 7, "x", [1], [[1], [2, 3]], {"all": 3}, {"all": 10**18}, [-1], [2**63], [True], ["a"], [0.5]):
        if value == TASK[key]:
            continue
        with pytest.raises((DrawError, OverlapError)):
            Draw.from_dict({**TASK, key: value})
    missing = {name: value for name, value in TASK.items() if name != key}
    with pytest.raises(DrawError):
        Draw.from_dict(missing)


def signed(saved):
    """A changed draw with a right checksum, from someone who knows how it is made."""
    content = {key: value for key, value in saved.items() if key not in ("format", "version", "sha256")}
    return {**saved, "sha256": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def test_a_leak_is_refused_even_with_a_right_checksum():
    test, support, validation = TASK["test"], TASK["support"], TASK["validation"]
    for changes in ({"support": [*support, test[0]]}, {"validation": [*validation, test[0]]},
                    {"validation": [*validation, support[0]]}, {"test": [*test, test[0]]}):  # fmt: skip
        with pytest.raises(OverlapError):
            Draw.from_dict(signed({**TASK, **changes}))
    for changes in ({"support": []}, {"test": []}, {"test_source": "test"}, {"shots": "2"}):
        with pytest.raises(DrawError):
            Draw.from_dict(signed({**TASK, **changes}))
    assert Draw.from_dict(signed({**TASK, "dataset": "another"})).dataset == "another"  # The helper itself is right.


def test_leaks_made_on_purpose_are_refused():
    base = {"dataset": "set", "shots": 1, "seed": 1, "generator": "lpplusplus-1", "validation_policy": "paper",
            "shortage_policy": "fewer", "labels_digest": "", "support": [0, 1], "validation": [0, 2],
            "test": [1, 2]}  # fmt: skip
    fine = Draw(**base, validation_source="val", test_source="test")
    assert fine.support.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        fine.support[0] = 2
    with pytest.raises(OverlapError, match="image 0 of train is in support and in validation"):
        Draw(**base, validation_source="train", test_source="test")
    with pytest.raises(OverlapError, match="image 1 of pool is in support and in test"):
        Draw(**{**base, "validation": []}, validation_source="none", test_source="pool")


def test_a_draw_belongs_to_its_labels(tmp_path):
    def splits(train, val, n, name="set"):
        parts = [None if y is None else Part(tmp_path, tuple(map(str, range(len(y)))), np.array(y))
                 for y in (train, val, None if n is None else np.zeros(n, int))]  # fmt: skip
        return ImageSplits(name, ("a", "b"), ("a", "b"), ("{}",), *parts)

    train, val = labels_of([9, 9]), labels_of([5, 5], 1)
    data = splits(train, val, 6)
    task = draw_from(data, shots=2, seed=1)
    assert task.labels_digest == labels_digest(train, val, 6)
    task.check(data)
    for other in (
        splits(train[::-1], val, 6),
        splits(train, val[::-1], 6),
        splits(train, val, 7),
        splits(train, None, 6),
    ):
        with pytest.raises(DrawError, match="drawn from other labels"):
            task.check(other)
    with pytest.raises(DrawError, match="not of another"):
        task.check(splits(train, val, 6, "another"))
    pool = splits(train, None, None)
    draw_from(pool, shots=2, seed=1).check(pool)
    forged = signed({**task.as_dict(), "support": [0, 99]})
    with pytest.raises(DrawError, match="support has position 99 of 18 images"):
        Draw.from_dict(forged).check(data)


# The known table


@pytest.mark.parametrize("shots", whurs19.SHOTS)
def test_the_draw_of_the_whurs19_table(shots):
    """As the table was first made: each class permuted in turn; S images for support, S for validation, the rest."""
    data = whurs19.load("RN50")
    with np.load(shared_data("whurs19/clip_rn50.npz")) as file:
        X, y, text = file["images"], file["labels"], file["text"][file["prompts"].tolist().index(data.prompt)]
    for seed in (1, 2, 10):
        rng = np.random.RandomState(seed)
        shuffled = [rng.permutation(np.flatnonzero(y == label)) for label in range(19)]
        parts = zip(*(np.split(rows, [shots, 2 * shots]) for rows in shuffled), strict=True)
        support, validation, test = map(np.concatenate, parts)
        task = draw_from(data, shots=shots, seed=seed, generator="whurs19-table")
        np.testing.assert_array_equal(task.support, support)
        np.testing.assert_array_equal(task.validation, validation)
        np.testing.assert_array_equal(np.sort(task.test), np.sort(test))
    np.testing.assert_array_equal(data.text, text)
    np.testing.assert_array_equal(data.train.rows, X)


def test_the_whurs19_table_refuses_what_it_never_met():
    labels = labels_of([9, 4])
    with pytest.raises(DrawError, match="fewer than 5 images for support, validation and test in class 1"):
        draw_task("set", labels, shots=2, seed=1, pool=True, generator="whurs19-table")
    with pytest.raises(DrawError, match="with validation 'paper'"):
        draw_task("set", labels, shots=1, seed=1, pool=True, generator="whurs19-table", validation="none")
    with pytest.raises(DrawError, match="below 2"):
        draw_task("set", labels, shots=1, seed=2**32, pool=True, generator="whurs19-table")
