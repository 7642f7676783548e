"""Parameters: their rules, their signature, and what earlier versions called them."""

from __future__ import annotations

import inspect
import pydoc
from typing import Annotated, Any

import pytest

import lpplusplus
from lpplusplus import GDA, TIMO, CoOp, LPPlusPlus, TipAdapter, TipAdapterF, ZeroShot
from lpplusplus._core.parameters import number, rules_of, with_parameters
from lpplusplus.methods import FewShotClassifier

METHODS = [getattr(lpplusplus, name) for name in lpplusplus.__all__ if hasattr(getattr(lpplusplus, name), "_fit_task")]


@with_parameters
class Mine(ZeroShot):
    """A method of one's own, in a module whose annotations are strings. Until 0.1 its `k` was called `neighbours`."""

    k: Annotated[int, number(1, whole=True)] = 3

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {"k" if name == "neighbours" else name: value for name, value in given.items()}


class ByHand(ZeroShot):
    """One with an `__init__` of its own."""

    k: Annotated[int, number(1, whole=True)]

    def __init__(self, *, k: int = 3, logit_scale: float = 100.0) -> None:
        self.k, self.logit_scale = k, logit_scale


@pytest.mark.parametrize("kind", [Mine, ByHand])
def test_rules_of_annotations_that_are_strings(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__}: k=-5 is not allowed; it must be a whole number >= 1"):
        kind(k=-5).fit([[1.0, 0.0], [0.0, 1.0]], [0, 1], text=[[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="logit_scale=0 is not allowed"):
        kind(logit_scale=0).fit([[1.0, 0.0], [0.0, 1.0]], [0, 1], text=[[1.0, 0.0], [0.0, 1.0]])


def test_a_rule_that_cannot_be_read_is_an_error():
    class Odd(FewShotClassifier):
        k: Annotated[Missing, number(1)] = 3  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="Odd: name 'Missing' is not defined"):
        Odd().fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])


@pytest.mark.parametrize("kind", METHODS)
def test_every_parameter_has_a_rule_or_is_free(kind):
    assert set(inspect.signature(kind).parameters) == set(rules_of(kind))


@pytest.mark.parametrize("kind", [*METHODS, *lpplusplus.solvers.SOLVERS.values(), lpplusplus.solvers.Solver])
def test_signatures_are_for_people(kind):
    assert "<function" not in pydoc.plain(pydoc.render_doc(kind)).split("Static methods")[0]
    assert "allows=" not in pydoc.plain(pydoc.render_doc(kind))
    for shown in (inspect.signature(kind), inspect.signature(kind.__init__), kind.__init__.__annotations__):
        assert "Rule" not in str(shown)
        assert "Annotated" not in str(shown)
    assert len(str(inspect.signature(CoOp))) < 800
    assert str(inspect.signature(GDA)).startswith("(*, logit_scale: float = 100.0")


def test_what_people_use_comes_first():
    everyday = ["recipe", "alpha", "selection", "normalize", "class_weight", "memory", "random_state"]
    names = [*inspect.signature(LPPlusPlus).parameters]
    assert names[: len(everyday)] == everyday
    ablations = inspect.getdoc(LPPlusPlus).split("Other Parameters")[1].split("Attributes")[0]
    assert all(f"\n{name} : " in ablations for name in names[len(everyday) :])


def test_a_renamed_parameter():
    with pytest.warns(FutureWarning, match=r"Mine\(neighbours=7\) .* ends with 1\.1: write Mine\(k=7\)") as said:
        assert Mine(neighbours=7).k == 7
    assert said[0].filename == __file__
    with pytest.warns(FutureWarning):
        assert Mine().set_params(neighbours=8).k == 8
    assert Mine._with_parameters({"neighbours": 9}).k == 9


def test_a_warning_names_what_was_set_and_no_more():
    with pytest.warns(FutureWarning, match=r"^GDA\(alpha=3\.0\) is .* write GDA\(image_weight=3\.0\)\.$"):
        assert GDA(image_weight=2.0).set_params(alpha=3.0).image_weight == 3.0


@pytest.mark.parametrize("kind", [GDA, TIMO, TipAdapter, TipAdapterF])
def test_a_parameter_under_both_its_names(kind):
    name = "image_weight" if issubclass(kind, GDA) else "cache_weight"
    with pytest.raises(TypeError, match=rf"alpha=2\.0 is the earlier name of {name}=3\.0: give one of them"):
        kind(**{"alpha": 2.0, name: 3.0})
    with pytest.raises(TypeError, match="give one of them"):
        kind().set_params(**{"alpha": 2.0, name: 3.0})
