"""The readers of files that others may have written, as targets of a fuzzer: what to read, and how it may fail.

A reader may refuse a file with its own documented error, whose message names the file and is not longer than a few
lines. Anything else is a finding: another exception, a hang, a gigabyte of memory.
"""

import io
import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import safetensors.numpy

import lpplusplus
from lpplusplus._core import model_file
from lpplusplus.bench.datasets import DatasetError, OverlapError
from lpplusplus.bench.datasets.features import read_feature_file
from lpplusplus.bench.draw_task import draw_task
from lpplusplus.bench.draws import DrawError, read_draws, write_draws
from lpplusplus.bench.plan import PlanError, read_plan
from lpplusplus.encoders import EncoderError
from lpplusplus.encoders.onnx_files import read_preprocessing
from lpplusplus.images.classifier import ImageClassifier
from lpplusplus.images.embeddings import Embeddings, Origin
from lpplusplus.images.sources import SourceError
from lpplusplus.images.sources.arrays import read_arrays
from lpplusplus.images.sources.class_names import read_class_names
from lpplusplus.images.sources.image_set import from_manifest
from lpplusplus.images.store import FeatureStore, Shard, StoreError
from lpplusplus.images.store.feature_store import STORE, ShardIndex, digest_of
from lpplusplus.images.store.shards import _UNSEALED, list_digest, map_embeddings, read_shard, write_shard
from toy_encoder import ToyEncoder
from toy_images import make_folder

from . import layouts, mutations
from .target import Target


