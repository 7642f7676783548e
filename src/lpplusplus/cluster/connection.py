"""A Ray cluster: the connection, what a worker asks for, and the one map over jobs.

Before anything starts, it is checked that the cluster has what workers ask for. Otherwise Ray would wait for ever,
since a larger node might still join.
"""

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import Any

from .._core.errors import BriefError

RETRIES = 5
"""How often a job is started again if its worker or node was lost; not if the job itself raised an error."""


class ClusterError(BriefError, ValueError):
    """A cluster cannot be reached, or cannot do what is asked of it; the message says what to do."""


@dataclass(frozen=True)
class Slots:
    """Resources of one worker, and how many workers there may be.

    Attributes
    ----------
    cpus, gpus
        For each worker.
    workers
        Most workers at once; None for as many as the cluster has room for.
    """

    cpus: int = 1
    gpus: float = 0.0
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.cpus < 1 or self.gpus < 0 or (self.workers is not None and self.workers < 1):
            raise ClusterError("a worker needs at least one processor, and there must be at least one worker.")

    @property
    def options(self) -> dict[str, Any]:
        """Options of a Ray task."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, "scheduling_strategy": "SPREAD"}

    def check(self) -> int:
        """How many workers the cluster has room for now.

        Raises
        ------
        ClusterError
            If no node has what one worker asks for: the run would wait for ever.
        """
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = [self._room(node) for node in nodes]
        if not any(room):
            most = ", ".join(
                f"{max((node.get(kind, 0) for node in nodes), default=0):g} {what}"
                for kind, what in (("CPU", "processors"), ("GPU", "GPUs"))
            )
            asked = f"{self.cpus} processors" + (f" and {self.gpus:g} GPUs" if self.gpus else "")
            raise ClusterError(
                f"a worker asks for {asked}, but no node of this cluster has them (of {len(nodes)}, the largest has "
                f"{most}), and Ray would wait for ever. Ask for less: --worker-cpus, --worker-gpus."
            )
        return min(sum(room), self.workers or sum(room))

    def _room(self, node: dict[str, float]) -> int:
        room = int(node.get("CPU", 0) // self.cpus)
        return min(room, int(node.get("GPU", 0) // self.gpus + 1e-9)) if self.gpus else room


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """A connection to a cluster: the one at `address`, else at `RAY_ADDRESS`, else a new one on this machine.

    An existing connection is used and left open. Ray's own default is the last cluster started here; if it has ended,
    Ray waits for minutes. So it is used only for the address "auto". What Ray prints about lost nodes goes to standard
    error.
    """
    # As with onnxruntime, no usage statistics are sent. Without GPUs, Ray leaves CUDA's variables alone.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if find_spec("ray") is None:
        raise ImportError('this needs ray: pip install "lpplusplus[ray]"')
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_reachable(address)
    with ExitStack() as stack:
        options: dict[str, Any] = {}
        if address == "local":
            stack.enter_context(_for_us_alone())
            options = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        import ray

        stack.enter_context(redirect_stdout(sys.stderr))  # Until after the shutdown, which prints what is left.
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterError(f"no Ray cluster could be reached or started ({str(error).splitlines()[0]}).") from error
        stack.callback(ray.shutdown)
        yield


@contextmanager
def _for_us_alone() -> Iterator[None]:
    """Settings of a new cluster on this machine. Ray opens its ports to the network, so they need a token of ours."""
    # By default all other processes of this machine have priority over the workers.
    wanted = {"RAY_worker_niceness": "0"}
    # A Ray that is imported already has read its settings, and would not know the token.
    if "ray" not in sys.modules and not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} & os.environ.keys():
        wanted |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    new = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


def _check_reachable(address: str, seconds: float = 5.0) -> None:
    """Refuse an address where nothing listens; Ray would wait for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=seconds).close()
    except OSError as error:
        why = error.strerror or "no answer"
        raise ClusterError(f"no Ray cluster answers at {address} ({why}): start one with `ray start --head`.") from None


def run_tasks(
    function: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    slots: Slots,
    asked: Callable[[tuple[Any, ...]], Slots] | None = None,
) -> Iterator[list[tuple[tuple[Any, ...], Any]]]:
    """Run `function(*job)` for each job on the cluster.

    Parameters
    ----------
    function
        A function of a module that the workers can import.
    jobs
        Arguments of each call. A free worker takes the next; one more for each waits at its node.
    slots
        What a job asks for.
    asked
        What single jobs ask for, if they differ.

    Yields
    ------
    list
        Jobs that have just ended, each with its result or its exception.
    """
    import ray

    remote = ray.remote(max_calls=0)(function)  # Keep the worker and its encoder for the next task, also on a GPU.
    waiting = iter(jobs)
    running: dict[Any, tuple[Any, ...]] = {}
    try:
        while True:
            for job in islice(waiting, max(0, 2 * slots.check() - len(running))):  # Nodes come and go.
                options = (slots if asked is None else asked(job)).options
                running[remote.options(**options, max_retries=RETRIES).remote(*job)] = job
            if not running:
                return
            first, others = ray.wait(list(running), num_returns=1, timeout=5.0)
            ended = first + (ray.wait(others, num_returns=len(others), timeout=0)[0] if first and others else [])
            if ended:
                yield [(running.pop(reference), outcome(reference)) for reference in ended]
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def outcome(reference: Any) -> Any:
    """The result of a call, or the exception that it raised, or one that says that its worker was lost."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception):
            return cause
        return ClusterError(f"a worker was lost {RETRIES + 1} times ({str(error).splitlines()[0]}).")


def sendable(error: Exception, before: str = "") -> ClusterError:
    """An error on a worker, as one that can be sent."""
    said = str(error) if isinstance(error, BriefError | OSError | ImportError) else repr(error)
    return ClusterError(f"{before}{said}")


def limit_threads(cpus: int) -> None:
    """Let joblib, which encoders ask for the number of processors, see only those of this worker."""
    os.environ["LOKY_MAX_CPU_COUNT"] = str(cpus)
