"""What only a process of its own shows: what an import loads, what a kill leaves, whose threads BLAS gets."""

import os
import subprocess
import sys

import pytest

from lpplusplus._core.files import _nameless
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import from_folder
from toy_encoder import ToyEncoder
from toy_images import make_folder


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


HELP = "sys.argv = ['lpp', '--help']\nfrom lpplusplus.cli import main\ntry: main()\nexcept SystemExit: pass"
READ = "from lpplusplus.images.sources import read_arrays\nfrom lpplusplus.images.store import FeatureStore"
LIST = "import lpplusplus.encoders as e, lpplusplus.encoders.class_text\nassert len(e.known_encoders()) == 7"
OPEN = "import lpplusplus.encoders as e\ne.open_encoder('embedded')"


@pytest.mark.parametrize(
    ("code", "others"),
    [
        ("import lpplusplus", "torch PIL matplotlib onnxruntime starlette sklearn"),
        ("from lpplusplus import *", "torch PIL matplotlib onnxruntime starlette"),
        (LIST, "torch PIL onnxruntime open_clip tokenizers httpx2"),
        (OPEN, "lpplusplus.encoders.http lpplusplus.encoders.open_clip"),
        (f"{READ}\nassert len(FeatureStore(sys.argv[1]).load().X) == 14", "torch PIL sklearn"),
        (HELP, "torch PIL sklearn numpy jinja2"),
        ("from lpplusplus.cli.lpp import app\nimport lpplusplus.images.opening", "ray pyarrow fsspec"),
    ],
    ids=["the package", "all of its names", "a list of encoders", "an encoder", "a store", "help", "a command"],
)
def test_what_is_not_needed_is_not_imported(code, others, tmp_path):
    embed(from_folder(make_folder(tmp_path / "photos", {"a": 6, "b_c": 8})), ToyEncoder(), store=tmp_path / "store")
    told = f"import sys\n{code}\nprint([name for name in {others.split()} if name in sys.modules])"
    command = [sys.executable, "-c", told, str(tmp_path / "store")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1] == "[]"


def test_a_draw_is_the_same_in_another_process_and_for_ever():
    """A fixed value on purpose: published draws must not change with the package, numpy, or the machine."""
    code = (
        "from lpplusplus.bench.draw_task import draw_task\n"
        "labels = [i % 7 for i in range(200)]\n"
        "print(draw_task('frozen', labels, labels, shots=4, seed=3, n_test=10).sha256)"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                       env={**os.environ, "PYTHONHASHSEED": seed}).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert outputs == {"5db558189dd681e4e655698f7b594df85a4893720ba55a98e8ea17ae7fa9ec5f"}


def test_killed_while_saving(tmp_path):
    """kill -9 at the worst moment: the old file is whole."""
    path = tmp_path / "model.lpp"
    path.write_text("old")
    script = (
        "import os, sys\nfrom lpplusplus._core.files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as file:\n"
        "    file.write(b'x' * 10**6)\n    file.flush()\n    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == -9
    assert path.read_text() == "old"
    if file := _nameless(tmp_path):
        file.close()
        assert list(tmp_path.iterdir()) == [path], "half a file is left"


CONCURRENT_FITS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadpoolctl import threadpool_info
from lpplusplus._core.threads import single_threaded_blas

def allowed():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

before, leave = allowed(), threading.Event()

def first():
    with single_threaded_blas():
        inside.set()
        leave.wait()

def last():
    with single_threaded_blas():
        return allowed()

for _ in range(3):  # Whoever comes first leaves first, and the second restores what the first has set.
    inside = threading.Event()
    leave.clear()
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        inside.wait()
        with single_threaded_blas():
            leave.set()
            one.result()
            assert allowed() == [1] * len(before), allowed()
    assert allowed() == before, (allowed(), before)
    pool = ThreadPoolExecutor(1)  # And a thread that lives on does not keep others from setting the limit.
    assert pool.submit(last).result() == [1] * len(before)
    with single_threaded_blas():
        assert allowed() == [1] * len(before), allowed()
    assert allowed() == before, (allowed(), before)
print(before)
"""


def test_fits_side_by_side_leave_blas_as_it_was():
    """In a process of its own: this one has its BLAS limited."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CONCURRENT_FITS], env=environment, check=True)