def _rows(n=6, dim=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


# Classifiers.


def _models(folder):
    """One of each method that a file can hold and that needs no model to fit."""
    X, T, path = _rows(), _rows(2), folder / "seed.lpp"
    found = []
    for kind, options in (
        (lpplusplus.LPPlusPlus, {}),
        (lpplusplus.LPPlusPlus, {"recipe": "paper", "updates": 3}),
        (lpplusplus.ZeroShot, {}),
        (lpplusplus.LinearProbe, {}),
        (lpplusplus.TipAdapter, {}),
    ):
        for y in ([0, 0, 0, 1, 1, 1], ["ant", "ant", "ant", "bee", "bee", "bee"]):
            kind(**options).fit(X, y, text=T).save(path, metadata={"note": "α"})
            found.append(path.read_bytes())
    probe = lpplusplus.LPPlusPlus(updates=3)
    views, prompts = np.stack([X, X + 1], axis=1), [_rows(2, seed=1), _rows(1, seed=2)]
    probe.fit(views, [0, 0, 0, 1, 1, 1], text=prompts, X_val=X, y_val=[0, 0, 0, 1, 1, 1], sample_weight=np.ones(6))
    for support in (True, False):
        probe.save(path, support=support)
        found.append(path.read_bytes())
    lpplusplus.LPPlusPlus().fit(X, [0, 0, 0, 1, 1, 1], text=T, unlabelled=_rows(3, seed=3)).save(path)
    found.append(path.read_bytes())
    golden = Path(__file__).resolve().parents[1] / "data"
    return [*found, *((golden / f"format{version}.lpp").read_bytes() for version in (1, 2))]


def _read_model(path):
    model = lpplusplus.load(path)
    chances = np.asarray(model.predict_proba(np.ones((2, model.n_features_in_), np.float32)))
    assert chances.shape == (2, len(model.classes_)), f"probabilities of shape {chances.shape}"
    assert np.isfinite(chances).all(), "probabilities that are not numbers"
    if "task_" in vars(model):
        given = model.task_.arrays()
        assert len(given["X"]) == len(given["y"]) > 0, "labels of other images"
    return model


def _image_models(folder):
    arrays = folder / "a.npz"
    np.savez(arrays, embeddings=_rows(), labels=np.array(["ant", "bee"] * 3), text=_rows(2), classes=["ant", "bee"])
    photos = make_folder(folder / "photos", {"ant": 2, "bee": 2})
    found = []
    for encoder, source in ((None, arrays), (ToyEncoder(), photos)):
        clf = ImageClassifier(encoder).fit(source)
        clf.look_into()
        for support in (True, False):
            clf.save(folder / "seed.lpp", support=support)
            found.append((folder / "seed.lpp").read_bytes())
    return found


def _read_image_model(path):
    from lpplusplus.cli.inspect import _model, _short

    clf = ImageClassifier.load(path)
    chances = clf.predict_proba(Embeddings(np.ones((2, 1, clf.classifier_.n_features_in_), np.float32)))
    assert np.isfinite(chances).all(), "probabilities that are not numbers"
    json.dumps({key: _short(value) for key, value in _model(path).items()})
    if hasattr(clf, "support_"):
        assert len(clf.support_.digests()) == len(clf.support_.paths) == len(clf.support_), "names of other images"
        clf.support_.subset(slice(0, 1))


def _change_model(content, rng):
    return seal_model(mutations.change_safetensors(content, model_file.KEY, rng))


def seal_model(content):
    """A model file with the checksum of what is in it."""
    header, data = mutations.split_safetensors(content)
    inner = json.loads(header["__metadata__"][model_file.KEY])
    inner["digest"] = model_file._digest(safetensors.numpy.load(content), inner.get("model"))
    header["__metadata__"][model_file.KEY] = json.dumps(inner)
    return mutations.join_safetensors(header, data)


# Feature stores.


def _shard(rows=3, labels=True):
    names = [f"{i}.png" for i in range(rows)]
    told = ["ant", "bee", "ant"][:rows] if labels else None
    return Shard(_ORIGIN.key, list_digest(names, told), _rows(rows)[:, None], np.ones((rows, 32), np.uint8),
                 np.arange(rows, dtype=np.int32), names, told)  # fmt: skip


_ORIGIN = Origin("embedded", "f" * 64, "{}", 4, 1, 0)
_NAME = "shard-000000.safetensors"


def _shards(folder):
    found = []
    for shard in (_shard(), _shard(labels=False), _shard(1), _shard(0, False)):
        write_shard(folder / _NAME, shard)
        found.append((folder / _NAME).read_bytes())
    return found


def _read_shard(path):
    with suppress(StoreError):
        map_embeddings(path)
    read_shard(path)


def _change_shard(content, rng):
    header, data = mutations.split_safetensors(mutations.change_safetensors(content, "lpplusplus.features", rng))
    inner = json.loads(header["__metadata__"]["lpplusplus.features"])
    inner["digest"] = _UNSEALED
    header["__metadata__"]["lpplusplus.features"] = json.dumps(inner)
    content = mutations.join_safetensors(header, data)
    return content.replace(_UNSEALED.encode(), sha256(content).hexdigest().encode(), 1)


def _store(folder, labels=True):
    receipt = write_shard(folder / _NAME, _shard(labels=labels))
    content = ShardIndex(_ORIGIN, ("ant", "bee"), ("ant", "bee"), labels, (receipt,)).content(STORE)
    (folder / "index.json").write_bytes(content)
    return content


def _read_store(path):
    store = FeatureStore(path.parent)
    store.load()
    store.maps(verify=True)


def _change_index(content, rng):
    whole = json.loads(content)
    part = "store" if rng.random() < 0.9 else None
    whole = (
        mutations.change_json(whole, rng) if part is None else whole | {part: mutations.change_json(whole[part], rng)}
    )
    return seal_index(whole)


def seal_index(whole):
    """An index with the checksum of what is in it."""
    digest = digest_of(whole.get("format"), whole.get("version"), whole.get("store"))
    return json.dumps(whole | {"digest": digest}).encode()


# Arrays.


def _npz(folder):
    X, T, found = _rows(), _rows(2), []
    for arrays in (
        {"embeddings": X, "labels": np.array([0, 0, 0, 1, 1, 1]), "text": T, "classes": np.array(["ant", "bee"])},
        {"embeddings": X[:, None].astype(np.float16), "labels": np.array(["ant"] * 3 + ["bee"] * 3)},
        {"images": X, "labels": np.array([0, 1] * 3), "text": np.stack([T, T]), "prompts": np.array(["a {}", "b {}"]),
         "classnames": np.array(["ant", "bee"]), "split": np.array([0, 0, 1, 1, 2, 2])},
    ):  # fmt: skip
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, **arrays)
            found.append(file.getvalue())
    return found


def _tensors(folder):
    X, T, found = _rows(), _rows(2), []
    for arrays, lists in (
        ({"embeddings": X, "labels": np.array([0, 0, 0, 1, 1, 1]), "text": T}, {"classes": '["ant", "bee"]'}),
        ({"images": X, "labels": np.array([0, 1] * 3), "text": T, "split": np.array([0, 0, 1, 1, 2, 2])},
         {"classnames": '["ant", "bee"]'}),
    ):  # fmt: skip
        found.append(safetensors.numpy.save(arrays, lists))
    return found


def _change_tensors(content, rng):
    header, _ = mutations.split_safetensors(content)
    return mutations.change_safetensors(content, rng.choice(list(header["__metadata__"])), rng)


# Texts.


def _text(*texts):
    return lambda folder: [text.encode() for text in texts]


def _lines(content, rng):
    return mutations.change_text(content.decode(errors="surrogateescape"), rng).encode(errors="surrogateescape")


