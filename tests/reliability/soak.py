"""Fits in threads, in forked and in spawned processes at once, for hours: `python -m reliability.soak --seconds 7200`.

Threads fit all the time. Meanwhile this process forks children that fit, whatever its threads hold at that moment, and
starts fresh ones. Every fit must give the weights that a quiet process gave. Who gives no sign of life for `--patience`
seconds is taken for deadlocked. The memory of this process is measured every few seconds; its slope after a quarter of
the time is what a day would add.
"""

import argparse
import contextlib
import faulthandler
import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from lpplusplus import LPPlusPlus, TipAdapter, fit_many
from tasks import small_task

WARM_UP = 0.25
"""Part of the time that is left out of the slope: caches and the allocator's arenas fill."""


def tasks():
    """A few tasks of different sizes; the last is large enough for several threads in one fit."""
    return [small_task(K, S, D, seed) for seed, (K, S, D) in enumerate(((5, 4, 32), (20, 2, 64), (40, 30, 128)))]


def fits(given):
    """The weights of every kind of fit, in one list."""
    found = [LPPlusPlus().fit(F, y, text=T).coef_ for F, y, T in given[:2]]
    found.append(LPPlusPlus(recipe="paper", updates=20).fit(given[2][0], given[2][1], text=given[2][2]).coef_)
    found.append(TipAdapter().fit(given[0][0], given[0][1], text=given[0][2]).predict_proba(given[0][0]))
    F, y, T = given[2]
    supports = [np.concatenate([np.flatnonzero(y == k)[start::10] for k in range(40)]) for start in range(4)]
    quick = LPPlusPlus(recipe="paper", updates=10)
    return found + [one.coef_ for one in fit_many(F, y, supports, text=T, estimator=quick, n_jobs=2)]


def check(found, expected):
    """Raise unless all weights are those of the quiet process."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def spawned(connection):
    """In a fresh process: fit, and send the weights."""
    connection.send(fits(tasks()))


class Life:
    """Signs of life of a process, or of one thread of it: it used the processor, or waits for one or for the disk.

    A deadlock is the absence of these, not of time: on a busy machine a fit may take minutes.
    """

    def __init__(self, process, thread=None):
        self.tasks = Path(f"/proc/{process}/task")
        self.thread, self.used, self.last = thread, None, time.monotonic()

    def silent(self):
        """Seconds since the last sign."""
        used, waits = 0, False
        for task in [self.tasks / str(self.thread)] if self.thread else list(self.tasks.iterdir()):
            with contextlib.suppress(OSError):
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                used, waits = used + int(fields[11]) + int(fields[12]), waits or fields[0] in "RD"
        if waits or used != self.used:
            self.used, self.last = used, time.monotonic()
        return time.monotonic() - self.last


class Soak:
    """Counts, and what went wrong."""

    def __init__(self, patience):
        self.patience = patience
        self.given = tasks()
        self.expected = fits(self.given)
        self.counts = {"threads": 0, "forks": 0, "spawned": 0}
        self.errors, self.deadlocks = [], []
        self.samples = []
        self.stop = threading.Event()
        self.lives = {}
        self.start = time.monotonic()

    def thread(self, name, pause):
        """Fit until told to stop."""
        self.lives[name] = Life(os.getpid(), threading.get_native_id())
        while not self.stop.is_set() and not self.errors:
            try:
                check(fits(self.given), self.expected)
            except BaseException as error:
                self.errors.append(f"{name}: {error!r}"[:500])
                return
            self.counts["threads"] += 1
            self.stop.wait(pause)
        self.lives.pop(name, None)

    def fork(self):
        """A child that fits, while the threads go on; it must end well and in time."""
        child = os.fork()
        if not child:
            code = 1
            try:
                check(fits(self.given), self.expected)
                code = 0
            finally:
                os._exit(code)
        life = Life(child)
        while life.silent() < self.patience:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                if status:
                    self.errors.append(f"a forked child ended with status {status}")
                self.counts["forks"] += 1
                return
            time.sleep(0.05)
        os.kill(child, 9)
        os.waitpid(child, 0)
        self.deadlocks.append(f"a forked child after {self.patience} s")

    def spawn(self):
        """A fresh process that fits."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=spawned, args=(there,))
        process.start()
        there.close()
        try:
            life = Life(process.pid)
            while not here.poll(1.0) and life.silent() < self.patience:
                pass
            if life.silent() < self.patience:
                check(here.recv(), self.expected)
                self.counts["spawned"] += 1
            else:
                self.deadlocks.append(f"a spawned process after {self.patience} s")
                process.kill()
        except (EOFError, AssertionError) as error:
            self.errors.append(f"a spawned process: {error!r}"[:500])
        finally:
            process.join()
            here.close()

    def watch(self):
        """Note the memory, and threads that stand still."""
        self.samples.append((round(time.monotonic() - self.start, 1), rss()))
        for name, life in list(self.lives.items()):
            if life.silent() > self.patience:
                faulthandler.dump_traceback()
                self.deadlocks.append(f"{name}, which stands still")

    def summary(self, seconds):
        """Everything, for JSON."""
        slope, error, first, last = line(self.samples)
        return {
            "seconds": round(time.monotonic() - self.start),
            "of": seconds,
            **self.counts,
            "deadlocks": self.deadlocks,
            "errors": self.errors,
            "mib_per_hour": slope,
            "standard_error": error,
            "mib_after_warm_up": first,
            "mib_at_end": last,
            "samples": self.samples,
        }


