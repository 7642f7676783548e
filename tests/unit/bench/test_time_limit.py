"""A limit on the time of a cell."""

import contextlib
import signal
import time

import pytest

from lpplusplus.bench.run_cell import time_limit

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no such signal here")


def test_what_is_in_time_is_left_alone():
    with time_limit(60), pytest.raises(KeyError):
        raise KeyError
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@contextlib.contextmanager
def importing():
    try:
        yield
    except TimeoutError:
        raise ImportError("cannot import it") from None


def test_late_is_late_whatever_is_made_of_it():
    with pytest.raises(TimeoutError, match=r"longer than 0\.01 s") as found, time_limit(0.01), importing():
        time.sleep(60)
    assert isinstance(found.value.__cause__, ImportError)
    with pytest.raises(TimeoutError), time_limit(0.01), contextlib.suppress(Exception):
        time.sleep(60)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
