"""Tensors: the same results as with numpy, where the data live."""

import numpy as np
import pytest
import scipy

import lpplusplus
from lpplusplus import LPPlusPlus, curvature, fit_many, objective, starts
from lpplusplus._core import backend
from lpplusplus.solvers import Adam, GradientDescent
from tasks import small_task
from transcriptions import logits, released_loop

torch = pytest.importorskip("torch")
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=[(6, 5, 32), (4, 30, 16)], ids=["span", "primal"])
def task(request):
    return small_task(*request.param, seed=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"recipe": "paper"},
        {"recipe": "released"},
        {"solver": GradientDescent(certified=True), "selection": "last"},
        {"solver": Adam(40, learning_rate=0.01), "selection": "last"},
        {"solver": "lbfgs", "selection": "last", "updates": 5},
        {"alpha": "none"},
        {"alpha_init": "per-class", "updates": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("validation", [False, True])
def test_the_torch_path_equals_the_numpy_path(task, parameters, validation, device):
    F, y, T = task
    extra = {"X_val": F[::2], "y_val": y[::2]} if validation else {}
    reference = LPPlusPlus(**parameters).fit(F, y, text=T, **extra)
    tensor = {name: torch.tensor(value, device=device) for name, value in {"X": F, "y": y, "text": T, **extra}.items()}
    probe = LPPlusPlus(**parameters).fit(tensor.pop("X"), tensor.pop("y"), **tensor)
    assert isinstance(probe.coef_, torch.Tensor)
    assert probe.coef_.device.type == device
    assert probe.selection_ == reference.selection_
    assert probe.n_updates_ == reference.n_updates_
    assert np.allclose(probe.coef_.cpu().numpy(), reference.coef_, atol=1e-7)
    X = torch.tensor(F, device=device)
    assert torch.allclose(probe.decision_function(X).cpu(), torch.tensor(reference.decision_function(F)), atol=1e-7)
    assert (probe.predict(X).cpu().numpy() == reference.predict(F)).all()
    assert probe.predict(X).device.type == device
    assert torch.allclose(probe.predict_proba(X).sum(dim=1), torch.ones(len(F), dtype=X.dtype, device=device))


def test_adam_is_torchs(task):
    """Twenty steps on W, α and an intercept, through torch's own optimiser and its own gradients."""
    F, y, T = task
    parameters = {"solver": Adam(learning_rate=0.05), "intercept": True, "selection": "last", "metric": "none"}
    start, end = (LPPlusPlus(**parameters, updates=u).fit(F, y, text=T) for u in (0, 20))
    W, alpha, b = (torch.tensor(x, requires_grad=True) for x in (start.prototypes_, start.alpha_, start.intercept_))
    optimizer = torch.optim.Adam([W, alpha, b], lr=0.05)
    X, labels, text = torch.tensor(F), torch.tensor(y), torch.tensor(T)
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(X @ (W + alpha[:, None] * text).T + b, labels).backward()
        optimizer.step()
    assert np.allclose(end.alpha_, alpha.detach(), atol=1e-6)
    assert np.allclose(end.intercept_, b.detach(), atol=1e-6)
    assert np.allclose(end.coef_, (W + alpha[:, None] * text).detach(), atol=1e-5)


def test_the_loop_that_speed_is_measured_against_is_the_released_one():
    from benchmarks import reference
    from benchmarks.synthetic import clip_like

    task = clip_like(10, 2, dim=32)
    b0 = reference._linear(32, 10, seed=0).bias.detach().numpy()
    F, T = task.X.astype(np.float64), task.text.astype(np.float64)
    losses = []
    for W, b, alpha in released_loop(F, task.y, T, b0, iterations=29):
        z = logits(F, T, W, alpha, b)
        losses.append(np.mean(np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1) - z[np.arange(20), task.y]))
    assert np.allclose(reference.released_torch(task, steps=30).losses, losses, atol=1e-4)


def test_lazy_validation_on_tensors(monkeypatch, task):
    monkeypatch.setattr("lpplusplus.probe.selection.WORTH_BEING_LAZY", 0)
    F, y, T = task
    numpy, tensor = (
        LPPlusPlus(recipe="paper").fit(a(F), a(y), text=a(T), X_val=a(F), y_val=a(y))
        for a in (np.asarray, torch.tensor)
    )
    assert numpy.history_.validation_accuracy == tensor.history_.validation_accuracy


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
def test_copies_lie_row_by_row_and_dots_are_those_of_einsum(library):
    """The solvers add copies of transposed arrays to products; in two orders that takes ten times as long."""
    x = library.arange(12.0).reshape(3, 4)
    for source in (x, x.T, x[:, ::2]):
        copy = backend.copy(source)
        assert (copy == source).all()
        assert (copy.flags.c_contiguous and copy.base is None) if library is np else copy.is_contiguous()
        copy += 1
        assert x[0, 0] == 0
    z = x + 0.5
    for a, b in ((x, z), (x, x), (x.T, z.T)):
        rows, columns = library.einsum("ij,ij->i", a, b), library.einsum("ij,ij->j", a, b)
        assert np.allclose(backend.row_dots(a, b), rows)
        assert np.allclose(backend.column_dots(a, b), columns)


