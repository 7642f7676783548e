"""Embeddings in Parquet files: ours, those of others, clip-retrieval's; and places by their address."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from commands import ask, complaint
from lpplusplus.images import ImageClassifier
from lpplusplus.images.embedder import embed
from lpplusplus.images.errors import SourceError, StoreError
from lpplusplus.images.opening import embed_source, open_source
from lpplusplus.images.parquet import is_parquet, read_parquet, write_parquet
from lpplusplus.images.parquet.addresses import is_address, open_place, spelled
from lpplusplus.images.sources import from_folder
from lpplusplus.images.store import FeatureStore
from toy_encoder import ToyEncoder
from toy_images import make_folder

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def embedded(tmp_path):
    make_folder(tmp_path / "photos", {"cat": 5, "dog": 4, "n01_owl": 3})
    return embed(from_folder(tmp_path / "photos"), ToyEncoder(), store=tmp_path / "store")


def same(found, expected):
    assert found.X.tobytes() == expected.X.tobytes()
    assert found.labels.tolist() == expected.labels.tolist()
    assert list(found.paths) == list(expected.paths)
    assert (found.classes, found.names, found.origin) == (expected.classes, expected.names, expected.origin)
    assert np.array_equal(found.hashes, expected.hashes)


def test_a_data_set_is_what_the_store_is(embedded, tmp_path):
    write_parquet(embedded, tmp_path / "features", rows_per_part=5)
    assert sorted(path.name for path in (tmp_path / "features").iterdir()) == [
        "_index.json", "part-000000.parquet", "part-000001.parquet", "part-000002.parquet"]  # fmt: skip
    same(read_parquet(tmp_path / "features"), FeatureStore(tmp_path / "store").load())
    same(read_parquet(f"file://{tmp_path}/features"), embedded)


def test_other_tools_read_the_columns_and_the_origin(embedded, tmp_path):
    write_parquet(embedded, tmp_path / "features")
    table = pq.read_table(tmp_path / "features")  # Passes over the index, as every reader of data sets does.
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 24)
    assert table.column("label").to_pylist() == embedded.labels.tolist()
    assert table.column("hash").to_pylist() == [bytes(one) for one in embedded.hashes]
    assert np.array(table.column("embedding").to_pylist(), np.float32).tobytes() == embedded.X.tobytes()
    about = json.loads(table.schema.metadata[b"lpplusplus"])
    assert about["origin"]["fingerprint"] == embedded.origin.fingerprint


def test_several_views_come_back_in_their_shape(tmp_path):
    make_folder(tmp_path / "photos", {"cat": 2, "dog": 2})
    found = embed(from_folder(tmp_path / "photos"), ToyEncoder(), views=3)
    write_parquet(found, tmp_path / "features")
    assert read_parquet(tmp_path / "features").X.shape == (4, 3, 24)
    same(read_parquet(tmp_path / "features"), found)


def test_a_classifier_is_trained_on_either(embedded, tmp_path):
    write_parquet(embedded, tmp_path / "features")
    both = [ImageClassifier(ToyEncoder()).fit(tmp_path / name) for name in ("store", "features")]
    assert both[0].predict_proba(embedded).tobytes() == both[1].predict_proba(embedded).tobytes()
    assert both[1].evaluate(str(tmp_path / "features")).images == 12
    with pytest.raises(SourceError, match="belongs to the encoder"):
        embed_source(
            open_source(tmp_path / "features"),
            lambda: None,
            required_origin=embedded.origin.__class__("x", "y", "z", 24),
        )


def test_the_commands_read_it(tmp_path):
    make_folder(tmp_path / "photos", {"cat": 4, "dog": 4})
    ask("embed", tmp_path / "photos", "-o", tmp_path / "store", "-e", "drawings")
    write_parquet(FeatureStore(tmp_path / "store").load(), tmp_path / "features", rows_per_part=3)
    here = [ask("train", tmp_path / name, "-o", tmp_path / f"{name}.lpp") for name in ("store", "features")]
    assert here[1]["images"] == 8
    assert {**here[0], "model": ""} == {**here[1], "model": ""}
    scores = [ask("evaluate", tmp_path / "features.lpp", tmp_path / name) for name in ("store", "features")]
    assert scores[0] == scores[1]
    by_address = ask("predict", tmp_path / "features.lpp", f"file://{tmp_path}/features")
    assert by_address == ask("predict", tmp_path / "features.lpp", tmp_path / "store")


PLAN = """
name = "parquet"
datasets = ["pets"]
encoders = ["toy"]
shots = [1]
draws = 1
methods = ["LP++ (default)", "Zero-shot"]
[dataset.pets]
reader = "feature-file"
folder = "."
files = {toy = "features"}
"""


@pytest.mark.parametrize("splits", [True, False])
def test_the_benchmark_reads_it(tmp_path, splits):
    parts = ("train", "test") if splits else ("",)
    for seed, part in enumerate(parts):
        make_folder(tmp_path / f"photos{part}", {"cat": 6, "dog": 6}, start=100 * seed)
        ask("embed", tmp_path / f"photos{part}", "-o", tmp_path / f"store{part}", "-e", "drawings")
        write_parquet(FeatureStore(tmp_path / f"store{part}").load(), tmp_path / "features" / part)
    (tmp_path / "plan.toml").write_text(PLAN)
    said = ask("bench", "run", tmp_path / "plan.toml", "--root", tmp_path, "-o", tmp_path / "results", "-j", "1")
    assert (said["cells"], said["run"], said["failed"]) == (2, 2, 0)


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed", "half"])
def test_files_of_others_are_read_if_they_have_embeddings(tmp_path, kind):
    rows = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    number = pa.float16() if kind == "half" else pa.float32()
    types = {"large_list": pa.large_list(number), "fixed": pa.list_(number, 6)}
    rows = rows.astype(np.float16) if kind == "half" else rows
    table = pa.table(
        {
            "embedding": pa.array(list(rows), types.get(kind, pa.list_(number))),
            "label": pa.array([10, 2, 10, 2]),
            "image_path": ["a.jpg", "b.jpg", "c.jpg", "d.jpg"],
        }
    )
    pq.write_table(table, tmp_path / "features.parquet")
    found = read_parquet(tmp_path / "features.parquet", labels=True)
    assert found.X[:, 0].tolist() == rows.astype(np.float32).tolist()
    assert (found.labels.tolist(), found.classes) == (["10", "2", "10", "2"], ("2", "10"))
    assert (list(found.paths), found.origin) == (["a.jpg", "b.jpg", "c.jpg", "d.jpg"], None)


def clip_retrieval(folder, flat=False, labels=("robin", "wren", "robin", "owl")):
    """As `clip-retrieval inference` writes it: half precision, numbered files."""
    rows = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float16)
    for number, part in enumerate((slice(0, 3), slice(3, 4))):
        arrays, tables = (folder, folder) if flat else (folder / "img_emb", folder / "metadata")
        arrays.mkdir(parents=True, exist_ok=True)
        tables.mkdir(parents=True, exist_ok=True)
        np.save(arrays / f"img_emb_{number}.npy", rows[part])
        columns = {"image_path": [f"{row}.jpg" for row in range(4)][part], "caption": ["c"] * len(rows[part])}
        columns |= {"label": list(labels)[part]} if labels else {}
        pq.write_table(pa.table(columns), tables / f"metadata_{number}.parquet")
    return rows


@pytest.mark.parametrize("flat", [True, False])
def test_what_clip_retrieval_wrote_is_read(tmp_path, flat):
    rows = clip_retrieval(tmp_path / "index", flat)
    assert is_parquet(tmp_path / "index")
    found = read_parquet(tmp_path / "index", labels=True)
    assert found.X[:, 0].tolist() == rows.astype(np.float32).tolist()
    assert (found.classes, list(found.paths)[3], found.origin) == (("owl", "robin", "wren"), "3.jpg", None)


def test_what_clip_retrieval_wrote_is_checked(tmp_path):
    clip_retrieval(tmp_path / "index", labels=None)
    with pytest.raises(SourceError, match="has no labels"):
        read_parquet(tmp_path / "index", labels=True)
    array = tmp_path / "index" / "img_emb" / "img_emb_1.npy"
    np.save(array, np.zeros((2, 8), np.float16))
    with pytest.raises(SourceError, match="has 2 rows"):
        read_parquet(tmp_path / "index")
    np.save(array, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(SourceError, match="object"):
        read_parquet(tmp_path / "index")
    array.unlink()
    with pytest.raises(SourceError, match="metadata_1 has no img_emb_1"):
        read_parquet(tmp_path / "index")


@pytest.mark.parametrize("labels", [("robin", "wren", "robin", 7), (1, 2, 10, "owl")])
def test_clip_retrieval_with_texts_in_one_table_and_numbers_in_another(tmp_path, labels):
    clip_retrieval(tmp_path / "index", labels=labels)
    found = read_parquet(tmp_path / "index", labels=True)
    assert found.labels.tolist() == [str(label) for label in labels]
    assert found.classes == tuple(sorted({str(label) for label in labels}))


def column(values, kind=None):
    return pa.table({"embedding": pa.array(values, kind), "label": ["a"] * len(values)})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"image": [b"x"]}), "expected 'embedding'"),
        (column(["text"]), "expected lists of real numbers"),
        (column([[1.0], None]), "row 1 has no embedding"),
        (column([[1.0, 2.0], [1.0]]), "row 1 has 1 numbers"),
        (column([[1.0], [float("nan")]]), "NaN or infinity in row 1"),
        (column([[1.0, None]]), "empty places"),
        (column([], pa.list_(pa.float32(), 3)), "has no rows"),
        (pa.table({"embedding": [[1.0]], "label": pa.array([None], pa.string())}), "have no label"),
        (pa.table({"embedding": [[1.0]], "label": [1.5]}), "expected texts or whole numbers"),
        (column([[1.0]]).replace_schema_metadata({"lpplusplus": '{"version": 9}'}), "upgrade"),
        (column([[1.0]]).replace_schema_metadata({"lpplusplus": "{"}), "cannot be read"),
        (column([[1.0]]).replace_schema_metadata({"lpplusplus": '{"version": 1, "origin": {}}'}), "origin"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, table, message):
    pq.write_table(table, tmp_path / "features.parquet")
    with pytest.raises((SourceError, StoreError), match=message) as raised:
        read_parquet(tmp_path / "features.parquet")
    assert "features.parquet" in str(raised.value)


def test_a_small_file_does_not_become_a_large_array(tmp_path):
    """80 000 equal rows are a few kilobytes in a file, and 320 MB in memory."""
    row = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**20, np.float32)), 2**10)
    pq.write_table(pa.table({"embedding": pa.chunked_array([row] * 80)}), tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 2**20
    with pytest.raises(SourceError, match="these are no embeddings"):
        read_parquet(tmp_path / "bomb.parquet")


def test_what_is_wrong_with_a_data_set_is_said(embedded, tmp_path):
    write_parquet(embedded, tmp_path / "features", rows_per_part=5)
    with pytest.raises(StoreError, match="has other files"):
        write_parquet(embedded, tmp_path / "features")
    index, part = tmp_path / "features" / "_index.json", tmp_path / "features" / "part-000001.parquet"
    said, content = index.read_text(), part.read_bytes()
    part.write_bytes(content[:-100])
    with pytest.raises(SourceError, match=r"part-000001\.parquet is damaged"):
        read_parquet(tmp_path / "features")
    part.unlink()
    with pytest.raises(StoreError, match=r"part-000001\.parquet is missing"):
        read_parquet(tmp_path / "features")
    part.write_bytes((tmp_path / "features" / "part-000002.parquet").read_bytes())
    with pytest.raises(StoreError, match="2 rows instead of 5"):
        read_parquet(tmp_path / "features")
    part.write_bytes(content)
    for damage, message in (("[", "is damaged"), (said.replace('"version": 1', '"version": 7'), "upgrade")):
        index.write_text(damage)
        with pytest.raises(StoreError, match=message):
            read_parquet(tmp_path / "features")
    index.unlink()
    with pytest.raises(StoreError, match="is incomplete"):
        read_parquet(tmp_path / "features")
    part.unlink()
    (tmp_path / "features" / "part-000002.parquet").unlink()
    with pytest.raises(StoreError, match="is incomplete"):
        read_parquet(tmp_path / "features")  # A single part looks whole.
    with pytest.raises(SourceError, match="does not exist"):
        read_parquet(tmp_path / "elsewhere.parquet")


def test_a_folder_of_images_is_not_taken_for_parquet(tmp_path):
    make_folder(tmp_path / "photos", {"cat": 1, "dog": 1})
    (tmp_path / "photos" / "notes.parquet").write_bytes(b"x")
    assert not is_parquet(tmp_path / "photos")
    assert not is_parquet(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s3://AKIAKEY:verysecret@bucket/features", "has a password: .*AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://AKIAKEY@bucket/features", "a user or password"),
        ("s3://bucket/features?endpoint_override=127.0.0.1:9&token=verysecret", "a parameter 'token'.*may be a key"),
        ("s3://bucket/features?endpoint_override=http://a:verysecret@127.0.0.1:9", "endpoint_override"),
        ("hdfs://me:verysecret@host/features", "has a password"),
        ("https://host/x.parquet?X-Amz-Signature=verysecret", "X-Amz-Signature"),
        ("gs://bucket/features?access_token=verysecret", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_an_address_with_a_password_is_refused(tmp_path, place, message):
    """By the commands, too, which see it without one of its slashes; and nowhere is it repeated."""
    for door in (spelled, open_place, read_parquet, lambda place: ImageClassifier(ToyEncoder()).fit(place)):
        for given in (place, Path(place)):
            with pytest.raises(SourceError, match=message) as caught:
                door(given)
            assert "verysecret" not in str(caught.value)
    said = complaint("train", place, "-o", tmp_path / "model.lpp")
    assert re.search(message, " ".join(said.split()))
    assert "verysecret" not in said
    assert not (tmp_path / "model.lpp").exists()


def test_addresses_without_a_password():
    harmless = "s3://bucket/photos?endpoint_override=http://127.0.0.1:9&region=x"
    assert spelled(Path(harmless)) == harmless  # `pathlib` leaves one slash of two.
    assert spelled("hdfs://me@host/x") == "hdfs://me@host/x"
    assert spelled("abfss://container@account.dfs.core.windows.net/x").startswith("abfss://container@account")
    assert spelled("photos/a:b@c.jpg") == "photos/a:b@c.jpg"
    assert is_address(harmless)
    assert not is_address(Path("C:/photos"))


def test_other_file_systems_are_reached(embedded):
    fsspec = pytest.importorskip("fsspec")
    write_parquet(embedded, "memory://lpp/features", rows_per_part=5)
    same(read_parquet("memory://lpp/features"), embedded)
    fsspec.filesystem("memory").rm("/lpp", recursive=True)
    with pytest.raises(SourceError, match="cannot be reached"):
        open_place("nosuchsystem://bucket/x")
