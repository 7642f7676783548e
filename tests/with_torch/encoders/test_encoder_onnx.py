"""ONNX exports of real open_clip models in both layouts: they agree with open_clip itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="exports models with torch")
open_clip = pytest.importorskip("open_clip", reason="exports open_clip models")
onnx = pytest.importorskip("onnx", reason="edits exported models")

import exports  # noqa: E402
import lpplusplus  # noqa: E402
from hub_server import hub  # noqa: E402
from lpplusplus.encoders import EncoderError, open_encoder  # noqa: E402
from lpplusplus.encoders.onnx import ClipTokenizer  # noqa: E402

FILES = ("visual/model.onnx", "textual/model.onnx")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a checkpoint and its export in each layout."""
    folder = tmp_path_factory.mktemp("tiny")
    model, path = exports.write_checkpoint("lpp-tiny-vit", folder)
    exports.write_open_clip_layout(model, folder / "a")
    exports.write_transformers_layout(model, folder / "b")
    return folder, model, path


@pytest.fixture
def copy(tiny, tmp_path):
    """The first layout, to be damaged."""
    return Path(shutil.copytree(tiny[0] / "a", tmp_path / "copy"))


def edit(path, change):
    """Change an ONNX graph in place."""
    model = onnx.load(path)
    change(model.graph)
    onnx.save(model, path)


def rename(graph, old, new):
    for node in graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
        node.input[:] = [new if name == old else name for name in node.input]
    for value in (*graph.output, *graph.input):
        if value.name == old:
            value.name = new


@pytest.mark.parametrize("layout", ["a", "b"])
def test_agrees_with_open_clip(tiny, layout):
    folder, _, path = tiny
    torch_encoder = open_encoder(f"open_clip:lpp-tiny-vit/{path}")
    encoder = open_encoder(f"onnx:{folder / layout}")
    images = exports.images()
    assert encoder.dim == torch_encoder.dim == 32
    assert encoder.preprocessing == torch_encoder.preprocessing
    assert np.abs(encoder.encode_images(images) - torch_encoder.encode_images(images)).max() < 1e-4
    texts = exports.TEXTS
    assert np.abs(encoder.encode_texts(texts) - torch_encoder.encode_texts(texts)).max() < 1e-4
    assert encoder.encode_texts([]).shape == encoder.encode_images([]).shape == (0, 32)
    views = [one.prepare(images[0], np.random.default_rng(5)) for one in (encoder, torch_encoder)]
    assert np.array_equal(*views)


def test_a_residual_network_agrees_in_batches_of_one(tmp_path):
    """Exports without a free batch axis, as some published ones are."""
    model, path = exports.write_checkpoint("lpp-tiny-rn50", tmp_path)
    exports.write_open_clip_layout(model, tmp_path / "a", dynamic=False)
    encoder = open_encoder(f"onnx:{tmp_path / 'a'}")
    torch_encoder = open_encoder(f"open_clip:lpp-tiny-rn50/{path}")
    images, texts = exports.images(), exports.TEXTS
    assert np.abs(encoder.encode_images(images) - torch_encoder.encode_images(images)).max() < 1e-4
    assert np.abs(encoder.encode_texts(texts) - torch_encoder.encode_texts(texts)).max() < 1e-4


def test_tokens_are_open_clips(tiny):
    path = tiny[0] / "b/tokenizer.json"
    expected = open_clip.get_tokenizer("lpp-tiny-vit")(exports.TEXTS).numpy()
    ids, mask = ClipTokenizer(path, {}, {}, None, False)(exports.TEXTS)
    assert np.array_equal(ids, expected)
    assert np.array_equal(mask, np.cumsum(expected == 49407, axis=1) - (expected == 49407) < 1)
    assert ids[-1, -1] == 49407, "the end token survives truncation"


