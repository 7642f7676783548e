"""What a worker holds of a data set, without a cluster: whole files, in their order, each row once."""

import numpy as np
import pytest

from lpplusplus import TipAdapter
from lpplusplus.cluster.commands import train_on_ray
from lpplusplus.cluster.connection import ClusterError
from lpplusplus.cluster.rows import RemoteRows, RowWorker, _source, _together
from lpplusplus.images.embeddings import Embeddings, Origin
from lpplusplus.images.errors import SourceError
from lpplusplus.images.parquet import write_parquet
from lpplusplus.images.store import FeatureStore

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


class HeldHere:
    """Holders that are objects of this process."""

    def __init__(self, holders, about):
        self._holders = holders
        self.starts = np.cumsum([0, *(rows for rows, *_ in about)]).tolist()
        self.like = about[0][1].X[:, 0]

    put = staticmethod(lambda thing: thing)
    wait = staticmethod(lambda begun: begun)

    def call(self, holder, *arguments):
        return self._holders[holder].do(self.starts[holder], *arguments)


def together(place, count):
    holders = [RowWorker(str(place), (number, count)) for number in range(count)]
    about = [holder.about() for holder in holders]
    return _together(about, RemoteRows(HeldHere(holders, about)), "here")


@pytest.fixture
def birds():
    """1 300 embeddings of three classes, one of them without an image."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1300, 1, 6)).astype(np.float32)
    labels = np.array(["wren", "robin"])[np.arange(1300) % 2]
    hashes = rng.integers(0, 256, (1300, 32), np.uint8)
    origin = Origin("toy", "f", "p", 6)
    paths = [f"{n}.jpg" for n in range(1300)]
    return Embeddings(X, labels, paths, ("auk", "robin", "wren"), ("auk", "robin", "wren"), origin, hashes=hashes)


def check(found, birds):
    assert np.array_equal(found.X[:, :], birds.X[:, 0])
    assert found.labels.tolist() == birds.labels.tolist()
    assert (found.classes, found.names, found.origin) == (birds.classes, birds.names, birds.origin)
    assert sorted(found.digests()) == sorted(set(birds.digests()))


def test_parts_of_a_parquet_data_set(birds, tmp_path):
    write_parquet(birds, tmp_path / "birds", rows_per_part=512)
    assert _source(str(tmp_path / "birds"))[0] == 3
    for count in (1, 2, 3):
        check(together(tmp_path / "birds", count), birds)


def test_files_of_others_have_no_index(birds, tmp_path):
    for number, (low, high) in enumerate(((0, 1), (1, 900), (900, 1300))):
        rows = pa.FixedSizeListArray.from_arrays(pa.array(birds.X[low:high].ravel()), 6)
        pq.write_table(pa.table({"embedding": rows, "label": birds.labels[low:high]}), tmp_path / f"{number}.parquet")
    found = together(tmp_path, 3)
    assert np.array_equal(found.X[:, :], birds.X[:, 0])
    assert (found.labels.tolist(), found.classes, found.origin) == (birds.labels.tolist(), ("robin", "wren"), None)
    assert len(found.digests()) == 1300


def test_rows_of_a_file_are_mapped(birds, tmp_path):
    np.save(tmp_path / "X.npy", birds.X[:, 0].astype(np.float16))
    found = together(tmp_path / "X.npy", 4)
    assert np.array_equal(found.X[:, :], birds.X[:, 0].astype(np.float16))
    assert (found.X.dtype, found.labels, found.digests()) == (np.float32, None, [])
    holder = RowWorker(str(tmp_path / "X.npy"), (0, 4))
    holder.about()
    assert isinstance(holder._X.base, np.memmap)


def test_what_cannot_be_held_is_refused(birds, tmp_path):
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ClusterError, match=r"one.npy has float64 of shape \(3,\)"):
        RowWorker(str(tmp_path / "one.npy"), (0, 1)).about()
    crops = Embeddings(birds.X.reshape(650, 2, 6), birds.labels[::2], birds.paths[::2], birds.classes, birds.names,
                       Origin("toy", "f", "p", 6, 0, 2), hashes=birds.hashes[::2])  # fmt: skip
    write_parquet(crops, tmp_path / "crops")
    with pytest.raises(ClusterError, match="2 random crops"):
        RowWorker(str(tmp_path / "crops"), (0, 1)).about()
    (tmp_path / "photos").mkdir()
    with pytest.raises(SourceError, match="no embeddings to train on"):
        _source(str(tmp_path / "photos"))
    with pytest.raises(SourceError, match="nowhere does not exist"):
        _source(str(tmp_path / "nowhere"))
    with pytest.raises(SourceError, match="TipAdapter needs all embeddings in one process"):
        train_on_ray(str(tmp_path), method=TipAdapter())
    with pytest.raises(ClusterError) as error:
        RowWorker("s3://AKIDX:s3cret@bucket/features?endpoint_override=http://127.0.0.1:9", (0, 1)).about()
    assert "s3cret" not in str(error.value)
    assert "AKIDX" not in str(error.value)


def test_shards_of_a_feature_store(tmp_path):
    from commands import ask
    from toy_images import make_folder

    photos = make_folder(tmp_path / "photos", {"cat": 400, "dog": 300})
    ask("embed", photos, "-o", tmp_path / "store", "-e", "drawings")
    whole = FeatureStore(tmp_path / "store").load()
    assert _source(str(tmp_path / "store"))[0] == 2
    check(together(tmp_path / "store", 2), whole)
