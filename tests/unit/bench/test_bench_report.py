"""Reports on benchmarks: figures recomputed from the rows, the paper's own tables, and documents that parse."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from benchmark_rows import comparison, failure, row, sweep
from lpplusplus import LPPlusPlus
from lpplusplus.bench.cell import Cell, Row
from lpplusplus.bench.published import DATASETS, ERRATA, MAIN, published, published_average
from lpplusplus.bench.report import FORMATS, report, write_report
from lpplusplus.bench.report.ablations import ablation_tables
from lpplusplus.bench.report.content import report_content
from lpplusplus.bench.report.figures import descents, make_figures, rate_figure, recorded_step
from lpplusplus.bench.report.statistics import average, difference, summarise
from lpplusplus.bench.report.table import written
from lpplusplus.bench.report.tables import make_tables
from lpplusplus.bench.results import Results
from lpplusplus.images.evaluation import BINS
from lpplusplus.probe.lipschitz import gamma_global
from lpplusplus.solvers import GradientDescent

NASTY = "<b>&_$%"
METHODS = ["Zero-shot", "Standard LP", "LP++ (default)", "_own {x} \\ #1|`*`"]
T_975 = {2: 4.302652729911275, 4: 2.7764451051977987}
"""Student's t by degrees of freedom, from a printed table."""


def results_of(folder, rows):
    results = Results(folder)
    for one in rows:
        results.add(one)
    return results


def tables_of(scores):
    return make_tables(scores, ablation_tables)


@pytest.fixture(scope="module")
def nasty_rows():
    rows = comparison(("EuroSAT", NASTY), METHODS, (1, 2, 4, 8, 16), tasks=3) + sweep(tasks=2)
    rows = [one for one in rows if (one.cell.dataset, one.cell.method, one.cell.seed) != (NASTY, "Standard LP", 2)]
    return [*rows, failure(NASTY, "Standard LP", 4, 2)]


@pytest.fixture(scope="module")
def results(nasty_rows, tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("results"), nasty_rows)


# What is published


def test_the_papers_averages_follow_from_its_sets():
    means = {(one["method"], one["shots"]): one for one in ERRATA if one.get("field") == "mean"}
    spreads = {(one["method"], one["shots"]): one for one in ERRATA if one.get("field") == "deviation"}
    checked = 0
    for method in dict.fromkeys(MAIN.values()):
        for shots in (1, 2, 4, 8, 16):
            cells = [published(method, name, shots) for name in DATASETS]
            if None in cells:
                assert method == "Tip-Adapter"  # Published as an average only.
                continue
            printed = published(method, "average", shots)
            mean = np.mean([cell.mean for cell in cells])
            wrong = means.get((method, shots))
            assert mean == pytest.approx(wrong["recomputed"] if wrong else printed.mean, abs=0.03)
            assert not wrong or abs(mean - printed.mean) > 0.05
            if method != "Zero-shot":
                spread = np.sqrt(np.mean([cell.deviation**2 for cell in cells]))
                wrong = spreads.get((method, shots))
                assert spread == pytest.approx(wrong["recomputed"] if wrong else printed.deviation, abs=0.015)
            checked += 1
    assert checked == 10 * 5
    assert len(means) == 3
    assert len(spreads) == 2


def test_published_figures_by_any_name():
    assert published("LP++ (released)", "eurosat", 1) == published("LP++", "EuroSAT", 1)
    assert published("Zero-shot", "Pets", 8).mean == 85.75
    assert published("LP++", "DTD", 3) is None
    assert published("Mine", "DTD", 1) is None
    assert published("L-BFGS, standard loss", "average", 16).mean == 67.44
    assert published("Cycle (10, 10)", "average", 1).mean == 62.85
    assert published("LP++ (training-free)", "average", 16).mean == 66.20
    assert published_average("LP++", ["DTD", "Mine"], 1) is None
    assert published_average("LP++", DATASETS, 1).mean == 63.43


