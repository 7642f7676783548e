"""The learner of `lpp app` steps back behind people (`after_people`). Beside other tests it would get no processor."""

import pytest

from lpplusplus.app import learner


@pytest.fixture(autouse=True, scope="session")
def not_behind_other_tests():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "after_people", lambda by: None)
        yield
