"""On real clusters of several nodes: nodes and drivers are killed, and every row is there once, as without Ray."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from commands import LPP, ask, complaint, environment
from lpplusplus import GDA, LPPlusPlus, load
from lpplusplus.bench.results import Results
from lpplusplus.cluster.connection import Slots, connected
from lpplusplus.cluster.rows import RowWorkers, distributed_rows
from lpplusplus.images.parquet import read_parquet
from lpplusplus.images.store import FeatureStore
from ray_nodes import nodes
from tasks import small_task
from toy_images import toy_image

pytest.importorskip("ray")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own, of many kinds.

ENCODER = ("-e", "embedded")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """2000 photos, two of them bad."""
    folder = tmp_path_factory.mktemp("photos") / "photos"
    for seed in range(2000):
        place = folder / f"class{seed % 8}"
        place.mkdir(parents=True, exist_ok=True)
        toy_image(seed, 320, 240).save(place / f"{seed:04}.jpg")
    for bad in ("class1/0001.jpg", "class6/1998.jpg"):
        (folder / bad).write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def local(photos, tmp_path_factory):
    """What the local engine makes of them."""
    store = tmp_path_factory.mktemp("local") / "store"
    said = ask("embed", photos, "-o", store, *ENCODER, "--on-error", "skip")
    return FeatureStore(store).load(), said


class Driver:
    """`lpp … --engine ray` in a process of its own."""

    def __init__(self, cluster, *arguments):
        command = [*LPP, *map(str, arguments), "--engine", "ray", "--ray-address", cluster.address, "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), encoding="utf-8"
        )
        self.said = None

    def until(self, happened, seconds=600):
        """Wait for something, while the driver runs."""
        end = time.time() + seconds
        while not happened():
            assert self.process.poll() is None, self.process.communicate()
            assert time.time() < end, "nothing happened"
            time.sleep(0.02)

    def answer(self):
        """Its JSON, when it has ended."""
        out, err = self.process.communicate(timeout=600)
        assert self.process.returncode == 0, err + out
        assert "Traceback" not in err
        return json.loads(out)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def written(folder, count=1):
    return lambda: len(list(Path(folder).glob("part-*.parquet"))) >= count


def same(place, local):
    """Every row of the local engine once, bit for bit, in its order."""
    found, expected = read_parquet(place, labels=True), local[0]
    assert list(found.paths) == list(expected.paths)
    assert found.X.tobytes() == expected.X.tobytes()
    assert found.labels.tolist() == expected.labels.tolist()
    assert np.array_equal(found.hashes, expected.hashes)
    assert (found.classes, found.names, found.origin) == (expected.classes, expected.names, expected.origin)


def test_a_node_is_killed_while_photos_are_embedded(photos, local, tmp_path):
    with nodes(3) as cluster:
        driver = Driver(cluster, "embed", photos, "-o", tmp_path / "features", *ENCODER)
        driver.until(written(tmp_path / "features"))
        cluster.remove_node(cluster.others[0], allow_graceful=False)
        said = driver.answer()
    assert (said["images"], said["reused"], said["workers"]) == (1998, 0, 3)
    assert said["skipped"] == local[1]["skipped"]
    same(tmp_path / "features", local)


def test_the_driver_is_killed_and_started_again(photos, local, tmp_path):
    with nodes(2) as cluster:
        driver = Driver(cluster, "embed", photos, "-o", tmp_path / "features", *ENCODER)
        driver.until(written(tmp_path / "features"))
        driver.kill()
        assert "is incomplete" in complaint("train", tmp_path / "features", "-o", tmp_path / "model.lpp")
        time.sleep(1)
        parts = {path: path.stat().st_mtime_ns for path in (tmp_path / "features").glob("part-*")}
        assert len(parts) < 4
        said = Driver(cluster, "embed", photos, "-o", tmp_path / "features", *ENCODER).answer()
        assert all(path.stat().st_mtime_ns == written for path, written in parts.items())
        assert said["reused"] >= 510
        assert said["computed"] == 1998 - said["reused"]
        assert said["skipped"] == local[1]["skipped"]
        same(tmp_path / "features", local)
        again = Driver(cluster, "embed", photos, "-o", tmp_path / "features", *ENCODER).answer()
        assert (again["computed"], again["skipped"]) == (0, said["skipped"])
        answers_are_those_without_ray(cluster, photos, tmp_path)
        the_classifier_is_that_without_ray(cluster, tmp_path)
        too_much_is_refused(cluster, photos, tmp_path)


def answers_are_those_without_ray(cluster, photos, tmp_path):
    """From photos and from embeddings, streaming, with sets and none of these."""
    model, question = tmp_path / "model.lpp", ("--top", "3", "--sets", "0.9", "--none", "0.05")
    ask("train", tmp_path / "features", "-o", model, "--shots", "4")
    by_photos, by_features = tmp_path / "answers", tmp_path / "answers2"
    said = Driver(cluster, "predict", model, photos, *question, "-o", by_photos).answer()
    assert (said["images"], len(said["skipped"])) == (1998, 2)
    Driver(cluster, "predict", model, tmp_path / "features", *question, "-o", by_features).answer()
    expected = ask("predict", model, tmp_path / "features", *question)["predictions"]
    for folder in (by_photos, by_features):
        rows = pq.read_table(folder).to_pylist()
        assert [row["path"] for row in rows] == [answer["path"] for answer in expected]
        assert [row["label"] for row in rows] == [answer["top"][0]["label"] for answer in expected]
        assert [row["top_labels"] for row in rows] == [[one["label"] for one in a["top"]] for a in expected]
        assert [row["set"] for row in rows] == [answer["set"] for answer in expected]
        assert [row["none_of_these"] for row in rows] == [answer["none_of_these"] for answer in expected]
        chances = [[one["probability"] for one in answer["top"]] for answer in expected]
        assert np.allclose([row["top_probabilities"] for row in rows], chances, atol=1e-6)


def the_classifier_is_that_without_ray(cluster, tmp_path):
    """Trained on embeddings that two workers hold."""
    model = tmp_path / "by_ray.lpp"
    said = Driver(cluster, "train", tmp_path / "features", "-o", model).answer()
    assert (said["images"], said["workers"], said["measured"]) == (1998, 2, "held-out images")
    there, found = load(model), read_parquet(tmp_path / "features")
    here, exact = (
        LPPlusPlus().fit(found.rows.astype(kind), found.labels, text=there.text_.astype(kind)) for kind in ("f4", "f8")
    )
    # Drawn photos with labels at random: single precision itself knows the weights to two digits only.
    errors = [np.abs(one.coef_ - exact.coef_).max() / np.abs(exact.coef_).max() for one in (there, here)]
    assert errors[0] < 2 * errors[1] + 1e-5
    assert errors[1] < 0.1
    seen = ask("evaluate", model, tmp_path / "features")["trained_on"]
    assert seen == 1998


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory):
    """A file of rows, their labels and names, and what is fitted on them in memory."""
    X, y, T = (part.astype(np.float32) for part in small_task(20, 600, 32, seed=5))
    path = tmp_path_factory.mktemp("rows") / "X.npy"
    np.save(path, X)
    return path, y.astype(int), T, LPPlusPlus().fit(X, y.astype(int), text=T), GDA().fit(X, y.astype(int), text=T)


def test_workers_and_a_node_are_killed_in_the_middle_of_a_fit(many_rows, monkeypatch):
    """Their rows are read again, by another process and on another node, and the classifier is the same."""
    path, y, T, here, gaussians = many_rows
    with nodes(3) as cluster, connected(cluster.address), distributed_rows(str(path), Slots(workers=2)) as found:
        assert len(found.X) == len(y)

        def fitted(method, disaster=None):
            calls, original = [], RowWorkers.call

            def call(self, *arguments):
                calls.append(arguments)
                if len(calls) == 30 and disaster is not None:
                    disaster()
                return original(self, *arguments)

            monkeypatch.setattr(RowWorkers, "call", call)
            return method.fit(found.X, y, text=T), len(calls)

        def places():
            import ray

            return list(found.X.each(lambda rows: (os.getpid(), ray.get_runtime_context().get_node_id())))

        first, calls = fitted(LPPlusPlus())
        assert 30 < calls < 200
        assert np.abs(first.coef_ - here.coef_).max() < 1e-5 * np.abs(here.coef_).max()
        before = places()
        again, _ = fitted(LPPlusPlus(), lambda: os.kill(before[0][0], signal.SIGKILL))
        assert np.array_equal(again.coef_, first.coef_)
        after = places()
        assert after[0][0] != before[0][0]
        assert after[1] == before[1]
        lost = next((node for node in cluster.others if node.node_id in [node for _, node in after]), None)
        assert lost is not None
        again, _ = fitted(LPPlusPlus(), lambda: cluster.remove_node(lost, allow_graceful=False))
        assert np.array_equal(again.coef_, first.coef_)
        assert lost.node_id not in [node for _, node in places()]
        there, _ = fitted(GDA())
        assert np.allclose(there.coef_, gaussians.coef_, rtol=1e-5, atol=1e-5)
        with pytest.raises(ValueError, match="y has 3"):
            LPPlusPlus().fit(found.X, y[:3], text=T)


def too_much_is_refused(cluster, photos, tmp_path):
    options = ("--engine", "ray", "--ray-address", cluster.address, "--worker-cpus", "5")
    assert "would wait for ever" in complaint("embed", photos, "-o", tmp_path / "new", *ENCODER, *options, fresh=True)


PLAN = """
name = "demo"
datasets = ["demo"]
encoders = ["drawings"]
methods = ["feature-level, no validation"]
shots = [1, 2]
draws = 2
"""
MEASURED = ("accuracy", "calibration_error", "selection", "chosen", "support_images", "test_images", "draw", "curve")


def rows(folder):
    found = Results(folder, create=False).rows()
    assert len(found) == len({row.cell.key for row in found})
    return {row.cell.key: [getattr(row, name) for name in MEASURED] for row in found}


def test_the_benchmark_has_the_same_rows_with_a_node_killed(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    local = ask("bench", "run", tmp_path / "plan.toml", "-o", tmp_path / "local", "-j", "2")
    for folder in ("ray", "late"):  # Drawing and embedding the images takes longest.
        shutil.copytree(tmp_path / "local" / "features", tmp_path / folder / "features")
    with nodes(3) as cluster:
        driver = Driver(cluster, "bench", "run", tmp_path / "plan.toml", "-o", tmp_path / "ray")

        def begun():
            with contextlib.suppress(Exception):
                return len(Results(tmp_path / "ray", create=False).rows()) >= 3
            return False

        driver.until(begun)
        cluster.remove_node(cluster.others[0], allow_graceful=False)
        said = driver.answer()
        assert (said["cells"], said["run"], said["failed"]) == (local["cells"], local["cells"], 0)
        assert rows(tmp_path / "ray") == rows(tmp_path / "local")
        late = subprocess.run(
            [*LPP, "bench", "run", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "late"), "--tasks", "1", "--limit",
             "0.001", "--engine", "ray", "--ray-address", cluster.address, "--json"],
            capture_output=True, encoding="utf-8", env=environment(), check=False)  # fmt: skip
        assert late.returncode == 1
        errors = {one["error"] for one in json.loads(late.stdout)["failures"]}
        assert errors == {"TimeoutError: it took longer than 0.001 s."}


@pytest.fixture
def bucket():
    """An S3 server on this machine; yields what follows the bucket's name in an address."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"?endpoint_override=http://{host}:{port}&region=us-east-1&allow_bucket_creation=true"
    server.stop()


