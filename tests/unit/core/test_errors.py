"""Bad input: a ValueError that names the array, the row and the remedy, and changes nothing."""

import re

import numpy as np
import pytest
from scipy import sparse

from lpplusplus import LPPlusPlus
from tasks import small_task

F, Y, T = small_task(4, 3, 16, seed=0)


def spoiled(array, row, value):
    bad = array.copy()
    bad[row] = value
    return bad


def nan_at(array, row):
    bad = array.copy()
    bad[row, 2] = np.nan
    return bad


FIT_CASES = {
    "nan": ({"X": nan_at(F, 5)}, r"X contains NaN in row 5.*remove"),
    "infinity": ({"X": spoiled(F, 7, np.inf)}, r"X contains infinity \(inf\) in row 7"),
    "both infinities": ({"X": spoiled(F, 7, [np.inf, -np.inf] * 8)}, r"X contains infinity \(inf\) in row 7"),
    "nan in text": ({"text": nan_at(T, 1)}, "text contains NaN in row 1"),
    "nan in validation": ({"X_val": nan_at(F, 3), "y_val": Y}, "X_val contains NaN in row 3"),
    "zero row": ({"X": spoiled(F, 2, 0)}, "X is zero throughout row 2.*Remove"),
    "zero text": ({"text": spoiled(T, 3, 0)}, "text is zero throughout row 3"),
    "zero validation row": ({"X_val": spoiled(F, 4, 0), "y_val": Y}, "X_val is zero throughout row 4"),
    "text of another model": ({"text": T[:, :8]}, "text has 8 columns but the images have 16.*same model"),
    "validation of another model": ({"X_val": F[:, :8], "y_val": Y}, "X_val has 8 columns but the images have 16"),
    "too few text rows": ({"text": T[:3]}, r"text has 3 rows but y has 4 different labels \(0, 1, 2, 3\).*classes="),
    "text and classes differ": ({"classes": [0, 1, 2, 3, 4]}, "text has 4 rows for 5 classes"),
    "class twice": ({"classes": [0, 1, 2, 2]}, "classes must be a flat list of labels, each named once"),
    "label not in classes": (
        {"classes": [0, 1, 2, 9]},
        r"y has the unknown label 3 in row \d+; the classes are 0, 1, 2, 9",
    ),
    "unknown validation label": ({"X_val": F, "y_val": Y + 1}, r"y_val has the unknown label 4 in row \d+.*Remove"),
    "empty": ({"X": F[:0], "y": Y[:0]}, r"X is empty: it has 0 sample\(s\) \(shape=\(0, 16\)\) .*a row for each image"),
    "no columns": (
        {"X": F[:, :0]},
        r"X is empty: it has 0 feature\(s\) \(shape=\(12, 0\)\) .*a column for each dimension",
    ),
    "complex": ({"X": F + 1j}, "^X: Complex data not supported. Pass X.real"),
    "complex text": ({"text": T + 1j}, "^text: Complex data not supported. Pass text.real"),
    "flat": ({"X": F[0]}, "Reshape your data"),
    "four dimensions": ({"X": F[None, None]}, r"X has 4 dimension\(s\) but must have 2.*a row for each"),
    "words for text": ({"text": ["cat", "dog", "eel", "fox"]}, "text holds words \\('cat' comes first\\).*embed them"),
    "an array of words": ({"text": np.array(["cat", "dog", "eel", "fox"])}, "text holds words"),
    "flat text": ({"text": T[0]}, r"text has 1 dimension\(s\) but must have 2.*text\[None"),
    "views of validation images": (
        {"X_val": F[None], "y_val": Y},
        r"X_val has 3 dimension\(s\) but must have 2.*X_val\.mean\(axis=1\)",
    ),
    "a missing label": ({"y": np.array(["a", "b", None] * 4, dtype=object)}, r"y has no label in row 2 \(None\)"),
    "a label that is NaN": ({"y": np.array(["a", np.nan] * 6, dtype=object)}, r"y has no label in row 1 \(nan\)"),
    "mixed labels": ({"y": np.array(["a", "b", 3] * 4, dtype=object)}, "y mixes .*'a' in row 0, 3 in row 2.*strings"),
    "no views": ({"X": np.empty((12, 0, 5))}, "1 view"),
    "NaN in a view": ({"X": np.full((12, 2, 5), np.nan)}, r"X.reshape\(-1, 5\) contains NaN in row 0"),
    "label count": ({"y": Y[:-1]}, "y has 11 labels for 12 rows"),
    "validation label count": ({"X_val": F, "y_val": Y[:3]}, "y_val has 3 labels for 12 rows"),
    "no labels": ({"y": None}, "requires y to be passed, but the target y is None"),
    "continuous labels": ({"y": Y + 0.5}, r"Unknown label type: continuous. y has .* in row 0"),
    "one class": ({"y": np.zeros(12), "text": None}, "y has 1 class.*at least 2 classes"),
    "half of the validation": ({"X_val": F}, "X_val and y_val belong together"),
}


