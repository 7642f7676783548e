"""A source cut into parts, without a cluster: each part opens the images that the local engine has there."""

import io
import json
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest

from commands import complaint, run, usage
from lpplusplus.cluster.commands import embed_part
from lpplusplus.cluster.connection import ClusterError, Slots
from lpplusplus.cluster.jobs import do_part, finished
from lpplusplus.cluster.parts import plan
from lpplusplus.encoders import open_encoder
from lpplusplus.images.embedder import embed
from lpplusplus.images.embeddings import Origin
from lpplusplus.images.errors import SourceError, StoreError
from lpplusplus.images.parquet import read_parquet
from lpplusplus.images.parquet.tables import part_name
from lpplusplus.images.sources import from_folder, open_images
from lpplusplus.images.store import ROWS_PER_SHARD
from toy_encoder import ToyEncoder
from toy_images import encoded, make_folder, toy_image

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("photos") / "photos", {"cat": 400, "dog": 300})
    (folder / "dog" / "150.png").write_bytes(b"no image")
    return folder


def all_parts(source, output, labels=True):
    """Do every part here, as the workers do."""
    listed = plan(str(source), labels=labels)
    arguments = {"spec": "drawings", "origin": Origin.of(open_encoder("drawings")), "batch_size": None}
    assert finished(listed, str(output), "key") == {}
    parts = enumerate(listed.parts)
    return listed, [do_part(embed_part, arguments, str(output), "key", part, number, 1) for number, part in parts]


def parts_of(output, count):
    return [read_parquet(output / part_name(number)) for number in range(count)]


def test_parts_are_the_shards_of_the_local_engine(photos, tmp_path):
    listed, results = all_parts(photos, tmp_path / "out")
    assert [result.rows for result in results] == [ROWS_PER_SHARD, 700 - ROWS_PER_SHARD - 1]
    local = embed(from_folder(photos), open_encoder("drawings"), on_error="skip")
    found = parts_of(tmp_path / "out", 2)
    assert np.concatenate([part.X for part in found]).tobytes() == local.X.tobytes()
    assert [path for part in found for path in part.paths] == list(local.paths)
    assert [label for part in found for label in part.labels] == local.labels.tolist()
    assert [one for result in results for one in result.skipped] == [
        (str(one.path), one.reason) for one in local.skipped
    ]
    kept = finished(listed, str(tmp_path / "out"), "key")  # What the next run finds is what this one did.
    assert {number: (one.rows, one.skipped) for number, one in kept.items()} == {
        number: (one.rows, one.skipped) for number, one in enumerate(results)
    }


def test_what_is_damaged_is_done_again_and_what_is_another_list_is_refused(photos, tmp_path):
    listed, _ = all_parts(photos, tmp_path / "out")
    out = str(tmp_path / "out")
    first = tmp_path / "out" / part_name(0)
    whole = first.read_bytes()
    first.write_bytes(whole[:-50])
    assert list(finished(listed, out, "key")) == [1]
    first.write_bytes(whole)
    with pytest.raises(StoreError, match="another list of images"):
        finished(listed, out, "other encoder")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"has other files, such as notes\.txt"):
        finished(listed, out, "key")


