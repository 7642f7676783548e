"""The map on the page: PCA at once, UMAP in a process of its own, with progress; the same each time."""

import time

import numpy as np
import pytest

from lpplusplus.app import maps
from lpplusplus.app.desk import Desk, Place
from lpplusplus.app.learner import Learner
from lpplusplus.app.project import Project
from lpplusplus.app.views import understand
from lpplusplus.images.projection import has_umap, umap
from toy_images import make_folder, toy_image

PATIENCE = 300
pytestmark = pytest.mark.skipif(not has_umap(), reason="umap-learn is not installed: pip install umap-learn")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    root = make_folder(tmp_path_factory.mktemp("maps") / "birds", {"robin": 12, "wren": 12, "unsorted": 4})
    with Project(root) as project, Learner(project) as learner:
        learner.look()
        assert learner.wait(600)
        yield Desk(project, learner)


def shown(desk):
    return str(understand.render(desk, desk.learner.snapshot, Place("understand")))


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_cancelled_it_stays_as_it_was(desk):
    assert "(PCA)" in shown(desk)
    maps.draw(desk, "UMAP")
    assert "Cancel" in shown(desk)
    desk.cancel(maps.JOB)
    until(lambda: not desk.busy(maps.JOB))
    assert desk.jobs[maps.JOB].problem is None
    assert "(PCA)" in shown(desk)


@pytest.mark.filterwarnings("ignore")  # Of numba and UMAP.
def test_umap_with_progress_and_the_same_in_another_process(desk):
    seen = set()
    maps.draw(desk, "UMAP")

    def over():
        job = desk.jobs[maps.JOB]
        seen.add((job.done, job.total))
        return job.over

    until(over)
    assert desk.jobs[maps.JOB].problem is None
    assert seen >= {(0, 0)}
    assert max(seen) > (0, 0), "progress of its steps"
    found = maps.on_map(desk, desk.learner.snapshot.listing)
    xy, kind = maps.points(desk, found)
    assert kind == "UMAP"
    assert "(UMAP)" in shown(desk)
    np.testing.assert_array_equal(xy, umap(found.rows))


def test_a_move_keeps_the_map_and_a_new_photo_asks_for_a_new_one(desk):
    """Follows the test before."""
    if "UMAP" not in desk.drawn:
        pytest.skip("needs the map of the test before")
    before, _ = maps.points(desk, maps.on_map(desk, desk.learner.snapshot.listing))
    desk.project.move(["robin/000.png"], "wren")
    desk.learner.look()
    assert desk.learner.wait(600)
    after, kind = maps.points(desk, maps.on_map(desk, desk.learner.snapshot.listing))
    assert kind == "UMAP"
    assert sorted(after.tolist()) == sorted(before.tolist())
    toy_image(999).save(desk.project.root / "wren" / "new.png")
    desk.learner.look()
    assert desk.learner.wait(600)
    assert "Draw with UMAP" in shown(desk)