def test_string_labels_come_back_as_numpy(task):
    F, y, T = task
    words = np.array([f"class {k}" for k in range(len(T))])
    probe = LPPlusPlus().fit(torch.tensor(F), words[y], text=torch.tensor(T))
    assert isinstance(probe.predict(torch.tensor(F)), np.ndarray)
    assert probe.score(torch.tensor(F), words[y]) > 0.7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precisions(task, dtype):
    F, y, T = task
    probe = LPPlusPlus().fit(torch.tensor(F).to(dtype), y, text=torch.tensor(T).to(dtype))
    assert probe.coef_.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert (probe.predict(torch.tensor(F).to(dtype)).numpy() == y).mean() > 0.7


def test_gradients_are_left_alone(task):
    F, y, T = task
    X = torch.tensor(F, requires_grad=True)
    before = X.detach().clone()
    probe = LPPlusPlus().fit(X, y, text=torch.tensor(T))
    assert not probe.coef_.requires_grad
    assert X.grad is None
    assert torch.equal(X.detach(), before)


def test_fit_on_one_library_and_predict_with_the_other(task, tmp_path):
    F, y, T = task
    probe = LPPlusPlus().fit(torch.tensor(F), y, text=T)
    assert (probe.predict(F) == probe.predict(torch.tensor(F)).numpy()).all()
    other = LPPlusPlus().fit(F, y, text=torch.tensor(T), X_val=torch.tensor(F), y_val=y)
    assert isinstance(other.coef_, np.ndarray)
    assert isinstance(other.decision_function(torch.tensor(F)), torch.Tensor)
    probe.save(tmp_path / "t.lpp")
    again = lpplusplus.load(tmp_path / "t.lpp")
    assert torch.allclose(again.decision_function(torch.tensor(F)), probe.decision_function(torch.tensor(F)))


def test_errors_name_the_row(task):
    F, y, T = task
    bad = torch.tensor(F)
    bad[3, 0] = float("nan")
    with pytest.raises(ValueError, match="X contains NaN in row 3"):
        LPPlusPlus().fit(bad, y, text=T)
    bad[3] = 0
    with pytest.raises(ValueError, match="X is zero throughout row 3"):
        LPPlusPlus().fit(bad, y, text=T)
    with pytest.raises(ValueError, match="Complex data not supported"):
        LPPlusPlus().fit(torch.tensor(F).to(torch.complex64), y)
    with pytest.raises(ValueError, match="Reshape your data"):
        LPPlusPlus().fit(torch.tensor(F)[0], y)
    with pytest.raises(ValueError, match="empty"):
        LPPlusPlus().fit(torch.tensor(F)[:0], y[:0])
    with pytest.raises(ValueError, match="features, but LPPlusPlus is expecting"):
        LPPlusPlus().fit(F, y).predict(torch.tensor(F)[:, :3])


