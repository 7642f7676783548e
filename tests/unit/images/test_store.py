"""The feature store's files: what is in them, and that no damage to them is ever used."""

import json
import os
import shutil
import struct

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lpplusplus.images.embedder
from lpplusplus.encoders.pixels.decoding import CONVENTIONS
from lpplusplus.images.embedder import embed
from lpplusplus.images.embeddings import Origin
from lpplusplus.images.sources import from_folder, from_list
from lpplusplus.images.store import FeatureStore, StoreError, StoreWriter, is_store
from lpplusplus.images.store.shards import Shard, map_embeddings, parse_shard, read_shard, write_shard
from toy_encoder import ToyEncoder
from toy_images import contents, make_folder

ORIGIN = Origin("toy", "f", "p", 5)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of four shards, and what went into it."""
    root = tmp_path_factory.mktemp("made")
    images = from_folder(make_folder(root / "photos", {"a": 6, "b_c": 8}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lpplusplus.images.embedder, "ROWS_PER_SHARD", 4)
        done = embed(images, ToyEncoder(), store=root / "store")
    return images, done, root / "store"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(lpplusplus.images.embedder, "ROWS_PER_SHARD", 4)


@pytest.fixture
def store(made, small, tmp_path):
    """A copy of it to break."""
    return shutil.copytree(made[2], tmp_path / "store")


def flip(path, position, bit=0):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def test_everything_comes_back(made):
    images, done, path = made
    store = FeatureStore(path)
    assert store.shape == (14, 1, 24)
    assert len(store) == 14
    assert store.classes == ("a", "b_c")
    assert store.names == ("a", "b c")
    assert store.origin == Origin("toy:0", "toy-0-24", '{"size": 16}', 24, CONVENTIONS)
    for verify in (True, False):
        features = store.load(verify=verify)
        assert np.array_equal(features.X, done.X)
        assert features.labels.tolist() == images.labels.tolist()
        assert features.paths == images.paths()
    assert store.verify() == []
    assert is_store(path)
    assert not is_store(path.parent)


def test_memory_maps(made):
    _, done, path = made
    for verify in (False, True):
        maps = FeatureStore(path).maps(verify=verify)
        assert [len(part) for part in maps] == [4, 4, 4, 2]
        assert all(isinstance(part, np.memmap) for part in maps)
        assert not any(part.flags.writeable for part in maps)
        assert np.array_equal(np.concatenate(maps), done.X)


def test_shards_are_plain_safetensors(made):
    _, done, path = made
    arrays = safetensors.numpy.load_file(path / "shard-000001.safetensors")
    assert np.array_equal(arrays["embeddings"], done.X[4:8])
    assert arrays["embeddings"].dtype == np.float32
    assert bytes(arrays["labels"]).decode().split("\0") == ["a", "a", "b_c", "b_c"]


def test_without_labels(tmp_path, small):
    root = make_folder(tmp_path / "photos", {"a": 5})
    embed(from_folder(root, labels=False), ToyEncoder(), store=tmp_path / "store")
    store = FeatureStore(tmp_path / "store")
    assert store.load().labels is None
    assert not store.labelled


class TestDamage:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_damaged_shards_are_never_loaded_and_rebuilt_to_the_bit(self, made, store, data):
        images, done, original = made
        shutil.rmtree(store)
        shutil.copytree(original, store)
        number = data.draw(st.integers(0, 3))
        path = store / f"shard-00000{number}.safetensors"
        size = path.stat().st_size
        kind = data.draw(st.sampled_from(["flip", "cut", "absent", "longer", "other"]))
        if kind == "flip":
            flip(path, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7)))
        elif kind == "cut":
            os.truncate(path, data.draw(st.integers(0, size - 1)))
        elif kind == "absent":
            path.unlink()
        elif kind == "longer":
            path.write_bytes(path.read_bytes() + b"\0")
        else:
            shutil.copy(store / f"shard-00000{(number + 1) % 3}.safetensors", path)
        if kind != "other" or path.read_bytes() != (original / path.name).read_bytes():
            with pytest.raises(StoreError, match="embed again"):
                FeatureStore(store).load()
        encoder = ToyEncoder()
        again = embed(images, encoder, store=store)
        assert np.array_equal(again.X, done.X)
        assert contents(store) == contents(original)
        assert sum(encoder.batches) <= 4

    def test_a_damaged_version_is_damage(self, made, store):
        path = store / "shard-000001.safetensors"
        data = path.read_bytes()
        assert data.count(rb"\"version\":1") == 1
        path.write_bytes(data.replace(rb"\"version\":1", rb"\"version\":3"))
        (store / "index.json").write_bytes(
            (store / "index.json").read_bytes().replace(b'"version": 1', b'"version": 3')
        )
        assert embed(made[0], ToyEncoder(), store=store).computed == 4
        assert contents(store) == contents(made[2])

    def test_verify_names_the_damaged(self, store):
        size = (store / "shard-000002.safetensors").stat().st_size
        flip(store / "shard-000002.safetensors", size - 1)
        assert FeatureStore(store).verify() == ["shard-000002.safetensors"]
        with pytest.raises(StoreError, match="shard-000002"):
            FeatureStore(store).maps(verify=True)

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_no_flipped_bit_in_the_index_goes_unnoticed(self, made, store, data):
        shutil.copy(made[2] / "index.json", store / "index.json")
        flip(store / "index.json", data.draw(st.integers(0, (store / "index.json").stat().st_size - 1)),
             data.draw(st.integers(0, 7)))  # fmt: skip
        try:
            found = FeatureStore(store)
        except StoreError:
            return
        assert np.array_equal(found.load().X, made[1].X)  # Space between JSON's words.
        assert found.origin == FeatureStore(made[2]).origin

    def test_a_damaged_index_is_written_anew(self, made, store):
        (store / "index.json").write_text('{"format": "lpplusplus fea')
        with pytest.raises(StoreError, match="damaged"):
            FeatureStore(store)
        encoder = ToyEncoder()
        embed(made[0], encoder, store=store)
        assert encoder.batches == []
        assert contents(store) == contents(made[2])

    def test_a_twin_in_a_later_shard_does_not_change_a_rebuilt_one(self, tmp_path, small):
        """Computing three of four in a batch may change last bits, so the whole batch is computed again."""
        root = make_folder(tmp_path / "photos", {"a": 12})
        shutil.copy(root / "a/001.png", root / "a/010.png")
        images = from_folder(root)
        embed(images, ToyEncoder(), store=tmp_path / "store")
        before = contents(tmp_path / "store")
        (tmp_path / "store/shard-000000.safetensors").unlink()
        encoder = ToyEncoder()
        embed(images, encoder, store=tmp_path / "store")
        assert encoder.batches == [4]
        assert contents(tmp_path / "store") == before


class TestStrangers:
    """Stores and folders that this version did not make."""

    def rewrite(self, store, change):
        """An index that is changed and has the right checksum all the same."""
        from lpplusplus.images.store.feature_store import digest_of

        whole = json.loads((store / "index.json").read_text())
        change(whole)
        whole["digest"] = digest_of(whole["format"], whole.get("version"), whole["store"])
        (store / "index.json").write_text(json.dumps(whole))

    @pytest.mark.parametrize(
        "change",
        [
            lambda w: w["store"]["shards"][0].update(file="../../x"),
            lambda w: w["store"]["shards"][0].update(rows=-1),
            lambda w: w["store"]["shards"][0].update(rows="4"),
            lambda w: w["store"]["shards"].append("../../x"),
            lambda w: w["store"].update(shards={"../../x": 1}),
            lambda w: w["store"]["settings"].update(dim=-3),
            lambda w: w["store"]["settings"].update(dim=2.5),
            lambda w: w["store"]["settings"].update(more=1),
            lambda w: w["store"].update(names=["a"]),
            lambda w: w["store"].update(classes=[1, 2]),
            lambda w: w["store"].update(labelled=1),
            lambda w: w.update(store=[]),
            lambda w: w.pop("version"),
        ],
    )
    def test_an_index_with_something_else_in_it(self, store, change):
        self.rewrite(store, change)
        with pytest.raises(StoreError, match="damaged"):
            FeatureStore(store)

    def test_the_message_repeats_no_more_than_a_line_of_the_index(self, store):
        self.rewrite(store, lambda w: w["store"]["settings"].update({"x" * 7000: 1}))
        with pytest.raises(StoreError, match="damaged") as caught:
            FeatureStore(store)
        assert len(str(caught.value)) < 500 + len(str(store))

    def test_an_index_that_does_not_fit_the_shards(self, store):
        self.rewrite(store, lambda w: w["store"]["settings"].update(dim=2**20))
        with pytest.raises(StoreError, match="shape"):
            FeatureStore(store).maps()

    def test_newer_formats_are_refused_and_left_alone(self, made, store):
        self.rewrite(store, lambda w: w.update(version=2))
        before = contents(store)
        with pytest.raises(StoreError, match="version 2; this lpplusplus reads version 1"):
            FeatureStore(store)
        with pytest.raises(StoreError, match="version 2"):
            embed(made[0], ToyEncoder(seed=1), store=store)
        assert contents(store) == before

    def test_newer_shards_are_refused_and_left_alone(self, made, store):
        path = store / "shard-000000.safetensors"
        shard = read_shard(path)[0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lpplusplus.images.store.shards.VERSION", 9)
            write_shard(path, shard)
        before = contents(store)
        with pytest.raises(StoreError, match="version 9"):
            embed(made[0], ToyEncoder(), store=store)
        assert contents(store) == before

    def test_a_folder_with_other_things_is_not_touched(self, made, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(StoreError, match="has other files"):
            embed(made[0], ToyEncoder(), store=tmp_path)
        with pytest.raises(StoreError, match="is not a folder"):
            embed(made[0], ToyEncoder(), store=tmp_path / "notes.txt")
        with pytest.raises(StoreError, match="not a feature store"):
            FeatureStore(tmp_path)
        (tmp_path / "site").mkdir()
        (tmp_path / "site/index.json").write_text('{"format": "something else", "version": 1}')
        with pytest.raises(StoreError, match="has other files and is not a feature store"):
            embed(made[0], ToyEncoder(), store=tmp_path / "site")
        assert [path.name for path in (tmp_path / "site").iterdir() if path.name != ".lock"] == ["index.json"]

    def test_a_place_that_cannot_be_written(self, made, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match=r"cannot be written \(Not a directory\)"):
            embed(made[0], ToyEncoder(), store=tmp_path / "file/store")

    def test_a_link_in_place_of_the_folder_of_new_shards(self, made, store, tmp_path):
        (tmp_path / "precious").mkdir()
        (store / "next").symlink_to(tmp_path / "precious")
        with pytest.raises(StoreError, match="is a link"):
            embed(made[0], ToyEncoder(), store=store)

    def test_a_users_own_file_stays(self, made, store):
        (store / "notes.txt").write_text("mine")
        embed(made[0].subset(range(5)), ToyEncoder(), store=store)
        assert (store / "notes.txt").read_text() == "mine"

    def test_incomplete_and_absent(self, store, tmp_path):
        (store / "index.json").unlink()
        with pytest.raises(StoreError, match=r"incomplete.*Run it again"):
            FeatureStore(store)
        with pytest.raises(StoreError, match="does not exist"):
            FeatureStore(tmp_path / "absent")

    @pytest.mark.parametrize(
        "entry",
        [
            {"data_offsets": [0, 1 << 40]},
            {"data_offsets": [-4, 4]},
            {"data_offsets": [0, 4, 8]},
            {"shape": [1 << 62, 4, 4]},
            {"shape": [-4, 1, -24]},
            {"shape": [True, 1, 24]},
            {"shape": "abc"},
            {"dtype": "F64"},
            {"dtype": ["F32"]},
        ],
    )
    def test_tensors_that_lie(self, made, tmp_path, entry):
        data = (made[2] / "shard-000000.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header["embeddings"].update(entry)
        text = json.dumps(header).encode()
        path = tmp_path / "shard.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
        for read in (map_embeddings, read_shard):
            with pytest.raises(StoreError):
                read(path)


class TestShard:
    def shard(self, paths, labels=None):
        rows = len(paths)
        X = np.random.default_rng(0).standard_normal((rows, 2, 5)).astype(np.float32)
        return Shard(ORIGIN.key, "list", X, np.zeros((rows, 32), np.uint8), np.arange(rows, dtype=np.int32), paths,
                     labels)  # fmt: skip

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
    @given(st.lists(st.tuples(st.text(st.characters(exclude_characters="\0")), st.text(st.characters(
        exclude_characters="\0")))))  # fmt: skip
    def test_any_path_and_label_survive(self, tmp_path, rows):
        shard = self.shard([path for path, _ in rows], [label for _, label in rows])
        receipt = write_shard(tmp_path / "s", shard)
        found, again = read_shard(tmp_path / "s")
        assert again == receipt
        assert (found.paths, found.labels) == (shard.paths, shard.labels)
        assert np.array_equal(found.embeddings, shard.embeddings)

    def test_a_null_is_refused(self, tmp_path):
        with pytest.raises(StoreError, match="null"):
            write_shard(tmp_path / "s", self.shard(["a\0b"]))


def test_a_writer_in_the_same_process_is_refused_too(tmp_path):
    with StoreWriter(tmp_path / "s", ORIGIN, []), pytest.raises(StoreError, match="another process"):
        StoreWriter(tmp_path / "s", ORIGIN, []).__enter__()
    with StoreWriter(tmp_path / "s", ORIGIN, []):
        pass


class TestAChangeInPlace:
    """Other images under the same names: shards are replaced one by one, each under its own name."""

    @pytest.fixture
    def swapped(self, tmp_path, small):
        """A store of three shards, of which two images, of the first and the last, have changed places since."""
        photos = make_folder(tmp_path / "photos", {"a": 12})
        images = from_folder(photos)
        embed(images, ToyEncoder(batch_size=1), store=tmp_path / "store")
        names = [photos / "a" / name for name in ("001.png", "010.png")]
        for path, content in zip(names, [path.read_bytes() for path in reversed(names)], strict=True):
            path.write_bytes(content)
        return images, tmp_path / "store"

    def test_a_replaced_shard_still_serves_later_ones(self, swapped, tmp_path):
        """The first shard's image is in the last one now: it is not computed again, nor taken for its successor."""
        images, store = swapped
        again = embed(images, ToyEncoder(batch_size=1), store=store)
        assert again.computed == 1
        fresh = embed(images, ToyEncoder(batch_size=1), store=tmp_path / "fresh")
        assert np.array_equal(again.X, fresh.X)
        assert contents(store) == contents(tmp_path / "fresh")


