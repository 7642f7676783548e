"""Every write of every command that writes fails once, in four ways: `python -m reliability.io_errors`.

A library loaded before libc (failing_disk.c) counts opens, writes, syncs, renames and new folders below the folder of a
command's output, and lets one of them fail. The command runs in a forked child of this process, which has imported the
package, so that a thousand commands take minutes.
"""

import argparse
import ctypes
import errno
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("failing_disk.c")
FAULTS = {
    "full": (errno.ENOSPC, True, False),
    "error": (errno.EIO, False, False),
    "read-only": (errno.EROFS, True, False),
    "short": (0, False, True),
}
"""Errno, whether it stays so, and whether a write only writes half instead of failing."""
OTHERS = re.compile(r"tmp/[a-z0-9_]{8}|home/hub/.*/((refs|trees)/.*|blobs/tmp_[^/]*)")
"""What others may leave or lack: the file that Python tries a temporary folder with, and notes of the hub's client."""


@dataclass
class Case:
    """A command, the folder that it writes to, and what is there before."""

    command: list
    before: Path
    may_differ: tuple = ()
    """Files that two runs write differently; they are compared by `same`."""
    sample: int = 0
    """How many of its steps fail, evenly spread; all if 0."""
    once: bool = False
    """Whether it writes to a new folder only, so that a run that has ended well is not repeated."""
    environment: dict = field(default_factory=dict)
    theirs: str = "f/"
    """Start of the names of files that another program or the next run completes; they are judged by that run."""
    litter: tuple = ()
    """Ends of the names of files there that the other program may leave or lack; it does not read them."""


def compiler():
    """A C compiler, or None."""
    return shutil.which("gcc") or shutil.which("cc")


