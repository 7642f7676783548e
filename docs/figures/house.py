"""Draws the picture of docs/explanation/architecture.md: python docs/figures/house.py [folder]

Rooms and their arrows come from the imports of the package's files. The six ways name functions: each must exist, and
tests/process/test_house.py
walks the first four and looks whether they pass their stations in this order.
"""

from __future__ import annotations

import importlib
import sys
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "support"))
from imports import NAMES, imported, room  # noqa: E402

COLOURS = {
    "cli": "#e0e0e0", "app": "#fde0c5", "cluster": "#d9e8f6", "bench": "#d5ecd4", "deploy": "#f8d7da",
    "images": "#fff1b8", "methods": "#e6dcf3", "encoders": "#cfeeee", "probe": "#dfe3ff", "_core": "#ececec",
}  # fmt: skip
WAYS = {
    "An array is fitted": [
        ("check", "_core.input_checks:InputChecks._check_task"),
        ("one task", "_core.task:Task.working"),
        ("recipe", "probe.recipes:resolve"),
        ("train", "probe.fit:train"),
        ("when to stop", "probe.cross_validation:cross_validate"),
        ("on all images", "probe.fit:_FitRun._refit"),
        ("uncertainty", "probe.uncertainty:Uncertainty._learn_uncertainty"),
    ],
    "Photos are fitted": [
        ("open", "images.opening:open_source"),
        ("embed", "images.embedder:embed"),
        ("training data", "images.training_data:TrainingData.fitted"),
        ("fit", "probe.estimator:LPPlusPlus._fit_task"),
        ("leave some out", "images.hold_out:hold_out"),
        ("save", "images.saving:Saving.save"),
        ("report", "images.report:training_page"),
    ],
    "A photo is answered": [
        ("load", "images.saving:Saving.load"),
        ("open", "images.opening:open_source"),
        ("embed", "images.embedder:embed"),
        ("answer", "images.answers:answers"),
        ("table", "images.answers:Answers.as_dicts"),
    ],
    "A cell of the benchmark": [
        ("plan", "bench.plan:read_plan"),
        ("run", "bench.runner:run_plan"),
        ("cells", "bench.plan:Plan.cells"),
        ("run a cell", "bench.run_cell:run_cell"),
        ("keep its row", "bench.results:Results.add"),
        ("one frame", "bench.report.statistics:frame"),
        ("text", "bench.report:markdown_document"),
    ],
    "A photo comes to the page": [
        ("upload", "app.photos:routes"),
        ("project", "app.project:Project.add"),
        ("newest wins", "deploy.latest_worker:LatestWorker.want"),
        ("one scan", "app.folder:read_listing"),
        ("embed, fit", "app.learner:Learner._learn"),
        ("snapshot", "app.learner:Learner._publish"),
        ("to the tab", "app.page:Tab._send"),
    ],
    "A shard on many machines": [
        ("parts", "cluster.parts:plan"),
        ("run", "cluster.jobs:run_parts"),
        ("what is done", "cluster.jobs:finished"),
        ("map", "cluster.connection:run_tasks"),
        ("one part", "cluster.jobs:do_part"),
        ("embed", "cluster.commands:embed_part"),
    ],
}
"""Way: its stations, each in a word or two and as a function, `module:name`."""


def imports_between_rooms() -> dict[str, set[str]]:
    """Room: the rooms it imports from, as its files say."""
    rooms = {name: set() for name in COLOURS}
    for module in NAMES:
        if room(module) in rooms:
            rooms[room(module)] |= {room(target) for target in imported(module)} & set(rooms) - {room(module)}
    return rooms


def floors(rooms: dict[str, set[str]]) -> dict[str, int]:
    """Room: how many rooms lie below it, one upon another."""
    floor: dict[str, int] = {}
    for name in TopologicalSorter(rooms).static_order():
        floor[name] = 1 + max((floor[below] for below in rooms[name]), default=-1)
    return floor


