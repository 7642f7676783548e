"""What each command of `lpp` writes and whom it calls, under an audit hook: `python -m reliability.audit`.

Each command runs in a process of its own, with a folder of its own. Everything that Python opens for writing, renames
or removes, and every address that it connects to, must be in `ALLOWED`; and all of `ALLOWED` must happen, so that the
list says no more than what is so. The list is the table in SECURITY.md, which `--write` puts there.

Native libraries are not seen: onnxruntime, torch and pyarrow write no files here, and the hub's own transfer is off.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from commands import LPP, environment, lpp
from embedding_service import embedding_service
from helpers import until
from hub_server import hub
from lpplusplus.encoders.named_models import FOLDERS
from reliability.io_errors import PLAN
from serving import in_background

HOOK = Path(__file__).with_name("audit_hook")
SECURITY = Path(__file__).parents[2] / "SECURITY.md"
CACHE = {"the hub's cache (`HF_HOME`)": ["home", "home/*"]}
PLOTS = {"matplotlib's cache": ["matplotlib", "matplotlib/*"]}
JOURNAL = {"the results, if a killed run left a journal": ["*/r/results.sqlite"]}
TEMPORARY = {"a temporary folder, removed": ["tmp/*"]}
REPORT, OUTPUT = {"`--report`": ["r.html"]}, {"`-o`": ["m.lpp"]}
RESULTS = {"`-o`": ["r", "r/*"]}
SERVICE, HUB, STUDIO = "the service that `-e` names", "the hub (`HF_ENDPOINT`)", "the Label Studio that `--url` names"

ALLOWED = {
    "demo": ({"`--keep`": ["d", "d/*"], **PLOTS}, []),
    "app": ({"FOLDER": ["p", "p/*"]}, []),
    "train": ({**OUTPUT, "`--store`": ["f", "f/*"], **REPORT}, []),
    "train -e https://…": ({**OUTPUT}, [SERVICE]),
    "predict": ({}, []),
    "sort": ({"`-o`": ["s", "s/*"]}, []),
    "sort --move": ({"`-o`": ["s", "s/*"], "PHOTOS, which leave": ["card/*"]}, []),
    "sort --undo": ({"FOLDER": ["s", "s/*"], "the places where its photos were": ["card/*"]}, []),
    "evaluate": ({"`--plots`": ["p", "p/*"], **REPORT, **PLOTS}, []),
    "check": (REPORT, []),
    "suggest": ({"`--copy`": ["s", "s/*"]}, []),
    "map": ({"`-o`": ["map.html"]}, []),
    "add": (OUTPUT, []),
    "remove": (OUTPUT, []),
    "rename": (OUTPUT, []),
    "merge": (OUTPUT, []),
    "embed": ({"`-o`": ["f", "f/*"]}, []),
    "inspect": ({}, []),
    "encoders": ({}, []),
    "encoders pull": (CACHE, [HUB]),
    "export": ({"`-o`": ["m.onnx"], "a program and a page beside it": ["m.py", "m.onnx.html"]}, []),
    "serve": ({}, []),
    "push": (TEMPORARY, [HUB]),
    "pull": ({**OUTPUT, **CACHE}, [HUB]),
    "label-studio": ({"MODEL": ["m.lpp"]}, [STUDIO]),
    "bench demo": ({**RESULTS, **PLOTS}, []),
    "bench run": (RESULTS, []),
    "bench report": ({**RESULTS, **PLOTS, **JOURNAL}, []),
    "bench paper": (RESULTS, []),
    "bench datasets": ({}, []),
    "bench draws": ({"`-o`": ["d.json"], **JOURNAL}, []),
}
"""For each command, names of the files that it may change, and the hosts that it may call."""
NOTHING = re.compile(r"tmp/[a-z0-9_]{8}|tmp/torchinductor_\w+|\.|/dev/(null|tty|shm/.*)|/proc/self/.*")
"""The file that Python tries a temporary folder with, torch's empty folder, and what is no file."""
PROGRAMS = (sys.executable, "fc-list", "/sbin/ldconfig")
"""Workers of the benchmark; what matplotlib and torch ask for the fonts and libraries of this machine."""


