"""Runs `lpp` in a process of its own, as a user does: from a fresh interpreter, or quickly.

Quickly means forked from a server (this file, run as a script) that has imported the package once: the same code in a
process of its own with its own folder, standard output, error and exit status, but without two seconds of imports.
"""

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from types import SimpleNamespace

LPP = [sys.executable, "-m", "lpplusplus"]


def environment(**extra):
    """A user's, but with one thread a process: others want the cores too. Output is held back, as for users."""
    mine = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**mine, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **extra}


def run(*arguments, cwd=None, fresh=False, **extra):
    """A command's returncode, stdout and stderr."""
    command = [str(argument) for argument in arguments]
    if fresh or extra or os.name != "posix":
        return subprocess.run(
            [*LPP, *command], capture_output=True, encoding="utf-8", cwd=cwd, env=environment(**extra), check=False
        )
    with tempfile.TemporaryDirectory() as folder:
        files = {"out": f"{folder}/out", "err": f"{folder}/err"}
        server = _server()
        server.stdin.write(json.dumps({"command": command, "cwd": str(cwd or os.getcwd()), **files}) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, err = (Path(files[name]).read_text(encoding="utf-8") for name in ("out", "err"))
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)


def lpp(*arguments, code=0, **options):
    """Run a command; stdout, or stderr if it was to fail with `code`."""
    done = run(*arguments, **options)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def ask(*arguments, **options):
    """Run a command with --json; stdout must be one JSON object and nothing else."""
    return json.loads(lpp(*arguments, "--json", **options))


def complaint(*arguments, **options):
    """Run a command that must fail; standard error must be one line and standard output empty."""
    done = run(*arguments, **options)
    assert done.returncode == 1, done.stderr + done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("lpp: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    for python in ("Error(", "Errno", "<class '", "PosixPath", "this is a bug"):
        assert python not in done.stderr
    return done.stderr


def usage(*arguments):
    """Run a command line that is wrong; what standard error says, boxes and line ends removed."""
    return " ".join(lpp(*arguments, code=2).replace("│", " ").split())


@cache
def _server():
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=pipe, stdout=pipe, encoding="utf-8", env=environment(PYTHONUTF8="1")
    )

    def end():
        process.stdin.close()
        process.wait()
        process.stdout.close()

    atexit.register(end)
    return process


def _serve():
    import tokenizers  # noqa: F401

    import lpplusplus.cli.lpp
    import lpplusplus.images
    import lpplusplus.images.evaluation
    import lpplusplus.probe  # noqa: F401

    gc.freeze()  # Children need not copy what they only look at.
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _become(order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(order):
    """The command, in the place of this process; its exit is the process's."""
    os.chdir(order["cwd"])
    for number, name in enumerate((os.devnull, order["out"], order["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.argv = ["lpp", *order["command"]]
    from lpplusplus.cli import main

    code = 1
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # Taking a large interpreter apart takes longer than most commands.


if __name__ == "__main__":
    _serve()