def test_padding_and_length_follow_the_settings(tiny):
    path = tiny[0] / "b/tokenizer.json"
    ids, _ = ClipTokenizer(path, {"pad_token": {"content": "<|endoftext|>"}}, {}, None, False)(["a cat"])
    assert ids.shape == (1, 77)
    assert (ids[0, 3:] == 49407).all()
    for settings, config, fixed, expected in [
        ({"model_max_length": 64}, {}, None, 64),
        ({"model_max_length": 10**30}, {}, None, 77),
        ({"model_max_length": 64}, {"text_cfg": {"context_length": 32}}, None, 32),
        ({}, {"text_config": {"max_position_embeddings": 48}}, None, 48),
        ({"model_max_length": 64}, {}, 16, 16),
    ]:
        assert ClipTokenizer(path, settings, config, fixed, False)(["a cat", "a dog and"])[0].shape == (2, expected)
    assert ClipTokenizer(path, {}, {}, None, True)(["a cat", "a dog and"])[0].shape == (2, 5)
    assert ClipTokenizer(path, {}, {"model_type": "siglip"}, None, True)(["a cat"])[0].shape == (1, 77)
    cleaned = {"text_cfg": {"tokenizer_kwargs": {"clean": "canonicalize"}}}
    ids, _ = ClipTokenizer(path, {}, cleaned, None, False)(["A  Photo, of_a: Cat!", "a photo of a cat"])
    assert np.array_equal(ids[0], ids[1])
    with pytest.raises(EncoderError, match="'<nothing>'"):
        ClipTokenizer(path, {"pad_token": "<nothing>"}, {}, None, False)


def test_fingerprint_is_of_the_content(tiny, copy):
    first = open_encoder(f"onnx:{tiny[0] / 'a'}").fingerprint
    assert open_encoder(f"onnx:{copy}").fingerprint == first
    (copy / "README.md").write_text("unrelated")
    assert open_encoder(f"onnx:{copy}").fingerprint == first
    seen = {first}
    for name in ("visual/model.onnx", "textual/model.onnx"):

        def nudge(graph):
            tensor = next(one for one in graph.initializer if len(one.raw_data) > 1000)
            values = np.frombuffer(tensor.raw_data, np.float32).copy()
            values[0] += 1e-3
            tensor.raw_data = values.tobytes()

        edit(copy / name, nudge)
        seen.add(open_encoder(f"onnx:{copy}").fingerprint)
    for name, change in [("tokenizer.json", ("\u0120", "\u0121")), ("tokenizer_config.json", ("77", "76"))]:
        path = copy / "textual" / name
        path.write_text(path.read_text().replace(*change) + "\n")
        seen.add(open_encoder(f"onnx:{copy}").fingerprint)
    assert len(seen) == 5


def test_external_weights_count(copy):
    path = copy / "visual/model.onnx"
    whole = open_encoder(f"onnx:{copy}").encode_images(exports.images())
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="model.onnx_data", size_threshold=100)
    encoder = open_encoder(f"onnx:{copy}")
    assert np.abs(encoder.encode_images(exports.images()) - whole).max() < 1e-6
    data = copy / "visual/model.onnx_data"
    assert data.stat().st_size > 10_000
    content = bytearray(data.read_bytes())
    content[5] ^= 1
    data.write_bytes(content)
    assert open_encoder(f"onnx:{copy}").fingerprint != encoder.fingerprint
    data.unlink()
    with pytest.raises(EncoderError, match=r"keeps weights in model\.onnx_data, which is missing"):
        open_encoder(f"onnx:{copy}")


def test_external_weights_outside_the_folder_are_refused(copy):
    path = copy / "visual/model.onnx"
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="x" * 9, size_threshold=100)
    path.write_bytes(path.read_bytes().replace(b"x" * 9, b"../../key"))
    with pytest.raises(EncoderError, match=r"'../../key', outside"):
        open_encoder(f"onnx:{copy}")


def test_half_precision_towers(copy):
    """Inputs and outputs in float16, the computation as before."""

    def halve(graph):
        half, full = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
        rename(graph, "embedding", "wide")
        for node in graph.node:
            node.input[:] = ["image_wide" if name == "image" else name for name in node.input]
        graph.node.insert(0, onnx.helper.make_node("Cast", ["image"], ["image_wide"], to=full))
        graph.node.append(onnx.helper.make_node("Cast", ["wide"], ["embedding"], to=half))
        graph.output[0].name = "embedding"
        graph.input[0].type.tensor_type.elem_type = graph.output[0].type.tensor_type.elem_type = half

    images = exports.images()
    before = open_encoder(f"onnx:{copy}").encode_images(images)
    edit(copy / FILES[0], halve)
    after = open_encoder(f"onnx:{copy}").encode_images(images)
    assert after.dtype == np.float32
    assert 0 < np.abs(after - before).max() < 0.01


