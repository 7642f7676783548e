"""Understand: a map of the photos, and a confusion matrix to look into."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg
from markupsafe import Markup
from numpy.typing import NDArray

from ..._core.backend import unit_rows
from ...images.sources.folders import UNSORTED
from ..desk import Desk, Place
from ..html import address, button, h, joined, thumb
from ..project import Listing, Photo
from ..snapshot import Snapshot
from ..texts import say

MOST_DRAWN = 2000
"""Photos on the map."""
SIZE = 600
MOST_CELLS = 60
"""Classes of the largest matrix that is drawn."""
MOST_SHOWN = 60
"""Photos of a cell."""


def render(desk: Desk, now: Snapshot, place: Place) -> Markup:
    """The tab."""
    return joined([
        h("section", h("h2", say("map")), _map(desk, now), data_key="map"),
        h("section", h("h2", say("matrix")), _matrix(now, place), data_key="matrix"),
    ])  # fmt: skip


def flat(rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], str]:
    """Two coordinates for each embedding, and what made them: UMAP if it is installed, else PCA."""
    F = np.asarray(unit_rows(rows), np.float64)
    if find_spec("umap") is not None and len(F) > 15:
        import umap  # type: ignore[import-not-found, unused-ignore]

        return np.asarray(umap.UMAP(random_state=0, n_jobs=1).fit_transform(F), np.float64), "UMAP"
    F = F - F.mean(axis=0)
    across = len(F) < F.shape[1]  # The smaller of the two squares has all that is needed.
    square = F @ F.T if across else F.T @ F
    values, vectors = scipy.linalg.eigh(square, subset_by_index=[len(square) - 2, len(square) - 1])
    vectors = vectors[:, ::-1]
    found = vectors * np.sqrt(np.maximum(values[::-1], 0)) if across else F @ vectors
    # Of the two signs always the same one, so that the map does not flip.
    return found * np.where(-found.min(axis=0) > found.max(axis=0), -1.0, 1.0), "PCA"


def colour(number: int, count: int) -> str:
    """A colour for a class, as different from the others as can be, readable on light and dark."""
    return f"hsl({(137.508 * number) % 360:.0f} 70% {45 + 12 * (number % 2)}%)" if count else "grey"


def _map(desk: Desk, now: Snapshot) -> Markup:
    drawn = _drawn(desk, now.listing)
    if drawn is None:
        return h("p", say("map_wait"), class_="hint")
    points, kind, shown, count = drawn
    labels = list(now.listing.classes)
    keys = [
        h("li", h("span", class_="swatch", style=f"background:{colour(i, 1)}"), label) for i, label in enumerate(labels)
    ]
    about = say("map_about", kind=kind) + ("" if shown == count else " " + say("map_sampled", shown=shown, count=count))
    return joined([
        h("p", about, class_="quiet"),
        h("div", [
            h("svg", points, viewBox=f"-10 -10 {SIZE + 20} {SIZE + 20}", role="img", aria_label=about, class_="map"),
            h("ul", keys, class_="keys"),
        ], class_="flow wrapped head"),
    ])  # fmt: skip


def _drawn(desk: Desk, listing: Listing) -> tuple[Markup, str, int, int] | None:
    everything = sorted(listing.where().values())
    step = -(-len(everything) // MOST_DRAWN) or 1
    chosen = tuple(everything[::step])
    found = desk.learner.embeddings(chosen)
    if found is None or len(found) < 3:
        return None
    return _points(desk, tuple(found.paths), tuple(listing.classes), tuple(chosen), len(everything))


@lru_cache(maxsize=4)
def _points(
    desk: Desk, paths: tuple[str, ...], labels: tuple[str, ...], chosen: tuple[Photo, ...], count: int
) -> tuple[Markup, str, int, int] | None:
    where = {photo.path: photo for photo in chosen}
    photos = [where[path] for path in paths]
    found = desk.learner.embeddings(photos)
    if found is None or len(found) != len(photos):
        return None
    xy, kind = flat(found.rows)
    low, high = xy.min(axis=0), xy.max(axis=0)
    xy = SIZE * (xy - low) / np.maximum(high - low, 1e-12)
    numbers = {label: number for number, label in enumerate(labels)}
    circles = []
    for photo, (x, y) in zip(photos, xy.tolist(), strict=True):
        label = photo.path.partition("/")[0] if "/" in photo.path else UNSORTED
        fill = colour(numbers[label], 1) if label in numbers else "grey"
        circles.append(h("circle", cx=f"{x:.1f}", cy=f"{SIZE - y:.1f}", r=5, fill=fill, data_do="open",
                         data_photo=photo.path, data_preview=address(photo), data_label=label))  # fmt: skip
    return joined(circles), kind, len(photos), count


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
    shade = f"--share:{0.15 + 0.55 * count / most:.2f}"
    return h("td", h("button", str(count), type="button", data_do="cell", data_truth=truth, data_answer=answer,
                     aria_label=told, title=told, style=shade, class_=kind, **pressed))  # fmt: skip


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
