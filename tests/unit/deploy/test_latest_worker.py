"""The newest wins: what is superseded is dropped or stopped, errors are told, and the thread ends when it is left."""

import threading

import pytest

from lpplusplus.deploy.latest_worker import LatestWorker

SOON = 30
"""Seconds that nothing here takes; only a test that fails waits for them."""


class Gate:
    """Work that says when it began and waits until it may go on."""

    def __init__(self):
        self.done, self.began, self.go_on = [], threading.Event(), threading.Event()

    def __call__(self, job, still):
        self.began.set()
        assert self.go_on.wait(SOON)
        still()
        self.done.append(job)


def test_jobs_that_were_superseded_are_never_done():
    work = Gate()
    with LatestWorker(work, name="test") as worker:
        worker.want(1)
        assert work.began.wait(SOON)
        for job in (2, 3, 4):
            worker.want(job)
        work.go_on.set()
        assert worker.wait(SOON)
        assert work.done == [4]  # 1 stopped when it asked; 2 and 3 never began.
        worker.want(5)
        assert worker.wait(SOON)
    assert work.done == [4, 5]


def test_work_that_does_not_ask_runs_to_its_end():
    began, go_on, done = threading.Event(), threading.Event(), []

    def work(job, _):
        began.set()
        assert go_on.wait(SOON)
        done.append(job)

    with LatestWorker(work, name="test") as worker:
        worker.want("first")
        assert began.wait(SOON)
        worker.want("second")
        assert not worker.wait(0)
        go_on.set()
        assert worker.wait(SOON)
    assert done == ["first", "second"]


def test_errors_are_kept_and_told_and_the_next_job_is_done():
    told, done = [], []

    def work(job, _):
        if job < 0:
            raise ValueError("less\nthan  nothing")
        done.append(job)

    def on_error(job, sentence):
        told.append((job, sentence))
        if job == -2:
            raise RuntimeError("it cannot be told either")

    with LatestWorker(work, name="test", on_error=on_error) as worker:
        for job in (-1, -2):
            worker.want(job)
            assert worker.wait(SOON)
            assert worker.problem == "less than nothing"
        worker.want(3)
        assert worker.wait(SOON)
        assert worker.problem is None
    assert (told, done) == ([(-1, "less than nothing"), (-2, "less than nothing")], [3])


def test_cancel_drops_what_waits_and_stops_what_runs():
    work = Gate()
    with LatestWorker(work, name="test") as worker:
        worker.want(1)
        assert work.began.wait(SOON)
        worker.want(2)
        worker.cancel()
        work.go_on.set()
        assert worker.wait(SOON)
        assert work.done == []


@pytest.mark.parametrize("busy", [True, False])
def test_leaving_ends_the_thread(busy):
    work = Gate()
    with LatestWorker(work, name="leaving") as worker:
        if busy:
            worker.want(1)
            assert work.began.wait(SOON)
            work.go_on.set()
    assert "leaving" not in {thread.name for thread in threading.enumerate()}
    assert worker.wait(0) or busy


def test_work_that_hangs_does_not_keep_the_program():
    work = Gate()
    with LatestWorker(work, name="test", stop_within=0.01) as worker:
        worker.want(1)
        assert work.began.wait(SOON)
    work.go_on.set()


def test_polling_wants_what_it_finds_and_survives_errors():
    seen, found = threading.Event(), iter([None, OSError("gone"), "changed"])

    def poll():
        item = next(found, None)
        if isinstance(item, Exception):
            raise item
        if item is not None:
            worker.want(item)

    def work(job, _):
        done.append((job, threading.current_thread().name))
        seen.set()

    done, ready = [], []
    worker = LatestWorker(work, name="polling", poll=poll, setup=lambda: ready.append(threading.current_thread().name))
    worker.pause = 0.001
    with worker:
        assert seen.wait(SOON)
    assert done == [("changed", "polling")]
    assert ready == ["polling"]