def test_a_copied_cell_is_an_erratum():
    assert published("CoOp", "Flowers102", 4) == published("CoOp", "OxfordPets", 4)
    assert {(one["dataset"], one["shots"]) for one in ERRATA if one["method"] == "CoOp"} == {
        ("Flowers102", 4),
        ("OxfordPets", 4),
    }


# Statistics and tables


def test_tables_are_what_the_rows_say(nasty_rows):
    """Recomputed with numpy alone."""
    cells = defaultdict(list)
    for one in nasty_rows:
        if one.status == "ok":
            cells[one.cell.dataset, one.cell.method, one.cell.shots].append(100 * one.accuracy)
    good = [one for one in nasty_rows if one.status == "ok"]
    tables = {table.title: table for table in tables_of(summarise(good))}
    table = tables["Accuracy on EuroSAT"]
    for line in table.rows:
        entries = dict(zip([column.full_name for column in table.columns], line, strict=True))
        for shots, name in ((1, "1 shot"), (4, "4 shots")):
            values = cells["EuroSAT", entries["Method"], shots]
            assert len(values) == 3
            assert entries[f"{name}: mean"] == pytest.approx(np.mean(values))
            assert entries[f"{name}: std"] == pytest.approx(np.std(values, ddof=1))
            assert entries[f"{name}: 95 % ±"] == pytest.approx(T_975[2] * np.std(values, ddof=1) / np.sqrt(3))
            known = published(entries["Method"], "EuroSAT", shots)
            assert entries[f"{name}: published"] == (known and known.mean)
            if known:
                assert entries[f"{name}: difference"] == pytest.approx(np.mean(values) - known.mean)
    over = tables["Accuracy, average of 2 data sets"]
    assert [line[0] for line in over.rows] == ["Zero-shot", "LP++ (default)", METHODS[3]]
    for line in over.rows:
        sets = [cells[name, line[0], 1] for name in ("EuroSAT", NASTY)]
        assert line[1] == pytest.approx(np.mean([np.mean(values) for values in sets]))
        assert line[2] == pytest.approx(np.sqrt(np.mean([np.var(values, ddof=1) for values in sets])))
        assert line[3] == pytest.approx(
            np.sqrt(np.mean([(T_975[2] * np.std(values, ddof=1)) ** 2 / 3 for values in sets]))
        )


def test_incomplete_sets_are_named_not_averaged(nasty_rows):
    good = [one for one in nasty_rows if one.status == "ok"]
    summaries = summarise(good, [nasty_rows[-1]])
    over = {(one.method, one.shots): one for one in average(summaries).itertuples()}
    lacking = over["Standard LP", 1]
    assert lacking.datasets == ("EuroSAT",)
    assert lacking.missing == ((NASTY, 2, 3),)
    (gap,) = summaries[
        (summaries.dataset == NASTY) & (summaries.method == "Standard LP") & (summaries.shots == 1)
    ].missing
    assert gap == (2,)
    table = tables_of(summaries)[0]
    assert "Standard LP" not in [line[0] for line in table.rows]
    assert any(f"{NASTY} (2 of 3 draws): Standard LP (over the other 1:" in note for note in table.notes)


def test_what_was_planned_and_never_run_is_missed():
    rows = comparison(("DTD",), ["LP++ (default)"], (1,), tasks=2)
    never = [Cell(**{**vars(rows[0].cell), "seed": seed}) for seed in (1, 2, 3)]
    assert summarise(rows).complete.all()
    assert [*summarise(rows, planned=never).missing] == [(3,)]
    assert summarise([], planned=never)["mean"].isna().all()


def test_no_method_is_called_best_where_tasks_are_missing(tmp_path):
    """A run under way: at 1 shot the better method lacks a task, so that means are over different tasks."""
    results, rng = Results(tmp_path), np.random.default_rng(0)
    for method, level in (("Zero-shot", 50), ("LP++ (default)", 70)):
        for shots in (1, 2):
            for seed in (1, 2) if (method, shots) != ("LP++ (default)", 1) else (1,):
                results.add(row("DTD", method, shots, seed, rng, level=level))
    planned = [Cell(**{**vars(one.cell), "seed": seed}) for one in results.rows() for seed in (1, 2)]
    text = report(results, "markdown", planned=planned)
    assert "Highest mean accuracy, by shots: LP++ (default) at 2. At 1, draws are missing." in text


