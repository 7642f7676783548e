"""Embedding into a store: nothing is computed twice, and nothing is lost to a wrong list, an interruption or a kill."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import lpplusplus.images.embedder
from helpers import until
from lpplusplus.encoders import EncoderError
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import from_folder
from lpplusplus.images.store import FeatureStore, StoreError, is_store
from toy_encoder import ToyEncoder
from toy_images import contents, make_folder, toy_image

HERE = Path(__file__).resolve().parents[2] / "support"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(lpplusplus.images.embedder, "ROWS_PER_SHARD", 8)


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"a": 13, "b_c": 14})


def test_a_second_run_computes_nothing_and_changes_nothing(photos, tmp_path):
    images, store = from_folder(photos), tmp_path / "store"
    first = embed(images, ToyEncoder(), store=store)
    before = contents(store)
    times = {path: path.stat().st_mtime_ns for path in store.iterdir()}
    encoder = ToyEncoder()
    second = embed(images, encoder, store=store)
    assert encoder.batches == []
    assert (second.computed, second.reused) == (0, 27)
    assert np.array_equal(first.X, second.X)
    assert contents(store) == before
    assert {path: path.stat().st_mtime_ns for path in store.iterdir()} == times


@pytest.mark.parametrize(
    "change",
    [
        lambda e: setattr(e, "fingerprint", "other weights"),
        lambda e: setattr(e, "preprocessing", "other"),
        lambda e: ToyEncoder.__init__(e, dim=16),
    ],
)
def test_a_store_of_another_encoder_is_refused_and_left_alone(photos, tmp_path, change):
    images, store = from_folder(photos), tmp_path / "store"
    embed(images, ToyEncoder(), store=store)
    before = contents(store)
    encoder = ToyEncoder()
    change(encoder)
    for views in (0, 1):
        with pytest.raises(StoreError, match="another encoder or with other views: name another store, or remove"):
            embed(images, encoder, store=store, views=views)
    with pytest.raises(StoreError, match="other views"):
        embed(images, ToyEncoder(), store=store, views=1)
    assert (contents(store), encoder.batches) == (before, [])


def test_a_changed_list_takes_over_what_is_the_same(photos, tmp_path):
    store = tmp_path / "store"
    first = embed(from_folder(photos), ToyEncoder(batch_size=1), store=store)
    known = dict(zip(first.paths, first.X, strict=True))
    toy_image(500).save(photos / "a/000.png")  # Edited in place.
    (photos / "a/005.png").unlink()
    make_folder(photos, {"Z": 2}, start=600)  # Sorts before the others.
    (photos / "b_c").rename(photos / "d")
    again = embed(from_folder(photos), ToyEncoder(batch_size=1), store=store)
    assert (again.computed, again.reused) == (3, 25)
    assert again.classes == ("Z", "a", "d")
    fresh = embed(from_folder(photos), ToyEncoder(batch_size=1), store=tmp_path / "fresh")
    assert np.array_equal(again.X, fresh.X)
    assert contents(store) == contents(tmp_path / "fresh")
    for path, row in zip(again.paths, again.X, strict=True):
        old = path.replace("/d/", "/b_c/")
        assert np.array_equal(known.get(old, row), row) == (not path.endswith("a/000.png"))


def test_a_shorter_list_leaves_no_shard_behind(photos, tmp_path):
    images, store = from_folder(photos), tmp_path / "store"
    embed(images, ToyEncoder(), store=store)
    short = images.subset(range(8))
    assert embed(short, ToyEncoder(), store=store).computed == 0
    embed(short, ToyEncoder(), store=tmp_path / "fresh")
    assert contents(store) == contents(tmp_path / "fresh")


OTHER = "holds embeddings of other images: name another store, or remove this one first"


def test_a_store_of_other_images_is_refused_and_left_alone(photos, tmp_path):
    """Somebody names the wrong store. An image that both lists have does not make them one."""
    other, store = make_folder(tmp_path / "other", {"z": 9}, start=900), tmp_path / "store"
    (other / "z" / "placeholder.png").write_bytes((photos / "a" / "000.png").read_bytes())
    embed(from_folder(photos), ToyEncoder(), store=store)
    before, encoder = contents(store), ToyEncoder()
    with pytest.raises(StoreError, match=OTHER):
        embed(from_folder(other), encoder, store=store)
    assert (contents(store), encoder.batches) == (before, [])
    assert embed(from_folder(photos), ToyEncoder(), store=store).computed == 0


def test_a_list_that_has_half_of_the_shorter_one_is_the_same_list(photos, tmp_path):
    images, store = from_folder(photos), tmp_path / "store"
    embed(images.subset(range(4)), ToyEncoder(), store=store)
    assert embed(images, ToyEncoder(), store=store).reused == 4
    make_folder(photos, {"Z": 27}, start=600)  # Before the others, and as many.
    assert embed(from_folder(photos), ToyEncoder(), store=store).reused == 27
    assert embed(images.subset(range(20, 22)), ToyEncoder(), store=store).computed == 0


def test_a_run_that_fails_leaves_the_store_as_it_was(photos, tmp_path):
    """Until all new shards are there, the store is the old one, for readers too."""
    store = tmp_path / "store"
    first = embed(from_folder(photos), ToyEncoder(), store=store)
    make_folder(photos, {"Z": 9}, start=600)

    class Down(ToyEncoder):
        def encode_prepared(self, batch):
            if len(self.batches) == 2:
                raise EncoderError("the service is down")
            return super().encode_prepared(batch)

    with pytest.raises(EncoderError):
        embed(from_folder(photos), Down(), store=store)
    assert len(list((store / "next").iterdir())) == 1
    assert np.array_equal(FeatureStore(store).load().X, first.X)
    assert (again := embed(from_folder(photos), ToyEncoder(), store=store)).computed == 1
    assert again.reused == 35
    assert not (store / "next").exists()


def test_a_first_run_that_fails_says_that_the_store_is_incomplete(photos, tmp_path):
    def stop(done, total):
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(from_folder(photos), ToyEncoder(), store=tmp_path / "store", progress=stop)
    until(lambda: not [thread for thread in threading.enumerate() if "lpplusplus" in thread.name])
    assert is_store(tmp_path / "store")
    with pytest.raises(StoreError, match="is incomplete: embedding was interrupted"):
        FeatureStore(tmp_path / "store")
    assert embed(from_folder(photos), ToyEncoder(), store=tmp_path / "store").reused == 8


def test_a_strangers_file_is_not_a_shard(photos, tmp_path):
    store = tmp_path / "mine"
    store.mkdir()
    safetensors.numpy.save_file({"w": np.zeros(3)}, store / "shard-000000.safetensors")
    before = contents(store)
    with pytest.raises(StoreError, match="has other files and is not a feature store"):
        embed(from_folder(photos), ToyEncoder(), store=store)
    assert contents(store) == before


def test_other_images_under_the_same_names(photos, tmp_path, monkeypatch):
    """`lpp embed . -o ../store`, from two folders."""
    store = tmp_path / "store"
    monkeypatch.chdir(photos)
    embed(from_folder("."), ToyEncoder(), store=store)
    for number, path in enumerate(sorted(photos.rglob("*.png"))):
        toy_image(900 + number).save(path)
    with pytest.raises(StoreError, match=OTHER):
        embed(from_folder("."), ToyEncoder(), store=store)


SCRIPT = """
import sys
import lpplusplus.images.embedder
from lpplusplus.images.sources import from_folder
from toy_encoder import ToyEncoder
lpplusplus.images.embedder.ROWS_PER_SHARD = 8
images, encoder = from_folder(sys.argv[1]), ToyEncoder(delay=0.01)
print("ready", flush=True)
lpplusplus.images.embedder.embed(images, encoder, store=sys.argv[2])
"""


def start(*arguments):
    roots = [str(HERE), str(Path(lpplusplus.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("kind", ["fresh", "changed", "edited", "damaged"])
def test_killed_before_every_single_step_and_resumed(kind, tmp_path):
    with start(str(HERE / "killing.py"), kind, str(tmp_path)) as process:
        output = process.stdout.read()
        assert process.wait() == 0
    assert int(output.split()[0]) > (10 if kind == "damaged" else 20), output


def test_two_writers_at_once_are_refused(photos, tmp_path):
    store = tmp_path / "store"
    tells = (
        "real = encoder.encode_prepared\n"
        "encoder.encode_prepared = lambda batch: print('encodes', flush=True) or real(batch)"
    )
    script = SCRIPT.replace("delay=0.01", "delay=600").replace('print("ready", flush=True)', tells)
    with start("-c", script, str(photos), str(store)) as process:
        try:
            assert process.stdout.readline() == "encodes\n"
            with pytest.raises(ValueError, match="being written by another process"):
                embed(from_folder(photos), ToyEncoder(), store=store)
        finally:
            process.kill()
    assert embed(from_folder(photos), ToyEncoder(), store=store).computed > 0  # The lock died with its holder.
