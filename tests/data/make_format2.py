"""Wrote format2.lpp and format2.json with version 0.1.0. Not to be run again: old files must stay readable."""

import json
from pathlib import Path

import numpy as np

from lpplusplus import LPPlusPlus

here = Path(__file__).parent
rng = np.random.default_rng(2)
text = rng.standard_normal((3, 8)).astype(np.float32)
y = np.repeat(["ant", "bee", "cat"], 4)
X = (text[np.repeat(np.arange(3), 4)] + rng.standard_normal((12, 8))).astype(np.float32)
probe = LPPlusPlus(recipe="released", updates=40, cycle=(5, 1)).fit(X.astype(np.float16), y, text=text)
probe.save(here / "format2.lpp", metadata={"encoder": "a test"})
new = rng.standard_normal((6, 8)).astype(np.float32)
expected = {
    "X": new.tolist(),
    "scores": probe.decision_function(new).tolist(),
    "predictions": probe.predict(new).tolist(),
    "classes": probe.classes_.tolist(),
}
(here / "format2.json").write_text(json.dumps(expected))
