"""From pictures to embeddings: the same bits whatever the workers, the store and the interruptions."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import lpplusplus.embedding
from lpplusplus.embedding import embed
from lpplusplus.encoders import EncoderError
from lpplusplus.pixels.decoding import ImageError, Limits, open_image
from lpplusplus.sources import ImageSet, SourceError, from_folder, from_list
from lpplusplus.store import FeatureStore, StoreError, StoreWriter, is_store
from pictures import encoded, make_folder, picture
from toy_encoder import ToyEncoder

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(lpplusplus.embedding, "ROWS_PER_SHARD", 8)


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"a": 13, "b_c": 14})


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_comes_out_is_what_the_encoder_gives(photos):
    images = from_folder(photos)
    encoder = ToyEncoder()
    done = embed(images, encoder)
    assert done.X.shape == (27, 1, 24)
    assert done.X.dtype == np.float32
    expected = encoder.encode_images([open_image(path) for path in images.items])
    assert np.allclose(done.X[:, 0], expected, atol=1e-5)
    assert done.labels.tolist() == images.labels.tolist()
    assert done.paths == [path.as_posix() for path in images.items]
    assert done.positions.tolist() == list(range(27))
    assert [bytes(row) for row in done.hashes] == [sha256(path.read_bytes()).digest() for path in images.items]
    assert (done.classes, done.names) == (("a", "b_c"), ("a", "b c"))
    assert (done.computed, done.reused, done.skipped) == (27, 0, [])


@pytest.mark.parametrize("views", [0, 3])
def test_workers_and_store_do_not_change_a_bit(photos, tmp_path, views):
    images = from_folder(photos)
    alone = embed(images, ToyEncoder(), views=views, workers=1)
    assert alone.X.shape == (27, max(1, views), 24)
    for workers in (2, 7):
        assert np.array_equal(embed(images, ToyEncoder(), views=views, workers=workers).X, alone.X)
        store = tmp_path / f"store{workers}"
        assert np.array_equal(embed(images, ToyEncoder(), views=views, workers=workers, store=store).X, alone.X)
    assert content(tmp_path / "store2") == content(tmp_path / "store7")


def test_random_views_belong_to_the_content(photos):
    images = from_folder(photos)
    forward = embed(images, ToyEncoder(batch_size=1), views=2)
    backward = embed(images.subset(range(26, -1, -1)), ToyEncoder(batch_size=1), views=2)
    assert np.array_equal(forward.X, backward.X[::-1])
    assert not np.array_equal(forward.X[:, 0], forward.X[:, 1])


def test_a_second_run_computes_nothing_and_changes_nothing(photos, tmp_path):
    images, store = from_folder(photos), tmp_path / "store"
    first = embed(images, ToyEncoder(), store=store)
    before = content(store)
    times = {path: path.stat().st_mtime_ns for path in store.iterdir()}
    encoder = ToyEncoder()
    second = embed(images, encoder, store=store)
    assert encoder.batches == []
    assert (second.computed, second.reused) == (0, 27)
    assert np.array_equal(first.X, second.X)
    assert content(store) == before
    assert {path: path.stat().st_mtime_ns for path in store.iterdir()} == times


@pytest.mark.parametrize(
    "change",
    [
        lambda e: setattr(e, "fingerprint", "other weights"),
        lambda e: setattr(e, "preprocessing", "other"),
        lambda e: ToyEncoder.__init__(e, dim=16),
    ],
)
def test_another_encoder_misses(photos, tmp_path, change):
    images, store = from_folder(photos), tmp_path / "store"
    embed(images, ToyEncoder(), store=store)
    encoder = ToyEncoder()
    change(encoder)
    assert embed(images, encoder, store=store).computed == 27
    assert embed(images, encoder, store=store, views=1).computed == 27
    assert embed(images, encoder, store=store, views=1).computed == 0
    assert sorted(path.name for path in store.iterdir()) == [
        ".lock", "index.json", *(f"shard-00000{number}.safetensors" for number in range(4))
    ]  # fmt: skip


def test_a_changed_list_takes_over_what_is_the_same(photos, tmp_path):
    store = tmp_path / "store"
    first = embed(from_folder(photos), ToyEncoder(batch_size=1), store=store)
    known = dict(zip(first.paths, first.X, strict=True))
    picture(500).save(photos / "a/000.png")  # Edited in place.
    (photos / "a/005.png").unlink()
    make_folder(photos, {"Z": 2}, start=600)  # Sorts before the others.
    (photos / "b_c").rename(photos / "d")
    again = embed(from_folder(photos), ToyEncoder(batch_size=1), store=store)
    assert (again.computed, again.reused) == (3, 25)
    assert again.classes == ("Z", "a", "d")
    fresh = embed(from_folder(photos), ToyEncoder(batch_size=1), store=tmp_path / "fresh")
    assert np.array_equal(again.X, fresh.X)
    assert content(store) == content(tmp_path / "fresh")
    for path, row in zip(again.paths, again.X, strict=True):
        old = path.replace("/d/", "/b_c/")
        assert np.array_equal(known.get(old, row), row) == (not path.endswith("a/000.png"))


def test_a_shorter_list_leaves_no_shard_behind(photos, tmp_path):
    images, store = from_folder(photos), tmp_path / "store"
    embed(images, ToyEncoder(), store=store)
    short = images.subset(range(8))
    assert embed(short, ToyEncoder(), store=store).computed == 0
    embed(short, ToyEncoder(), store=tmp_path / "fresh")
    assert content(store) == content(tmp_path / "fresh")


def test_another_list_does_not_cost_what_the_store_held(photos, tmp_path):
    """Somebody names the wrong store, notices, and goes back: nothing is computed twice, and nothing stays behind."""
    other, store = make_folder(tmp_path / "other", {"z": 9}, start=900), tmp_path / "store"
    first = embed(from_folder(photos), ToyEncoder(), store=store)
    before = content(store)
    wrong = embed(from_folder(other), ToyEncoder(), store=store)
    assert (wrong.computed, wrong.left_aside) == (9, 27)
    again = embed(from_folder(other), ToyEncoder(), store=store)
    assert (again.computed, again.left_aside) == (0, 0)  # Told once; kept all the same.
    back = embed(from_folder(photos), ToyEncoder(), store=store)
    assert (back.computed, back.left_aside) == (0, 9)
    assert np.array_equal(back.X, first.X)
    kept = content(store)
    assert {name: kept[name] for name in before} == before
    assert sum(name.startswith("replaced/") for name in kept) == 2  # The nine pictures of the other list.


def kept_aside(store):
    return sorted(path.name for path in (store / "replaced").glob("*"))


def test_a_few_pictures_of_what_was_left_aside_do_not_cost_the_rest(photos, tmp_path):
    other, store, images = make_folder(tmp_path / "other", {"z": 9}, start=900), tmp_path / "store", from_folder(photos)
    embed(images, ToyEncoder(), store=store)
    embed(from_folder(other), ToyEncoder(), store=store)
    few = embed(images.subset(range(4)), ToyEncoder(), store=store)
    assert (few.computed, few.left_aside) == (0, 9)
    assert embed(images, ToyEncoder(), store=store).computed == 0
    assert embed(from_folder(other), ToyEncoder(), store=store).computed == 0


def test_one_picture_in_common_does_not_make_two_lists_one(photos, tmp_path):
    other, store = make_folder(tmp_path / "other", {"z": 9}, start=900), tmp_path / "store"
    (other / "z" / "placeholder.png").write_bytes((photos / "a" / "000.png").read_bytes())
    embed(from_folder(photos), ToyEncoder(), store=store)
    assert embed(from_folder(other), ToyEncoder(), store=store).left_aside == 27
    assert embed(from_folder(photos), ToyEncoder(), store=store).computed == 0


@pytest.mark.parametrize("stops", [0, 1, 2])
def test_what_is_left_aside_survives_interruptions_and_edits(photos, tmp_path, stops):
    """Two lists in turn, the second edited; stopped or not, the folder is the same in the end."""
    other, store = make_folder(tmp_path / "other", {"y": 12, "z": 12}, start=900), tmp_path / "store"
    embed(from_folder(photos), ToyEncoder(batch_size=1), store=store)
    embed(from_folder(other), ToyEncoder(batch_size=1), store=store)
    aside = kept_aside(store)
    (other / "y" / "003.png").unlink()
    picture(2000).save(other / "z" / "020.png")

    class Stopped(ToyEncoder):
        def encode_prepared(self, batch):
            raise KeyboardInterrupt

    for _ in range(stops):
        with pytest.raises(KeyboardInterrupt):
            embed(from_folder(other), Stopped(batch_size=1), store=store)
    edited = embed(from_folder(other), ToyEncoder(batch_size=1), store=store)
    assert (edited.computed, edited.left_aside) == (1, 0)
    assert kept_aside(store) == aside
    assert not (store / "index.before.json").exists()
    assert embed(from_folder(photos), ToyEncoder(batch_size=1), store=store).computed == 0


def test_killed_between_the_index_and_clearing_away(photos, tmp_path, monkeypatch):
    store, images = tmp_path / "store", from_folder(photos)
    embed(images, ToyEncoder(), store=store)
    short = images.subset(range(8, 20))

    def killed(self, previous, now):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StoreWriter, "_settle", killed)
        with pytest.raises(KeyboardInterrupt):
            embed(short, ToyEncoder(), store=store)
    assert kept_aside(store)
    assert len(FeatureStore(store)) == 12  # Complete all the same.
    embed(short, ToyEncoder(), store=store)
    embed(short, ToyEncoder(), store=tmp_path / "fresh")
    assert content(store) == content(tmp_path / "fresh")


def test_a_run_that_fails_at_once_says_that_the_store_is_incomplete(photos, tmp_path):
    store = tmp_path / "store"
    embed(from_folder(photos), ToyEncoder(), store=store)

    class Down(ToyEncoder):
        def encode_prepared(self, batch):
            raise EncoderError("the service is down")

    with pytest.raises(EncoderError):
        embed(from_folder(photos), Down(seed=1), store=store)
    assert is_store(store)
    with pytest.raises(StoreError, match="is incomplete: embedding was interrupted"):
        FeatureStore(store)
    assert embed(from_folder(photos), ToyEncoder(), store=store).computed == 0


def test_a_strangers_file_is_not_a_shard(photos, tmp_path):
    store = tmp_path / "mine"
    store.mkdir()
    safetensors.numpy.save_file({"w": np.zeros(3)}, store / "shard-000000.safetensors")
    before = content(store)
    with pytest.raises(StoreError, match="has other files and is not a feature store"):
        embed(from_folder(photos), ToyEncoder(), store=store)
    assert content(store) == before


def test_other_pictures_under_the_same_names(photos, tmp_path, monkeypatch):
    """`lpp embed . -o ../store`, from two folders."""
    store = tmp_path / "store"
    monkeypatch.chdir(photos)
    embed(from_folder("."), ToyEncoder(), store=store)
    for number, path in enumerate(sorted(photos.rglob("*.png"))):
        picture(900 + number).save(path)
    assert embed(from_folder("."), ToyEncoder(), store=store).left_aside == 27


def test_another_list_after_an_interruption(photos, tmp_path):
    """A run on the wrong store that is stopped half-way and goes on does not cost what the store held either."""
    other, store = make_folder(tmp_path / "other", {"z": 20}, start=900), tmp_path / "store"
    embed(from_folder(photos), ToyEncoder(), store=store)

    def stop(done, total):
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(from_folder(other), ToyEncoder(), store=store, progress=stop)
    assert embed(from_folder(other), ToyEncoder(), store=store).left_aside == 27
    assert embed(from_folder(photos), ToyEncoder(), store=store).computed == 0


def test_identical_pictures_are_computed_once(photos, tmp_path):
    twin = (photos / "a/000.png").read_bytes()
    for name in ("a/001.png", "a/002.png", "b_c/013.png"):
        (photos / name).write_bytes(twin)
    for store in (None, tmp_path / "store"):
        encoder = ToyEncoder()
        done = embed(from_folder(photos), encoder, store=store)
        assert (done.computed, done.reused) == (24, 3)
        assert sum(encoder.batches) == 24
        assert np.array_equal(done.X[0], done.X[1])
        assert np.array_equal(done.X[0], done.X[26])


def test_pillow_images(tmp_path):
    shown = [picture(seed) for seed in range(3)]
    images = from_list([*shown, shown[0].copy(), shown[0].convert("RGBA")], list("xyzxx"))
    done = embed(images, ToyEncoder(), store=tmp_path / "store")
    assert (done.computed, done.reused) == (3, 2)
    assert done.paths[1] == "<image 1>"
    shown[1].save(tmp_path / "1.png")
    assert np.allclose(done.X[1], embed(from_list([tmp_path / "1.png"]), ToyEncoder()).X[0], atol=1e-5)
    assert embed(images, ToyEncoder(), store=tmp_path / "store").computed == 0


def test_one_lazily_opened_image_in_many_places(photos):
    from PIL import Image

    with Image.open(photos / "a/000.png") as image:
        done = embed(from_list([image] * 40), ToyEncoder(), workers=8)
    assert (done.X[0] == done.X).all()


class TestBadPictures:
    @pytest.fixture
    def spoilt(self, photos):
        (photos / "a/003.png").write_text("not a picture")
        (photos / "b_c/001.png").write_bytes(encoded(picture(1), "JPEG")[:300])
        (photos / "b_c/009.png").unlink()
        (photos / "b_c/009.png").symlink_to(photos / "nowhere")
        return photos

    @pytest.mark.parametrize("workers", [1, 6])
    def test_stop_at_the_first_in_order(self, spoilt, workers):
        with pytest.raises(ImageError) as caught:
            embed(from_folder(spoilt), ToyEncoder(), workers=workers)
        assert caught.value.path == str(spoilt / "a/003.png")
        assert not [thread for thread in threading.enumerate() if "lpplusplus" in thread.name]

    def test_skip(self, spoilt, tmp_path):
        images, store = from_folder(spoilt), tmp_path / "store"
        done = embed(images, ToyEncoder(), on_error="skip", store=store)
        assert [Path(error.path).relative_to(spoilt).as_posix() for error in done.skipped] == [
            "a/003.png", "b_c/001.png", "b_c/009.png"
        ]  # fmt: skip
        assert done.X.shape == (24, 1, 24)
        assert sorted({*range(27)} - set(done.positions.tolist())) == [3, 14, 22]
        assert done.labels.tolist() == images.labels[done.positions].tolist()
        assert FeatureStore(store).load().paths == done.paths
        assert np.array_equal(FeatureStore(store).load().hashes, done.hashes)
        assert np.array_equal(embed(images, ToyEncoder(), on_error="skip").X, done.X)
        before = content(store)
        again = embed(images, ToyEncoder(), on_error="skip", store=store)
        assert (again.computed, len(again.skipped)) == (0, 3)
        assert content(store) == before
        picture(77).save(spoilt / "a/003.png")
        assert embed(images, ToyEncoder(), on_error="skip", store=store).computed == 1

    def test_finished_shards_stay_when_a_picture_stops_the_run(self, spoilt, tmp_path):
        store = tmp_path / "store"
        (spoilt / "a/003.png").unlink()
        with pytest.raises(ImageError, match=r"b_c/001\.png: is truncated"):
            embed(from_folder(spoilt), ToyEncoder(), store=store)
        (spoilt / "b_c/001.png").unlink()
        (spoilt / "b_c/009.png").unlink()
        assert embed(from_folder(spoilt), ToyEncoder(), store=store).reused == 8

    def test_nothing_is_left(self, tmp_path):
        (tmp_path / "x.jpg").write_text("no")
        done = embed(from_list([tmp_path / "x.jpg"]), ToyEncoder(), on_error="skip", store=tmp_path / "store")
        assert done.X.shape == (0, 1, 24)
        assert len(done.skipped) == 1
        assert len(FeatureStore(tmp_path / "store")) == 0
        assert FeatureStore(tmp_path / "store").maps()[0].shape == (0, 1, 24)

    def test_problems_of_the_source_count(self, photos):
        (photos / "a/loop").symlink_to(photos / "a")
        images = from_folder(photos)
        with pytest.raises(ImageError, match="circle"):
            embed(images, ToyEncoder())
        assert [error.path for error in embed(images, ToyEncoder(), on_error="skip").skipped] == [
            str(photos / "a/loop")
        ]

    def test_limits_and_warnings(self, photos):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ImageError, match="more than the 100 allowed"):
                embed(from_folder(photos), ToyEncoder(), limits=Limits(max_pixels=100))

    def test_no_images(self):
        with pytest.raises(SourceError, match="has no images"):
            embed(ImageSet([], origin="the void"), ToyEncoder())


def test_wrong_arguments(photos):
    images = from_folder(photos)
    for arguments in ({"views": -1}, {"views": 1.5}, {"on_error": "ignore"}, {"workers": 0}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            embed(images, ToyEncoder(), **arguments)


def test_an_encoder_that_fails_is_named(photos):
    class Broken(ToyEncoder):
        def encode_prepared(self, batch):
            return super().encode_prepared(batch) * np.nan

    class Narrow(ToyEncoder):
        def encode_prepared(self, batch):
            return super().encode_prepared(batch)[:, 1:]

    class Picky(ToyEncoder):
        def prepare(self, image, rng=None):
            raise ZeroDivisionError("no")

    for kind, message in ((Broken, "not finite"), (Narrow, r"\(4, 23\)"), (Picky, r"a/000\.png: toy:0 cannot prepare")):
        with pytest.raises(EncoderError, match=message):
            embed(from_folder(photos), kind())


def test_progress(photos, tmp_path):
    for store in (None, tmp_path / "store", tmp_path / "store"):
        calls = []
        embed(from_folder(photos), ToyEncoder(), store=store, progress=lambda *call, to=calls: to.append(call))
        assert calls == sorted(calls)
        assert calls[-1] == (27, 27)
        assert len(calls) >= 4


def test_decoding_stays_a_bounded_way_ahead(photos):
    """The encoder is slow, so workers would decode everything at once if nothing held them back."""
    prepared, most = 0, 0

    class Counting(ToyEncoder):
        def prepare(self, image, rng=None):
            nonlocal prepared
            prepared += 1
            return super().prepare(image, rng)

        def encode_prepared(self, batch):
            nonlocal prepared, most
            time.sleep(0.02)
            most = max(most, prepared)
            prepared -= len(batch)
            return super().encode_prepared(batch)

    embed(from_folder(photos), Counting(batch_size=2), workers=2)
    assert 4 <= most <= 2 * 2 + 2 + 2


def test_interrupt_stops_threads_and_keeps_finished_shards(photos, tmp_path):
    images, store = from_folder(photos), tmp_path / "store"
    clean = embed(images, ToyEncoder(), store=tmp_path / "clean")

    class Interrupted(ToyEncoder):
        def encode_prepared(self, batch):
            if len(self.batches) == 5:
                raise KeyboardInterrupt
            return super().encode_prepared(batch)

    with pytest.raises(KeyboardInterrupt):
        embed(images, Interrupted(), store=store)
    assert not [thread for thread in threading.enumerate() if "lpplusplus" in thread.name]
    again = embed(images, ToyEncoder(), store=store)
    assert (again.reused, again.computed) == (16, 11)
    assert np.array_equal(again.X, clean.X)
    assert content(store) == content(tmp_path / "clean")


SCRIPT = """
import sys
import lpplusplus.embedding
from lpplusplus.sources import from_folder
from toy_encoder import ToyEncoder
lpplusplus.embedding.ROWS_PER_SHARD = 8
images, encoder = from_folder(sys.argv[1]), ToyEncoder(delay=0.01)
print("ready", flush=True)
lpplusplus.embedding.embed(images, encoder, store=sys.argv[2])
"""


def start(*arguments):
    roots = [str(HERE), str(Path(lpplusplus.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment)


def test_killed_at_random_moments_and_resumed(tmp_path):
    photos = make_folder(tmp_path / "photos", {"a": 50, "b": 50})
    embed(from_folder(photos), ToyEncoder(), store=tmp_path / "clean")
    store, moments = tmp_path / "store", random.Random(0)
    kills = 0
    for _ in range(6):
        with start("-c", SCRIPT, str(photos), str(store)) as process:
            process.stdout.readline()
            time.sleep(moments.uniform(0.0, 0.2))
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
    assert kills >= 3
    with start("-c", SCRIPT, str(photos), str(store)) as process:
        assert process.wait() == 0
    assert content(store) == content(tmp_path / "clean")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("kind", ["fresh", "changed", "edited", "damaged"])
def test_killed_before_every_single_step_and_resumed(kind, tmp_path):
    with start(str(HERE / "killing.py"), kind, str(tmp_path)) as process:
        output = process.stdout.read()
        assert process.wait() == 0
    assert int(output.split()[0]) > (10 if kind == "damaged" else 20), output


def test_two_writers_at_once_are_refused(photos, tmp_path):
    store = tmp_path / "store"
    with start("-c", SCRIPT.replace("delay=0.01", "delay=2"), str(photos), str(store)) as process:
        try:
            deadline = time.monotonic() + 20
            while not (store / ".lock").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(0.2)
            with pytest.raises(ValueError, match="being written by another process"):
                embed(from_folder(photos), ToyEncoder(), store=store)
        finally:
            process.kill()
    assert embed(from_folder(photos), ToyEncoder(), store=store).computed > 0  # The lock died with its holder.