def without_detours(rooms: dict[str, set[str]]) -> dict[str, set[str]]:
    """Only arrows that no longer way of arrows replaces."""

    def below(name: str) -> set[str]:
        return rooms[name].union(*map(below, rooms[name]))

    return {
        name: {to for to in targets if not any(to in below(other) for other in targets)}
        for name, targets in rooms.items()
    }


def station(name: str) -> object:
    """The function `module:name` of the package."""
    module, _, path = name.partition(":")
    thing: object = importlib.import_module(f"lpplusplus.{module}")
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


def text(x: float, y: float, words: str, size: int, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {more}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{colour}" stroke="#777"/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} stroke="#555" stroke-width="1.2" marker-end="url(#head)"/>'


def draw_rooms(left: float, top: float, width: float, step: float) -> list[str]:
    """A floor is a row; an arrow points at what is imported. Above others stands who imports from them."""
    rooms = imports_between_rooms()
    floor, arrows = floors(rooms), without_detours(rooms)
    highest = max(floor.values())
    place: dict[str, tuple[float, float, float]] = {}
    for level in range(highest + 1):
        y = top + (highest - level) * step
        names = sorted(name for name in floor if floor[name] == level)
        spans = {name: [place[to] for to in arrows[name]] for name in names}
        names.sort(key=lambda name: sum(x for x, _, _ in spans[name]) / max(1, len(spans[name])))
        each = width / len(names)
        for position, name in enumerate(names):
            place[name] = (left + position * each, y, each - 10)
            if len(names) == 1 and spans[name]:
                start = min(x for x, _, _ in spans[name])
                place[name] = (start, y, max(x + w for x, _, w in spans[name]) - start)
    drawn = []
    for name, targets in arrows.items():
        for to in sorted(targets):
            (x1, y1, w1), (x2, y2, w2) = place[name], place[to]
            low, high = max(x1, x2), min(x1 + w1, x2 + w2)
            start, end = ((low + high) / 2,) * 2 if low < high else (x1 + w1 / 2, x2 + w2 / 2)
            drawn.append(arrow(start, y1 + 40, end, y2 - 2))
    for name, (x, y, w) in place.items():
        drawn += [box(x, y, w, 40, COLOURS[name]), text(x + 8, y + 25, f"{name}/", 15, 'font-weight="bold"')]
    return drawn


def draw_ways(left: float, top: float, width: float, step: float) -> list[str]:
    """One row per way, its stations from left to right, each in the colour of its room."""
    drawn = []
    for row, (way, stations) in enumerate(WAYS.items()):
        y = top + row * step
        drawn.append(text(left, y + 12, way, 14, 'font-weight="bold"'))
        each = width / len(stations)
        for position, (words, name) in enumerate(stations):
            station(name)  # Fails where it is gone.
            module, _, function = name.partition(":")
            x = left + position * each
            drawn += [box(x, y + 18, each - 14, 54, COLOURS[room(module)]), text(x + 6, y + 35, words, 12)]
            drawn.append(text(x + 6, y + 50, module.replace(".", "/"), 9, 'fill="#444"'))
            drawn.append(text(x + 6, y + 64, function.rpartition(".")[2], 9, 'fill="#444" font-style="italic"'))
            if position:
                drawn.append(arrow(x - 13, y + 45, x - 2, y + 45))
    return drawn


def house() -> str:
    """The picture, as SVG."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1250 610" font-family="sans-serif" role="img" '
        'aria-label="Rooms of the package, and six ways through them">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        '<rect width="100%" height="100%" rx="8" fill="#fff"/>',
        text(20, 30, "Rooms: each imports from those below it", 15, 'fill="#333"'),
        text(385, 30, "Six ways through them", 15, 'fill="#333"'),
        *draw_rooms(20, 48, 330, 72),
        *draw_ways(385, 48, 860, 94),
        "</svg>\n",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (folder / "house.svg").write_text(house(), encoding="utf-8")
