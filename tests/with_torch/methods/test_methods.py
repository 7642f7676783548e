"""The paper's other methods: the contract they share, and oracles that owe nothing to their code."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import lpplusplus.methods
from helpers import NEEDS_NEWER_SCIPY
from lpplusplus import (
    CLAP,
    GDA,
    TIMO,
    ClipAdapter,
    CrossModalProbe,
    LinearAdapter,
    LinearProbe,
    LPPlusPlus,
    ProKeR,
    SSText,
    TipAdapter,
    TipAdapterF,
    TipAdapterFStar,
    ZeroShot,
)
from lpplusplus._core.model_file import method
from lpplusplus.methods.clip_adapter import adapted
from lpplusplus.methods.linear_probe import BISECTIONS, DECADES, search_strength
from lpplusplus.methods.tip_adapter import best_of, cache_logits, count_hits, grid
from tasks import small_task

torch = pytest.importorskip("torch", reason="the trained methods need torch")

ALL = {
    "zero-shot": ZeroShot(),
    "probe": LinearProbe(),
    "probe, coop": LinearProbe(flavour="coop"),
    "tip": TipAdapter(),
    "tip, searched": TipAdapter(cache_weight="auto", beta="auto", grid_steps=(20, 20)),
    "tip-f": TipAdapterF(epochs=4),
    "tip-f*": TipAdapterFStar(epochs=2, grid_steps=(20, 20)),
    "adapter": ClipAdapter(epochs=5),
    "adapter, lpp": ClipAdapter(flavour="lpp", epochs=5),
    "linear adapter": LinearAdapter(epochs=5),
    "clap": CLAP(epochs=5),
    "gda": GDA(),
    "timo": TIMO(),
    "timo-s": TIMO(gamma="auto", beta="auto"),
    "ss-text": SSText(),
    "proker": ProKeR(),
    "cross-modal": CrossModalProbe(iterations=20),
    "lp++": LPPlusPlus(),
}
TRAINED = ["tip-f", "tip-f*", "adapter", "adapter, lpp", "linear adapter"]


def fresh(name, **parameters):
    from sklearn.base import clone

    return clone(ALL[name]).set_params(**parameters)


@pytest.fixture(scope="module")
def task():
    """Support, text, validation and test data of six classes."""
    X, y, T = small_task(6, 12, 32, seed=1)
    order = np.argsort(y, kind="stable").reshape(6, 12)
    support, held, test = order[:, :4].ravel(), order[:, 4:8].ravel(), order[:, 8:].ravel()
    return X[support], y[support], T, X[held], y[held], X[test], y[test]


# The contract --------------------------------------------------------------------------------------------------------


def test_one_file_per_method():
    """A file of the room is one exported classifier, unless its name begins with an underscore."""
    files = [file.stem for file in Path(lpplusplus.methods.__file__).parent.glob("*.py") if file.name[0] != "_"]
    kinds = [kind for kind in map(method, lpplusplus.__all__) if kind not in (None, LPPlusPlus)]
    assert sorted(files) == sorted(kind.__module__.rpartition(".")[2] for kind in kinds)


@pytest.mark.parametrize("name", [name for name in ALL if name != "lp++"])
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(name):
    """Nothing excluded, nothing expected to fail."""
    results = check_estimator(fresh(name), expected_failed_checks=NEEDS_NEWER_SCIPY)
    failed = [r for r in results if r["status"] != "passed" and r["check_name"] not in NEEDS_NEWER_SCIPY]
    # Array-API checks run only where the environment enables them; see test_torch.
    assert all(r["check_name"].startswith("check_array_api_") and r["status"] == "skipped" for r in failed), failed


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("validation", [False, True])
def test_fit_predict_save_load(name, validation, task, tmp_path):
    F, y, T, F_val, y_val, F_test, y_test = task
    words = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])
    extra = {"X_val": F_val, "y_val": words[y_val]} if validation else {}
    model = fresh(name).fit(F, words[y], text=T, **extra)
    assert model.score(F_test, words[y_test]) > 0.4  # Chance is 0.17.
    assert np.allclose(model.predict_proba(F_test).sum(axis=1), 1)
    model.save(tmp_path / "model.lpp", metadata={"encoder": "none"})
    again = lpplusplus.load(tmp_path / "model.lpp")
    assert type(again) is type(model)
    assert np.array_equal(again.decision_function(F_test), model.decision_function(F_test))
    assert again.history_ == model.history_
    assert again.metadata_ == {"encoder": "none"}
    assert again.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ZeroShot(), 0),
        (LinearProbe(), 6 * (32 + 1)),
        (TipAdapter(cache_weight="auto", beta="auto", grid_steps=(5, 5)), 0),
        (TipAdapterF(epochs=1), 24 * 32),
        (TipAdapterFStar(epochs=1, grid_steps=(5, 5)), 24 * 32),
        (ClipAdapter(epochs=1), 2 * 32 * 8),
        (LinearAdapter(epochs=1), 32 * 32),
        (CLAP(epochs=1), 6 * 32),
        (GDA(), 0),
        (TIMO(), 0),
        (SSText(), 0),
        (ProKeR(), 0),
        (CrossModalProbe(iterations=1), 6 * 32),
        (LPPlusPlus(), 6 * (32 + 1)),
        (LPPlusPlus(alpha="none"), 6 * 32),
        (LPPlusPlus(recipe="released"), 6 * (32 + 2)),
        (LPPlusPlus(updates=0), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("tensors", [False, True])
def test_how_many_numbers_are_trained(model, expected, tensors, task, tmp_path):
    """Counted by hand for 24 images of six classes in 32 dimensions; kept by saving, and not there before fitting."""
    from sklearn.base import clone

    model = clone(model)
    assert not hasattr(model, "parameter_count_")
    model.fit(*(torch.from_numpy(part) if tensors else part for part in task[:2]), text=task[2])
    assert model.parameter_count_ == expected
    model.save(tmp_path / "model.lpp")
    assert lpplusplus.load(tmp_path / "model.lpp").parameter_count_ == expected


@pytest.mark.parametrize("name", ALL)
def test_tensors_in_tensors_out(name, task):
    F, y, T, F_val, y_val, F_test, _ = task
    of_arrays = fresh(name).fit(F, y, text=T, X_val=F_val, y_val=y_val)
    as_tensors = [torch.from_numpy(part) for part in (F, y, T, F_val, y_val, F_test)]
    of_tensors = fresh(name).fit(*as_tensors[:2], text=as_tensors[2], X_val=as_tensors[3], y_val=as_tensors[4])
    scores = of_tensors.decision_function(as_tensors[5])
    assert isinstance(scores, torch.Tensor)
    assert np.allclose(scores.numpy(), of_arrays.decision_function(F_test), atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_single_precision_stays_single(name, task):
    F, y, T, F_val, y_val, F_test, _ = task
    model = fresh(name).fit(
        F.astype(np.float32), y, text=T.astype(np.float32), X_val=F_val.astype(np.float32), y_val=y_val
    )
    double = fresh(name).fit(F, y, text=T, X_val=F_val, y_val=y_val)
    assert model.decision_function(F_test.astype(np.float32)).dtype == np.float32
    assert np.mean(model.predict(F_test) == double.predict(F_test)) > 0.9


@pytest.mark.parametrize("name", ALL)
def test_the_given_arrays_are_not_changed(name, task):
    given_arrays = [part.copy() for part in task]
    copies = [part.copy() for part in given_arrays]
    F, y, T, F_val, y_val, F_test, _ = given_arrays
    model = fresh(name).fit(F, y, text=T, X_val=F_val, y_val=y_val)
    model.predict(F_test)
    assert all(np.array_equal(a, b) for a, b in zip(given_arrays, copies, strict=True))
    T += 1  # Nor does the model keep the caller's arrays.
    F += 1
    before = model.decision_function(F_test)
    assert np.array_equal(model.decision_function(F_test), before)
    assert np.allclose(before, fresh(name).fit(*copies[:2], text=copies[2], X_val=copies[3], y_val=copies[4])
                       .decision_function(F_test))  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_a_class_with_a_name_and_no_example(name, task):
    F, y, T, _, _, F_test, y_test = task
    some = y != 5
    model = fresh(name)
    if name.startswith("probe"):
        with pytest.raises(ValueError, match="neither examples nor text"):
            model.fit(F[some], y[some], text=T, classes=range(6))
        return
    model.fit(F[some], y[some], text=T, classes=range(6))
    assert model.predict_proba(F_test).shape == (len(F_test), 6)
    assert model.score(F_test, y_test) > 0.4


@pytest.mark.parametrize("name", ALL)
def test_wrong_parameters_are_named(name, task):
    F, y, T, *_ = task
    parameter = next(iter(ALL[name].get_params()))
    with pytest.raises(ValueError, match=f"{type(ALL[name]).__name__}: {parameter}="):
        fresh(name, **{parameter: object()}).fit(F, y, text=T)


def test_methods_that_do_not_need_torch_do_not_load_it():
    names = {type(model).__name__ for model in ALL.values() if not model.needs_torch}
    assert names >= {"ZeroShot", "LinearProbe", "TipAdapter", "GDA", "TIMO", "SSText", "CrossModalProbe", "LPPlusPlus"}
    code = (
        "import sys, numpy as np, lpplusplus\n"
        "F = np.random.default_rng(0).standard_normal((12, 5))\n"
        f"for name in {sorted(names)}:\n"
        "    getattr(lpplusplus, name)().fit(F, np.arange(12) % 3, text=F[:3]).predict(F)\n"
        "    assert 'torch' not in sys.modules, name"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_trained_method_without_torch_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    code = "import lpplusplus; lpplusplus.TipAdapterF().fit([[1., 0.], [0., 1.]], [0, 1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'TipAdapterF trains with torch: pip install "lpplusplus[torch]"' in done.stderr


def test_without_text_the_class_means_stand_in(task):
    F, y, _, _, _, F_test, _ = task
    means = np.stack([F[y == k].mean(axis=0) for k in range(6)])
    model = ZeroShot().fit(F, y)
    expected = 100 * F_test @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    assert np.allclose(model.decision_function(F_test), expected)
    assert "mean image stands in" in model.history_.notes[0]


# Views ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def views(task):
    F = task[0]
    noise = 0.1 * np.random.default_rng(0).standard_normal((3, *F.shape))
    lengths = np.array([1.0, 2.0, 3.0])[:, None, None]  # Views are averaged before they are normalised.
    return np.moveaxis((F + noise) * lengths, 0, 1)


@pytest.mark.parametrize("name", [name for name in ALL if name not in TRAINED])
def test_views_are_averaged_before_normalising(name, task, views):
    _, y, T, *_, F_test, _ = task
    # LP++'s metric is made of the views themselves (test_metric.py).
    own = {"metric": "none"} if "metric" in fresh(name).get_params() else {}
    several = fresh(name).set_params(**own).fit(views, y, text=T)
    mean = fresh(name).set_params(**own).fit(views.mean(axis=1), y, text=T)
    assert np.array_equal(several.decision_function(F_test), mean.decision_function(F_test))


@pytest.mark.parametrize("name", TRAINED)
def test_training_sees_another_view_each_epoch(name, task, views):
    _, y, T, *_, F_test, _ = task
    one = "one view per image: every epoch sees the same embeddings"
    same = fresh(name).fit(np.repeat(views[:, :1], 3, axis=1), y, text=T)
    single = fresh(name).fit(views[:, 0], y, text=T)
    several = fresh(name).fit(views, y, text=T)
    assert np.allclose(same.decision_function(F_test), single.decision_function(F_test))
    assert not np.allclose(several.decision_function(F_test), single.decision_function(F_test))
    assert one in single.history_.notes
    assert one not in several.history_.notes


def test_the_first_epoch_trains_on_the_first_view(task, views):
    """Keys and scores as an epoch of AdamW on that view makes them, one batch of all images."""
    _, y, T, *_ = task
    model = TipAdapterF(epochs=1).fit(views, y, text=T)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (views.mean(axis=1), views[:, 0])]
    keys = torch.from_numpy(unit[0]).requires_grad_()
    optimiser = torch.optim.AdamW([keys], lr=1e-3, eps=1e-4)
    F, Y = torch.from_numpy(unit[1]), torch.nn.functional.one_hot(torch.from_numpy(y)).double()
    z = 100 * F @ torch.from_numpy(T).T + torch.exp(-(1 - F @ keys.T)) @ Y
    torch.nn.functional.cross_entropy(z, torch.from_numpy(y)).backward()
    optimiser.step()
    assert np.allclose(model.keys_, keys.detach().numpy(), atol=1e-9)


# Zero-shot and the models' special cases --------------------------------------------------------------------------


def test_zero_shot_is_scaled_cosine(task):
    F, y, T, *_, F_test, _ = task
    assert np.allclose(ZeroShot().fit(F, y, text=7 * T).decision_function(3 * F_test), 100 * F_test @ T.T)
    assert np.allclose(ZeroShot(logit_scale=5).fit(F, y, text=T).decision_function(F_test), 5 * F_test @ T.T)


@pytest.mark.parametrize("tensors", [False, True])
def test_zero_shot_needs_no_examples(tensors, task, tmp_path):
    F, y, T, *_, F_test, _ = task
    names = ["ant", "bee", "cat", "dog", "eel", "fox"]
    text, images = (torch.from_numpy(part) if tensors else part for part in (T, F_test))
    model = ZeroShot().fit(text=text, classes=names)
    expected = ZeroShot().fit(F, np.array(names)[y], text=T)
    assert np.allclose(model.decision_function(images), expected.decision_function(F_test))
    assert np.array_equal(model.predict(images), expected.predict(F_test))
    assert model.history_.notes == []
    model.save(tmp_path / "model.lpp")
    assert np.array_equal(lpplusplus.load(tmp_path / "model.lpp").predict(F_test), expected.predict(F_test))
    assert np.array_equal(ZeroShot().fit(None, None, text=T, classes=range(6)).coef_, expected.coef_)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "without examples needs text= and classes="),
        ({"text": np.eye(3)}, "without examples needs text= and classes="),
        ({"classes": "abc"}, "without examples needs text= and classes="),
        ({"text": np.eye(3), "classes": ["a", "b"]}, "text has 3 rows for 2 classes"),
        ({"text": np.eye(2), "classes": ["a", "a"]}, "each named once"),
        ({"text": np.diag([1.0, 0, 1]), "classes": [0, 1, 2]}, "text is zero throughout row 1"),
        ({"text": [[1, np.nan], [1, 0]], "classes": [0, 1]}, "text contains NaN in row 0"),
        ({"X": np.eye(2), "text": np.eye(2), "classes": [0, 1]}, "requires y to be passed"),
    ],
)
def test_what_zero_shot_without_examples_refuses(data, message):
    with pytest.raises(ValueError, match=message):
        ZeroShot().fit(**data)


@pytest.mark.parametrize(
    "model",
    [
        TipAdapter(cache_weight=0),
        TipAdapterF(cache_weight=0),
        ClipAdapter(ratio=0),
        ClipAdapter(flavour="lpp", ratio=0),
        LinearAdapter(epochs=0),
        CLAP(epochs=0),
        GDA(image_weight=0),
        TIMO(image_weight=0),
        SSText(tau=1e12),
        CrossModalProbe(iterations=0),
    ],
    ids=repr,
)
def test_without_its_own_part_a_method_is_zero_shot(model, task):
    F, y, T, *_, F_test, _ = task
    assert np.allclose(
        model.fit(F, y, text=T).decision_function(F_test), ZeroShot().fit(F, y, text=T).decision_function(F_test)
    )


@pytest.mark.parametrize("trained", [TipAdapterF(epochs=0), TipAdapterFStar(epochs=0)])
def test_at_epoch_0_the_trained_versions_are_tip_adapter(trained, task):
    F, y, T, *_, F_test, _ = task
    trained.fit(F, y, text=T)
    assert trained.epoch_ == 0
    assert np.array_equal(trained.decision_function(F_test), TipAdapter().fit(F, y, text=T).decision_function(F_test))


def test_tip_adapter_by_hand(task):
    F, y, T, *_, F_test, _ = task
    model = TipAdapter(cache_weight=2.5, beta=4.0).fit(F, y, text=T)
    expected = 100 * F_test @ T.T + 2.5 * np.exp(-4.0 * (1 - F_test @ F.T)) @ np.eye(6)[y]
    assert np.allclose(model.decision_function(F_test), expected, atol=1e-10)


def test_a_sharp_cache_is_its_nearest_key_and_fades(task):
    F, y, T, *_, F_test, _ = task
    models = [TipAdapter(beta=beta, logit_scale=1e-30).fit(F, y, text=T) for beta in (1, 10, 200)]
    cache = [model.decision_function(F_test) for model in models]
    assert cache[0].max() > cache[1].max() > cache[2].max()
    assert np.array_equal(cache[2].argmax(axis=1), y[(F_test @ F.T).argmax(axis=1)])


def test_clip_adapter_by_hand(task):
    F, y, T, *_, F_test, _ = task
    for flavour, ratio in (("authors", 0.2), ("lpp", 0.5)):
        model = ClipAdapter(flavour=flavour, epochs=3).fit(2 * F, y, text=T)
        X = F_test if flavour == "lpp" else 2 * F_test
        hidden = np.maximum(X @ model.down_.T, 0)
        blend = ratio * np.maximum(hidden @ model.up_.T, 0) + (1 - ratio) * X
        if flavour == "authors":
            blend /= np.linalg.norm(blend, axis=1, keepdims=True)
        assert np.allclose(model.decision_function(2 * F_test), 100 * blend @ T.T, atol=1e-9)
    assert model.down_.shape == (8, 32)


@pytest.mark.parametrize("dim", [2, 3, 5, 7])
def test_clip_adapter_of_any_dimension(dim):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, dim)), np.arange(12) % 3
    model = ClipAdapter(epochs=2).fit(X, y, text=rng.standard_normal((3, dim)))
    assert model.down_.shape == (max(1, dim // 4), dim)


# Gradients -----------------------------------------------------------------------------------------------------------


def mean_loss(z, y):
    return -log_softmax(np.asarray(z), axis=1)[np.arange(len(y)), y].mean()


def check_gradient(loss, loss_of_tensor, values, rng):
    """Directional derivatives by autograd against central differences of the numpy code."""
    leaf = torch.from_numpy(values.copy()).requires_grad_()
    loss_of_tensor(leaf).backward()
    for _ in range(5):
        direction = rng.standard_normal(values.shape)
        step = 1e-5
        difference = (loss(values + step * direction) - loss(values - step * direction)) / (2 * step)
        assert difference == pytest.approx(float((leaf.grad.numpy() * direction).sum()), rel=1e-5, abs=1e-9)


def test_gradient_of_tip_adapter_f(task):
    F, y, T, X, labels, *_ = task
    rng = np.random.default_rng(0)
    as_tensor = [torch.from_numpy(part) for part in (X, 10 * T, y, labels)]

    def of_tensor(keys):
        z = cache_logits(as_tensor[0], as_tensor[1], keys, as_tensor[2], 2.0, 3.0)
        return torch.nn.functional.cross_entropy(z, as_tensor[3])

    def of_array(keys):
        z = 10 * X @ T.T + 2.0 * np.exp(-3.0 * (1 - X @ keys.T)) @ np.eye(6)[y]
        return mean_loss(z, labels)

    check_gradient(of_array, of_tensor, F, rng)


@pytest.mark.parametrize("flavour", ["authors", "lpp"])
@pytest.mark.parametrize("layer", [0, 1])
def test_gradient_of_clip_adapter(flavour, layer, task):
    _, _, T, X, labels, *_ = task
    rng = np.random.default_rng(0)
    layers = [rng.standard_normal((8, 32)), rng.standard_normal((32, 8))]
    model = ClipAdapter(flavour=flavour)
    model.ratio_ = 0.3
    X = 2 * X

    def of_tensor(value):
        parts = [torch.from_numpy(part) for part in layers]
        parts[layer] = value
        z = model._scores(torch.from_numpy(X), torch.from_numpy(10 * T), *parts)
        return torch.nn.functional.cross_entropy(z, torch.from_numpy(labels))

    def of_array(value):
        down, up = (value if i == layer else part for i, part in enumerate(layers))
        F = X / 2 if flavour == "lpp" else X
        blend = 0.3 * np.maximum(np.maximum(F @ down.T, 0) @ up.T, 0) + 0.7 * F
        if flavour == "authors":
            blend = blend / np.linalg.norm(blend, axis=1, keepdims=True)
        return mean_loss(10 * blend @ T.T, labels)

    check_gradient(of_array, of_tensor, layers[layer], rng)


def test_the_adapter_at_zero_weights_is_the_blend():
    F = np.eye(3)
    assert np.allclose(adapted(F, np.zeros((2, 3)), np.zeros((3, 2)), 0.25), 0.75 * F)


# Training ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TRAINED[:-1], "clap"])
def test_training_is_seeded_and_reports_progress(name, task):
    F, y, T, F_val, y_val, F_test, _ = task
    told = []
    extra = {"X_val": F_val, "y_val": y_val}
    batch = {"batch_size": 5}
    first = fresh(name, progress=lambda *args: told.append(args), **batch).fit(F, y, text=T, **extra)
    again = fresh(name, **batch).fit(F, y, text=T, **extra)
    other = fresh(name, random_state=1, **batch).fit(F, y, text=T, **extra)
    assert np.array_equal(first.decision_function(F_test), again.decision_function(F_test))
    assert not np.array_equal(first.decision_function(F_test), other.decision_function(F_test))
    total = told[-1][1]
    assert told == [(i + 1, total) for i in range(total)]
    assert total == fresh(name).epochs * (10 if name == "tip-f*" else 1)


@pytest.mark.parametrize("name", ["tip-f", "adapter", "adapter, lpp", "linear adapter", "clap"])
def test_training_lowers_the_loss_and_keeps_the_best_epoch(name, task):
    F, y, T, F_val, y_val, *_ = task
    model = fresh(name, epochs=30, learning_rate=0.02).fit(F, y, text=T, X_val=F_val, y_val=y_val)
    accuracies = model.history_["validation_accuracy"]
    assert min(model.history_["loss"]) < model.history_["loss"][0]
    assert model.epoch_ == int(np.argmax(accuracies)) + 1  # The first of the best.
    assert model.score(F_val, y_val) == pytest.approx(max(accuracies))
    last = fresh(name, epochs=30, learning_rate=0.02).fit(F, y, text=T)
    assert last.epoch_ == 30


def test_an_interrupted_training_changes_nothing(task):
    F, y, T, *_, F_test, _ = task
    model = TipAdapterF(epochs=3).fit(F, y, text=T)
    before = model.decision_function(F_test)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(progress=stop, random_state=3).fit(F[::-1], y[::-1], text=T)
    assert np.array_equal(model.decision_function(F_test), before)


def test_clip_adapter_epochs_follow_the_shots(task):
    F, _, T, *_ = task
    for shots, epochs in {1: 50, 2: 100, 4: 100, 8: 200, 16: 200}.items():
        X, y = np.repeat(F[:6], shots, axis=0), np.repeat(np.arange(6), shots)
        assert ClipAdapter(batch_size=1000).fit(X, y, text=T).epoch_ == epochs


def test_rates_along_training(task):
    """CLIP-Adapter warms up for an epoch at 1e-5; both fall along a cosine, Tip-Adapter-F's batch by batch."""
    from lpplusplus.methods._training import cosine

    F, y, T, *_ = task
    schedule = ClipAdapter(epochs=10)._schedule(ClipAdapter()._check_task(F, y, text=T).working())
    assert schedule.learning_rate * schedule.factor(0.5) == pytest.approx(1e-5)
    assert schedule.factor(5) == pytest.approx(0.5)
    assert [cosine(20)(t) for t in (0, 10, 20)] == pytest.approx([1, 0.5, 0])