def tables(photos, folder, kind):
    """The photos as Parquet, or as tar archives in the layout of WebDataset."""
    images = from_folder(photos)
    files = [(path.read_bytes(), label) for path, label in zip(images.items, images.labels.tolist(), strict=True)]
    folder.mkdir()
    for number, some in enumerate((files[:250], files[250:])):
        if kind == "tar":
            with tarfile.open(folder / f"{number}.tar", "w") as tar:
                for row, (content, label) in enumerate(some):
                    about = ("json", json.dumps({"label": label})) if number else ("cls", label)
                    for ending, member in (("png", content), (about[0], about[1].encode())):
                        info = tarfile.TarInfo(f"{row:06}.{ending}")
                        info.size = len(member)
                        tar.addfile(info, io.BytesIO(member))
            continue
        contents = [content for content, _ in some]
        column = pa.array([{"bytes": one, "path": None} for one in contents]) if kind == "struct" else contents
        table = pa.table({"image": column, "label": [label for _, label in some]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=200)
    return [content for content, _ in files], [label for _, label in files]


@pytest.mark.parametrize("kind", ["bytes", "struct", "tar"])
def test_tables_and_archives_of_images(photos, tmp_path, kind):
    contents, labels = tables(photos, tmp_path / "shards", kind)
    listed, results = all_parts(tmp_path / "shards", tmp_path / "out")
    assert len(listed.parts) == (2 if kind == "tar" else 5)
    assert sum(len(result.skipped) for result in results) == 1
    found = parts_of(tmp_path / "out", len(listed.parts))
    bad = contents.index(b"no image")
    assert [label for part in found for label in part.labels] == labels[:bad] + labels[bad + 1 :]
    local = embed(from_folder(photos), open_encoder("drawings"), on_error="skip")
    assert np.abs(np.concatenate([part.X for part in found]) - local.X).max() < 1e-5  # Other batches.
    assert b"".join(bytes(one) for part in found for one in part.hashes) == local.hashes.tobytes()


def test_other_file_systems(photos, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(photos), "/lpp/photos", recursive=True)
    listed = plan("memory://lpp/photos", labels=True)
    here = plan(str(photos), labels=True)
    assert (len(listed.parts), listed.classes, listed.names) == (len(here.parts), here.classes, here.names)
    found = embed(listed.parts[1].open(), ToyEncoder(), on_error="skip")
    local = embed(here.parts[1].open(), ToyEncoder(), on_error="skip")
    assert found.X.tobytes() == local.X.tobytes()
    assert found.paths[0] == "memory:///lpp/photos/dog/112.png"
    memory.rm("/lpp", recursive=True)


def test_what_cannot_be_cut_is_said(photos, tmp_path):
    with pytest.raises(SourceError, match="does not exist"):
        plan(str(tmp_path / "nothing"), labels=True)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "0.tar.gz").write_bytes(b"x")
    with pytest.raises(SourceError, match="is compressed"):
        plan(str(tmp_path / "packed"), labels=True)
    (tmp_path / "0.tar").write_bytes(b"no archive" * 100)
    with pytest.raises(SourceError, match="no tar archive"):
        plan(str(tmp_path / "0.tar"), labels=True).parts[0].open()
    pq.write_table(pa.table({"words": ["a"]}), tmp_path / "words.parquet")
    with pytest.raises(SourceError, match="expected one of image"):
        plan(str(tmp_path / "words.parquet"), labels=False).parts[0].open()
    pq.write_table(pa.table({"image": [b"x"]}), tmp_path / "bare.parquet")
    with pytest.raises(SourceError, match="no column 'label'"):
        plan(str(tmp_path / "bare.parquet"), labels=True).parts[0].open()


def test_the_batch_size_is_what_was_asked_for(photos, monkeypatch):
    part = plan(str(photos), labels=True).parts[1]
    made = []
    monkeypatch.setattr("lpplusplus.cluster.commands.open_encoder", lambda spec: made.append(ToyEncoder()) or made[-1])
    for size in (None, 7, None):
        embed_part(part, "toy", Origin.of(ToyEncoder()), size)
    assert [(max(encoder.batches), sum(encoder.batches)) for encoder in made] == [(4, 2 * 187), (7, 187)]
    assert "only with --engine ray" in usage("embed", photos, "-o", "x", "--batch-size", "7")


def nodes_of(monkeypatch, *resources):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": one} for one in resources])


def test_requests_that_no_node_can_meet_are_refused(monkeypatch):
    nodes_of(monkeypatch, {"CPU": 2.0}, {"CPU": 8.0, "GPU": 1.0})
    assert Slots(2).check() == 5
    assert Slots(2, workers=3).check() == 3
    assert Slots(1, 0.5).check() == 2
    for slots in (Slots(16), Slots(1, 2), Slots(4, 4)):
        with pytest.raises(ClusterError, match="would wait for ever"):
            slots.check()
    with pytest.raises(ClusterError, match="at least one"):
        Slots(0)


def test_the_options_are_checked(photos, tmp_path):
    several = ("train", photos, "-o", tmp_path / "x.lpp", "--engine", "ray", "--shots", "4")
    assert "--shots needs the embeddings on this machine" in usage(*several)
    assert "always skipped" in usage("embed", photos, "-o", tmp_path / "x", "--engine", "ray", "--on-error", "stop")
    model = tmp_path / "model.lpp"
    assert run("train", photos, "-o", model, "-e", "drawings", "--shots", "2", "--on-error", "skip").returncode == 0
    assert "--engine ray and -o together" in usage("predict", model, photos, "-o", tmp_path / "answers")
    assert "--engine ray and -o together" in usage("predict", model, photos, "--engine", "ray")
    pytest.importorskip("ray")
    dead = ("--engine", "ray", "--ray-address", "127.0.0.1:1")
    assert "no Ray cluster answers" in complaint("embed", photos, "-o", tmp_path / "x", "-e", "drawings", *dead)
    assert not (tmp_path / "x").exists()


def test_archives_are_read_member_by_member(tmp_path):
    """A link or a folder in an archive is passed over, and a member that is cut off is a bad image."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("0.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        content = encoded(toy_image(3), "PNG")
        info = tarfile.TarInfo("../../1.png")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    images = plan(str(tmp_path / "a.tar"), labels=False).parts[0].open()
    assert len(images) == 1
    assert images.items[0].read_bytes(SimpleNamespace(max_bytes=10**6)) == content
    assert open_images([tmp_path / "a.tar"], labels=False) is not None