def test_paths_with_odd_bytes_are_embedded(tmp_path, small):
    from toy_images import toy_image

    name = os.fsdecode(b"caf\xe9.png")
    toy_image().save(tmp_path / name)
    done = embed(from_list([tmp_path / name]), ToyEncoder(), store=tmp_path / "store")
    assert FeatureStore(tmp_path / "store").load().paths == done.paths == [(tmp_path / name).as_posix()]


@pytest.mark.parametrize("shape", [[0, 2**40, 2**40], [0] + [1] * 70])
def test_an_array_without_entries_and_without_bounds(made, tmp_path, shape):
    """Zero times anything is no bytes, but numpy cannot make an array of such a shape."""
    header = {"__metadata__": {"lpplusplus.features": '{"version":1}'}}
    header["embeddings"] = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    text = json.dumps(header).encode()
    path = tmp_path / "shard.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    for read in (map_embeddings, read_shard, parse_shard):
        with pytest.raises(StoreError):
            read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("name", ["index.json", "shard-000001.safetensors"])
def test_a_named_pipe_is_not_waited_for(made, store, name):
    (store / name).unlink()
    os.mkfifo(store / name)
    with pytest.raises(StoreError):
        FeatureStore(store).load()
    with pytest.raises(StoreError):
        map_embeddings(store / name)
    assert embed(made[0], ToyEncoder(), store=store).computed == (0 if name == "index.json" else 4)
    assert contents(store) == contents(made[2])