def build(folder):
    """Compile the library."""
    library = Path(folder) / "failing_disk.so"
    subprocess.run([compiler(), "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


PLAN = """
datasets = ["made"]
encoders = ["one"]
methods = ["Zero-shot", "Tip-Adapter"]
shots = [1]
draws = {tasks}

[dataset.made]
folder = "made"
reader = "feature-file"
files = {{ one = "one.npz" }}
"""


def prepare(root):
    """Inputs and old outputs of every command, made by the commands themselves; the cases."""
    import numpy as np

    from commands import lpp
    from lpplusplus.images.drawings import write_demo
    from tasks import small_task

    for name, count, seed in (("photos", 3, 1), ("old", 2, 3), ("test", 2, 2)):
        write_demo(root / name, count, size=48, seed=seed)
        for other in sorted((root / name).iterdir())[3:]:
            shutil.rmtree(other)
    (root / "made").mkdir()
    X, y, T = small_task(4, 6, 16, 0)
    np.savez(root / "made/one.npz", images=X.astype(np.float32), labels=y, text=T.astype(np.float32))
    for tasks in (1, 2):
        (root / f"plan{tasks}.toml").write_text(PLAN.format(tasks=tasks))
    before = {}
    first = sorted(folder.name for folder in (root / "old").iterdir())[0]
    grown = {
        "add": ["add", root / "m.lpp", root / "test"],
        "remove": ["remove", root / "m.lpp", first],
        "rename": ["rename", root / "m.lpp", first, "thing"],
        "merge": ["merge", root / "m.lpp", root / "n.lpp"],
    }
    names = (
        "train",
        "embed",
        "evaluate",
        *grown,
        "export",
        "check",
        "suggest",
        "bench run",
        "bench draws",
        "bench report",
        "demo",
    )
    for name in names:
        before[name] = root / "before" / name.replace(" ", "-")
        before[name].mkdir(parents=True)
    small = ("-e", "drawings")
    bench = ("bench", "run", "--root", root, "-j", 1)
    old = before["train"]
    lpp("train", root / "old", *small, "-o", old / "m.lpp", "--report", old / "r.html")
    shutil.copy(before["train"] / "m.lpp", root / "m.lpp")
    lpp("train", root / "test", *small, "-o", root / "n.lpp")
    for name in grown:
        shutil.copy(root / "m.lpp", before[name] / "m.lpp")
    lpp("export", root / "n.lpp", "--head-only", "-o", before["export"] / "m.onnx")
    lpp("check", root / "old", *small, "--report", before["check"] / "r.html")
    old = before["evaluate"]
    lpp("evaluate", root / "m.lpp", root / "old", "--plots", old / "p", "--report", old / "r.html")
    lpp(*bench, root / "plan1.toml", "-o", before["bench run"] / "r")
    lpp(*bench, root / "plan2.toml", "-o", root / "r")
    lpp("bench", "draws", before["bench run"] / "r", "-o", before["bench draws"] / "d.json")
    lpp("bench", "report", before["bench run"] / "r", "-f", "csv", "-o", before["bench report"] / "r")
    now = root / "now"
    return {
        "train": Case(
            ["train", root / "photos", *small, "-o", now / "m.lpp", "--store", now / "f", "--report", now / "r.html"],
            before["train"],
        ),
        "embed": Case(["embed", root / "photos", *small, "-o", now / "f"], before["embed"]),
        "evaluate": Case(
            ["evaluate", root / "m.lpp", root / "test", "--plots", now / "p", "--report", now / "r.html"],
            before["evaluate"],
        ),
        **{name: Case([*command, "-o", now / "m.lpp"], before[name]) for name, command in grown.items()},
        "export": Case(["export", root / "m.lpp", "-o", now / "m.onnx"], before["export"]),
        "check": Case(["check", root / "photos", *small, "--report", now / "r.html"], before["check"]),
        "suggest": Case(
            ["suggest", root / "m.lpp", root / "photos", "--count", 4, "--copy", now / "s"],
            before["suggest"],
            once=True,
        ),
        "bench run": Case([*bench, root / "plan2.toml", "-o", now / "r"], before["bench run"], ("r/results.sqlite",)),
        "bench draws": Case(["bench", "draws", root / "r", "-o", now / "d.json"], before["bench draws"]),
        "bench report": Case(["bench", "report", root / "r", "-f", "csv", "-o", now / "r"], before["bench report"]),
        "demo": Case(["demo", "--keep", now / "d"], before["demo"], sample=8, theirs="d/", once=True),
    }


def prepare_hub(root, servers):
    """Commands that write what a hub sends, or a copy to send; the hub's client keeps files in the output folder."""
    from hub_server import hub
    from lpplusplus.encoders.named_models import FOLDERS

    token, commit, now, cases = "hf_token", "c" * 40, root / "now", {}
    settings = {"HF_HOME": now / "home", "TMPDIR": now / "tmp", "HF_TOKEN": token, "HF_HUB_DISABLE_XET": 1,
                "HF_HUB_DISABLE_TELEMETRY": 1, "HF_HUB_DISABLE_PROGRESS_BARS": 1, "NO_PROXY": "127.0.0.1"}  # fmt: skip
    (root / "hub").mkdir()
    before = root / "before/hub"
    (before / "tmp").mkdir(parents=True)
    (before / "tmp/kept").touch()  # Else the folder would not be there.
    shutil.copy(root / "n.lpp", before / "m.lpp")
    shutil.copy(root / "m.lpp", root / "hub/model.safetensors")
    own = servers.enter_context(hub("me/birds", commit, root / "hub", token))[0]
    others = servers.enter_context(hub("someone/tiny", commit, FOLDERS["drawings"]))[0]
    for name, address, command in (
        ("push", own, ["push", root / "m.lpp", "me/birds"]),
        ("pull", own, ["pull", "me/birds", "-o", now / "m.lpp"]),
        ("encoders pull", others, ["encoders", "pull", "onnx:someone/tiny"]),
    ):
        environment = {key: str(value) for key, value in (settings | {"HF_ENDPOINT": address}).items()}
        cases[name] = Case(command, before, environment=environment, theirs="home/",
                           litter=(".incomplete", "CACHEDIR.TAG"))  # fmt: skip
    return cases


def rows(path):
    """What a results file holds, but for times."""
    from lpplusplus.bench.results import Results

    results = Results(path.parent, create=False)
    return sorted((row.cell.key, row.status, row.accuracy, row.draw) for row in results.rows())


class Trials:
    """Runs commands in forked children of this process, which the library was loaded into."""

    def __init__(self, root):
        self.root, self.now = root, root / "now"
        self.disk = ctypes.CDLL(None)
        self.shared = mmap.mmap(-1, 4096)

    def run(self, case, step=0, fault="full", fresh=True):
        """Status, what it said, number of steps and the one that failed."""
        from commands import _become

        if fresh:
            shutil.rmtree(self.now, ignore_errors=True)
            shutil.copytree(case.before, self.now)
        self.shared[:] = bytes(4096)
        said = {name: str(self.root / name) for name in ("out", "err")}
        for path in said.values():
            Path(path).write_bytes(b"")
        child = os.fork()
        if not child:
            number, stays, half = FAULTS[fault]
            address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.shared)))
            self.disk.disk_arm(os.fsencode(self.now), step, number, int(stays), int(half), address)
            os.environ |= case.environment
            tempfile.tempdir = None
            _become({"command": [str(part) for part in case.command], "cwd": str(self.root), **said})
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        steps = int.from_bytes(self.shared[:4], "little")
        return code, Path(said["err"]).read_text("utf-8", "replace"), steps, self.shared[4:].split(b"\0")[0].decode()

    def files(self):
        """Everything in the folder of the output."""
        from toy_images import contents

        return {name: value for name, value in contents(self.now).items() if not name.endswith((".lock", "-journal"))}

    def differences(self, case, found, wanted):
        """Names of files that are not as wanted."""
        names = {name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)}
        names = {name for name in names - set(case.may_differ) if not name.endswith(case.litter)}
        return {name for name in names if not OTHERS.fullmatch(name)}