def test_the_embedding_is_found_among_outputs(copy):
    def add_hidden(graph):
        graph.node.append(onnx.helper.make_node("Unsqueeze", ["embedding", "axis"], ["last_hidden_state"]))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
        graph.output.insert(0, onnx.helper.make_tensor_value_info("last_hidden_state", 1, ["batch", 1, 32]))

    images = exports.images()
    expected = open_encoder(f"onnx:{copy}").encode_images(images)
    edit(copy / FILES[0], add_hidden)
    assert np.array_equal(open_encoder(f"onnx:{copy}").encode_images(images), expected)
    edit(copy / FILES[0], lambda graph: rename(graph, "embedding", "1234"))
    assert np.array_equal(open_encoder(f"onnx:{copy}").encode_images(images), expected), "the only flat output"
    edit(copy / FILES[0], lambda graph: rename(graph, "1234", "pooler_output"))
    assert np.array_equal(open_encoder(f"onnx:{copy}").encode_images(images), expected), "as SigLIP has it"
    (copy / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(EncoderError, match=r"no output that is an embedding.*last_hidden_state.*projection"):
        open_encoder(f"onnx:{copy}")


def test_a_mask_is_given_where_asked_for(copy):
    def add_input(name):
        def add(graph):
            graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", 77]))

        return add

    def scale_by_length(graph):
        rename(graph, "embedding", "plain")
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
        graph.node.append(onnx.helper.make_node("ReduceSum", ["attention_mask", "axis"], ["sum"]))
        graph.node.append(onnx.helper.make_node("Cast", ["sum"], ["length"], to=onnx.TensorProto.FLOAT))
        graph.node.append(onnx.helper.make_node("Mul", ["plain", "length"], ["embedding"]))
        graph.output[0].name = "embedding"

    plain = open_encoder(f"onnx:{copy}").encode_texts(["a cat", "a cat and dog"])
    edit(copy / FILES[1], add_input("attention_mask"))
    edit(copy / FILES[1], scale_by_length)
    masked = open_encoder(f"onnx:{copy}").encode_texts(["a cat", "a cat and dog"])
    assert np.allclose(masked, plain * [[4], [6]], rtol=1e-5)
    edit(copy / FILES[1], add_input("position_ids"))
    with pytest.raises(EncoderError, match=r"does not have: \['position_ids'\]"):
        open_encoder(f"onnx:{copy}").encode_texts(["a cat"])


def test_towers_of_different_models_are_refused(copy):
    def cut(graph):
        rename(graph, "embedding", "whole")
        for name, value in (("zero", [0]), ("end", [16]), ("one", [1])):
            graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
        graph.node.append(onnx.helper.make_node("Slice", ["whole", "zero", "end", "one"], ["embedding"]))
        del graph.output[:]
        graph.output.append(onnx.helper.make_tensor_value_info("embedding", 1, ["batch", 16]))

    edit(copy / FILES[1], cut)
    with pytest.raises(EncoderError, match="texts have 16 dimensions and images 32"):
        open_encoder(f"onnx:{copy}").encode_texts(["a cat"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "textual/model.onnx").unlink(), "lacks textual/model.onnx"),
        (lambda d: (d / "textual/tokenizer.json").unlink(), "lacks textual/tokenizer.json"),
        (lambda d: (d / "visual/model.onnx").write_bytes(b""), "is empty"),
        (lambda d: (d / "visual/model.onnx").write_bytes(b"no model"), "cannot be opened by onnxruntime"),
        (lambda d: (d / "visual/preprocess_cfg.json").write_text("{"), "is not JSON"),
        (lambda d: (d / "visual/preprocess_cfg.json").write_text("[1]"), "JSON object, not a list"),
        (
            lambda d: (d / "visual/preprocess_cfg.json").write_text('{"size": 32}'),
            r"preprocessing gives \(n, 3, 32, 32",
        ),
        (lambda d: (d / "visual/preprocess_cfg.json").write_text('{"resize_mode": "longest"}'), "longest"),
        (lambda d: shutil.rmtree(d / "visual") or shutil.rmtree(d / "textual"), r"expected visual/model\.onnx"),
    ],
)
def test_a_broken_folder_is_refused(copy, damage, message):
    damage(copy)
    with pytest.raises(EncoderError, match=message):
        open_encoder(f"onnx:{copy}")