# Tip-Adapter's grid --------------------------------------------------------------------------------------------------


def double_loop(text_logits, cosines, values, y, alphas, betas):
    """Every point by itself, affinities and all."""
    one_hot = np.eye(text_logits.shape[1])[values]
    best, hits = (-1, None, None), np.zeros((len(betas), len(alphas)), int)
    for i, beta in enumerate(betas):
        for j, alpha in enumerate(alphas):
            z = text_logits + alpha * (np.exp(-beta * (1 - cosines.T)) @ one_hot)
            hits[i, j] = (z.argmax(axis=1) == y).sum()
            if hits[i, j] > best[0]:
                best = (hits[i, j], alpha, beta)
    return hits, best


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_grid_equals_the_double_loop(seed, K, coarse):
    """Including which of several equal maxima wins; `coarse` numbers make exact ties common."""
    rng = np.random.default_rng(seed)
    n, N = 9, 7
    y, values = rng.integers(0, K, n), rng.integers(0, K, N)
    text, cosines = rng.standard_normal((n, K)), rng.uniform(-1, 1, (N, n))
    alphas, betas = grid(0.1, 5, 12), grid(0.5, 3, 8)
    if coarse:
        # Quarters, doubled evidence and betas of 0: sums are exact, and so are their ties.
        text, cosines, betas, alphas = np.round(text * 2) / 4, np.round(cosines), np.zeros(3), np.arange(1, 9) / 4
    expected, best = double_loop(text, cosines, values, y, alphas, betas)
    hits = count_hits(text, cosines, values, y, alphas, betas)
    assert np.array_equal(hits, expected)
    assert best_of(hits, alphas, betas, n) == (best[1], best[2], best[0] / n)