def test_one_task_has_no_spread():
    scores = summarise(comparison(("DTD",), ["LP++ (default)"], (1,), tasks=1))
    assert scores["mean"].notna().all()
    assert scores[["deviation", "interval"]].isna().all(axis=None)
    columns = [column.name for column in tables_of(scores)[0].columns]
    assert columns == ["Method", "mean", "published", "difference"]


def test_rows_of_one_name_and_two_settings_are_not_mixed():
    rows = comparison(("DTD",), ["Mine"], (1,), tasks=2, parameters={"a": 1})
    rows += comparison(("DTD",), ["Mine"], (1,), tasks=2, parameters={"a": 2})
    assert [(one.method, one.draws) for one in summarise(rows).itertuples()] == [
        ("Mine", 2),
        ("Mine (variant 2)", 2),
    ]


def test_other_encoders_have_no_published_figure():
    rows = comparison(("DTD",), ["LP++ (default)"], (1,), tasks=2, encoder="ViT-B-32/openai")
    assert not any("published" in column.name for column in tables_of(summarise(rows))[0].columns)


def test_ablations_have_tables_of_their_own():
    rng = np.random.default_rng(0)
    names = ["LP++ (paper)", "L-BFGS", "L-BFGS, standard loss", "LP++ (training-free)", "Cycle (1, 1)", "Single block"]
    rows = [row(name, method, n, 1, rng) for name in DATASETS for method in names for n in (1, 16)]
    rows += comparison(("Elsewhere",), ["LP++ (paper)"], (1, 16), tasks=1)
    some = tables_of(summarise([one for one in rows if one.cell.dataset in DATASETS[:2]]))
    assert not any(
        "published" in c.name for table in some if table.key in ("starts", "optimisers") for c in table.columns[-2:]
    )
    tables = {table.key: table for table in tables_of(summarise(rows))}
    assert [line[0] for line in tables["average"].rows] == ["LP++ (paper)"]

    def entry(key, method, column):
        table = tables[key]
        names = [column.full_name for column in table.columns]
        return next(line for line in table.rows if line[0] == method)[names.index(column)]

    assert tables["optimisers"].title.endswith("average of 11 data sets")
    assert entry("optimisers", "L-BFGS", "standard loss, 16 shots: published") == 67.44
    assert entry("optimisers", "L-BFGS", "LP++ loss, 1 shot: published") == 62.09
    assert entry("optimisers", "L-BFGS", "published fit") == 6.73
    assert entry("optimisers", "LP++ (paper)", "LP++ loss, 16 shots: published") == 74.42
    assert entry("starts", "LP++ (training-free)", "16 shots: published") == 66.20
    assert entry("starts", "LP++ (training-free)", "1 shot: published loss") == 1.60
    assert entry("cycles", "Cycle (1, 1)", "1 shot: published") == 62.92
    assert entry("cycles", "Single block", "16 shots: published") == 74.28
    assert entry("cost", "LP++ (paper)", "published fit") == "~2 s"
    assert tables["cost"].title.endswith("16 shots of ImageNet")


