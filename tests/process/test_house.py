"""The picture of the architecture page is of today's code, and its ways pass their stations in the order shown."""

import runpy
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from lpplusplus import LPPlusPlus

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
HOUSE = runpy.run_path(str(FIGURES / "house.py"))


class Walk:
    """Which code ran first, second, …, in any thread."""

    def __init__(self):
        self.order = {}

    def __enter__(self):
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame, event, _):
        if event == "call":
            self.order.setdefault(frame.f_code, len(self.order))

    def passes(self, way):
        """Whether it passed the stations of a way, and in its order."""
        code = [HOUSE["station"](name).__code__ for _, name in HOUSE["WAYS"][way]]
        missing = [name for (_, name), each in zip(HOUSE["WAYS"][way], code, strict=True) if each not in self.order]
        assert missing == []
        steps = [self.order[each] for each in code]
        assert steps == sorted(steps), HOUSE["WAYS"][way]


def test_the_picture_is_of_todays_code():
    assert HOUSE["house"]() == (FIGURES / "house.svg").read_text(encoding="utf-8"), "run docs/figures/house.py"


def test_an_array_is_fitted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 16)), np.repeat(np.arange(5), 8)
    with Walk() as walk:
        LPPlusPlus().fit(X, y, text=rng.normal(size=(5, 16)))
    walk.passes("An array is fitted")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder with photos of two classes, in the working folder."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for name, colour in (("red", (200, 30, 30)), ("blue", (30, 30, 200))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(4):
            pixels = np.clip(rng.normal(colour, 25, size=(64, 64, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "photos"


def walk_of(monkeypatch, *commands):
    """The walk of some commands of lpp, in this process."""
    from lpplusplus.cli import main

    with Walk() as walk:
        for command in commands:
            monkeypatch.setattr(sys, "argv", ["lpp", *command.split()])
            with pytest.raises(SystemExit) as end:
                raise SystemExit(main())
            assert not end.value.code
    return walk


def test_photos_are_fitted_and_answered(photos, monkeypatch):
    walk_of(monkeypatch, "train photos -o two.lpp --report two.html").passes("Photos are fitted")
    walk_of(monkeypatch, "predict two.lpp photos").passes("A photo is answered")


def test_a_cell_of_the_benchmark(photos, monkeypatch):
    Path("plan.toml").write_text(
        'datasets = ["two"]\nencoders = ["drawings"]\nmethods = ["LP++ (default)"]\nshots = [1]\ndraws = 1\n'
        '[dataset.two]\ntitle = "Two"\nfolder = "photos"\nreader = "folder-per-class"\ntemplates = ["a {}."]\n'
        'get = "They are here."\n',
        encoding="utf-8",
    )
    walk = walk_of(monkeypatch, "bench run plan.toml --root . -o results -j 1", "bench report results")
    walk.passes("A cell of the benchmark")
