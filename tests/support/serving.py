"""`lpp serve` and its like in a process of their own, for tests that talk to them."""

import contextlib
import json
import signal
import subprocess

from commands import LPP, environment


class Served:
    """A running service; `stop` ends it as a service manager does and gives what it printed on standard error."""

    def __init__(self, process):
        self.process = process
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.stderr.read())
        self.address = json.loads(line)["address"]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=600)
        return complaints


def served(command, *arguments, **variables):
    """Start `lpp COMMAND …` on any free port and wait until it tells its address."""
    return in_background(command, *arguments, "--port", "0", **variables)


@contextlib.contextmanager
def in_background(*arguments, cwd=None, program=LPP, **variables):
    """Start a service of `lpp`, or of what stands for it, and wait until it tells its address."""
    line = [*program, *(str(argument) for argument in arguments), "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(line, env=environment(**variables), cwd=cwd, **pipes) as process:
        try:
            yield Served(process)
        finally:
            if process.poll() is None:
                process.kill()