def test_from_a_bucket_to_a_bucket_and_no_secret_is_left_anywhere(photos, bucket, tmp_path, monkeypatch):
    import pyarrow.fs as fs

    secret = "s3cretpassw0rd"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    system, _ = fs.FileSystem.from_uri(f"s3://lpp/{bucket}")
    system.create_dir("lpp")
    few = [path for path in sorted(photos.rglob("*.jpg")) if int(path.stem) < 120]
    for path in few:
        with system.open_output_stream(f"lpp/photos/{path.parent.name}/{path.name}") as stream:
            stream.write(path.read_bytes())
    places = [f"s3://lpp/{name}{bucket}" for name in ("photos", "features")]
    with nodes(2) as cluster:
        driver = Driver(cluster, "embed", places[0], "-o", places[1], "-e", "drawings")
        out, err = driver.process.communicate(timeout=600)
        assert driver.process.returncode == 0, err
        trained = Driver(cluster, "train", places[1], "-o", tmp_path / "model.lpp")
        more = trained.process.communicate(timeout=600)
        assert trained.process.returncode == 0, more
        lost = Driver(cluster, "train", places[1].replace("features", "nothing"), "-o", tmp_path / "model.lpp")
        more += lost.process.communicate(timeout=600)
        assert "s3://lpp/nothing" in more[3]
        logs = [path.read_bytes() for path in Path(os.environ["RAY_TMPDIR"]).rglob("*") if path.is_file()]
        assert len(logs) > 5
        logs += [*(text.encode() for text in more), (tmp_path / "model.lpp").read_bytes()]
    found = read_parquet(places[1], labels=True)
    assert (len(found), len(found.classes), found.paths[0]) == (119, 8, "s3://lpp/photos/class0/0000.jpg")
    stored = [system.open_input_file(one.path).read() for one in system.get_file_info(fs.FileSelector("lpp/features"))]
    assert len(stored) == 2
    for content in (out.encode(), err.encode(), *logs, *stored):
        assert secret.encode() not in content
        assert b"AKIDEXAMPLE" not in content


def test_a_cluster_of_its_own(photos, tmp_path):
    """Without an address one is started for the time of the command; a folder that is not the run's is left alone."""
    folder = tmp_path / "few"
    for name in ("class0", "class3"):
        shutil.copytree(photos / name, folder / name, ignore=lambda _, names: sorted(names)[8:])
    said = ask("embed", folder, "-o", tmp_path / "features", "-e", "drawings", "--engine", "ray", fresh=True)
    assert (said["images"], said["classes"]) == (16, ["class0", "class3"])
    other = (
        "embed",
        folder / "class0",
        "-o",
        tmp_path / "features",
        "--no-labels",
        "-e",
        "drawings",
        "--engine",
        "ray",
    )
    assert "another list of images" in complaint(*other, fresh=True)
    assert len(read_parquet(tmp_path / "features")) == 16


def test_what_was_started_here_has_ended():
    """No process of a cluster outlives its block."""
    import psutil

    mine = psutil.Process().children(recursive=True)
    left = [one.name() for one in mine if one.name() in ("raylet", "gcs_server")]
    assert left == []
