"""Understand: a map of the photos, and a confusion matrix to look into."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ...images.projection import colour
from ...images.sources.folders import UNSORTED
from .. import maps
from ..desk import Desk, Place
from ..html import address, button, h, joined, thumb
from ..project import Photo
from ..snapshot import Snapshot
from ..texts import say
from .export import running

SIZE = 600
MOST_CELLS = 60
"""Most classes of a matrix that is drawn."""
MOST_SHOWN = 60
"""Most photos that are shown of a cell."""


def render(desk: Desk, now: Snapshot, place: Place) -> Markup:
    """The tab."""
    return joined([
        h("section", h("h2", say("map")), _map(desk, now), data_key="map"),
        h("section", h("h2", say("matrix")), _matrix(now, place), data_key="matrix"),
    ])  # fmt: skip


def _map(desk: Desk, now: Snapshot) -> Markup:
    found = maps.on_map(desk, now.listing)
    if found is None:
        return h("p", say("map_wait"), class_="hint")
    where = now.listing.where()
    xy, kind = maps.points(desk, found)
    points = _points([where[path] for path in found.paths], xy, list(now.listing.classes))
    keys = [
        h("li", h("svg", h("rect", width=1, height=1, fill=colour(i)), viewBox="0 0 1 1", class_="swatch"), label)
        for i, label in enumerate(now.listing.classes)
    ]
    about = f"{say('map_about')} {say(f'map_{kind}')}"
    if len(found) < len(where):
        about += " " + say("map_sampled", shown=len(found), count=len(where))
    return joined([
        h("p", about, class_="quiet"),
        _other(desk, kind) if maps.can_have_umap(found) else None,
        h("div", [
            h("svg", points, viewBox=f"-10 -10 {SIZE + 20} {SIZE + 20}", role="img", aria_label=about, class_="map"),
            h("ul", keys, class_="keys"),
        ], class_="flow wrapped head"),
    ])  # fmt: skip


def _other(desk: Desk, kind: str) -> Markup:
    """A button for the other kind of map, or progress while it is drawn."""
    job = desk.jobs.get(maps.JOB)
    if job is not None and not job.over:
        return running(job)
    other = "PCA" if kind == "UMAP" else "UMAP"
    problem = job is not None and job.problem and h("p", job.problem, class_="problem", role="alert")
    return h("div", button(say("map_draw", kind=other), "map", to=other), problem, class_="flow wrapped")


def _points(photos: list[Photo], xy: NDArray[np.float64], labels: list[str]) -> Markup:
    low, high = xy.min(axis=0), xy.max(axis=0)
    xy = SIZE * (xy - low) / np.maximum(high - low, 1e-12)
    fills = {label: colour(number) for number, label in enumerate(labels)}
    circles = []
    for photo, (x, y) in zip(photos, xy.tolist(), strict=True):
        label = photo.path.partition("/")[0] if "/" in photo.path else UNSORTED
        circles.append(
            h("circle", cx=f"{x:.1f}", cy=f"{SIZE - y:.1f}", r=5, fill=fills.get(label, "grey"), data_do="open",
              data_photo=photo.path, data_preview=address(photo), data_label=label)
        )  # fmt: skip
    return joined(circles)


def _matrix(now: Snapshot, place: Place) -> Markup:
    held = now.held
    if held is None or now.measured is None:
        return h("p", say("matrix_wait"), class_="hint")
    scores = held.scores()
    counts, labels = scores.confusion, list(held.classes)
    if len(labels) > MOST_CELLS:
        pairs = [
            h("li", button(f"{truth} → {answer}: {n}", "cell", truth=truth, answer=answer))
            for truth, answer, n in scores.confused(30)
        ]
        return joined([h("ul", pairs, class_="list"), _cell(now, place)])
    head = h("tr", h("th", say("label"), scope="col"), [h("th", h("span", label), scope="col") for label in labels])
    most = max(1, int(counts.max()))
    body = [
        h("tr", h("th", truth, scope="row"), [
            _number(int(counts[i, j]), truth, answer, most, place) for j, answer in enumerate(labels)
        ])
        for i, truth in enumerate(labels)
    ]  # fmt: skip
    return joined([
        h("p", say("matrix_about"), class_="quiet"),
        h("div", h("table", h("thead", head), h("tbody", body), class_="matrix"), class_="scroll", tabindex="0",
          role="region", aria_label=say("matrix")),
        _cell(now, place),
    ])  # fmt: skip


def _number(count: int, truth: str, answer: str, most: int, place: Place) -> Markup:
    if not count:
        return h("td", "")
    kind = "right" if truth == answer else "wrong"
    pressed: dict[str, Any] = {"aria-pressed": "true"} if place.cell == (truth, answer) else {}
    told = say("matrix_cell", count=count, truth=truth, answer=answer)
    shade = f"{kind} share-{math.ceil(8 * count / most)}"
    return h("td", h("button", str(count), type="button", data_do="cell", data_truth=truth, data_answer=answer,
                     aria_label=told, title=told, class_=shade, **pressed))  # fmt: skip


def _cell(now: Snapshot, place: Place) -> Markup | None:
    held, photos = now.held, now.listing.where()
    if held is None or place.cell is None or not set(place.cell) <= set(held.classes):
        return None
    truth, answer = (held.classes.index(label) for label in place.cell)
    rows = np.flatnonzero((held.truth == truth) & (held.probabilities.argmax(axis=1) == answer))
    shown = [photos[held.images.paths[row]] for row in rows.tolist() if held.images.paths[row] in photos]
    title = h("h3", say("matrix_photos", truth=place.cell[0], answer=place.cell[1]))
    some = h("div", [thumb(photo) for photo in shown[:MOST_SHOWN]], class_="photos")
    return h("section", title, some, class_="card", id="cell")