@pytest.mark.parametrize("case", FIT_CASES)
def test_fit(case):
    change, message = FIT_CASES[case]
    arguments = {"X": F, "y": Y, "text": T, **change}
    probe, fitted = LPPlusPlus(), LPPlusPlus().fit(F, Y, text=T)
    before = fitted.predict(F)
    X, y = arguments.pop("X"), arguments.pop("y")
    for one in (probe, fitted):
        with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
            one.fit(X, y, **arguments)
    assert not hasattr(probe, "coef_")
    assert (fitted.predict(F) == before).all()


def test_numbers_too_large_to_be_squared():
    """Normalised embeddings may have any length; others must stay within the numbers' range."""
    X = F.astype(np.float32)
    plain = LPPlusPlus().fit(X, Y, text=T)
    for size in (1e25, 1e-25):
        scaled = LPPlusPlus().fit(size * X, Y, text=size * T.astype(np.float32))
        np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(plain.predict_proba(size * X), plain.predict_proba(X), atol=1e-5)
    mixed = X * np.array([1, 1e25, 1e-25] * 4, dtype=np.float32)[:, None]
    np.testing.assert_allclose(plain.predict_proba(mixed), plain.predict_proba(X), atol=1e-5)
    raw = LPPlusPlus(normalize=False).fit(X, Y, text=T)
    for call in (raw.predict, lambda bad: raw.fit(bad, Y), lambda bad: raw.fit(X, Y, X_val=bad, y_val=Y)):
        with pytest.raises(ValueError, match=r"X.* in row 3 whose squares are too large for float32"):
            call(spoiled(X, 3, 1e25))


def test_sparse():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        LPPlusPlus().fit(sparse.csr_array(F), Y)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda t: t.to_sparse(), TypeError, r"Sparse data was passed for .*\(torch.sparse_coo\).*\.to_dense\(\)"),
        (lambda t: t.to("meta"), ValueError, r"'meta', which has shapes and no numbers"),
    ],
    ids=["sparse", "meta"],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_tensors_without_rows_of_numbers(change, error, says, torch):
    X, y = torch.as_tensor(F), torch.as_tensor(Y)
    weights, views = torch.ones(len(y)), torch.stack([X, X], 1)
    odd = [change(one) for one in (X, y, views, weights)]
    probe = LPPlusPlus().fit(X, y)
    for call in (
        lambda: LPPlusPlus().fit(odd[0], y),
        lambda: LPPlusPlus().fit(X, odd[1]),
        lambda: LPPlusPlus().fit(odd[2], y),
        lambda: LPPlusPlus().fit(X, y, text=change(torch.as_tensor(T))),
        lambda: LPPlusPlus().fit(X, y, X_val=odd[0], y_val=y),
        lambda: LPPlusPlus().fit(X, y, X_val=X, y_val=odd[1]),
        lambda: LPPlusPlus().fit(X, y, sample_weight=odd[3]),
        lambda: probe.predict(odd[0]),
    ):
        with pytest.raises(error, match=says):
            call()


def test_zero_rows_are_fine_without_text():
    probe = LPPlusPlus().fit(spoiled(F, 2, 0), Y)
    assert np.isfinite(probe.coef_).all()
    probe.predict(np.zeros((1, 16)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (F[:, :8], "X has 8 features, but LPPlusPlus is expecting 16 features as input"),
        (nan_at(F, 1), "X contains NaN in row 1"),
        (spoiled(F, 6, 0), "X is zero throughout row 6"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_predict(X, message, method):
    probe = LPPlusPlus(updates=0).fit(F, Y, text=T)
    with pytest.raises(ValueError, match=message):
        getattr(probe, method)(X)


def test_not_fitted():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        LPPlusPlus().predict(F)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"recipe": "peper"},
            "LPPlusPlus: recipe='peper' is not allowed; it must be one of 'default', 'paper', 'released'",
        ),
        ({"solver": "sgd"}, "solver='sgd' is not allowed.*'block-mm'"),
        ({"updates": -1}, "updates=-1 is not allowed; it must be a whole number >= 0"),
        ({"updates": 2.5}, "updates=2.5"),
        ({"updates": True}, "updates=True"),
        ({"alpha_init": "mean"}, "alpha_init='mean'.*'shared', 'per-class'"),
        ({"alpha_init": np.nan}, "alpha_init=nan"),
        ({"folds": 1}, "folds=1"),
        ({"normalize": "yes"}, "normalize='yes'.*True or False"),
        ({"random_state": "lucky"}, "random_state='lucky'"),
    ],
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LPPlusPlus(**parameters).fit(F, Y, text=T)
