"""Embeddings that version b5f837b wrote, in `tests/data/embeddings`: each kind of file is still read, row by row."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lpplusplus.images.embedder import embed
from lpplusplus.images.parquet import read_parquet
from lpplusplus.images.sources import from_folder, read_arrays
from lpplusplus.images.store import FeatureStore, StoreError
from toy_encoder import ToyEncoder

DATA = Path(__file__).resolve().parents[2] / "data/embeddings"
EXPECTED = json.loads((DATA / "expected.json").read_text())


def read(name):
    if name.startswith("store"):
        return FeatureStore(DATA / name).load()
    return read_arrays(DATA / name) if name.startswith("arrays") else read_parquet(DATA / name)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_same_rows(name):
    if "arrays" not in name and "store" not in name:
        pytest.importorskip("pyarrow")
    embeddings = read(name)
    hashes = embeddings.hashes
    found = {
        "X": hashlib.sha256(np.ascontiguousarray(embeddings.X, np.float32).tobytes()).hexdigest(),
        "shape": list(embeddings.X.shape),
        "labels": None if embeddings.labels is None else [str(label) for label in embeddings.labels],
        "paths": list(embeddings.paths),
        "classes": list(embeddings.classes),
        "names": list(embeddings.names),
        "origin": embeddings.origin and embeddings.origin.settings(),
        "text": None if embeddings.text is None else embeddings.text.tolist(),
        "hashes": None
        if hashes is None
        else hashlib.sha256("".join(h.tobytes().hex() for h in hashes).encode()).hexdigest(),
    }
    assert found == EXPECTED[name]


def test_a_store_that_was_being_changed_goes_on(tmp_path, monkeypatch):
    """Killed between two shards of a changed list: told so, and what is there is used."""
    monkeypatch.setattr("lpplusplus.images.embedder.ROWS_PER_SHARD", 4)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DATA / "store_unfinished", "store")
    with pytest.raises(StoreError, match=r"incomplete.*Run it again"):
        FeatureStore("store")
    shutil.copytree(DATA / "photos", "photos")
    done = embed(from_folder("photos"), ToyEncoder(dim=6), store="store")
    assert (done.computed, done.reused) == (0, 7)
    assert hashlib.sha256(done.X.tobytes()).hexdigest() == EXPECTED["store"]["X"]
    assert len(FeatureStore("store").load()) == 7
