"""A scikit-learn Pipeline with one of our classifiers becomes ONNX by skl2onnx."""

import warnings

import numpy as np
import onnxruntime
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lpplusplus
from lpplusplus.deploy.export.skl2onnx import register


@pytest.mark.parametrize("labels", [["owl", "cat", "dog"], [7, 3, 5]], ids=["words", "numbers"])
@pytest.mark.parametrize("method", [lpplusplus.LPPlusPlus(), lpplusplus.TipAdapter()], ids=["LP++", "Tip-Adapter"])
def test_a_pipeline_converts(method, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skl2onnx = pytest.importorskip("skl2onnx")
    rng = np.random.default_rng(0)
    y = np.repeat(labels, 5)
    X = (3 * rng.standard_normal((3, 8))[np.repeat([0, 1, 2], 5)] + rng.standard_normal((15, 8))).astype(np.float32)
    pipeline = make_pipeline(StandardScaler(), method).fit(X, y)
    register()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skl2onnx's own, of newer versions of what it uses.
        model = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    new = rng.standard_normal((20, 8)).astype(np.float32)
    answers, rows = session.run(None, {"X": new})
    assert answers.tolist() == pipeline.predict(new).tolist()
    np.testing.assert_allclose(rows, pipeline.predict_proba(new), atol=1e-5)