def commands():
    """The names of all commands."""
    from typer.main import get_command

    from lpplusplus.cli.lpp import app

    found = []
    for name, command in get_command(app).commands.items():
        found += [f"{name} {inner}" for inner in getattr(command, "commands", {})] or [name]
    return found


def prepare(root):
    """Inputs of the commands."""
    import numpy as np

    from lpplusplus.images.drawings import write_demo
    from tasks import small_task

    for name, count, seed in (("photos", 3, 1), ("test", 2, 2)):
        write_demo(root / name, count, size=48, seed=seed)
        for other in sorted((root / name).iterdir())[3:]:
            shutil.rmtree(other)
    (root / "made").mkdir()
    X, y, T = small_task(4, 6, 16, 0)
    np.savez(root / "made/one.npz", images=X.astype(np.float32), labels=y, text=T.astype(np.float32))
    (root / "plan.toml").write_text(PLAN.format(tasks=1))
    lpp("train", root / "photos", "-e", "drawings", "-o", root / "m.lpp")
    lpp("train", root / "test", "-e", "drawings", "-o", root / "n.lpp")
    lpp("bench", "run", "--root", root, "-j", 1, root / "plan.toml", "-o", root / "r")
    (root / "hub").mkdir()
    shutil.copy(root / "m.lpp", root / "hub/model.safetensors")


def before(root, name, now):
    """What a command finds in its folder."""
    if name in ("sort --move", "sort --undo"):
        shutil.copytree(root / "photos", now / "card")
    if name == "sort --undo":
        lpp("sort", root / "m.lpp", now / "card", "-o", now / "s", "--move")


def command_line(root, name, now):
    """The arguments of a command."""
    first = sorted(folder.name for folder in (root / "photos").iterdir())
    photo = sorted((root / "photos" / first[0]).iterdir())[0]
    small = ("-e", "drawings")
    return {
        "demo": ["demo", *small, "--photos", root / "photos", "--keep", now / "d"],
        "train": ["train", root / "photos", *small, "-o", now / "m.lpp", "--store", now / "f", "--report",
                  now / "r.html"],
        "predict": ["predict", root / "m.lpp", photo],
        "sort": ["sort", root / "m.lpp", root / "photos", "-o", now / "s", "--sure", 0.2],
        "sort --move": ["sort", root / "m.lpp", now / "card", "-o", now / "s", "--move"],
        "sort --undo": ["sort", "--undo", now / "s"],
        "evaluate": ["evaluate", root / "m.lpp", root / "test", "--plots", now / "p", "--report", now / "r.html"],
        "check": ["check", root / "photos", *small, "--report", now / "r.html"],
        "suggest": ["suggest", root / "m.lpp", root / "photos", "--count", 4, "--copy", now / "s"],
        "map": ["map", root / "photos", *small, "-o", now / "map.html"],
        "add": ["add", root / "m.lpp", root / "test", "-o", now / "m.lpp"],
        "remove": ["remove", root / "m.lpp", first[0], "-o", now / "m.lpp"],
        "rename": ["rename", root / "m.lpp", first[0], "thing", "-o", now / "m.lpp"],
        "merge": ["merge", root / "m.lpp", root / "n.lpp", "-o", now / "m.lpp"],
        "embed": ["embed", root / "photos", *small, "-o", now / "f"],
        "inspect": ["inspect", root / "m.lpp"],
        "encoders": ["encoders"],
        "encoders pull": ["encoders", "pull", "onnx:someone/tiny"],
        "export": ["export", root / "m.lpp", "-o", now / "m.onnx"],
        "push": ["push", root / "m.lpp", "me/birds"],
        "pull": ["pull", "me/birds", "-o", now / "m.lpp"],
        "bench demo": ["bench", "demo", "-j", 1, "--draws", 1, "-o", now / "r"],
        "bench run": ["bench", "run", "--root", root, "-j", 1, root / "plan.toml", "-o", now / "r"],
        "bench report": ["bench", "report", root / "r", "-f", "csv", "-o", now / "r"],
        "bench paper": ["bench", "paper", "--root", root, "-j", 1, "--draws", 1, "-o", now / "r"],
        "bench datasets": ["bench", "datasets", "--root", root],
        "bench draws": ["bench", "draws", root / "r", "-o", now / "d.json"],
        "serve": ["serve", root / "m.lpp"],
        "app": ["app", now / "p", "--no-open"],
        "label-studio": ["label-studio", now / "m.lpp", *small],
        "train -e https://…": ["train", root / "photos", "-o", now / "m.lpp"],
    }[name]  # fmt: skip