def test_fstar_grid_equals_the_double_loop(task):
    """From the estimator's own keys, on its own grid."""
    F, y, T, F_val, y_val, *_ = task
    model = TipAdapterFStar(epochs=3, grid_steps=(30, 25)).fit(F, y, text=T, X_val=F_val, y_val=y_val)
    alphas = [model.alpha_start_ + j * (50 - model.alpha_start_) / 30 for j in range(30)]
    betas = [1 + i * 49 / 25 for i in range(25)]
    _, best = double_loop(100 * F_val @ T.T, model.keys_ @ F_val.T, model.values_, y_val, alphas, betas)
    assert (model.alpha_, model.beta_) == pytest.approx(best[1:])
    assert model.score(F_val, y_val) == pytest.approx(best[0] / len(y_val))


def test_fstar_trains_each_candidate_from_its_own_copy(task):
    """What F* keeps is what F gives at the chosen α: no candidate has trained on another's keys."""
    F, y, T, F_val, y_val, *_ = task
    data = {"text": T, "X_val": F_val, "y_val": y_val}
    star = TipAdapterFStar(epochs=5, learning_rate=0.02).fit(F, y, **data)
    alone = {
        alpha: TipAdapterF(epochs=5, learning_rate=0.02, cache_weight=alpha).fit(F, y, **data) for alpha in range(1, 11)
    }
    best = max(alone, key=lambda alpha: max(alone[alpha].history_["validation_accuracy"]))
    assert star.alpha_start_ == best
    assert np.array_equal(star.keys_, alone[best].keys_)
    assert star.epoch_ == alone[best].epoch_