def rows_with(accuracies, dataset="d", shots=1):
    """Rows of methods with these accuracies, task by task."""
    return [
        replace(row(dataset, method, shots, task, np.random.default_rng(0)), accuracy=value)
        for method, values in accuracies.items()
        for task, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("others", "bold"),
    [
        ([0.79, 0.689, 0.591, 0.49], True),  # Always behind by a point, though the spread of the tasks is 13 points.
        ([0.79, 0.71, 0.58, 0.49], False),  # Once ahead: the lead of half a point is noise.
        ([0.80, 0.70, 0.60, 0.50], False),
    ],
)
def test_the_best_of_a_column_is_bold_where_its_lead_is_no_noise(tmp_path, others, bold):
    """By a paired test: tasks differ far more than methods do on one task."""
    first, last = [0.80, 0.70, 0.60, 0.50], [0.3, 0.2, 0.1, 0.1]
    rows = rows_with({"A": first, "B": others, "C": last}) + rows_with({"A": first, "B": others, "C": last}, "e")
    for table in tables_of(summarise(rows))[:3]:  # The average and both sets.
        assert table.best == (((0, 1),) if bold else ())
    results = results_of(tmp_path, rows)
    marks = {"html": "<strong>65.00</strong>", "markdown": "**65.00**", "latex": r"\textbf{65.00}"}
    for format, mark in marks.items():
        text = report(results, format)
        assert (mark in text) == bold
        assert ("Bold: the highest mean" in text) == bold
    assert json.loads(report(results, "json"))["tables"][0]["best"] == ([[0, 1]] if bold else [])


def test_one_task_or_one_method_has_no_lead():
    assert tables_of(summarise(rows_with({"A": [0.9], "B": [0.1]})))[0].best == ()
    assert tables_of(summarise(rows_with({"A": [0.9, 0.9]})))[0].best == ()


def test_the_cost_table_has_the_training_free_classifier_and_says_what_it_shows():
    rows = comparison(("DTD",), ["LP++ (paper)", "LP++ (training-free)", "Cycle (1, 1)"], (1, 16), tasks=2)
    table = next(table for table in tables_of(summarise(rows)) if table.key == "cost")
    assert [line[0] for line in table.rows] == ["LP++ (paper)", "LP++ (training-free)"]
    assert f"{BINS} bins" in table.notes[0]
    assert written(0.0, "mib") == written(0.01, "mib") == "< 0.1 MiB"


# Documents


