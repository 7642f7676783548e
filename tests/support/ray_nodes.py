"""Clusters of several nodes on this machine, for tests and benchmarks; every process of theirs ends with the block."""

import os
import shutil
import tempfile
from contextlib import contextmanager


@contextmanager
def nodes(count, cpus=1, pinned=False):
    """A cluster of so many nodes with so many logical processors each; `ray` itself is not connected to it.

    If `pinned`, each node has a real core for itself, as far as there are cores.
    """
    folder = tempfile.mkdtemp(prefix="lppray")  # Short: Ray makes sockets in it.
    before = dict(os.environ)
    os.environ.update(RAY_TMPDIR=folder, RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
                      RAY_worker_niceness="0",  # Else workers give way to everything else on this machine.
                      RAY_memory_monitor_refresh_ms="0")  # Else they die for memory that others take.  # fmt: skip
    os.environ.pop("RAY_ADDRESS", None)
    from ray.cluster_utils import Cluster

    settings = {"num_cpus": cpus, "object_store_memory": 100_000_000}
    cores = sorted(os.sched_getaffinity(0)) if pinned else []
    cluster = Cluster()
    try:
        for number in range(count):
            if pinned:
                os.sched_setaffinity(0, {cores[number % len(cores)]})  # What is started now inherits it.
            cluster.add_node(**settings, **({} if number else {"include_dashboard": False}))
        cluster.others = list(cluster.worker_nodes)
        if pinned:
            os.sched_setaffinity(0, cores)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)
