"""Results of a benchmark: never lost, never run twice, shared by several processes."""

import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from lpplusplus.bench import results as module
from lpplusplus.bench.cell import Cell
from lpplusplus.bench.results import FILE, Results, ResultsError, Row


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


def test_a_success_is_never_changed(tmp_path):
    results = Results(tmp_path)
    results.add(Row(cell(), "ok", accuracy=0.5))
    results.add(Row(cell(), "ok", accuracy=0.9))
    assert [row.accuracy for row in results.rows()] == [0.5]
    with changing(tmp_path) as database, pytest.raises(sqlite3.DatabaseError, match="never changed"):
        database.execute("UPDATE results SET row = '{}'")


def test_failures_are_kept_until_they_succeed(tmp_path):
    results = Results(tmp_path)
    results.add(Row(cell(), "failed", traceback="first"))
    results.add(Row(cell(), "failed", traceback="second"))
    assert [row.traceback for row in results.rows(failed=True)] == ["second"]
    assert results.rows() == []
    assert results.done([cell()]) == set()
    assert results.claim([cell()])
    results.add(Row(cell(), "ok", accuracy=1.0))
    assert results.rows(failed=True) == []
    assert results.done([cell(), cell(2)]) == {cell().key}


def test_a_claim_keeps_others_away_until_its_owner_dies(tmp_path, monkeypatch):
    one, two = Results(tmp_path), Results(tmp_path)
    assert one.claim([cell()])
    assert one.claim([cell()])
    assert not two.claim([cell()])
    one.release([cell()])
    assert two.claim([cell()])
    monkeypatch.setattr(module, "STALE_SECONDS", 0.05)
    time.sleep(0.1)
    assert one.claim([cell()])
    time.sleep(0.1)
    one.renew()
    assert not two.claim([cell()])


def test_a_claim_of_a_process_that_was_killed_is_taken_over_at_once(tmp_path):
    script = (
        "import os, sys\nfrom lpplusplus.bench.cell import Cell\nfrom lpplusplus.bench.results import Results\n"
        "assert Results(sys.argv[1]).claim([Cell('a', 'b', 'c', 1, 1, 'LPPlusPlus')])\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert Results(tmp_path).claim([Cell("a", "b", "c", 1, 1, "LPPlusPlus")])
    assert not Results(tmp_path).claim([Cell("a", "b", "c", 1, 1, "LPPlusPlus")])  # We are alive.


def test_a_done_cell_cannot_be_claimed(tmp_path):
    results = Results(tmp_path)
    results.add(Row(cell(), "ok"))
    assert not results.claim([cell()])


def test_cells_are_claimed_and_rows_are_written_together(tmp_path):
    one, two = Results(tmp_path), Results(tmp_path)
    assert one.claim([cell(1), cell(2)]) == [cell(1), cell(2)]
    assert two.claim([cell(seed) for seed in range(1, 5)]) == [cell(3), cell(4)]
    one.add(Row(cell(1), "failed", traceback="lost"), Row(cell(2), "ok", accuracy=0.5))
    assert [row.accuracy for row in one.rows()] == [0.5]
    assert two.claim([cell(1), cell(2)]) == [cell(1)]  # A row gives up the claim; a failed cell may be tried again.
    with pytest.raises(TypeError):
        two.add(Row(cell(3), "ok"), Row(cell(4), "ok", accuracy=object()))
    assert len(one.rows()) == 1  # All of them or none.


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


def _write(folder, owner, ready):
    results = Results(folder)
    ready.wait()
    for seed in range(1, 41):
        if results.claim([cell(seed)]):
            results.add(Row(cell(seed), "ok", accuracy=float(owner)))
            results.release([cell(seed)])


def test_two_writers_share_the_work(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    writers = [context.Process(target=_write, args=(tmp_path, owner, ready)) for owner in (1, 2)]
    for writer in writers:
        writer.start()
    ready.set()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    rows = Results(tmp_path).rows()
    assert sorted(row.cell.seed for row in rows) == list(range(1, 41))


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_a_full_disk_is_told_with_the_file(tmp_path):
    """A limit on the size of files stands in for the disk."""
    code = f"""
import resource
from lpplusplus.bench.cell import Cell
from lpplusplus.bench.results import Results, ResultsError, Row
results = Results({str(tmp_path)!r})
limit = results.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    results.add(Row(Cell("d" * 100_000, "b", "m", 1, 1, "LPPlusPlus"), "ok", 0.5))
except ResultsError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path / FILE}: ")
