"""docs/reference/format.md describes the file so that other languages can read it; a reader in JavaScript does."""

import hashlib
import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lpplusplus

READER = Path(__file__).resolve().parents[3] / "docs" / "reference" / "read_lpp.js"
METHODS = [
    lpplusplus.LPPlusPlus(),
    lpplusplus.LPPlusPlus(normalize=False, recipe="released"),
    lpplusplus.LinearProbe(),
    lpplusplus.LinearProbe(flavour="coop"),
    lpplusplus.ZeroShot(),
    lpplusplus.GDA(),
    lpplusplus.TipAdapter(),
]


def fitted(method, dtype=np.float32):
    rng = np.random.default_rng(0)
    text = rng.standard_normal((3, 8)).astype(dtype)
    y = np.repeat(["é", "b", "c"], 4)
    X = (text[np.repeat([0, 1, 2], 4)] + rng.standard_normal((12, 8))).astype(dtype)
    return method.fit(X, y, text=text, classes=["é", "b", "c"]), rng.standard_normal((5, 8)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_reader_in_javascript(method, dtype, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    model, new = fitted(method, dtype)
    model.save(tmp_path / "model.lpp")
    command = [node, READER, tmp_path / "model.lpp", json.dumps(new.tolist())]
    said = json.loads(subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout)
    assert said["classes"] == ["é", "b", "c"]
    np.testing.assert_allclose(said["probabilities"], model.predict_proba(new), atol=2e-6)


def test_the_reader_is_short():
    assert len(READER.read_text(encoding="utf-8").splitlines()) <= 40


def test_the_digest_is_what_the_page_says(tmp_path):
    """Read by hand, with nothing of safetensors or of this package."""
    model, _ = fitted(lpplusplus.TipAdapter())
    model.save(tmp_path / "model.lpp")
    content = (tmp_path / "model.lpp").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    about = json.loads(header.pop("__metadata__")["lpplusplus"])
    digest = hashlib.sha256(json.dumps(about["model"], sort_keys=True, separators=(", ", ": ")).encode("ascii"))
    kinds = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
    for name in sorted(header):
        entry = header[name]
        digest.update(f"\n{name} {kinds[entry['dtype']]} {tuple(entry['shape'])}\n".encode())
        digest.update(data[slice(*entry["data_offsets"])])
    assert digest.hexdigest() == about["digest"]
