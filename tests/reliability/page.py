"""Fills the tables of docs/explanation/reliability.md from what the programs wrote.

`python -m reliability.page fuzzing=FILE io_errors=FILE kills=FILE services=FILE floods=FILE soak=FILE`: any of them;
several files of one program are joined with commas. Everything between `<!-- NAME -->` and `<!-- end NAME -->` is
replaced.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/explanation/reliability.md"


def lines(*files):
    """All lines of JSON of some files."""
    return [json.loads(line) for file in files for line in Path(file).read_text().splitlines() if line.strip()]


def table(*rows):
    """A table in Markdown; the first row is its head, and numbers are to the right."""
    head, *rest = rows
    right = [bool(rest) and isinstance(cell, int | float) for cell in (rest[0] if rest else head)]
    marks = ["---:" if one else "---" for one in right]
    shown = [head, marks, *([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rest)]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown)


def fuzzing(*files):
    """Executions of each target, over all its runs."""
    runs, edges, found = Counter(), {}, Counter()
    for one in lines(*files):
        runs[one["target"]] += one["executions"]
        edges[one["target"]] = max(edges.get(one["target"], 0), one["edges"])
        found[one["target"]] += one["finding"] is not None
    rows = [(f"`{name}`", runs[name], edges[name], found[name]) for name in runs]
    total = ("all", sum(runs.values()), sum(edges.values()), sum(found.values()))
    return table(("reader", "executions", "branches reached", "uncaught exceptions"), *rows, total)


def io_errors(*files):
    """Failures that were injected into each command."""
    found = lines(*files)
    rows = [(f"`lpp {one['command']}`", one["steps"], sum(one["injected"].values()), sum(one["refused"].values()),
             len(one["wrong"])) for one in found]  # fmt: skip
    total = ("all", *(sum(row[i] for row in rows) for i in range(1, 5)))
    return table(("command", "steps", "failures injected", "refused with the file's name", "wrong"), *rows, total)


def kills(*files):
    """Kills of each command."""
    found = {}
    for one in lines(*files):
        found.setdefault(one["command"], []).append(one)
    rows = [(f"`lpp {name}`", sum(one["kills"] for one in some), sum(one["let through"] for one in some),
             max(one["last process gone after"] for one in some), sum(len(one["wrong"]) for one in some))
            for name, some in found.items()]  # fmt: skip
    total = ("all", sum(r[1] for r in rows), sum(r[2] for r in rows), max(r[3] for r in rows), sum(r[4] for r in rows))
    return table(("command", "kills", "next run compared", "last process gone after (s)", "wrong"), *rows, total)


def services(*files):
    """What each server does, and what is made of it."""
    found = [one for one in lines(*files) if "server" in one]
    rows = [(one["server"], f"{one['seconds']:.1f}", "right embeddings" if not one["refused"] else _said(one["said"]))
            for one in found]  # fmt: skip
    return table((f"the server ({len(rows)} of them)", "seconds", "what the encoder says"), *rows)


def _said(text):
    text = re.sub(r"https?://HOST\S* ", "", text).split(" Gave up")[0].split(": try again")[0]
    text = " ".join("".join(letter if letter.isascii() or letter == "…" else "?" for letter in text).split())
    text = text if len(text) <= 80 else text[:79] + "…"
    return text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def floods(*files):
    """What each flood cost the service and its second client."""
    rows = [(one["flood"] + (f", from {one['clients']} clients at once" if one["clients"] > 1 else ""),
             round(one["megabytes sent"]), ", ".join(map(str, one["status"])), round(one["seconds"], 2),
             max(0, round(one["megabytes taken"])), round(one["second client waited"], 2))
            for one in lines(*files)]  # fmt: skip
    head = "what is sent", "MB", "answers", "seconds", "MiB that the service took", "a second client waited (s)"
    return table(head, *rows)


def soak(file):
    """One line for the whole time; a round of a thread has eight fits, and so has a child."""
    one = json.loads(Path(file).read_text())
    return table(
        ("hours", "fits in threads", "forks", "fresh processes", "deadlocks", "wrong results", "MiB per hour",
         "MiB after the warm-up", "MiB at the end"),
        (f"{one['seconds'] / 3600:.1f}", 8 * one["threads"], one["forks"], one["spawned"], len(one["deadlocks"]),
         len(one["errors"]), f"{one['mib_per_hour']} ± {one['standard_error']}", f"{one['mib_after_warm_up']:.0f}",
         f"{one['mib_at_end']:.0f}"),
    )  # fmt: skip


def main():
    """Replace the tables that are named."""
    text = PAGE.read_text(encoding="utf-8")
    for argument in sys.argv[1:]:
        name, _, files = argument.partition("=")
        made = globals()[name](*files.split(","))
        pattern = re.compile(f"<!-- {name} -->.*?<!-- end {name} -->", re.DOTALL)
        assert pattern.search(text), f"the page has no table {name}"
        text = pattern.sub(lambda _, n=name, m=made: f"<!-- {n} -->\n\n{m}\n\n<!-- end {n} -->", text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
