"""Fuzzes the readers with atheris, guided by coverage of the package: `python -m reliability.fuzzing --seconds 60`.

Each target is a process of its own, since libFuzzer ends the process. The corpus of a target goes on from run to run
if a folder is named; inputs that are findings stay in it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

LONGEST_INPUT = 16384
SECONDS_PER_INPUT = 20
MEGABYTES = 2048


def fuzz(name, arguments):
    """Fuzz one target in this process, which does not come back."""
    import atheris

    with atheris.instrument_imports(include=["lpplusplus"], enable_loader_override=False):
        from reliability import readers
    import gc
    import random
    import warnings

    warnings.simplefilter("ignore")
    target = readers.TARGETS[name].start()
    rng = random.Random(time.time_ns())  # Findings are kept, so a run need not repeat; seeding each time is not free.
    gc.freeze()
    gc.set_threshold(20000)

    def change(content, largest, seed):
        return target.mutate(content, rng)[:largest]

    def once(content):
        target.once(content)

    atheris.Setup([sys.argv[0], *arguments], once, custom_mutator=change)
    atheris.Fuzz()


def run(name, corpus, seconds, executions):
    """Fuzz one target in a process; what came of it."""
    folder = Path(corpus) / name
    folder.mkdir(parents=True, exist_ok=True)
    from reliability import readers

    with tempfile.TemporaryDirectory() as work:
        for number, content in enumerate(readers.TARGETS[name].seeds(Path(work))):
            (folder / f"seed-{number}").write_bytes(content)
    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", f"-timeout={SECONDS_PER_INPUT}",
               f"-rss_limit_mb={MEGABYTES}", "-print_final_stats=1", f"-artifact_prefix={folder.parent}/found-{name}-",
               "-verbosity=1", *([f"-runs={executions}"] if executions else []), str(folder)]  # fmt: skip
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "reliability.fuzzing", "--one", name, "--", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    counted = re.search(r"stat::number_of_executed_units:\s+(\d+)", done.stdout)
    covered = re.findall(r"cov: (\d+)", done.stdout)
    finding = None
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if not line.startswith(("INFO: Instr", "WARNING: Failed"))]
        finding = "\n".join(said)[-3000:]
    return {
        "target": name,
        "executions": int(counted.group(1)) if counted else 0,
        "seconds": round(time.time() - start, 1),
        "edges": int(covered[-1]) if covered else 0,
        "finding": finding,
    }


def main():
    """Fuzz all targets, some at a time, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--executions", type=int, default=0, help="per target, if they come first")
    parser.add_argument("--until", type=int, default=0, help="executions of all targets; rounds go on until then")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        fuzz(chosen.one, chosen.targets)
    if find_spec("atheris") is None:
        sys.exit('fuzzing needs atheris: pip install -e ".[fuzz]"')
    from reliability import readers

    failed, total = 0, -1
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(chosen.jobs) as pool:
        corpus = chosen.corpus or work
        names = chosen.targets or list(readers.TARGETS)
        while total < chosen.until and names:
            for result in pool.map(lambda name: run(name, corpus, chosen.seconds, chosen.executions), names):
                print(json.dumps(result), flush=True)
                total = max(total, 0) + result["executions"]
                if result["finding"] is not None:
                    failed += 1
                    names = [name for name in names if name != result["target"]]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