def test_leaving_one_out_without_validation(task):
    """The support is searched with every image's own key removed."""
    F, y, T, *_ = task
    model = TipAdapter(cache_weight="auto", beta="auto", grid_steps=(10, 10)).fit(F, y, text=T)
    cosines = F @ F.T
    np.fill_diagonal(cosines, -np.inf)
    grid = [0.1 + i * 49.9 / 10 for i in range(10)]
    _, best = double_loop(100 * F @ T.T, cosines, y, y, grid, grid)
    assert (model.alpha_, model.beta_) == pytest.approx(best[1:])
    lonely = TipAdapter(cache_weight="auto", beta="auto").fit(F[y.argsort()][::4], np.arange(6), text=T)
    assert (lonely.alpha_, lonely.beta_) == (1, 1)
    assert "α=1 and β=1" in lonely.history_.notes[-1]


# The linear probe ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["lpp", "coop"])
@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("validation", [False, True])
def test_probe_is_logistic_regression_at_the_strength_found(flavour, classes, validation, task):
    F, y, _, F_val, y_val, F_test, _ = task
    mine, held = y < classes, y_val < classes
    X = 3 * F[mine]
    extra = {"X_val": 3 * F_val[held], "y_val": y_val[held]} if validation else {}
    probe = LinearProbe(flavour=flavour, tol=1e-9, max_iter=10_000).fit(X, y[mine], **extra)
    scale = 3 if flavour == "coop" else 1
    other = LogisticRegression(C=probe.C_, tol=1e-9, max_iter=10_000).fit(scale * F[mine], y[mine])
    assert np.allclose(probe.predict_proba(3 * F_test), other.predict_proba(scale * F_test), atol=1e-4)