def test_scores_of_tensors_that_numpy_cannot_read(task, monkeypatch):
    """As on a GPU."""
    F, y, T = (torch.tensor(a) for a in task)
    probe = LPPlusPlus().fit(F, y, text=T)
    expected = float((probe.predict(F) == y).double().mean())

    def refuse(tensor, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    assert probe.score(F, y) == expected
    assert probe.score(F, y, sample_weight=torch.ones(len(y))) == expected


def test_fitting_tensors_forgets_the_columns_of_a_data_frame(task):
    pandas = pytest.importorskip("pandas")
    F, y, T = task
    probe = LPPlusPlus().fit(pandas.DataFrame(F, columns=[f"d{j}" for j in range(F.shape[1])]), y, text=T)
    probe.fit(torch.tensor(F)[:, :10], y)
    assert not hasattr(probe, "feature_names_in_")
    assert probe.predict(F[:, :10]).shape == y.shape


@pytest.mark.filterwarnings("error")
def test_text_that_must_not_be_written_to(task):
    F, y, T = task
    T = T.copy()
    T.flags.writeable = False
    LPPlusPlus().fit(torch.tensor(F), y, text=T)


def test_fit_many_on_tensors(task):
    F, y, T = task
    rows = [torch.arange(len(y)), np.flatnonzero(y < 4)]
    probes = fit_many(torch.tensor(F), y, rows, text=T)
    assert isinstance(probes[1].coef_, torch.Tensor)
    alone = LPPlusPlus().fit(F[rows[1]], y[rows[1]], text=T, classes=range(len(T)))
    assert np.allclose(probes[1].coef_.numpy(), alone.coef_, atol=1e-8)


def test_public_functions(task):
    F, y, T = task
    tF, ty, tT = (torch.tensor(a) for a in task)
    W = starts.class_sums(F, y, len(T))
    tW = starts.class_sums(tF, ty, len(T))
    assert np.allclose(tW, W)
    assert starts.shared_alpha(tF, ty, tT) == pytest.approx(starts.shared_alpha(F, y, T))
    assert np.allclose(starts.per_class_alpha(tF, ty, tT), starts.per_class_alpha(F, y, T))
    assert curvature.lambda_max(tF) == pytest.approx(curvature.lambda_max(F))
    assert curvature.gamma_alpha(tF, tT) == pytest.approx(curvature.gamma_alpha(F, T))
    assert np.allclose(curvature.certified(tF, tT).alpha, curvature.certified(F, T).alpha)
    alpha = np.full(len(T), 40.0)
    assert objective.loss(tF, ty, tW, torch.tensor(alpha), tT) == pytest.approx(objective.loss(F, y, W, alpha, T))
    g, tg = objective.gradients(F, y, W, alpha, T), objective.gradients(tF, ty, tW, torch.tensor(alpha), tT)
    assert np.allclose(tg.W, g.W)
    assert np.allclose(tg.alpha, g.alpha)


def test_the_gradient_of_rows_of_unit_length():
    """As that of x / |x|, also where x has unit length and division changes nothing."""
    x = torch.nn.functional.normalize(torch.randn(5, 7, dtype=torch.float64, generator=torch.manual_seed(0)), dim=1)
    x[4] *= 3
    for rows in (x[:4], x):
        one, other = rows.clone().requires_grad_(), rows.clone().requires_grad_()
        weights = torch.arange(7.0, dtype=torch.float64)
        (backend.unit_rows(one) @ weights).sum().backward()
        (torch.nn.functional.normalize(other, dim=1) @ weights).sum().backward()
        assert torch.allclose(one.grad, other.grad)


@pytest.mark.skipif(scipy.__version__.split(".")[1] in ("12", "13"), reason="scikit-learn's array API needs SciPy 1.14")
def test_scikit_learns_array_api_check():
    """scikit-learn's own array-API check, which needs an environment variable set before anything is imported."""
    import os
    import subprocess
    import sys

    code = (
        "import lpplusplus, sklearn.utils.estimator_checks as c\n"
        "c.check_array_api_input('LPPlusPlus', lpplusplus.LPPlusPlus(), 'torch', 'cpu', 'float64')\n"
        "c.check_array_api_input('LPPlusPlus', lpplusplus.LPPlusPlus(), 'torch', 'cpu', 'float32')\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(scipy.__version__.split(".")[1] in ("12", "13"), reason="scikit-learn's array API needs SciPy 1.14")
def test_calibration_of_tensors_with_array_api_dispatch():
    """The only method of calibration that scikit-learn has for tensors; the result is that of numpy arrays."""
    import os
    import subprocess
    import sys

    code = (
        "import numpy as np, sklearn, torch\n"
        "from sklearn.calibration import CalibratedClassifierCV\n"
        "from sklearn.frozen import FrozenEstimator\n"
        "from lpplusplus import LPPlusPlus\n"
        "from tasks import small_task\n"
        "F, y, T = small_task(4, 20, 24, seed=0)\n"
        "def calibrated(F, y, T):\n"
        "    probe = LPPlusPlus().fit(F, y, text=T)\n"
        "    probe.fit(F, y, text=T)\n"  # Fitted again, it has classes_ from before.
        "    return CalibratedClassifierCV(FrozenEstimator(probe), method='temperature').fit(F, y).predict_proba(F)\n"
        "expected = calibrated(F, y, T)\n"
        "with sklearn.config_context(array_api_dispatch=True):\n"
        "    got = calibrated(*map(torch.as_tensor, (F, y, T)))\n"
        "    probe = LPPlusPlus().fit(*map(torch.as_tensor, (F, y)))\n"
        "    assert isinstance(probe.classes_, torch.Tensor)\n"
        "    assert isinstance(probe.predict(torch.as_tensor(F)), torch.Tensor)\n"
        "assert isinstance(probe.classes_, np.ndarray)\n"
        "assert isinstance(got, torch.Tensor)\n"
        "with sklearn.config_context(array_api_dispatch=True):\n"
        "    folds = CalibratedClassifierCV(LPPlusPlus(), method='temperature', cv=3)\n"
        "    assert sklearn.utils.get_tags(folds).array_api_support\n"
        "    folds.fit(*map(torch.as_tensor, (F, y)), text=torch.as_tensor(T))\n"
        "    assert isinstance(folds.predict(torch.as_tensor(F)), torch.Tensor)\n"
        "assert np.abs(got.numpy() - expected).max() < 1e-4\n"
    )
    path = os.pathsep.join([*sys.path, os.path.dirname(os.path.dirname(__file__))])
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": path}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
