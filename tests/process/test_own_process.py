"""What only a process of its own shows: what an import loads, what a kill leaves, whose threads BLAS gets."""

import os
import subprocess
import sys

from lpplusplus._core.files import _nameless
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import from_folder
from toy_encoder import ToyEncoder
from toy_images import make_folder


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_loads_neither_torch_nor_pillow():
    heavy = ["torch", "PIL", "matplotlib", "onnxruntime", "starlette"]
    for statement in ("import lpplusplus", "from lpplusplus import *"):
        loaded = run(f"import sys\n{statement}\nprint([m for m in {heavy!r} if m in sys.modules])")
        assert loaded.strip() == "[]"
    assert run("import sys, lpplusplus; print('sklearn' in sys.modules)").strip() == "False"


def test_reading_features_needs_no_pillow(tmp_path):
    """Who has features, not images, need not install what decodes them."""
    embed(from_folder(make_folder(tmp_path / "photos", {"a": 6, "b_c": 8})), ToyEncoder(), store=tmp_path / "store")
    code = (
        "import sys\n"
        "from lpplusplus.images.sources import read_arrays, sample_shots\n"
        "from lpplusplus.images.store import FeatureStore\n"
        f"rows = len(FeatureStore({str(tmp_path / 'store')!r}).load().X)\n"
        "print(rows, [name for name in ('PIL', 'torch', 'sklearn') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "14 []"


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
