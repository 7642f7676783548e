"""The map on the page: PCA at once, UMAP in a process of its own, with progress; the same each time."""

import numpy as np
import pytest

from helpers import until
from lpplusplus.app import jobs
from lpplusplus.app.learner import Learner
from lpplusplus.app.project import Project
from lpplusplus.app.state import AppState, ViewState
from lpplusplus.app.views import render
from lpplusplus.images.projection import has_umap, umap
from toy_images import make_folder, toy_image

pytestmark = pytest.mark.skipif(not has_umap(), reason="umap-learn is not installed: pip install umap-learn")


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    root = make_folder(tmp_path_factory.mktemp("maps") / "birds", {"robin": 12, "wren": 12, "unsorted": 4})
    with Project(root) as project, Learner(project) as learner:
        learner.look()
        assert learner.wait(600)
        made = AppState(project, learner)
        yield made
        made.close()


def shown(state):
    return render("understand", state, state.learner.snapshot, ViewState("understand"))


def test_cancelled_it_stays_as_it_was(state):
    assert "(PCA)" in shown(state)
    jobs.draw(state, "UMAP")
    assert "Cancel" in shown(state)
    state.cancel(jobs.MAP)
    until(lambda: not state.busy(jobs.MAP))
    assert state.jobs[jobs.MAP].problem is None
    assert "(PCA)" in shown(state)


@pytest.mark.filterwarnings("ignore")  # Of numba and UMAP.
def test_umap_with_progress_and_the_same_in_another_process(state):
    seen = set()
    jobs.draw(state, "UMAP")

    def over():
        job = state.jobs[jobs.MAP]
        seen.add((job.done, job.total))
        return job.over

    until(over)
    assert state.jobs[jobs.MAP].problem is None
    assert seen >= {(0, 0)}
    assert max(seen) > (0, 0), "progress of its steps"
    found = jobs.on_map(state, state.learner.snapshot.listing)
    xy, kind = jobs.points(state, found)
    assert kind == "UMAP"
    assert "(UMAP)" in shown(state)
    np.testing.assert_array_equal(xy, umap(found.rows))


def test_a_move_keeps_the_map_and_a_new_photo_asks_for_a_new_one(state):
    """Follows the test before."""
    if "UMAP" not in state.drawn:
        pytest.skip("needs the map of the test before")
    before, _ = jobs.points(state, jobs.on_map(state, state.learner.snapshot.listing))
    state.project.move(["robin/000.png"], "wren")
    state.learner.look()
    assert state.learner.wait(600)
    after, kind = jobs.points(state, jobs.on_map(state, state.learner.snapshot.listing))
    assert kind == "UMAP"
    assert sorted(after.tolist()) == sorted(before.tolist())
    toy_image(999).save(state.project.root / "wren" / "new.png")
    state.learner.look()
    assert state.learner.wait(600)
    assert "Draw with UMAP" in shown(state)
