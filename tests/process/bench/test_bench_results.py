"""Results of a benchmark: never lost, replaced only by the same cell, healed by another run."""

import json
import sqlite3
from contextlib import closing, contextmanager

import pytest

from lpplusplus.bench.cell import Cell, Row
from lpplusplus.bench.results import FILE, Results, ResultsError


def cell(seed=1, **changes):
    return Cell(**{"dataset": "birds", "encoder": "rn50", "method": "LP++", "shots": 4, "seed": seed,
                   "estimator": "LPPlusPlus"} | changes)  # fmt: skip


@contextmanager
def changing(folder):
    """The database, as another program opens it; committed if nothing is raised, and closed."""
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        yield database


def test_a_cell_is_known_by_all_of_its_content():
    changes = [
        {"dataset": "x"}, {"encoder": "x"}, {"method": "x"}, {"shots": 1}, {"seed": 2}, {"estimator": "ZeroShot"},
        {"parameters": {"updates": 0}}, {"validation": False}, {"protocol": {"views": 1}},
    ]  # fmt: skip
    keys = {cell(**change).key for change in [{}, *changes]}
    assert len(keys) == 10
    assert cell(parameters={"a": 1, "b": 2}).key == cell(parameters={"b": 2, "a": 1}).key


def test_rows_come_back_as_they_were(tmp_path):
    row = Row(cell(parameters={"recipe": "paper"}), "ok", accuracy=0.5, curve={"loss": [1.0, 0.5]}, black_box=False)
    Results(tmp_path).add(row)
    assert Results(tmp_path).rows() == [row]


def test_a_cell_that_runs_again_replaces_its_row(tmp_path):
    results = Results(tmp_path)
    for row in (Row(cell(), "failed", traceback="first"), Row(cell(), "failed", traceback="second")):
        results.add(row)
    assert [row.traceback for row in results.rows(failed=True)] == ["second"]
    assert (results.rows(), results.done([cell()])) == ([], set())
    for accuracy in (0.5, 0.9):
        results.add(Row(cell(), "ok", accuracy=accuracy))
    assert [row.accuracy for row in results.rows()] == [0.9]
    assert results.rows(failed=True) == []
    assert results.done([cell(), cell(2)]) == {cell().key}


def test_a_damaged_row_is_told_runs_again_and_is_replaced(tmp_path):
    """A row said "run that cell again", and the new one was dropped."""
    results = Results(tmp_path)
    results.add(Row(cell(1), "ok", accuracy=0.5), Row(cell(2), "ok", accuracy=0.6))
    with changing(tmp_path) as database:
        database.execute("DROP TRIGGER IF EXISTS rows_stay")
        database.execute("UPDATE results SET row = replace(row, '0.5', 'NaN')")
    with pytest.warns(UserWarning, match=r"has 1 rows that cannot be read \(row: accuracy must be a number, got nan"):
        assert [row.accuracy for row in results.rows()] == [0.6]
    assert results.done([cell(1), cell(2)]) == {cell(2).key}
    results.add(Row(cell(1), "ok", accuracy=0.7))
    assert {row.accuracy for row in results.rows()} == {0.6, 0.7}


def test_new_weights_under_an_old_name_are_not_done(tmp_path):
    """A cell's key does not have the encoder's fingerprint, so that results made before keep their places."""
    old, same, new = (cell(fingerprint=weights) for weights in ("", "a", "b"))
    assert old.key == same.key == new.key
    results = Results(tmp_path)
    results.add(Row(same, "ok", accuracy=0.5))
    assert results.done([same]) == {same.key}
    assert results.done([new]) == set()
    results.add(Row(new, "ok", accuracy=0.6))
    assert [(row.accuracy, row.cell.fingerprint) for row in results.rows()] == [(0.6, "b")]
    results.add(Row(old, "ok", accuracy=0.7))  # As written by 0.1: not known, and so not run again.
    assert results.done([new]) == {new.key}


def test_rows_are_written_together(tmp_path):
    results = Results(tmp_path)
    with pytest.raises(TypeError):
        results.add(Row(cell(3), "ok"), Row(cell(4), "ok", accuracy=object()))
    assert results.rows() == []


def test_plans_are_kept_and_others_pruned(tmp_path):
    results = Results(tmp_path)
    results.add(*(Row(cell(seed), "ok", accuracy=0.5) for seed in (1, 2, 3)))
    results.keep_plan("one", [cell(1), cell(9)])
    results.keep_plan("other", [cell(2)])
    assert {one.seed for one in results.planned()} == {1, 9, 2}
    results.keep_plan("one", [cell(1)])
    assert {one.seed for one in results.planned()} == {1, 2}
    assert results.prune("one", [cell(1)]) == 2
    assert [row.cell.seed for row in results.rows()] == [1]
    assert [one.seed for one in results.planned()] == [1]


def test_draws_are_kept(tmp_path):
    results = Results(tmp_path)
    results.keep_draw("abc", {"support": [1, 2]})
    results.keep_draw("abc", {"support": [3]})
    assert results.draws() == {"abc": {"support": [1, 2]}}


@pytest.mark.parametrize("draw", [None, "{", "7"])
def test_a_draw_that_another_program_has_changed_is_refused(tmp_path, draw):
    results = Results(tmp_path)
    with changing(tmp_path) as database:
        database.execute("DROP TABLE draws")
        database.execute("CREATE TABLE draws (hash TEXT PRIMARY KEY, draw TEXT)")
        database.execute("INSERT INTO draws VALUES ('abc', ?)", (draw,))
    with pytest.raises(ResultsError, match=f"{FILE} has a draw that cannot be read"):
        results.draws()


def test_what_is_not_a_results_folder(tmp_path):
    with pytest.raises(ResultsError, match="run a benchmark into it first"):
        Results(tmp_path, create=False)
    (tmp_path / FILE).write_text("not a database, but long enough to be looked at as one " * 10)
    with pytest.raises(ResultsError, match="not a results file"):
        Results(tmp_path)


def test_a_newer_format_is_refused(tmp_path):
    Results(tmp_path)
    with changing(tmp_path) as database:
        database.execute("UPDATE about SET value = '2'")
    with pytest.raises(ResultsError, match="format 2"):
        Results(tmp_path)


def test_fields_of_later_versions_are_passed_over(tmp_path):
    results = Results(tmp_path)
    results.add(Row(cell(), "ok", accuracy=0.25))
    with changing(tmp_path) as database:
        (text,) = database.execute("SELECT row FROM results").fetchone()
        content = json.loads(text) | {"colour": "blue"}
        database.execute("DELETE FROM results")
        database.execute("INSERT INTO results VALUES (?, 'ok', ?)", (cell().key, json.dumps(content)))
    assert [row.accuracy for row in results.rows()] == [0.25]
