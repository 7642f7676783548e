"""From images to embeddings: the same bits whatever the workers, the store and the interruptions."""

import threading
import time
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import lpplusplus.images.embedder
from helpers import until
from lpplusplus.encoders import EncoderError
from lpplusplus.encoders.pixels.decoding import ImageError, Limits, open_image
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import ImageSet, SourceError, from_folder, from_list
from lpplusplus.images.store import FeatureStore
from toy_encoder import ToyEncoder
from toy_images import contents, encoded, make_folder, toy_image


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(lpplusplus.images.embedder, "ROWS_PER_SHARD", 8)


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"a": 13, "b_c": 14})


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
    assert contents(tmp_path / "store2") == contents(tmp_path / "store7")


@pytest.mark.parametrize("views", [0, 3])
def test_an_encoder_that_takes_images_one_by_one(tmp_path, views):
    """Each image goes through it alone, after those that the same thread took with it were prepared."""
    steps = []

    class OneByOne(ToyEncoder):
        one_by_one = True

        def prepare(self, image, rng=None):
            steps.append("prepare")
            return super().prepare(image, rng)

        def encode_prepared(self, batch):
            steps.append("encode")
            return super().encode_prepared(batch)

    images = from_folder(make_folder(tmp_path / "photos", {"a": 40, "b_c": 39}))
    expected = embed(images, ToyEncoder(batch_size=1), views=views, workers=1).X
    for workers in (1, 2, 7):  # Threads take 4, 2 and 1 images at once.
        encoder = OneByOne()
        steps.clear()
        assert np.array_equal(
            embed(images, encoder, views=views, workers=workers, store=tmp_path / f"{workers}").X, expected
        )
        assert set(encoder.batches) == {1}
        if workers == 1:
            four = 4 * max(1, views)
            assert steps[: 2 * four] == ["prepare"] * four + ["encode"] * four
    assert contents(tmp_path / "1") == contents(tmp_path / "7")


def test_no_worker_is_without_work(tmp_path):
    """Each thread waits in its first call until all eight are there."""
    gate, seen = threading.Barrier(8), threading.local()

    class Gated(ToyEncoder):
        one_by_one = True

        def encode_prepared(self, batch):
            if not hasattr(seen, "this"):
                seen.this = gate.wait(timeout=300)
            return super().encode_prepared(batch)

    images = from_folder(make_folder(tmp_path / "photos", {"a": 128, "b": 128}))
    assert embed(images, Gated(batch_size=1), workers=8).computed == 256


def test_random_views_belong_to_the_content(photos):
    images = from_folder(photos)
    forward = embed(images, ToyEncoder(batch_size=1), views=2)
    backward = embed(images.subset(range(26, -1, -1)), ToyEncoder(batch_size=1), views=2)
    assert np.array_equal(forward.X, backward.X[::-1])
    assert not np.array_equal(forward.X[:, 0], forward.X[:, 1])


def test_identical_images_are_computed_once(photos, tmp_path):
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
    shown = [toy_image(seed) for seed in range(3)]
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


class TestBadImages:
    @pytest.fixture
    def spoilt(self, photos):
        (photos / "a/003.png").write_text("not an image")
        (photos / "b_c/001.png").write_bytes(encoded(toy_image(1), "JPEG")[:300])
        (photos / "b_c/009.png").unlink()
        (photos / "b_c/009.png").symlink_to(photos / "nowhere")
        return photos

    @pytest.mark.parametrize("workers", [1, 6])
    def test_stop_at_the_first_in_order(self, spoilt, workers):
        with pytest.raises(ImageError) as caught:
            embed(from_folder(spoilt), ToyEncoder(), workers=workers)
        assert caught.value.path == str(spoilt / "a/003.png")
        until(lambda: not [thread for thread in threading.enumerate() if "lpplusplus" in thread.name])

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
        before = contents(store)
        again = embed(images, ToyEncoder(), on_error="skip", store=store)
        assert (again.computed, len(again.skipped)) == (0, 3)
        assert contents(store) == before
        toy_image(77).save(spoilt / "a/003.png")
        assert embed(images, ToyEncoder(), on_error="skip", store=store).computed == 1

    def test_finished_shards_stay_when_an_image_stops_the_run(self, spoilt, tmp_path):
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
        with pytest.raises(ImageError, match="is a link to a folder"):
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
            embed(ImageSet([], source="the void"), ToyEncoder())


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
        for one_by_one in (False, True):
            encoder = kind()
            encoder.one_by_one = one_by_one
            with pytest.raises(EncoderError, match=message):
                embed(from_folder(photos), encoder)


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
            if not most:
                until(lambda: prepared >= 4)
            time.sleep(0.02)  # Time for too many, on a machine with nothing else to do.
            most = max(most, prepared)
            prepared -= len(batch)
            return super().encode_prepared(batch)

    embed(from_folder(photos), Counting(batch_size=2), workers=2)
    assert 4 <= most <= 2 * 2 + 2 + 2