def plain_search(F, y, F_val, y_val):
    """CoOp's search with a fit for every question, nothing shared."""
    asked = []

    def accuracy(C):
        model = LogisticRegression(C=C, tol=1e-8, max_iter=10_000).fit(F, y)
        asked.append((C, model.score(F_val, y_val)))
        return asked[-1][1]

    scores = [accuracy(C) for C in DECADES]
    centre = DECADES[int(np.argmax(scores))]
    left, right = np.log10(centre / 10), np.log10(centre * 10)
    for _ in range(BISECTIONS):
        a, b = accuracy(10**left), accuracy(10**right)
        best = right if a < b else left
        if a < b:
            left = (left + right) / 2
        else:
            right = (left + right) / 2
    return 10**best, asked


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shared_work_gives_the_answer_of_23_separate_fits(seed):
    X, y, _ = small_task(5, 3, 40, seed=seed, n_extra=60)
    F, labels, X, y = X[:40], y[:40], X[40:], y[40:]
    probe = LinearProbe(tol=1e-8, max_iter=10_000).fit(F, labels, X_val=X, y_val=y)
    C, asked = plain_search(F, labels, X, y)
    assert np.isclose(probe.C_, C)
    assert np.allclose(probe.history_["C"], [C for C, _ in asked])
    assert np.allclose(probe.history_["accuracy"], [accuracy for _, accuracy in asked])
    assert len(asked) == 23
    assert sum(probe.history_["solved"]) == 15


def test_search_takes_the_largest_of_equals_then_the_left_end():
    """A score that never changes: the first stage takes 1e6, every bisection its left end."""
    history = lpplusplus.History()
    assert search_strength(lambda C: 0.5, history) == pytest.approx(1e5)
    assert history["C"][7:9] == pytest.approx([1e5, 1e7])
    assert len(history["C"]) == 23


def test_search_finds_a_peak():
    found = search_strength(lambda C: -abs(np.log10(C) - 0.3), lpplusplus.History())
    assert np.log10(found) == pytest.approx(0.3, abs=0.01)


def test_one_shot_without_validation_uses_the_fallback(task):
    F, y, *_ = task
    probe = LinearProbe(fallback_C=7.0).fit(F[y.argsort()][::4], np.arange(6))
    assert probe.C_ == 7.0
    assert "fallback_C" in probe.history_.notes[0]


def test_a_probe_that_does_not_converge_says_so(task):
    F, y, *_ = task
    assert "max_iter=1 reached" in LinearProbe(C=1e6, max_iter=1).fit(F, y).history_.notes[-1]