def is_temporary(name):
    """Whether a file is one that `atomic_write` left since it could not be removed."""
    return Path(name).name.startswith(".") and name.endswith(".tmp")


def check(trials, case, expected, expected_rows, step, fault):
    """Let one step fail; raise AssertionError for what must not be. Returns whether the command refused."""
    old = {path.relative_to(case.before).as_posix(): path.read_bytes() for path in case.before.rglob("*")
           if path.is_file() and not path.name.endswith(".lock")}  # fmt: skip
    code, said, _, failed = trials.run(case, step, fault)
    where = f"step {step} ({failed}), {fault}: status {code}, {said!r}"
    found = trials.files()
    assert "Traceback" not in said, f"a traceback; {where}"
    assert "this is a bug" not in said, where
    if fault == "read-only":
        found = {name: value for name, value in found.items() if not is_temporary(name) and not OTHERS.fullmatch(name)}
    for name, value in found.items():
        if name in case.may_differ or name.startswith(case.theirs):
            continue  # Stores and results are judged by what the next run makes of them.
        assert value in (old.get(name), expected.get(name)), f"{name} is neither old nor complete; {where}"
    assert not [name for name in found if is_temporary(name)], f"half a file is left: {sorted(found)}; {where}"
    lost = [name for name in old if name not in found and not name.startswith(case.theirs)]
    assert not lost, f"{lost} are gone; {where}"
    if code == 0:
        assert not trials.differences(case, found, expected), f"said to be done, but it is not; {where}"
    else:
        assert code in (1, 2), where
        assert str(trials.now) in said, f"no file is named; {where}"
    if fault == "short":
        assert code == 0, f"a short write is no error; {where}"
    for name in case.may_differ:
        if (trials.now / name).exists():
            assert set(rows_of(case, name)) <= set(rows(trials.now / name)) <= set(expected_rows), where
    refused = code != 0
    if case.once and (not refused or fault == "read-only"):  # Nobody can empty a folder that is read-only.
        return refused
    code, said, _, _ = trials.run(case, fresh=False)  # And again, on a sound disk.
    assert code == 0, f"the next run fails: {said!r}; {where}"
    again = {name: value for name, value in trials.files().items() if not (fault == "read-only" and is_temporary(name))}
    wrong = trials.differences(case, again, expected)
    assert not wrong, f"after the next run {sorted(wrong)} are not as they should be; {where}"
    for name in case.may_differ:
        assert rows(trials.now / name) == expected_rows, where
    return refused


def rows_of(case, name):
    """Rows that were there before."""
    return rows(case.before / name)


def inject(trials, name, case, faults, most=0):
    """Let every step of a command fail in every way; counts, and what was wrong."""
    code, said, steps, _ = trials.run(case)
    assert code == 0, said
    expected = trials.files()
    expected_rows = next((rows(trials.now / file) for file in case.may_differ), [])
    chosen = range(1, steps + 1)
    few = most or case.sample
    if few and few < steps:
        chosen = sorted({1 + round(i * (steps - 1) / (few - 1)) for i in range(few)})
    injected, refused, wrong = Counter(), Counter(), []
    for fault in faults:
        for step in chosen:
            injected[fault] += 1
            try:
                refused[fault] += check(trials, case, expected, expected_rows, step, fault)
            except AssertionError as error:
                wrong.append(str(error)[:1500])
    return {"command": name, "steps": steps, "injected": dict(injected), "refused": dict(refused), "wrong": wrong}


def main():
    """Compile, start again with the library, and print a line of JSON for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--most", type=int, default=0, help="steps per command; by default all")
    chosen = parser.parse_args()
    if "failing_disk" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            if sys.platform != "linux" or compiler() is None:
                sys.exit("needs Linux and a C compiler")
            environment = {**os.environ, "LD_PRELOAD": str(build(folder)), "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
            command = [sys.executable, "-m", "reliability.io_errors", *sys.argv[1:]]
            sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    import lpplusplus.bench.report
    import lpplusplus.bench.runner
    import lpplusplus.cli.lpp
    import lpplusplus.images
    import lpplusplus.images.evaluation  # noqa: F401

    failed = 0
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder, ExitStack() as servers:
        root = Path(folder)
        trials, cases = Trials(root), prepare(root)
        cases |= prepare_hub(root, servers)
        for name in chosen.commands or cases:
            result = inject(trials, name, cases[name], chosen.faults.split(","), chosen.most)
            print(json.dumps(result), flush=True)
            failed += len(result["wrong"])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
