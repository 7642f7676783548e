"""Names and labels that do not belong together: what is said, and that nothing is said where there is no reason."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

import lpplusplus
from helpers import shared_data
from lpplusplus import GDA, TIMO, LPPlusPlus, ZeroShot, fit_many
from lpplusplus._core.rows import Rows


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def satellite():
    with np.load(shared_data("whurs19/clip_vit_b32.npz")) as content:
        images, y, prompts = (content[name] for name in ("images", "labels", "text"))
    rows = np.concatenate([np.flatnonzero(y == k)[:4] for k in range(19)])
    return images[rows].astype(np.float32), y[rows], prompts.astype(np.float32)


@pytest.mark.parametrize("method", [LPPlusPlus, GDA, ZeroShot])
def test_names_in_another_order(satellite, method):
    X, y, prompts = satellite
    with pytest.warns(UserWarning, match="are the rows of text in the order of the classes"):
        method().fit(X, y, text=np.roll(prompts.mean(axis=0), 1, axis=0))


def test_names_in_another_order_for_many_tasks(satellite):
    X, y, prompts = satellite
    with pytest.warns(UserWarning, match="are the rows of text in the order of the classes") as said:
        fit_many(X, y, [np.arange(len(y))], text=np.roll(prompts.mean(axis=0), 1, axis=0))
    assert [warning.filename for warning in said] == [__file__]


@pytest.mark.parametrize("method", [LPPlusPlus, GDA, ZeroShot])
def test_nothing_is_said_of_names_that_fit_or_mean_nothing(satellite, method):
    X, y, prompts = satellite
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method().fit(X, y, text=prompts.mean(axis=0))
        rng = np.random.default_rng(0)
        for _ in range(10):
            method().fit(X, y, text=rng.standard_normal((19, X.shape[1])))


@pytest.mark.parametrize("method", [LPPlusPlus, TIMO])
def test_prompts_and_classes_swapped(satellite, method):
    X, y, prompts = satellite
    with pytest.raises(ValueError, match=r"shape \(19, 7, 512\) for 19 .*text\.swapaxes\(0, 1\)"):
        method().fit(X, y, text=prompts[:7].swapaxes(0, 1))
    with pytest.warns(UserWarning, match=r"text has shape \(19, 19, 512\).*text\.swapaxes\(0, 1\)"):
        method().fit(X, y, text=prompts[:19].swapaxes(0, 1))
    method().fit(X, y, text=prompts[:19])


def test_names_in_columns():
    rng = np.random.default_rng(0)
    text, y = unit(rng.standard_normal((8, 8))), np.repeat(np.arange(8), 3)
    X = unit(text[y] + 0.1 * rng.standard_normal((24, 8)))
    with pytest.raises(ValueError, match=r"text has shape \(8, 4\).*zeroshot_weights. Transpose it: text=text.T"):
        LPPlusPlus().fit(X[y < 4], y[y < 4], text=text[:4].T)
    with pytest.warns(UserWarning, match=r"text has shape \(8, 8\).*pass text\.T"):
        LPPlusPlus().fit(X, y, text=text.T)
    LPPlusPlus().fit(X, y, text=text)


# With scikit-learn's tools -------------------------------------------------------------------------------------------


@pytest.fixture
def letters():
    rng = np.random.default_rng(0)
    text, y = unit(rng.standard_normal((5, 16))), np.repeat(np.arange(5), 4)
    return unit(text[y] + 0.2 * rng.standard_normal((20, 16))), np.array(list("abcde"))[y], text


def test_tools_that_replace_labels_by_numbers(letters):
    X, y, text = letters
    with sklearn.config_context(enable_metadata_routing=True):
        voting = VotingClassifier([("probe", LPPlusPlus().set_fit_request(text=True))])
        with pytest.raises(ValueError, match=r"VotingClassifier, .* give text as an array"):
            voting.fit(X, y, text=dict(zip("abcde", text, strict=True)))
        assert voting.fit(X, y, text=text).score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"unknown label 0 .* leave classes out"):
        cross_val_predict(
            LPPlusPlus(), X, y, cv=2, method="predict_proba", params={"text": text, "classes": list("abcde")}
        )


def test_a_pipeline_that_changes_images_only(letters):
    X, y, text = letters
    with pytest.raises(ValueError, match=r"the images have 4.*PCA before .* changes images only"):
        make_pipeline(PCA(4), LPPlusPlus()).fit(X, y, lpplusplus__text=text)


# Labels --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [iter, lambda y: (label for label in y), lambda y: dict(enumerate(y)).values()])
def test_labels_from_an_iterator(letters, form):
    X, y, _ = letters
    numbers = [10 * ord(label) for label in y]
    probe = LPPlusPlus().fit(X, form(numbers))
    assert probe.classes_.dtype.kind == "i"
    assert (probe.predict(X) == numbers).all()


@pytest.mark.parametrize("dtype", ["S1", "S7", "datetime64[D]", "datetime64[ns]", "timedelta64[h]"])
def test_bytes_and_dates_are_saved(letters, tmp_path, dtype):
    X, y, text = letters
    numbers = np.char.encode(y) if dtype[0] == "S" else np.array([ord(label) for label in y])
    labels = numbers.astype(dtype)
    probe = LPPlusPlus().fit(X, labels, text=text)
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp")
    assert again.classes_.dtype == labels.dtype
    assert (again.classes_ == np.unique(labels)).all()
    assert (again.predict(X) == probe.predict(X)).all()
    more = again.extend(X[:1], labels[:1])
    assert (more.classes_ == np.unique(labels)).all()


def test_columns_of_some_rows():
    table = np.arange(600.0).reshape(20, 30)
    rows = Rows(table)
    for key in ((slice(2, 5), slice(None, 10)), (np.array([3, 1]), 4), (slice(1, 9), slice(None)), slice(3, 4)):
        assert (rows[key] == table[key]).all()
