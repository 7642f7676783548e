"""The whole suite runs on up to four cores, a file at a time, each test on one thread; a part of it in one process."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # Torch reads it when it is imported.

import pytest
from threadpoolctl import threadpool_limits


def pytest_xdist_auto_num_workers(config):
    """Processes for `-n auto`, which pyproject.toml sets; `pytest -n 0` runs all tests in one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return min(cores, 4) if whole and cores > 1 else 0


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    with threadpool_limits(1, user_api="blas"):
        yield