def rss():
    """MiB of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGESIZE") / 2**20, 2)


def line(samples):
    """Slope in MiB per hour after the warm-up with its standard error, and the medians of its first and last tenth.

    Neighbouring samples are alike, so the error is that of the slopes of ten blocks' means.
    """
    if len(samples) < 20:
        return None, None, None, None
    times, sizes = np.array(samples).T
    kept = times >= times[0] + WARM_UP * (times[-1] - times[0])
    blocks = [(t.mean() / 3600, s.mean()) for t, s in zip(np.array_split(times[kept], 10),
                                                          np.array_split(sizes[kept], 10), strict=True)]  # fmt: skip
    x, y = np.array(blocks).T
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    rest = y - y.mean() - slope * centred
    error = np.sqrt((rest @ rest) / 8 / (centred @ centred))
    tenth = max(1, kept.sum() // 10)
    return (round(slope, 2), round(error, 2), float(np.median(sizes[kept][:tenth])),
            float(np.median(sizes[kept][-tenth:])))  # fmt: skip


def soak(seconds, *, threads=3, pause=0.5, between=3.0, patience=120.0, tell=lambda summary: None):
    """Run for some seconds; the summary. `tell` gets one now and then."""
    run = Soak(patience)
    workers = [threading.Thread(target=run.thread, args=(f"thread {i}", pause), daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    turn = 0
    while time.monotonic() - run.start < seconds and not run.errors and not run.deadlocks:
        begun = time.monotonic()
        run.watch()
        run.spawn() if turn % 6 == 5 else run.fork()
        turn += 1
        tell(run.summary(seconds))
        time.sleep(max(0.0, min(between, seconds / 20) - (time.monotonic() - begun)))
    run.stop.set()
    for worker in workers:
        worker.join(patience)
        if worker.is_alive():
            run.deadlocks.append(f"{worker.name} did not stop")
    run.watch()
    return run.summary(seconds)


def main():
    """Run, and write the summary as JSON, anew every minute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds that a thread rests between fits")
    parser.add_argument("--patience", type=float, default=120)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    written = 0.0

    def tell(summary):
        nonlocal written
        if chosen.output and time.monotonic() - written > 60:
            write(chosen.output, summary)
            written = time.monotonic()

    result = soak(chosen.seconds, threads=chosen.threads, pause=chosen.pause, patience=chosen.patience, tell=tell)
    if chosen.output:
        write(chosen.output, result)
    print(json.dumps({key: value for key, value in result.items() if key != "samples"}))
    sys.exit(1 if result["errors"] or result["deadlocks"] else 0)


def write(path, summary):
    """Replace a file by the summary."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(summary))
    temporary.replace(path)


if __name__ == "__main__":
    main()
