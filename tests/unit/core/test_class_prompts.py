"""Several prompts per class, as every method takes them."""

import numpy as np
import pytest

import lpplusplus
from lpplusplus import ClipAdapter, LinearProbe, TipAdapter, ZeroShot
from lpplusplus._core.class_prompts import check_text
from tasks import small_task

F, Y, T = small_task(4, 3, 16, seed=0)
RNG = np.random.default_rng(1)
STACK = T + 0.02 * RNG.normal(size=(5, *T.shape))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


PLAIN = unit(unit(STACK).mean(axis=0))


@pytest.mark.parametrize(
    "method",
    [
        ZeroShot(),
        TipAdapter(),
        LinearProbe(),
        pytest.param(ClipAdapter(epochs=2), marks=pytest.mark.with_torch),
    ],
)
def test_a_method_that_knows_nothing_of_prompts_takes_their_mean(method):
    expected = method.fit(F, Y, text=PLAIN).decision_function(F)
    scaled = STACK * RNG.uniform(0.5, 2, size=(5, 4, 1))  # Only directions count.
    np.testing.assert_allclose(method.fit(F, Y, text=scaled).decision_function(F), expected, atol=1e-6)
    np.testing.assert_allclose(method.text_, PLAIN, atol=1e-12) if method.text_ is not None else None


def test_prompts_of_each_class():
    ragged = [STACK[:1, 0], STACK[:3, 1].tolist(), STACK[:, 2], STACK[:2, 3]]
    text, prompts = check_text(ragged, F)
    assert prompts.shape == (5, 4, 16)
    for k, own in enumerate(map(np.asarray, ragged)):
        np.testing.assert_allclose(text[k], unit(unit(own).mean(axis=0)), atol=1e-12)
        np.testing.assert_allclose(prompts[: len(own), k], unit(own), atol=1e-12)
        assert not prompts[len(own) :, k].any()
    model = ZeroShot().fit(F, Y, text=ragged)
    np.testing.assert_allclose(model.coef_, 100 * text)


def test_one_prompt_is_plain_text():
    text, prompts = check_text(T[None], F)
    assert prompts is None
    np.testing.assert_array_equal(text, check_text(T, F)[0])


def test_names_alone():
    model = ZeroShot().fit(text=STACK, classes=list("abcd"))
    np.testing.assert_allclose(model.coef_, 100 * PLAIN)


def test_precision_and_library_follow_the_images(torch):
    X = torch.tensor(F, dtype=torch.float32)
    text, prompts = check_text(STACK, X)
    assert text.dtype == prompts.dtype == torch.float32
    np.testing.assert_allclose(text.numpy(), PLAIN, atol=1e-6)
    text, prompts = check_text([torch.tensor(STACK[:2, k]) for k in range(4)], F)
    assert isinstance(prompts, np.ndarray)


def test_a_saved_classifier_keeps_what_it_needs(tmp_path):
    model = ZeroShot().fit(F, Y, text=STACK)
    model.save(tmp_path / "model.lpp")
    loaded = lpplusplus.load(tmp_path / "model.lpp")
    np.testing.assert_array_equal(loaded.text_, model.text_)
    np.testing.assert_array_equal(loaded.decision_function(F), model.decision_function(F))


def spoiled(where, value):
    bad = STACK.copy()
    bad[where] = value
    return bad


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (spoiled((3, 2, 1), np.nan), r"text\[3\] contains NaN in row 2"),
        (spoiled((1, 0), 0), r"text\[1\] is zero throughout row 0"),
        (STACK[:0], "text is empty: pass at least one prompt"),
        (STACK[..., :8], r"text\[0\] has 8 columns but the images have 16"),
        (STACK[:, :3], "text has 3 rows but y has 4 different labels"),
        ([STACK[:, k] for k in range(3)], "text has 3 rows but y has 4 different labels"),
        ([STACK[:, 0], STACK[:0, 1]], r"text\[1\] is empty"),
        (np.stack([T, -T]), "the mean of the prompts in text is zero throughout row 0"),
        (STACK[None], r"text has 4 dimension\(s\)"),
    ],
)
def test_errors_name_the_prompt(text, message):
    with pytest.raises(ValueError, match=message):
        ZeroShot().fit(F, Y, text=text)
