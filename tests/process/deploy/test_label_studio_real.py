"""`lpp label-studio` with a real Label Studio, from the package index, in a virtual environment of its own.

Takes minutes: run it with `pytest -m slow tests/process/deploy/test_label_studio_real.py`. `LPP_LABEL_STUDIO` names an
installed `label-studio` to use instead. Its lines on standard output are the transcript in docs/how-to/label-studio.md.
"""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from serving import served

pytestmark = pytest.mark.slow
TOKEN = "0123456789abcdef0123456789abcdef01234567"
CLASSES = ("blue_star", "boat", "tree")
CONFIG = (
    '<View><Image name="image" value="$image"/><Choices name="shape" toName="image" choice="single">'
    + "".join(f'<Choice value="{name}"/>' for name in CLASSES)
    + "</Choices></View>"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if "LPP_LABEL_STUDIO" in os.environ:
        return Path(os.environ["LPP_LABEL_STUDIO"])
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", "label-studio"], check=True)
    return binaries / "label-studio"


@contextmanager
def label_studio(program, folder):
    """A Label Studio that may ask a backend on this machine, which it refuses by default."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"ML_BLOCK_LOCAL_IP": "false", "SSRF_PROTECTION_ENABLED": "false", "COLLECT_ANALYTICS": "false",
                "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}  # fmt: skip
    command = [program, "start", "--no-browser", "--port", str(port), "--internal-host", "127.0.0.1",
               "--data-dir", folder, "--username", "me@example.com", "--password", "a-long-password",
               "--user-token", TOKEN, "--enable-legacy-api-token"]  # fmt: skip
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log) as it,
    ):
        try:
            client = httpx2.Client(
                base_url=f"http://127.0.0.1:{port}",
                headers={"Authorization": f"Token {TOKEN}"},
                timeout=120,
                trust_env=False,
            )
            end = time.monotonic() + 900
            while True:
                assert it.poll() is None and time.monotonic() < end, (folder / "log").read_text()[-3000:]  # noqa: PT018
                try:
                    if client.get("/health").status_code == 200:
                        break
                except httpx2.HTTPError:
                    time.sleep(1)
            yield client
            client.close()
        finally:
            it.terminate()


def ok(answer):
    assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text[:500]}"
    print(answer.request.method, answer.request.url.path, answer.status_code)
    return answer.json() if answer.content else None


def until(condition, seconds=180):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.5)


def test_predictions_annotations_and_what_is_learned(program, tmp_path):
    write_demo(tmp_path / "drawings", 4, seed=1)
    output, data = tmp_path / "shapes.lpp", tmp_path / "data"
    data.mkdir()
    (tmp_path / "token").write_text(TOKEN)
    with label_studio(program, data) as studio:
        url = str(studio.base_url).rstrip("/")
        project = ok(studio.post("/api/projects/", json={"title": "Shapes", "label_config": CONFIG}))["id"]
        truth = {}
        for name in CLASSES:
            for path in sorted((tmp_path / "drawings" / name).glob("*.jpg")):
                file = {"file": (f"{name}-{path.name}", path.read_bytes(), "image/jpeg")}
                ok(studio.post(f"/api/projects/{project}/import", files=file))
        tasks = ok(studio.get("/api/tasks", params={"project": project, "page_size": 100, "fields": "all"}))["tasks"]
        truth = {task["id"]: next(name for name in CLASSES if name in task["data"]["image"]) for task in tasks}
        assert len(truth) == 12
        arguments = [output, "--url", url, "--token-file", tmp_path / "token", "--encoder", "drawings"]
        with served("label-studio", *arguments) as backend:

            def version():
                return httpx2.get(f"{backend.address}/health", timeout=30).json()["version"]

            connected = ok(studio.post("/api/ml/", json={"project": project, "url": backend.address, "title": "lpp"}))
            assert connected["state"] == "CO"
            hook = {
                "url": f"{backend.address}/webhook",
                "project": project,
                "send_payload": True,
                "send_for_all_actions": True,
            }
            if not any(
                one["url"] == hook["url"] for one in ok(studio.get("/api/webhooks/", params={"project": project}))
            ):
                ok(studio.post("/api/webhooks/", json=hook))
            assert version() == "names"
            for number, task in enumerate(tasks[::2], 1):
                choice = {"choices": [truth[task["id"]]]}
                result = [{"from_name": "shape", "to_name": "image", "type": "choices", "value": choice}]
                ok(studio.post(f"/api/tasks/{task['id']}/annotations/", json={"result": result}))
                until(lambda count=number: version() == f"{count} annotations")
                print(f"  the backend has learned: {version()}")
            ok(studio.post(f"/api/ml/{connected['id']}/predict/test", json={}, params={"random": "true"}))
            predict = {"selectedItems": {"all": True, "excluded": []}, "ordering": []}
            ok(
                studio.post(
                    "/api/dm/actions", params={"id": "retrieve_tasks_predictions", "project": project}, json=predict
                )
            )
            found = ok(studio.get("/api/predictions/", params={"project": project}))
            said = {one["task"]: one["result"][0]["value"]["choices"][0] for one in found if one["result"]}
            right = sum(said[task] == truth[task] for task in said)
            print(f"  {right} of {len(said)} predictions are right, by {found[0]['model_version']}")
            assert len(said) == 12
            assert right >= 10
        # A new backend knows nothing until Label Studio sets it up; then it asks for what was annotated.
        before = output.read_bytes()
        output.unlink()
        with served("label-studio", *arguments) as backend:
            ok(studio.patch(f"/api/ml/{connected['id']}", json={"project": project, "url": backend.address}))
            until(lambda: output.exists() and output.read_bytes() == before)
            print("  a new backend has learned the same from the annotations of before")
    assert ImageClassifier.load(output).classes_.tolist() == list(CLASSES)