def test_a_broken_tokenizer_is_refused(copy):
    (copy / "textual/tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(EncoderError, match=r"tokenizer\.json is not a tokenizer"):
        open_encoder(f"onnx:{copy}").encode_texts(["a cat"])


@pytest.mark.parametrize("name", ["./missing", "/missing/model", "a/b/c", "one-word", "../x/y"])
def test_a_missing_folder_is_named(name):
    with pytest.raises(EncoderError, match="no such folder"):
        open_encoder(f"onnx:{name}")


def run(code, **environment):
    """In a process of its own, since the hub's client reads its settings when imported."""
    path = os.pathsep.join([str(Path(lpplusplus.__file__).parents[1]), *sys.path])
    environment = os.environ | {"PYTHONPATH": path} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


OPEN = """
from lpplusplus.encoders import *
try:
    encoder = open_encoder({!r})
    print(encoder.spec, encoder.fingerprint, len(encoder.encode_texts(["x"])))
except EncoderError as error:
    print(error)
"""


def test_a_hub_model_opens_from_the_cache_pinned_to_its_commit(copy, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub/models--someone--tiny-clip"
    path = copy / "visual/model.onnx"
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="model.onnx_data", size_threshold=100)
    for index, file in enumerate(sorted(file for file in copy.rglob("*") if file.is_file())):
        blob, link = repository / f"blobs/{index:040}", repository / "snapshots" / commit / file.relative_to(copy)
        blob.parent.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit)
    local = open_encoder(f"onnx:{copy}").fingerprint
    offline = {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    for name in ("someone/tiny-clip", f"someone/tiny-clip@{commit}"):
        assert run(OPEN.format(f"onnx:{name}"), **offline).split() == [f"onnx:someone/tiny-clip@{commit}", local, "1"]


def test_a_hub_model_is_downloaded_without_what_is_not_needed(copy, tmp_path):
    path = copy / "visual/model.onnx"
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=100)
    needed = sorted(file.relative_to(copy).as_posix() for file in copy.rglob("*") if file.is_file())
    assert "visual/weights.bin" in needed
    for unneeded in ("README.md", "visual/fp16/model.armnn", "pytorch_model.bin", "onnx/model_quantized.onnx"):
        (copy / unneeded).parent.mkdir(parents=True, exist_ok=True)
        (copy / unneeded).write_text("large")
    local = open_encoder(f"onnx:{copy}").fingerprint
    settings = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
    commit = "0123456789abcdef0123456789abcdef01234567"
    with hub("someone/tiny-clip", commit, copy) as (address, _, fetched):
        settings |= {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"}
        said = run(OPEN.format("onnx:someone/tiny-clip"), **settings)
        assert said.split() == [f"onnx:someone/tiny-clip@{commit}", local, "1"]
        assert sorted(fetched) == needed
        assert "no revision 'v9' of it" in run(OPEN.format("onnx:someone/tiny-clip@v9"), **settings)
        assert "nor a public model on the hub" in run(OPEN.format("onnx:someone/missing"), **settings)
    assert run(OPEN.format("onnx:someone/tiny-clip"), **settings).split()[1] == local, "the hub is gone, the cache not"


@pytest.mark.parametrize("settings", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_without_network_the_message_says_what_to_do(tmp_path, settings):
    said = run(OPEN.format("onnx:immich-app/ViT-B-32__openai"), HF_HOME=str(tmp_path), **settings)
    assert "onnx:immich-app/ViT-B-32__openai is not in the local cache" in said
    assert "hf download immich-app/ViT-B-32__openai --local-dir FOLDER" in said
    assert "--encoder embedded" in said


def test_a_folder_wins_over_a_hub_id(copy, monkeypatch):
    monkeypatch.chdir(copy.parent.parent)
    assert open_encoder(f"onnx:{copy.parent.name}/copy").spec == f"onnx:{copy.parent.name}/copy"


@pytest.mark.parametrize("name", ["embedded", "drawings"])
def test_a_packaged_encoder_is_a_folder_of_the_package(tiny, monkeypatch, tmp_path, name):
    from lpplusplus.encoders import named_models

    assert Path(lpplusplus.__file__).parent / f"encoders/{name}_model" == named_models.FOLDERS[name]
    monkeypatch.setitem(named_models.FOLDERS, name, tiny[0] / "a")
    encoder = open_encoder(name)
    assert encoder.spec == name
    assert encoder.fingerprint == open_encoder(f"onnx:{tiny[0] / 'a'}").fingerprint
    assert encoder.encode_texts(["a cat"]).shape == (1, 32)
    monkeypatch.setitem(named_models.FOLDERS, name, tmp_path / "missing")
    with pytest.raises(EncoderError, match="reinstall lpplusplus"):
        open_encoder(name)
