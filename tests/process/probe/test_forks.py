"""Fits in several threads do not wait for each other, and a process forked meanwhile works like any other."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from lpplusplus import fit_many
from lpplusplus.probe.objective import primal, span
from tasks import small_task

FORK = """
import os, sys, threading, time
import numpy as np
import threadpoolctl
from lpplusplus import LPPlusPlus
from lpplusplus.probe.objective import primal, span

def blas():
    return max(library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas")

rng = np.random.default_rng(0)
X, y, text = rng.standard_normal((40, 30)), np.arange(40) % 4, rng.standard_normal((4, 30))
fit = lambda: LPPlusPlus().fit(X, y, text=text)
threadpoolctl.threadpool_limits(2, user_api="blas")
there, go_on = threading.Event(), threading.Event()
original = span.leading_eigenpairs

def slow(*task):
    if threading.current_thread() is other:
        there.set()
        go_on.wait()
    return original(*task)

primal.leading_eigenpairs = span.leading_eigenpairs = slow
other = threading.Thread(target=fit)
other.start()
there.wait()
assert blas() == 1
child = os.fork()
if child == 0:
    limits = [blas(), fit() and blas()]
    os._exit(0 if limits == [2, 2] else 10 + limits[1])
deadline, status = time.time() + 300, 0
while not (done := os.waitpid(child, os.WNOHANG))[0]:
    if time.time() > deadline:
        os.kill(child, 9)
        os.waitpid(child, 0)
        go_on.set()
        sys.exit("the child hangs")
    time.sleep(0.01)
go_on.set()
other.join()
assert blas() == 2
sys.exit(os.waitstatus_to_exitcode(done[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_thread_fits_can_fit_with_all_its_threads():
    code = f"import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n{FORK}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, "")


HOLDER = """
import os, sys, threadpoolctl
from lpplusplus._core.threads import single_threaded_blas

def blas():
    return max(library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas")

threadpoolctl.threadpool_limits(2, user_api="blas")
with single_threaded_blas():
    child = os.fork()
    inside = blas()
if child == 0:
    os._exit(0 if (inside, blas()) == (1, 2) else 3)
assert (inside, blas()) == (1, 2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_thread_that_forks_keeps_its_own_limit_in_the_child():
    result = subprocess.run([sys.executable, "-c", HOLDER], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("shape", [(4, 8, 200), (4, 60, 20)], ids=["in the span", "on the weights"])
def test_threads_of_fit_many_decompose_at_once(shape, monkeypatch):
    X, y, T = small_task(*shape, seed=0)
    both = threading.Barrier(2)
    original = primal.leading_eigenpairs

    def meet(*task):
        both.wait(timeout=300)  # Raises unless both threads are here.
        return original(*task)

    for form in (primal, span):
        monkeypatch.setattr(form, "leading_eigenpairs", meet)
    probes = fit_many(X, y, [np.arange(len(y))] * 2, text=T, n_jobs=2)
    assert (probes[0].coef_ == probes[1].coef_).all()
