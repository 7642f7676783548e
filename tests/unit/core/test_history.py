"""One history for all methods: columns by name, as files have them now and had them in version 0.1."""

import copy
import json
import pickle

import numpy as np
import pytest

from lpplusplus import History, Journal, LPPlusPlus, ZeroShot


@pytest.fixture
def history():
    history = History.of(["update", "loss", "validation_accuracy"])
    history.add(update=0, loss=float("nan"))
    history.add(update=1, loss=0.5)
    return history


def test_columns(history):
    assert history.update == history["update"] == [0, 1]
    assert history.validation_accuracy == []
    assert {name: values.tolist() for name, values in history.as_arrays().items() if name != "loss"} == {
        "update": [0, 1]
    }
    with pytest.raises(AttributeError, match="no column 'epoch'"):
        history.epoch  # noqa: B018
    with pytest.raises(KeyError):
        history["epoch"]
    assert Journal is History


def test_copies(history):
    history.note("as given")
    for other in (copy.copy(history), copy.deepcopy(history), pickle.loads(pickle.dumps(history))):
        assert (other.update, other.notes) == ([0, 1], ["as given"])


def test_columns_and_notes_as_json_has_them(history):
    """Numbers as they are, None for NaN."""
    history.note("as given")
    written = json.loads(json.dumps(history.as_lists(), allow_nan=False))
    columns = {"update": [0, 1], "loss": [None, 0.5], "validation_accuracy": []}
    assert written == {"columns": columns, "notes": ["as given"]}
    again = History.from_lists(written)
    assert np.isnan(again.loss[0])
    assert again.as_lists() == written
    assert [type(x) for x in again.update] == [int, int]


def test_columns_alone_as_version_0_1_wrote_them():
    again = History.from_lists({"update": [0, 1], "loss": [None, 0.5]})
    assert (again.update, again.loss[1], again.notes) == ([0, 1], 0.5, [])
    assert np.isnan(again.loss[0])


@pytest.mark.parametrize("content", [{"loss": ["a"]}, {"columns": {"loss": [[1]]}, "notes": []}])
def test_entries_that_are_not_numbers(content):
    with pytest.raises(ValueError, match="not numbers"):
        History.from_lists(content)


def test_what_each_method_writes():
    X, y = np.eye(4), [0, 0, 1, 1]
    probe = LPPlusPlus(recipe="paper", updates=2).fit(X, y)._scalars_to_save()["history"]["columns"]
    held_out = ["held_out_time", "held_out_loss", "held_out_accuracy", "held_out_scale"]
    assert list(probe) == ["update", "time", "loss", "validation_accuracy", *held_out]
    assert probe["update"] == [0, 1, 2]
    assert set(ZeroShot().fit(X, y)._scalars_to_save()["history"]) == {"columns", "notes"}