def _pictures(folder):
    for name in ("a.png", "b.png", "c d.png"):
        (folder / name).touch()


PLAN = """
name = "birds"
datasets = ["eurosat", "photos"]
encoders = ["open_clip:RN50/openai", "embedded"]
methods = ["feature-level", "my probe", "ZeroShot"]
shots = [1, 2, 16]
draws = 3
validation = "coop"
shortage = "repeat"
generator = "whurs19-table"
views = 1
duplicates = "allow"

[[method]]
name = "my probe"
estimator = "LPPlusPlus"
parameters = { solver = "lbfgs", updates = 3 }
validation = true

[dataset.photos]
title = "Photos"
folder = "photos"
reader = "folder-per-class"
templates = ["a photo of a {}."]
classes = 3
counts = { train = 3, test = 4 }
rename = { a = "b" }
"""
SMALL_PLAN = """
datasets = ["made"]
encoders = ["one"]
methods = ["Zero-shot"]

[dataset.made]
folder = "made"
reader = "feature-file"
files = { one = "one.npz", two = "two.npz" }
"""


def _read_plan(path):
    plan = read_plan(path)
    if plan.draws * len(plan.shots) < 1000:
        assert sum(1 for _ in plan.all_cells()) == len(plan)


def _draws(folder):
    made = [draw_task("photos", [0, 0, 0, 1, 1, 1], shots=1, seed=1, pool=True),
            draw_task("photos", [0, 0, 0, 1, 1, 1], [0, 1], shots=2, seed=2, n_test=5)]  # fmt: skip
    write_draws(folder / "seed.json", made)
    return [(folder / "seed.json").read_bytes()]


def _change_draws(content, rng):
    saved = mutations.change_json(json.loads(content), rng)
    for one in saved:
        kept = {key: value for key, value in one.items() if key not in ("format", "version", "sha256")}
        one["sha256"] = sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    return json.dumps(saved).encode()


# Preprocessing, as model repositories write it down.

OPEN_CLIP = {"size": [224, 224], "mode": "RGB", "mean": [0.5, 0.4, 0.4], "std": [0.2, 0.2, 0.2],
             "interpolation": "bicubic", "resize_mode": "shortest", "fill_color": 0}  # fmt: skip
TRANSFORMERS = {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}, "resample": 3,
                "do_center_crop": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
                "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "rescale_factor": 1 / 255}  # fmt: skip


def _settings(config):
    return lambda folder: [json.dumps(config).encode(), b"{}"]


def _read_settings(layout):
    return lambda path: json.loads(read_preprocessing(path, layout).describe())


TARGETS = {
    "model": Target("a.lpp", _read_model, (model_file.ModelFormatError,), _models, _change_model),
    "image-model": Target("a.lpp", _read_image_model, (model_file.ModelFormatError,), _image_models, _change_model),
    "shard": Target(_NAME, _read_shard, (StoreError,), _shards, _change_shard),
    "index": Target("index.json", _read_store, (StoreError,), lambda folder: [_store(folder, False), _store(folder)],
                    _change_index, prepare=_store),
    "npz": Target("a.npz", read_arrays, (SourceError,), _npz, mutations.change_npz),
    "safetensors": Target("a.safetensors", read_arrays, (SourceError,), _tensors, _change_tensors),
    "features": Target("a.npz", read_feature_file, (DatasetError,), _npz, mutations.change_npz),
    "csv": Target("a.csv", from_manifest, (SourceError,),
                  _text('path,label\na.png,ant\n"b.png",bee\n', "label, path ,more\nant,a.png,1\n\nbee,c d.png,\n"),
                  _lines, prepare=_pictures),
    "jsonl": Target("a.jsonl", from_manifest, (SourceError,),
                    _text('{"path": "a.png", "label": "ant"}\n{"path": "b.png", "label": 3, "x": [1]}'),
                    layouts.change_lines, prepare=_pictures),
    "class-names": Target("a.txt", read_class_names, (SourceError,), _text("ant\nbee\tBee, a kind\n\n#3_x\n"), _lines),
    "plan": Target("a.toml", _read_plan, (PlanError, DatasetError), _text(PLAN, SMALL_PLAN), _lines),
    "draws": Target("a.json", read_draws, (DrawError, OverlapError), _draws, _change_draws),
    "open-clip-config": Target("preprocess_cfg.json", _read_settings("open_clip"), (EncoderError,),
                               _settings(OPEN_CLIP), layouts.change_json),
    "transformers-config": Target("preprocessor_config.json", _read_settings("transformers"), (EncoderError,),
                                  _settings(TRANSFORMERS), layouts.change_json),
    **layouts.TARGETS,
}  # fmt: skip
"""Every reader, by name."""
