"""Fuzzes the readers with atheris, guided by coverage of the package: `python -m reliability.fuzzing --seconds 60`.

Each target is a process of its own, since libFuzzer ends the process; it is forked from this one, which has imported
the package with its counters of branches. The corpus of a target goes on from run to run if a folder is named; inputs
that are findings stay in it. SIGTERM ends all targets, which are counted as far as they came.
"""

import argparse
import gc
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from importlib.util import find_spec
from pathlib import Path

LONGEST_INPUT = 16384
SECONDS_WITHOUT_END = 900
"""Of the clock: on a busy machine a process may wait for minutes."""
MEGABYTES = 2048


def fuzz(target, folder, options, seed):
    """Fuzz one target in this process, which does not come back."""
    import atheris

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as work:
        for number, content in enumerate(target.seeds(Path(work))):
            (folder / f"seed-{number}").write_bytes(content)
    target.start()
    rng = random.Random(seed)  # Once: seeding each time is not free.
    gc.freeze()
    gc.set_threshold(20000)

    def change(content, largest, seed):
        return target.mutate(content, rng)[:largest]

    def once(content):
        target.once(content)

    atheris.Setup([sys.argv[0], *options, str(folder)], once, custom_mutator=change)
    atheris.Fuzz()


class Run:
    """A target being fuzzed in a process."""

    def __init__(self, name, target, corpus, seconds, executions):
        self.name, self.said, self.begun = name, corpus / f"{name}.log", time.time()
        folder = corpus / name
        folder.mkdir(parents=True, exist_ok=True)
        # A run of so many executions can be repeated; one of so many seconds looks elsewhere each time.
        seed = 1 if executions else time.time_ns()
        options = [f"-seed={seed % 2**32}", f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}",
                   f"-timeout={SECONDS_WITHOUT_END}", f"-rss_limit_mb={MEGABYTES}", "-print_final_stats=1",
                   f"-artifact_prefix={corpus}/found-{name}-", "-verbosity=1",
                   *([f"-runs={executions}"] if executions else [])]  # fmt: skip
        self.process = os.fork()
        if not self.process:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Then libFuzzer handles it: it prints its counts and ends.
            output = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            try:
                fuzz(target, folder, options, seed)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)

    def result(self, code):
        """What came of it."""
        said = self.said.read_text(encoding="utf-8", errors="replace")
        counted = re.search(r"stat::number_of_executed_units:\s+(\d+)", said)
        covered = re.findall(r"cov: (\d+)", said)
        return {
            "target": self.name,
            "executions": int(counted.group(1)) if counted else 0,
            "seconds": round(time.time() - self.begun, 1),
            "edges": int(covered[-1]) if covered else 0,
            "finding": said[-3000:] if code and "libFuzzer: run interrupted" not in said else None,
        }


def run_all(targets, names, corpus, chosen):
    """Fuzz targets, some at a time, in rounds until there are enough executions; their results as they come."""
    waiting, running, total = [*names], {}, 0

    def stop(*_):
        names.clear()
        waiting.clear()
        for process in running:
            os.kill(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    while waiting or running:
        while waiting and len(running) < chosen.jobs:
            name = waiting.pop(0)
            run = Run(name, targets[name], corpus, chosen.seconds, chosen.executions)
            running[run.process] = run
        process, status = os.wait()
        result = running.pop(process).result(os.waitstatus_to_exitcode(status))
        total += result["executions"]
        if result["finding"] is not None and result["target"] in names:
            names.remove(result["target"])
        if not waiting and total < chosen.until:
            waiting = [name for name in names if name not in {run.name for run in running.values()}]
        yield result


def main():
    """Fuzz all targets and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--executions", type=int, default=0, help="per target, if they come first")
    parser.add_argument("--until", type=int, default=0, help="executions of all targets; rounds go on until then")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--corpus", type=Path)
    chosen = parser.parse_args()
    if find_spec("atheris") is None:
        sys.exit('fuzzing needs atheris: pip install -e ".[fuzz]"')
    import atheris

    with atheris.instrument_imports(include=["lpplusplus"], enable_loader_override=False):
        from reliability import readers

    failed = False
    work = Path(tempfile.mkdtemp())  # Children are copies of this process: only it removes the folder.
    try:
        names = chosen.targets or list(readers.TARGETS)
        for result in run_all(readers.TARGETS, names, chosen.corpus or work, chosen):
            print(json.dumps(result), flush=True)
            failed |= result["finding"] is not None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