class Balanced(HTMLParser):
    """Raises where a tag is closed that is not open."""

    void = {"meta", "link", "br", "img", "hr", "input"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_one_whole_page(results):
    text = report(results, "html")
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    names = {tag for tag, _ in parser.tags}
    assert {"table", "svg", "details", "figure", "dl"} <= names
    assert not names & {"script", "link", "img", "iframe", "b"}
    for _, attributes in parser.tags:
        assert not attributes.get("src")
        assert attributes.get("href", attributes.get("xlink:href", "#")).startswith("#")
    ids = [attributes["id"] for _, attributes in parser.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    used = re.findall(r"url\(#([^)]+)\)", text) + re.findall(r'xlink:href="#([^"]+)"', text)
    assert used
    assert set(used) <= set(ids)
    assert "url(http" not in text
    shown = " ".join(parser.text)
    assert f"Accuracy on {NASTY}" in shown
    assert "ValueError: <b>no & $good_ ``` value" in shown


def test_json_parses_and_has_every_cell(results):
    content = json.loads(report(results, "json"))
    cells = {(one["dataset"], one["method"], one["shots"]): one for one in content["cells"]}
    good = [one for one in results.rows() if (one.cell.dataset, one.cell.method) == (NASTY, "Standard LP")]
    values = [100 * one.accuracy for one in good if one.cell.shots == 4]
    assert cells[NASTY, "Standard LP", 4]["mean"] == pytest.approx(np.mean(values))
    assert cells[NASTY, "Standard LP", 4]["missing"] == "draw 2"
    assert len(content["failures"]) == 1
    assert content["versions"]["numpy"] == "2.1"


def test_csv_parses(results):
    lines = list(csv.DictReader(io.StringIO(report(results, "csv"))))
    assert {line["dataset"] for line in lines} == {"EuroSAT", NASTY, "average"}
    line = next(one for one in lines if (one["dataset"], one["method"], one["shots"]) == (NASTY, METHODS[3], "1"))
    values = [
        100 * one.accuracy
        for one in results.rows()
        if (one.cell.dataset, one.cell.method, one.cell.shots) == (NASTY, METHODS[3], 1)
    ]
    assert float(line["mean"]) == np.mean(values)
    assert float(line["std"]) == pytest.approx(np.std(values, ddof=1))


def test_latex_is_balanced_and_escaped(results):
    text = report(results, "latex")
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []
    plain = re.sub(r"\\[\\{}$&#_%]", "", text)  # Without what is escaped.
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert "%" not in plain
    assert r"\textless{}b\textgreater{}\&\_\$\%" in text
    assert "#" not in plain
    for table in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", plain, re.S):
        for line in table[1].splitlines():
            if "&" in line and "multicolumn" not in line:
                assert line.count("&") == len(table[0]) - 1


def test_control_characters_break_no_document(tmp_path):
    """LaTeX and SVG refuse them; a name from a plan may have any. JSON keeps them, escaped."""
    odd = "bell\x07, escape\x1b and nothing\x00"
    rows = comparison(("d\x08ata",), ["LP++ (default)", odd], (1, 2), tasks=2)
    results = results_of(tmp_path / "r", rows)
    for format in FORMATS:
        path = write_report(results, tmp_path / format, format)
        if format not in ("json", "csv"):
            text = path.read_text(encoding="utf-8")
            assert [mark for mark in text if ord(mark) < 32 and mark != "\n"] == []
            assert r"x1b" in text
    for file in (tmp_path / "latex" / "figures").glob("*.svg"):
        ET.parse(file)
    assert odd in {one["method"] for one in json.loads(report(results, "json"))["cells"]}


def test_markdown_tables_have_equal_rows(results):
    text = report(results, "markdown")
    assert r"&lt;b&gt;&amp;\_\$%" in text
    assert "<b>" not in re.sub(r"````.*?````", "", text, flags=re.S)
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert len(blocks) >= 5
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_a_folder_without_results_still_reports(tmp_path):
    empty = Results(tmp_path)
    for format in FORMATS:
        text = report(empty, format)
        assert format == "csv" or "There are no results yet." in text


def test_unknown_formats_are_refused(results):
    with pytest.raises(ValueError, match="format='pdf' is not one of 'markdown'"):
        report(results, "pdf")


def test_files_are_written_with_their_figures(tmp_path, results):
    path = write_report(results, tmp_path / "out", "markdown")
    assert path == tmp_path / "out" / "report.md"
    linked = re.findall(r"\]\((figures/[\w-]+\.png)\)", path.read_text(encoding="utf-8"))
    assert linked
    for name in linked:
        picture = path.parent / name
        assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert ET.parse(picture.with_suffix(".svg")).getroot().tag.endswith("svg")
    left = [file for file in path.parent.rglob("*") if file.suffix == ".tmp"]
    assert left == []


# Figures


def test_figures_show_what_there_is(results):
    pytest.importorskip("autorank")
    content = report_content(results)
    keys = [plot.key for plot in content.plots]
    assert {"time", "shots-average", "shots-eurosat", "shots-b", "rates", "curves-loss", "ranks"} <= set(keys)
    assert len(set(keys)) == len(keys)
    assert content.remarks == []
    named = next(plot for plot in content.plots if plot.key == "shots-eurosat").svg()
    assert "_own {x} \\ #1|`*`" in "".join(ET.fromstring(named).itertext())


def test_too_little_for_ranks_is_said():
    rows = comparison(("DTD",), ["LP++ (default)", "Standard LP"], (1,), tasks=2)
    plots, remarks = make_figures(rows, summarise(rows))
    assert [plot.key for plot in plots][:1] == ["time"]
    assert "ranks" not in [plot.key for plot in plots]
    assert remarks[0].startswith("No rank diagram")


def test_the_lipschitz_step_is_found_in_real_histories():
    rng = np.random.default_rng(0)
    text = rng.standard_normal((4, 16))
    y = np.arange(12) % 4
    X = text[y] + rng.standard_normal((12, 16))
    rows = []
    with_rate = {"solver": {"solver": "gradient-descent", "learning_rate": 0.5}}
    before = {"solver": "gradient-descent", "learning_rate": 0.5}  # As rows of 0.1 have it.
    fast, plain = GradientDescent(learning_rate=0.5), GradientDescent()
    for given, solver in ((before, fast), (with_rate, fast), ({"solver": "gradient-descent"}, plain)):
        probe = LPPlusPlus(recipe="paper", updates=5, solver=solver).fit(X, y, text=text)
        curve = {name: values.tolist() for name, values in probe.history_.as_arrays().items()}
        rows.append(Row(Cell("d", "b", str(given), 3, 1, "LPPlusPlus", given), "ok", accuracy=0.5, curve=curve))
    units = [array / np.linalg.norm(array, axis=1, keepdims=True) for array in (X, text)]
    assert recorded_step(descents(rows)) == pytest.approx(1 / gamma_global(*units), rel=1e-6)


def test_the_lipschitz_point_is_of_the_same_descent():
    """Rows of another loss in the same folder, forty points lower, must not move it."""
    swept = sweep()
    other = [
        row("EuroSAT", "GD (Lipschitz), standard loss", 1, task, np.random.default_rng(task), level=20,
            parameters={"solver": "gradient-descent", "alpha": "none"})
        for task in range(1, 6)
    ]  # fmt: skip
    alone, beside = rate_figure(swept, ""), rate_figure([*swept, *other], "")
    points = [plot.figure.axes[0].lines[-1].get_ydata() for plot in (alone, beside)]
    mean = 100 * np.mean([one.accuracy for one in swept if one.cell.method == "GD (Lipschitz)"])
    heights = [np.asarray(line.get_ydata(), float) for line in beside.figure.axes[0].lines]  # matplotlib 3.8: objects
    assert any(np.allclose(y, mean) for y in heights if len(y) == 1)
    assert np.array_equal(*points)


def test_entries_are_written_for_people():
    assert written(True, "yes") == "yes"
    assert written(1024000, "count") == "1 024 000"
    assert written(2.5, "mib") == "2.5 MiB"


# One method against all others ---------------------------------------------------------------------------------------


def test_paired_differences_are_those_of_scipys_paired_test(tmp_path):
    """Mean and standard error follow from scipy's statistic; tasks that only one method has do not count."""
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(3)
    rows = [row("Mine", name, 4, seed, rng, level=60) for name in ("A", "B") for seed in range(1, 9)]
    scores = summarise(rows[:-1])
    ours, theirs = ({s: 100 * r.accuracy for r in rows[:-1] if r.cell.method == m for s in [r.cell.seed]} for m in "AB")
    seeds = sorted(ours.keys() & theirs.keys())
    test = ttest_rel([ours[s] for s in seeds], [theirs[s] for s in seeds])
    found = difference(*([*scores[scores.method == name].accuracies] for name in "AB"))
    assert found.draws == 7
    assert found.mean / found.error == pytest.approx(test.statistic)
    assert found.mean == pytest.approx(np.mean([ours[s] - theirs[s] for s in seeds]))
    assert difference([], []) is None


def test_tables_against_a_method(tmp_path):
    rows = comparison(datasets=("EuroSAT", "Mine"), methods=["Zero-shot", "LP++ (default)"], shots=(1, 4), tasks=5)
    results = Results(tmp_path)
    for one in rows[:-1]:  # The last task of the default on the last set is missing.
        results.add(one)
    text = report(results, "markdown", against="LP++ (default)")
    assert "### Difference from LP++ (default), mean over 1, 4 shots" in text
    assert "### EuroSAT, RN50/openai: accuracy (difference from LP++ (default))" in text
    line = next(line for line in text.splitlines() if line.startswith("| Zero-shot | −"))
    assert line.count("±") == 3  # Two sets, and both together.
    assert "Difference from" not in report(results, "markdown")
    with pytest.raises(ValueError, match=r"no results of 'GDA'; methods with results: Zero-shot, LP\+\+ \(default\)"):
        report(results, "json", against="GDA")
