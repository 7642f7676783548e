"""Input that is far too large: refused before memory is spent on it, in a message of a line or two."""

import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import arrays, class_names, from_folder, read_arrays
from lpplusplus.images.sources.class_names import read_class_names
from lpplusplus.images.sources.image_set import from_manifest
from lpplusplus.images.store import FeatureStore, StoreError, is_store
from lpplusplus.images.store.feature_store import digest_of
from toy_encoder import ToyEncoder
from toy_images import make_folder

MIB = 2**20


@pytest.fixture
def refused():
    """Calls a reader that must refuse its file with less than 30 MiB, in less than 400 characters."""

    def check(read, path, match, error=ValueError):
        tracemalloc.start()
        try:
            with pytest.raises(error, match=match) as caught:
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 30 * MIB
        finally:
            tracemalloc.stop()
        assert len(str(caught.value).replace(str(path), "")) < 400

    return check


@pytest.mark.parametrize(
    ("name", "start"), [("a.jsonl", '{"path": ['), ("a.jsonl", "\n["), ("a.csv", "path,label\n"), ("a.csv", '"')]
)
def test_a_line_without_end(tmp_path, refused, name, start):
    (tmp_path / name).write_text(start + "[1, 2], " * (4 * MIB))
    refused(from_manifest, tmp_path / name, "line [12].* has more than 1,048,576 characters")


def test_what_a_manifest_has_is_not_repeated_in_full(tmp_path, refused):
    long = "x" * 100_000
    for row, match in (
        ({"path": list(range(100_000)), "label": "a"}, "the path must be a string, not"),
        ({"path": {"a" * 100_000: 1}, "label": "a"}, "the path must be a string, not"),
        ({"path": long, "label": "a"}, "not a usable path"),
        ({"path": "a.png", "label": long}, "label 'xxx.* has 100000 characters, more than 500"),
    ):
        (tmp_path / "a.png").write_bytes(b"")
        (tmp_path / "list.jsonl").write_text(json.dumps(row))
        refused(from_manifest, tmp_path / "list.jsonl", match)
    (tmp_path / "list.csv").write_text(",".join(["column"] * 10_000))
    refused(from_manifest, tmp_path / "list.csv", "a column label, found")
    (tmp_path / "list.csv").write_text(f"path,label\na.png,{long}\n")
    refused(from_manifest, tmp_path / "list.csv", "more than 500")


def test_lists_of_class_names(tmp_path, refused, monkeypatch):
    (tmp_path / "names.txt").write_text("robin\n" + "x" * 100_000)
    refused(read_class_names, tmp_path / "names.txt", "line 2: label 'xxx.* more than 500")
    monkeypatch.setattr(class_names, "LARGEST_LIST", 1000)
    refused(read_class_names, tmp_path / "names.txt", "more than 1,000 characters")


