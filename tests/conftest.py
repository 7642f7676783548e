"""Tests run on one BLAS thread: they are small, and two test runs then do not slow each other down."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    with threadpool_limits(1, user_api="blas"):
        yield
