"""Kills commands at random moments: `python -m reliability.kills --count 1000`.

With SIGKILL or SIGTERM, the whole group of processes or the first one only. After each kill every file must be the old
or the new one, complete, and no process may be left after some seconds. The next run starts from what the killed one
left; every fifth is let through, and must end with what an undisturbed run gives and with no file besides.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from reliability.io_errors import is_temporary, prepare, rows

SHARES = {"train": 0.25, "embed": 0.25, "evaluate": 0.15, "add": 0.15, "bench run": 0.15, "bench run -j 2": 0.05}
"""Parts of all kills."""
LET_THROUGH = 5
SECONDS_TO_END = 60.0
"""For processes of a command to end after its first one was killed; they look once a second."""
STARVED = 10
"""Times longer if they want to run and get no processor."""


def session(leader):
    """States of the processes, other than zombies, in the session that a process began, by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, its = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # It has ended meanwhile.
            if int(its) == leader and state != "Z":
                found[int(entry.name)] = state
    return found


def used(process):
    """Seconds of the processor that a process and its children have had: a busy machine does not change it much."""
    try:
        own = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0.0
    return (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK") + sum(map(used, children))


class Killer:
    """Runs commands in sessions of their own, from this process, which has imported the package."""

    def __init__(self, root, rng):
        self.root, self.now, self.rng = root, root / "now", rng
        self.scratch = root / "scratch"

    def start(self, case):
        """The command, as a child."""
        from commands import _become

        child = os.fork()
        if not child:
            os.setsid()
            os.environ |= {"TMPDIR": str(self.scratch), "JOBLIB_TEMP_FOLDER": str(self.scratch)}
            tempfile.tempdir = None
            said = {name: str(self.root / name) for name in ("out", "err")}
            for path in said.values():
                Path(path).write_bytes(b"")
            _become({"command": [str(part) for part in case.command], "cwd": str(self.root), **said})
        return child

    def finish(self, case):
        """Let it run to its end; the seconds of the processor that it took."""
        _, status, usage = os.wait4(self.start(case), 0)
        code = os.waitstatus_to_exitcode(status)
        assert code == 0, f"status {code}: {(self.root / 'err').read_text()}"
        return usage.ru_utime + usage.ru_stime

    def kill(self, case, typical):
        """Kill it after a part of the seconds that it takes; how, and how long its last process was there.

        It had ended before if there is no word on how.
        """
        child = self.start(case)
        while os.getpgid(child) != child:  # Until then there is no group to kill.
            time.sleep(0.001)
        moment, done = self.rng.uniform(0, typical), 0
        while not done and used(child) < moment:
            time.sleep(0.002)
            done, _ = os.waitpid(child, os.WNOHANG)
        time.sleep(self.rng.uniform(0, 0.01))  # Between two ticks of the clock.
        number = self.rng.choice((signal.SIGKILL, signal.SIGTERM))
        whole = self.rng.random() < 0.5
        if done or os.waitpid(child, os.WNOHANG)[0]:
            return "", 0.0
        (os.killpg if whole else os.kill)(child, number)
        begun = time.monotonic()
        while (left := session(child)) or not done:
            done = done or os.waitpid(child, os.WNOHANG)[0]
            if time.monotonic() - begun > SECONDS_TO_END * (STARVED if "R" in left.values() else 1):
                os.killpg(child, signal.SIGKILL)
                raise AssertionError(f"{left or 'the first process'} left after {number.name}")
            time.sleep(0.02)
        return f"{number.name} of the {'group' if whole else 'first process'}", time.monotonic() - begun


def whole_files(case, now, expected):
    """Raise unless each file is as before or as it will be; stores and results are judged by their readers."""
    from lpplusplus.images.store import FeatureStore, StoreError

    for path in now.rglob("*"):
        name = path.relative_to(now).as_posix()
        if not path.is_file() or is_temporary(name) or name.endswith((".lock", "-journal")):
            continue
        if name.startswith("f/") or name in case.may_differ:
            continue
        old = case.before / name
        assert path.read_bytes() in (expected[name], old.read_bytes() if old.exists() else None), f"{name} is damaged"
    for name in expected:
        if not name.startswith("f/") and (case.before / name).exists():
            assert (now / name).exists(), f"{name} is gone"
    if (now / "f/index.json").exists():  # Before it is written, there is no store yet.
        try:
            FeatureStore(now / "f").load()
        except StoreError as error:
            if "incomplete" not in str(error):
                raise AssertionError(f"the store is not sound: {error}") from error


def undisturbed(killer, case):
    """What one run that nobody kills leaves, and how long it took."""
    from toy_images import contents

    shutil.rmtree(killer.now, ignore_errors=True)
    shutil.copytree(case.before, killer.now)
    seconds = killer.finish(case)
    return contents(killer.now), seconds


def torture(killer, name, case, count):
    """Kill a command `count` times; counts, and what was wrong."""
    from toy_images import contents

    expected, typical = undisturbed(killer, case)
    wanted = next((rows(killer.now / file) for file in case.may_differ), None)
    kept = set(map(tuple, next((rows(case.before / file) for file in case.may_differ), [])))
    how, wrong, longest, killed, complete, left_over = Counter(), [], 0.0, 0, 0, Counter()
    fresh = True
    while killed < count:
        if fresh:
            shutil.rmtree(killer.now)
            shutil.copytree(case.before, killer.now)
            fresh, held = False, kept
        try:
            manner, seconds = killer.kill(case, typical)
            killed += bool(manner)
            how[manner or "ended before"] += 1
            longest = max(longest, seconds)
            whole_files(case, killer.now, expected)
            for file in case.may_differ:
                have = set(rows(killer.now / file))
                assert held <= have <= set(wanted), "rows were lost"
                held = have
            if killed % LET_THROUGH and manner:
                continue
            if manner:
                typical = 0.5 * typical + 0.5 * killer.finish(case)
            found = contents(killer.now)
            odd = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
            odd -= set(case.may_differ)
            left_over.update(Path(key).suffix for key in odd if is_temporary(key))
            assert not odd, f"after the next run {sorted(odd)} are not as they should be"
            assert wanted is None or rows(killer.now / case.may_differ[0]) == wanted, "other results"
            rest = list(killer.scratch.rglob("*"))
            assert not rest, f"{len(rest)} temporary files outside, such as {rest[0].name}"
            complete += 1
        except AssertionError as error:
            wrong.append(f"{dict(how)}: {error}"[:800])
            shutil.rmtree(killer.scratch)
            killer.scratch.mkdir()
        fresh = True
    return {"command": name, "kills": killed, "how": dict(how), "let through": complete, "seconds of a run":
            round(typical, 2), "last process gone after": round(longest, 2), "wrong": wrong}  # fmt: skip


def batches(count, names):
    """Commands in turn with numbers of kills, so that a run that is stopped has some of each."""
    whole = sum(SHARES[name] for name in names)
    left = {name: max(1, round(SHARES[name] / whole * count)) for name in names}
    while any(left.values()):
        for name in names:
            some = min(left[name], 20)
            left[name] -= some
            if some:
                yield name, some


def main():
    """Print a line of JSON for each batch of a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", default=",".join(SHARES))
    chosen = parser.parse_args()
    import lpplusplus.bench.report
    import lpplusplus.bench.runner
    import lpplusplus.cli.lpp
    import lpplusplus.images
    import lpplusplus.images.evaluation  # noqa: F401

    failed = 0
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        root = Path(folder)
        cases = prepare(root)
        run = cases["bench run"]
        two = [*run.command]
        two[two.index("-j") + 1] = 2
        cases["bench run -j 2"] = type(run)(two, run.before, run.may_differ)
        killer = Killer(root, random.Random(chosen.seed))
        killer.scratch.mkdir()
        for name, count in batches(chosen.count, chosen.commands.split(",")):
            result = torture(killer, name, cases[name], count)
            print(json.dumps(result), flush=True)
            failed += len(result["wrong"])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