def npz(path, *, shape, content=b"", compressed=zipfile.ZIP_STORED):
    """A file whose array claims a shape, whatever its content is."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with zipfile.ZipFile(path, "w", compressed) as archive:
        archive.writestr("embeddings.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + content)


def test_an_array_that_is_not_there(tmp_path, refused):
    for shape in ((2_500_000_000, 1), (2**40, 2**20), (10**30, 1)):
        npz(tmp_path / "a.npz", shape=shape, content=b"1234")
        refused(read_arrays, tmp_path / "a.npz", "fewer bytes than its header says")
    (tmp_path / "b.npz").write_bytes(zipfile.Path(tmp_path / "a.npz", "embeddings.npy").read_bytes())
    refused(read_arrays, tmp_path / "b.npz", "holds a single array")


def test_a_small_file_that_unpacks_to_a_large_array(tmp_path, refused, monkeypatch):
    """A thousandth of 9.5 GiB here, with a limit that is as much smaller."""
    monkeypatch.setattr(arrays, "FREELY_UNPACKED", 2**18)
    zeros = np.zeros((10, MIB // 4), np.float32)
    np.savez_compressed(tmp_path / "a.npz", embeddings=zeros)
    refused(read_arrays, tmp_path / "a.npz", r"a\.npz: embeddings\.npy has .* bytes, but would take 10,485,760")
    np.savez_compressed(tmp_path / "b.npz", embeddings=zeros[:, : MIB // 160])
    assert read_arrays(tmp_path / "b.npz").X.shape == (10, 1, MIB // 160)
    np.savez(tmp_path / "c.npz", embeddings=zeros)  # Stored as it is, it is as large as it says.
    assert len(read_arrays(tmp_path / "c.npz")) == 10
    noise = np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32)
    np.savez_compressed(tmp_path / "d.npz", embeddings=noise)
    assert len(read_arrays(tmp_path / "d.npz")) == 1000


def test_one_very_long_name_among_many(tmp_path, refused):
    """Text in numpy takes as much room per row as the longest needs."""
    X = np.zeros((200_000, 1), np.float32)
    labels = np.zeros(len(X), np.uint8)
    np.savez_compressed(tmp_path / "a.npz", embeddings=X, labels=labels, classes=np.array(["a" * 10_000, "b"]))
    refused(read_arrays, tmp_path / "a.npz", "labels, by their names, has 200,000 bytes, but would take 8,000,000,000")
    names = [*(str(number) for number in range(100_000)), "a" * 100_000]
    safetensors.numpy.save_file({"embeddings": X[:3]}, tmp_path / "a.safetensors", {"classes": json.dumps(names)})
    refused(read_arrays, tmp_path / "a.safetensors", "'classes' in its metadata has .* bytes, but would take 40,")
    np.savez(tmp_path / "b.npz", embeddings=X[:2], labels=["a" * 10_000, "b"])
    refused(read_arrays, tmp_path / "b.npz", "label 'aaa.*has 10000 characters, more than 500")


def test_text_without_length(tmp_path, refused):
    """A header of a thousand million empty names: none of them has a byte."""
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000,), }".ljust(117)
        + b"\n"
    )
    np.savez(tmp_path / "a.npz", embeddings=np.ones((2, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("classes.npy", header)
    refused(read_arrays, tmp_path / "a.npz", "fewer bytes than its header says")


class TestStore:
    @pytest.fixture
    def store(self, tmp_path):
        embed(from_folder(make_folder(tmp_path / "photos", {"a": 2, "b": 2})), ToyEncoder(), store=tmp_path / "store")
        return tmp_path / "store"

    def test_an_index_that_claims_more_than_its_shards_hold(self, store, refused):
        whole = json.loads((store / "index.json").read_text())
        for part, name, value in (("settings", "dim", 2**20), ("settings", "views", 2**20)):
            whole["store"][part][name] = value
            whole["digest"] = digest_of(whole["format"], whole["version"], whole["store"])
            (store / "index.json").write_text(json.dumps(whole))
            refused(lambda path: FeatureStore(path).load(), store, "is too small for 4 embeddings", StoreError)

    def test_an_index_with_rows_without_end_of_nothing(self, store, refused):
        whole = json.loads((store / "index.json").read_text())
        whole["store"]["settings"]["dim"], whole["store"]["shards"][0]["rows"] = 0, 2**80
        whole["digest"] = digest_of(whole["format"], whole["version"], whole["store"])
        (store / "index.json").write_text(json.dumps(whole))
        refused(lambda path: FeatureStore(path).load(), store, "is too small for 1208925819614629174706176", StoreError)

    def test_an_index_without_end(self, store, refused):
        (store / "index.json").write_text("[1, 2], " * (9 * MIB))
        with pytest.raises(StoreError, match="has more than 67,108,864 bytes"):
            FeatureStore(store)
        (store / "shard-000000.safetensors").unlink()
        assert not is_store(store)

    def test_a_header_without_end(self, store, refused):
        shard = store / "shard-000000.safetensors"
        content = shard.read_bytes()
        header = (b"[1, 2], " * (8 * MIB))[: 64 * MIB - len(content) - 8]
        shard.write_bytes(struct.pack("<Q", len(header)) + header + content)
        refused(lambda path: FeatureStore(path).maps(), store, "bytes instead of", StoreError)
        whole = json.loads((store / "index.json").read_text())
        whole["store"]["shards"][0]["bytes"] = shard.stat().st_size
        whole["digest"] = digest_of(whole["format"], whole["version"], whole["store"])
        (store / "index.json").write_text(json.dumps(whole))
        refused(lambda path: FeatureStore(path).maps(), store, "its header is cut off", StoreError)
