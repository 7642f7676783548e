"""The learner of `lpp app` steps back behind people (`after_people`). Beside other tests it would get no processor."""

import pytest

from lpplusplus.app import learner, measurer


@pytest.fixture(autouse=True, scope="session")
def not_behind_other_tests():
    with pytest.MonkeyPatch.context() as patch:
        for module in (learner, measurer):
            patch.setattr(module, "after_people", lambda by: None)
        yield