@contextmanager
def web(folder):
    """A server of the files in a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use(name, service, root, now):
    """What a person does with a service."""
    photos = sorted((root / "photos").glob("*/*.jpg"))
    address, _, token = service.address.partition("/?token=")
    files = [("images", (photo.name, photo.read_bytes())) for photo in photos[:2]]
    with httpx2.Client(base_url=address, trust_env=False, timeout=600) as client:
        if name == "serve":
            client.post("/predict", files=files).raise_for_status()
        elif name == "app":
            client.get("/", params={"token": token}).raise_for_status()
            for folder in sorted((root / "photos").iterdir()):
                shutil.copytree(folder, now / "p" / folder.name)
            client.post(f"/upload/{photos[0].parent.name}", files=files, headers={"Origin": address}).raise_for_status()
            until(lambda: [*now.glob("p/.lpp/features/*/*/*.json")])
        else:
            choices = "".join(f'<Choice value="{label}"/>' for label in ("robin", "wren"))
            config = f'<View><Image name="i" value="$p"/><Choices name="c" toName="i">{choices}</Choices></View>'
            client.post("/setup", json={"schema": config}).raise_for_status()
            for number, label in enumerate(("robin", "wren")):
                result = [{"from_name": "c", "type": "choices", "value": {"choices": [label]}}]
                place = f"/photos/{photos[-number].relative_to(root / 'photos')}"
                sent = {"task": {"data": {"p": place}}, "annotation": {"id": number, "result": result}}
                client.post("/webhook", json={"action": "ANNOTATION_CREATED", **sent}).raise_for_status()
            until(lambda: client.get("/health").json()["version"] == "2 annotations")


def trace(root, name, places):
    """Run a command; the events, with names relative to its folder and hosts by what they are."""
    with tempfile.TemporaryDirectory(dir=root, prefix="now-") as folder:
        now, notes = Path(folder), root / "notes.jsonl"
        notes.write_text("")
        (now / "tmp").mkdir()
        before(root, name, now)
        settings = {"HOME": now / "home", "HF_HOME": now / "home", "TMPDIR": now / "tmp", "LPP_AUDIT": notes,
                    "MPLCONFIGDIR": now / "matplotlib", "PYTHONDONTWRITEBYTECODE": 1, "HF_TOKEN": "hf_token",
                    "HF_HUB_DISABLE_XET": 1, "HF_HUB_DISABLE_TELEMETRY": 1, "HF_ENDPOINT": places[HUB],
                    "NO_PROXY": "127.0.0.1", "LABEL_STUDIO_API_KEY": "0123456789abcdef",
                    "PYTHONPATH": os.pathsep.join([str(HOOK), os.environ.get("PYTHONPATH", "")])}  # fmt: skip
        if name == "encoders pull":
            settings["HF_ENDPOINT"] = places["another hub"]
        settings = {key: str(value) for key, value in settings.items()}
        line = [str(part) for part in command_line(root, name, now)]
        if name == "train -e https://…":
            line += ["-e", f"{places[SERVICE]}#model"]
        if name in ("serve", "app", "label-studio"):
            line += ["--url", places[STUDIO]] if name == "label-studio" else []
            with in_background(*line, "--port", "0", **settings) as service:
                use(name, service, root, now)
                assert "Traceback" not in service.stop(signal.SIGTERM)
        else:
            done = subprocess.run([*LPP, *line], env=environment(**settings), cwd=now, capture_output=True, text=True,
                                  check=False)  # fmt: skip
            assert done.returncode == 0 or name == "bench paper", f"{line}: {done.stderr}"
        hosts = {urlsplit(address).netloc: HUB if what == "another hub" else what for what, address in places.items()}
        found = set()
        for kind, what in map(json.loads, notes.read_text().splitlines()):
            if kind == "file":
                what = _relative(what, now)
            elif kind == "host":
                what = hosts.get(what, what)
            found.add((kind, what))
        return found


def _relative(path, now):
    """The name of a file in the folder of the command; a file that `atomic_write` is about to name has that name."""
    path = re.sub(r"/\.([^/]+)\.([0-9a-f]{16}|\d+)\.tmp(?=/|$)", r"/\1", path)
    return os.path.relpath(path, now) if Path(path).is_relative_to(now) else path


def judge(name, found):
    """What a command does and may not; and what it may and does not."""
    files, hosts = ALLOWED[name]
    patterns = [pattern for some in files.values() for pattern in some]
    wrong = []
    for kind, what in sorted(found):
        if kind == "file":
            if not NOTHING.fullmatch(what) and not any(fnmatch.fnmatch(what, pattern) for pattern in patterns):
                wrong.append(f"lpp {name} writes {what}")
        elif kind == "host" and what not in hosts:
            wrong.append(f"lpp {name} calls {what}")
        elif kind == "program" and what not in PROGRAMS:
            wrong.append(f"lpp {name} runs {what}")
    for some, those in files.items():
        if not any(kind == "file" and fnmatch.fnmatch(what, one) for kind, what in found for one in those):
            wrong.append(f"lpp {name} does not write {some}")
    wrong += [f"lpp {name} does not call {host}" for host in hosts if ("host", host) not in found]
    return wrong


@contextmanager
def servers(root):
    """A hub, an embedding service and a Label Studio on this machine; their addresses."""
    with ExitStack() as stack:
        yield {
            HUB: stack.enter_context(hub("me/birds", "c" * 40, root / "hub", "hf_token"))[0],
            "another hub": stack.enter_context(hub("someone/tiny", "c" * 40, FOLDERS["drawings"]))[0],
            SERVICE: stack.enter_context(embedding_service()).address,
            STUDIO: stack.enter_context(web(root)),
        }


def table():
    """The list, in Markdown."""
    rows = [(f"`lpp {name}`", ", ".join(files) or "nothing", ", ".join(hosts) or "nobody")
            for name, (files, hosts) in ALLOWED.items()]  # fmt: skip
    head = ("command", "writes or replaces", "calls")
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * 3, *rows))


def with_table(text):
    """SECURITY.md with the list as it is now."""
    return re.sub(r"(<!-- commands -->\n\n).*?(\n\n<!-- end commands -->)", lambda m: m[1] + table() + m[2], text,
                  flags=re.DOTALL)  # fmt: skip


def main():
    """Run the commands; print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=[*ALLOWED], metavar="COMMAND")
    parser.add_argument("--write", action="store_true", help="write the table into SECURITY.md, and do nothing else")
    options = parser.parse_args()
    if options.write:
        SECURITY.write_text(with_table(SECURITY.read_text(encoding="utf-8")), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        prepare(root)
        with servers(root) as places:
            for command in options.names:
                found = trace(root, command, places)
                print(
                    json.dumps({"command": command, "events": len(found), "wrong": judge(command, found)}), flush=True
                )


if __name__ == "__main__":
    main()
