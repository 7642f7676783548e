"""Python runs this at its start where this folder is on the path: it notes what a process writes and whom it calls.

Each event is one line of JSON in the file that LPP_AUDIT names; children of the process note theirs there, too.
"""

import json
import os
import sys

CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NAMELESS = getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY
PLACES = {"os.rename": ((0, 2), (1, 3)), "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),),
          "os.link": ((1, 3),), "os.symlink": ((1, 2),), "os.truncate": ((0, None),), "os.chmod": ((0, 2),),
          "os.utime": ((0, 3),)}  # fmt: skip
"""Which arguments of an event are names of files that it changes, and which the open folder that they are in."""

_notes = os.open(os.environ["LPP_AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _note(*parts):
    os.write(_notes, (json.dumps(parts) + "\n").encode())


def _file(name, folder=-1):
    """Note a file, unless it is a number or nothing happens to it."""
    if isinstance(name, str | bytes | os.PathLike):
        here = os.getcwd() if folder == -1 else os.readlink(f"/proc/self/fd/{folder}")
        _note("file", os.path.abspath(os.path.join(here, os.fsdecode(name))))


def _hook(event, arguments):
    if event == "open":
        name, _, flags = arguments
        if flags & CHANGES and not flags & NAMELESS:
            _file(name)
    elif event in PLACES:
        for name, folder in PLACES[event]:
            if event != "os.mkdir" or not os.path.isdir(arguments[name]):
                _file(arguments[name], -1 if folder is None else arguments[folder])
    elif event == "sqlite3.connect":
        name, _, options = str(arguments[0]).removeprefix("file://").partition("?")
        if name != ":memory:" and "mode=ro" not in options:
            _file(name)
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[-1]
        _note("host", f"{address[0]}:{address[1]}" if isinstance(address, tuple) else f"unix:{address}")
    elif event == "socket.getaddrinfo":
        _note("host", f"{arguments[0]}:{arguments[1]}")
    elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        _note("program", os.fsdecode(arguments[0]))


sys.addaudithook(_hook)
