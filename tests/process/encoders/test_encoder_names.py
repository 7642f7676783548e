"""Encoders by name, without loading what is not asked for."""

import pytest

from lpplusplus import encoders
from lpplusplus.encoders import EncoderError, base, known_encoders, open_encoder


def test_an_encoder_is_one_module_and_one_line(monkeypatch):
    monkeypatch.setitem(encoders.MODULES, "toy", "toy_encoder")
    assert open_encoder("toy:5").fingerprint == "toy-5-24"
    assert known_encoders()[-1].scheme == "toy:SEED"
    with pytest.raises(EncoderError, match=r"Did you mean toy\? Known are: .*, toy:SEED"):
        open_encoder("tory:5")
    with pytest.raises(EncoderError, match="does not say which model: write toy:SEED"):
        open_encoder("toy:")
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    assert not known_encoders()[-1].usable


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "embeded",
            "no encoder 'embeded'. Did you mean embedded.*Known are: embedded, clip, .*onnx:",
        ),
        ("openclip:RN50/openai", "Did you mean open_clip"),
        ("ONNX:folder", "Did you mean onnx"),
        ("ftp://host/v1", "no encoder"),
        ("", "no encoder ''"),
        ("onnx:", "does not say which model"),
        ("open_clip:", "does not say which model"),
        ("embedded:large", "no encoder"),
        ("http:host", "'http:host' has no host"),
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
        ("https://localhost/v1", "httpx2", "images"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, spec, package, extra):
    there = base.find_spec
    monkeypatch.setattr(base, "find_spec", lambda name: None if name == package else there(name))
    with pytest.raises(EncoderError, match=rf'{package}: pip install "lpplusplus\[{extra}\]"'):
        open_encoder(spec)
    usable = {row.scheme.split(":")[0]: row.usable for row in known_encoders()}
    assert not usable[spec.split(":")[0].replace("https", "http").replace("http", "https")]


@pytest.mark.parametrize("scheme", ["", "onnx:", "open_clip:", "https://"])
def test_a_long_name_is_not_repeated(scheme):
    """A file may name any encoder."""
    with pytest.raises(EncoderError, match="10,0") as caught:
        open_encoder(scheme + "x" * (10_010 - len(scheme)), named_by="a.lpp")
    assert len(str(caught.value)) < 200
