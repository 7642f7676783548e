"""Encoders by name, without loading what is not asked for."""

import subprocess
import sys

import pytest

from lpplusplus.encoders import EncoderError, _packages, known_encoders, open_encoder


def test_listing_encoders_loads_none_of_their_packages():
    code = (
        "import sys, lpplusplus.encoders as e, lpplusplus.encoders.prompts; rows = e.known_encoders()\n"
        "print(len(rows), [m for m in ('torch', 'onnxruntime', 'PIL', 'open_clip', 'tokenizers') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "4 []"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("embeded", "no encoder 'embeded'. Did you mean embedded.*Known are: embedded, onnx:"),
        ("openclip:RN50/openai", "Did you mean open_clip"),
        ("ONNX:folder", "Did you mean onnx"),
        ("ftp://host/v1", "no encoder"),
        ("", "no encoder ''"),
        ("onnx:", "does not say which model"),
        ("open_clip:", "does not say which model"),
        ("http:host", "no encoder"),
    ],
)
def test_unknown_names_get_a_suggestion(spec, message):
    with pytest.raises(EncoderError, match=message):
        open_encoder(spec)


def test_a_bare_folder_gets_the_scheme(tmp_path):
    with pytest.raises(EncoderError, match=f"For this folder write onnx:{tmp_path}"):
        open_encoder(str(tmp_path))


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("onnx:somewhere", "onnxruntime", "images"),
        ("open_clip:RN50/openai", "open_clip", "torch"),
        ("http://localhost/v1", "PIL", "images"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, spec, package, extra):
    there = _packages.find_spec
    monkeypatch.setattr(_packages, "find_spec", lambda name: None if name == package else there(name))
    with pytest.raises(EncoderError, match=rf'{package}: pip install "lpplusplus\[{extra}\]"'):
        open_encoder(spec)
    usable = {row.scheme.split(":")[0]: row.usable for row in known_encoders()}
    assert not usable[spec.split(":")[0].replace("http", "https")]
