"""The benchmark's honesty: what its tables say of methods, encoders, gaps and published figures is true."""

import json

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import parse_plan
from lpplusplus.bench.report import report
from lpplusplus.bench.results import Results
from lpplusplus.bench.runner import run_plan
from tasks import small_task


class Tuned(KNeighborsClassifier):
    """Another package's classifier, which looks at validation data and does not say so."""

    def fit(self, X, y, X_val=None, y_val=None):
        self.set_params(n_neighbors=max((1, 2), key=lambda k: KNeighborsClassifier(k).fit(X, y).score(X_val, y_val)))
        return super().fit(X, y)


@pytest.fixture
def root(tmp_path):
    X, y, T = small_task(4, 12, 16, seed=0)
    np.savez(tmp_path / "made.npz", images=X, labels=y, text=T, classnames=np.array(["a", "b", "c", "d"]))
    return tmp_path


def plan_of(**keys):
    made = {"folder": ".", "reader": "feature-file", "files": {"one": "made.npz"}}
    return parse_plan({"datasets": ["made"], "encoders": ["one"], "shots": [2], "draws": 1, "dataset": {"made": made},
                       **keys}, "plan.toml")  # fmt: skip


def test_the_table_of_methods_says_what_each_chose(root):
    """GDA, Tip-Adapter searched and the cross-modal probe tune on validation data; a foreign method may."""
    foreign = {"name": "foreign", "estimator": f"{__name__}:Tuned"}
    plan = plan_of(methods=["Zero-shot", "GDA", "GDA, no validation", "Tip-Adapter, searched", "Cross-modal probe",
                            "foreign"], method=[foreign])  # fmt: skip
    results = Results(root / "results")
    run_plan(plan, results, DatasetLoader(root, root / "features"), n_jobs=1)
    assert not results.rows(failed=True), results.rows(failed=True)[0].traceback
    (table,) = (one for one in json.loads(report(results, "json"))["protocol_tables"] if one["key"] == "methods")
    said = {row[0]: row[-1] for row in table["rows"]}
    assert said == {
        "Zero-shot": "nothing chosen",
        "GDA": "alpha by validation",
        "GDA, no validation": "alpha by the support's deviations",
        "Tip-Adapter, searched": "alpha, beta by validation",
        "Cross-modal probe": "iteration, batch size, learning rate by validation",
        "foreign": "not recorded",
    }
