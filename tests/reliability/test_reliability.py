"""Short runs of the programs in this folder; docs/explanation/reliability.md has the long ones."""

import io
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from commands import environment
from reliability import audit, io_errors, mutations, readers, services, soak

HERE = Path(__file__).parents[1]
BY_NAME = [
    pytest.param(name, marks=pytest.mark.with_torch if name == "clip-benchmark" else ()) for name in readers.TARGETS
]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def program(name, *arguments):
    """Run one of the programs; its lines of JSON."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-m", f"reliability.{name}", *arguments], capture_output=True, text=True,
                          env=environment(PYTHONPATH=path), check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# Readers --------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BY_NAME)
def test_changed_files_are_read_or_refused(name, tmp_path):
    """With any Python; `python -m reliability.fuzzing` goes on from here with atheris."""
    target, rng = readers.TARGETS[name].start(), random.Random(0)
    try:
        seeds = target.seeds(tmp_path)
        assert any(target.once(content) for content in seeds), "no seed is read"
        read = sum(target.once(target.mutate(rng.choice(seeds), rng)) for _ in range(200))
        assert 0 < read < 200, "changes are never noticed, or never get past the first check"
    finally:
        target.stop()


def _index(seed):
    whole = json.loads(seed)
    whole["store"] |= {"settings": whole["store"]["settings"] | {"dim": 10**400}, "shards": []}
    return readers.seal_index(whole)


_CELL = {"dataset": "d", "backbone": "b", "method": "m", "shots": 1, "seed": 1, "estimator": "e"}


def _results(seed, name, value):
    if sys.version_info < (3, 11):
        pytest.skip("sqlite3 opens files only")
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(seed)
        (text,) = database.execute("SELECT row FROM results WHERE status = 'ok'").fetchone()
        database.execute("DELETE FROM results")
        row = json.dumps(json.loads(text) | {name: value})
        database.execute("INSERT INTO results VALUES ('x', 'ok', ?)", (row,))
        database.commit()
        return database.serialize()


def _image_model(change):
    def make(seed):
        header, data = mutations.split_safetensors(seed)
        inner = json.loads(header["__metadata__"]["lpplusplus"])
        change(inner["model"]["metadata"])
        header["__metadata__"]["lpplusplus"] = json.dumps(inner)
        return readers.seal_model(mutations.join_safetensors(header, data))

    return make


def _features(seed):
    file = io.BytesIO()
    np.savez(file, images=np.float32(1), labels=np.arange(2), text=np.eye(2))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("plan", lambda seed: b"x = " + b"[" * 9999 + b"]" * 9999),
        ("plan", lambda seed: seed.replace(b'"folder-per-class"', b"{ a = 1 }")),
        ("open-clip-config", lambda seed: seed.replace(b"0.5", b"9" * 400)),
        ("open-clip-config", lambda seed: b"[" * 99999),
        ("transformers-config", lambda seed: b'{"do_center_crop": true, "crop_size": 3}'),
        ("features", _features),
        ("shard", lambda seed: re.sub(rb"(digest[^0-9a-f]{5})[0-9a-f]{10}", rb"\1\\\\ud800beef", seed)),
        ("draws", lambda seed: b"[{}]"),
        ("draws", lambda seed: seed.replace(b'"test": {', b'"test": {"%s": 1, ' % (b"x" * 9000))),
        ("draws", lambda seed: re.sub(rb'"version": 1', b'"version": "%s"' % (b"x" * 9000), seed)),
        ("plan", lambda seed: b"x" * 9000 + b" = 1" + seed),
        ("safetensors", lambda seed: mutations.join_safetensors("x" * 9000, b"")),
        ("index", _index),
        ("splits", lambda seed: seed.replace(b"1,", b"%d," % 10**400)),
        ("results", lambda seed: _results(seed, "versions", True)),
        ("results", lambda seed: _results(seed, "finished", 1e18)),
        ("results", lambda seed: _results(seed, "accuracy", 10**400)),
        ("results", lambda seed: _results(seed, "accuracy", [0] * 999)),
        ("results", lambda seed: _results(seed, "cell", [])),
        ("results", lambda seed: _results(seed, "cell", {**_CELL, "seed": 2**63})),
        ("results", lambda seed: _results(seed, "cell", {**_CELL, "parameters": {"C": float("nan")}})),
        ("results", lambda seed: seed.replace(b"CREATE TABLE plans", b"CREATE TABLE pl\xba\xbans")),
        ("project", lambda seed: seed.replace(b'"fly"]', b'"ant/ant"]')),
        ("image-model", _image_model(lambda metadata: metadata["images"].update(encoder={"spec": [], "dim": 1}))),
        ("image-model", _image_model(lambda metadata: metadata["images"].update(names=[["ant"], "bee"]))),
    ],
)
def test_what_the_fuzzer_found_is_refused(name, change, tmp_path):
    target = readers.TARGETS[name].start()
    try:
        assert target.once(change(target.seeds(tmp_path)[0])) is False
    finally:
        target.stop()


@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.zeros(1, dtype=torch.int64).expand(10**10),
        lambda torch: torch.ones(3, device="meta"),
        lambda torch: torch.tensor([0, 1, 10**12]),
    ],
)
def test_tensors_that_the_fuzzer_found_are_refused(make, tmp_path, torch):
    file = io.BytesIO()
    torch.save(make(torch), file)
    target = readers.TARGETS["clip-benchmark"].start()
    try:
        assert target.once(file.getvalue()) is False
    finally:
        target.stop()


@pytest.mark.parametrize("old", [b'"change": 1', b'["ant", "fly"]'])
@pytest.mark.parametrize("new", [b'"change": Infinity', b'["ant", "%s"]' % (b"x" * 300), rb'["ant", "\ud800"]'])
def test_a_journal_of_nonsense_is_put_aside(old, new, tmp_path):
    """The project opens, without what could be undone."""
    target = readers.TARGETS["project"].start()
    try:
        assert target.once(target.seeds(tmp_path)[0].replace(old, new)) is False
    finally:
        target.stop()


@pytest.mark.parametrize(
    ("raised", "finding"),
    [
        (KeyError("x"), KeyError),
        (OSError("a.txt"), OSError),
        (ValueError("no name"), AssertionError),
        (ValueError("{folder} " + "x" * 9999), AssertionError),
        (ValueError("{folder} is bad"), None),
    ],
)
def test_what_is_a_finding(raised, finding):
    def read(path):
        raise type(raised)(str(raised.args[0]).replace("{folder}", str(path.parent)))

    target = readers.Target("a.txt", read, (ValueError,), lambda folder: []).start()
    try:
        if finding is None:
            assert target.once(b"") is False
        else:
            with pytest.raises(finding):
                target.once(b"")
    finally:
        target.stop()


@pytest.mark.skipif(find_spec("atheris") is None, reason='needs atheris: pip install -e ".[fuzz]"')
def test_the_fuzzer_tells_what_it_finds(tmp_path, monkeypatch):
    """A defect in the standard library, planted in the fuzzer's process only."""
    (tmp_path / "sitecustomize.py").write_text("import csv\ncsv.reader = lambda *a, **k: 1 / 0\n")
    path = [str(tmp_path), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    command = [sys.executable, "-m", "reliability.fuzzing", "--jobs", "1", "--seconds", "60", "--executions", "500"]
    done = subprocess.run([*command, "csv", "class-names"], capture_output=True, text=True, check=False)
    csv, names = map(json.loads, done.stdout.splitlines())
    assert "ZeroDivisionError" in csv["finding"]
    assert names["finding"] is None
    assert names["executions"] >= 500
    assert done.returncode == 1


# Services -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # httpx2 leaves a socket of half-made TLS to Python.
@pytest.mark.parametrize("name", services.MISBEHAVIOURS)
def test_a_service_that_misbehaves(monkeypatch, name):
    monkeypatch.setenv("LPP_API_KEY", services.KEY)
    result = services.meet(name)
    assert result["refused"] == (name not in services.HARMLESS)


@LINUX
@pytest.mark.parametrize(
    "arguments",
    [("--megabytes", "4"), pytest.param(("--schemathesis", "15"), marks=pytest.mark.slow)],
    ids=["small", "whole"],
)
def test_floods_of_the_service(arguments):
    """No flood may take more than what is sent, for as many requests as the service holds, and their copies."""
    pytest.importorskip("fastapi")
    for result in program("floods", *arguments):
        assert all(400 <= status < 500 for status in result["status"])
        assert result["megabytes taken"] < 64 + 4 * result["megabytes sent"] * min(result["clients"], 4)


# What commands write, and whom they call ------------------------------------------------------------------------------


def test_every_command_is_listed_and_the_page_has_the_list():
    forms = {"train -e https://…", "encoders pull", "sort --move", "sort --undo"}
    assert {*audit.ALLOWED} - forms == {*audit.commands()}
    text = audit.SECURITY.read_text(encoding="utf-8")
    assert text == audit.with_table(text), "python -m reliability.audit --write"


@LINUX
def test_what_commands_write_and_whom_they_call():
    results = program("audit")
    assert [result["command"] for result in results] == [*audit.ALLOWED]
    assert [wrong for result in results for wrong in result["wrong"]] == []


def test_what_is_not_listed_is_noticed():
    found = {
        ("file", "m.lpp"),
        ("file", "m.html"),
        ("host", "127.0.0.1:9"),
        ("program", "sh"),
        ("file", "tmp/abcdefgh"),
    }
    assert audit.judge("add", found) == [
        "lpp add writes m.html", "lpp add calls 127.0.0.1:9", "lpp add runs sh"
    ]  # fmt: skip
    assert audit.judge("pull", {("file", "m.lpp")}) == [
        "lpp pull does not write the hub's cache (`HF_HOME`)", f"lpp pull does not call {audit.HUB}"
    ]  # fmt: skip


# Disks, kills, hours --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux" or io_errors.compiler() is None, reason="needs Linux and a C compiler")
@pytest.mark.parametrize(
    "arguments",
    [("--most", "3", "embed", "suggest", "bench draws"), pytest.param((), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_writes_that_fail(arguments):
    for result in program("io_errors", *arguments):
        assert result["wrong"] == []
        assert result["refused"]["full"] > 0 == result["refused"]["short"]


@LINUX
@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_killed_at_random_moments(count):
    few = ("--commands", "train,bench run") if count < 100 else ()
    results = program("kills", "--count", str(count), *few)
    assert [result["wrong"] for result in results] == [[]] * len(results)
    assert sum(result["kills"] for result in results) >= count
    assert sum(result["let through"] for result in results) > 0


@LINUX
@pytest.mark.parametrize("seconds", [20, pytest.param(1800, marks=pytest.mark.slow)])
def test_fits_in_threads_forks_and_fresh_processes_at_once(seconds):
    result = soak.soak(seconds, pause=0.1)
    assert result["errors"] == result["deadlocks"] == []
    assert result["threads"] >= 3
    assert result["forks"] > 0
    if seconds > 1000:
        assert result["mib_per_hour"] < 5 + 3 * result["standard_error"]


def test_memory_that_grows_is_seen():
    grows = [(t, 100 + t / 36) for t in range(0, 3600, 10)]
    slope, error, first, last = soak.line(grows)
    assert slope == pytest.approx(100, abs=0.1)
    assert error < 0.1
    assert last - first == pytest.approx(70, abs=3)
