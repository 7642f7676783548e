"""From a snapshot to HTML: each part of the page is a template, and a function here that looks up what it shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..encoders import known_encoders
from ..images.hold_out import BOTH, NAMES
from ..images.projection import colour
from ..images.sources.folders import UNSORTED
from ..images.suggesting import Suggestion
from . import jobs
from .folder import Photo, counted
from .project import CLASSIFIER, about_change
from .snapshot import SURE, Snapshot
from .state import TABS, AppState, Job, ViewState

PHASES = {
    "idle": "Measuring how good it is …",
    "opening": "Opening the encoder …",
    "embedding": "Looking at photos: {done} of {total}",
    "learning": "Learning …",
}
PHOTOS_AT_FIRST, FEWEST_OF_CLASS, STEP = 300, 6, 60
"""Photos that are shown at first, over all classes and of one at least; and how many more on request."""
MOST_MISTAKES, MOST_NEXT, MOST_CELLS, MOST_OF_CELL = 24, 8, 60, 60
"""Of mistakes, of next photos to label, of classes in a matrix, and of photos of one of its cells."""
MAP_SIZE = 600


def render(part: str, state: AppState, now: Snapshot, view: ViewState) -> str:
    """The HTML of a part of the page: "tabs", "status", "dialog", or one of the tabs."""
    more = CONTEXTS[part](state, now, view) if part in CONTEXTS else {}
    return _templates.get_template(f"{part}.html").render(state=state, now=now, view=view, **more)


def render_page(template: str, **values: Any) -> str:
    """A whole page."""
    return _templates.get_template(template).render(values)


def render_job(job: Job) -> str:
    """The progress of a job, for its slot."""
    return str(_templates.get_template("macros.html").make_module().job_progress(job))  # type: ignore[attr-defined]


def queue(now: Snapshot) -> list[Suggestion]:
    """Suggestions that are still unsorted."""
    there = {photo.path for photo in now.listing.unsorted}
    return [one for one in now.suggested if one.path in there]


def still_sure(now: Snapshot) -> dict[str, str]:
    """The unsorted photos that it is sure of, and their classes, as far as both are there."""
    there = {photo.path for photo in now.listing.unsorted}
    return {path: label for path, label in now.sure.items() if path in there and label in now.listing.classes}


def position(order: list[Suggestion], view: ViewState) -> int:
    """Position of the photo that is being labelled; the first if it is gone."""
    return next((i for i, one in enumerate(order) if one.path == view.at), 0)


def _measured(now: Snapshot) -> bool:
    return now.insight is not None and now.insight.accuracy is not None and now.insight.interval is not None


def _status(state: AppState, now: Snapshot, _: ViewState) -> dict[str, Any]:
    working = now.phase != "idle" or now.measuring
    classes = now.listing.classes.items()
    return {
        "known": [name for name, photos in classes if photos],
        "lacking": [name for name, photos in classes if not photos],
        "measured": _measured(now),
        "working": working and PHASES[now.phase].format(done=now.done, total=now.total),
    }


def _dialog(_: AppState, now: Snapshot, view: ViewState) -> dict[str, Any]:
    photo, answer, chance = now.listing.where().get(view.photo or ""), None, 0.0
    if photo is not None and now.held is not None and photo.path in now.held.images.paths:
        chances = now.held.probabilities[list(now.held.images.paths).index(photo.path)]
        answer, chance = now.held.classes[int(chances.argmax())], float(chances.max())
    return {"photo": photo, "answer": answer, "chance": chance}


def _classes(_: AppState, now: Snapshot, __: ViewState) -> dict[str, Any]:
    limit = max(FEWEST_OF_CLASS, PHOTOS_AT_FIRST // (len(now.listing.classes) + 1))
    return {"limit": limit, "measured": _measured(now) and now.measured is not None, "curve": _curve(now)}


def _curve(now: Snapshot) -> dict[str, Any] | None:
    """The learning curve as lines of a drawing, 320 by 170."""
    if now.curve is None:
        return None
    shots, lines = now.curve
    lowest = max(0.0, min(min(line) for line in lines.values()) - 0.05)
    x = [f"{40 + 270 * turn / max(1, len(shots) - 1):.1f}" for turn in range(len(shots))]

    def y(value: float) -> float:
        return 10 + 120 * (1 - value) / (1 - lowest)

    counts = [f"{n:.2g}" if n < 10 else f"{n:.0f}" for n in shots]
    names = {BOTH: "names and photos", NAMES: "names alone"}
    told = [
        f"{names[name]}: " + ", ".join(f"{n}: {percent(part)}\u00a0%" for n, part in zip(counts, line, strict=True))
        for name, line in lines.items()
    ]
    drawn = [
        {"name": names[name], "points": " ".join(f"{a},{y(part):.1f}" for a, part in zip(x, line, strict=True))}
        for name, line in lines.items()
    ]
    sides = [(f"{y(value) + 4:.1f}", value) for value in (1.0, lowest)]
    return {"told": "; ".join(told), "lines": drawn, "ticks": list(zip(x, counts, strict=True)), "sides": sides}


def _try(state: AppState, now: Snapshot, view: ViewState) -> dict[str, Any]:
    reply, photos = state.reply(now, view.tried), now.listing.where()
    nearest = () if reply is None else reply.get("nearest", ())
    return {"reply": reply, "nearest": [photos[path] for path in nearest if path in photos]}


def _review(state: AppState, now: Snapshot, _: ViewState) -> dict[str, Any]:
    photos, insight = now.listing.where(), now.insight
    doubts = [
        one
        for one in (insight.mislabelled if insight is not None else ())
        if one.path in photos and not state.is_kept(one.path, one.label)
    ]
    pairs = {
        "two_classes": insight.duplicates_of_two_classes if insight is not None else (),
        "same_class": now.check.duplicates if now.check is not None else (),
    }
    there = {name: [one for one in some if {one.first, one.second} <= photos.keys()] for name, some in pairs.items()}
    mistakes = _mistakes(state, now, photos)
    confused = insight.confused if insight is not None else ()
    return {"photos": photos, "doubts": doubts, "mistakes": mistakes, "confused": confused, **there}


def _mistakes(state: AppState, now: Snapshot, photos: dict[str, Photo]) -> list[tuple[Photo, str, str, float]]:
    """Photos that were answered wrong, except those whose label is doubtful."""
    held = now.held
    if held is None:
        return []
    doubted = {one.path for one in now.insight.mislabelled} if now.insight is not None else set()
    said, truth = held.probabilities, held.truth
    wrong = np.flatnonzero(~held.right)
    found = []
    for row in wrong[np.argsort(-said[wrong].max(axis=1), kind="stable")].tolist():
        path, label = held.images.paths[row], held.classes[truth[row]]
        if path in photos and path not in doubted and not state.is_kept(path, label):
            found.append((photos[path], label, held.classes[int(said[row].argmax())], float(said[row].max())))
    return found[:MOST_MISTAKES]


def _suggest(_: AppState, now: Snapshot, view: ViewState) -> dict[str, Any]:
    order = queue(now)
    at = position(order, view)
    return {
        "one": order[at] if order else None,
        "following": order[at + 1 : at + 1 + MOST_NEXT],
        "photos": now.listing.where(),
        "sure": len(still_sure(now)),
        "percent_sure": SURE,
        "unreadable": all(photo.path in now.unreadable for photo in now.listing.unsorted),
    }


def _understand(state: AppState, now: Snapshot, view: ViewState) -> dict[str, Any]:
    return {"map": _map(state, now), "matrix": _matrix(now, view)}


def _map(state: AppState, now: Snapshot) -> dict[str, Any] | None:
    found = jobs.on_map(state, now.listing)
    if found is None:
        return None
    where = now.listing.where()
    xy, kind = jobs.points(state, found)
    low, high = xy.min(axis=0), xy.max(axis=0)
    fills = {label: colour(number) for number, label in enumerate(now.listing.classes)}
    photos = [where[path] for path in found.paths]
    drawn = [
        (photo, f"{x:.1f}", f"{MAP_SIZE - y:.1f}", fills.get(photo.label, "grey"))
        for photo, (x, y) in zip(photos, MAP_SIZE * (xy - low) / np.maximum(high - low, 1e-12), strict=True)
    ]
    other = ("PCA" if kind == "UMAP" else "UMAP") if jobs.can_have_umap(found) else None
    job = state.jobs.get(jobs.MAP)
    return {
        "points": drawn,
        "fills": list(fills.items()),
        "kind": kind,
        "count": len(where),
        "other": other,
        "job": job,
    }


def _matrix(now: Snapshot, view: ViewState) -> dict[str, Any] | None:
    held = now.held
    if held is None or now.measured is None:
        return None
    scores, labels, shown = held.scores(), list(held.classes), None
    if view.cell is not None and set(view.cell) <= set(labels):
        truth, answer = (labels.index(label) for label in view.cell)
        rows = np.flatnonzero((held.truth == truth) & (held.probabilities.argmax(axis=1) == answer)).tolist()
        paths, photos = [held.images.paths[row] for row in rows], now.listing.where()
        shown = [photos[path] for path in paths if path in photos][:MOST_OF_CELL]
    if len(labels) > MOST_CELLS:
        return {"pairs": scores.confused(30), "shown": shown}
    counts = scores.confusion.tolist()
    table = [(truth, list(zip(labels, row, strict=True))) for truth, row in zip(labels, counts, strict=True)]
    return {"pairs": None, "labels": labels, "rows": table, "most": max(1, *map(max, counts)), "shown": shown}


def _export(state: AppState, now: Snapshot, _: ViewState) -> dict[str, Any]:
    root = Path(state.project.root.name)
    return {
        "FILES": [(kind, made.title, made.about) for kind, made in jobs.FILES.items()],
        "encoders": [kind for kind in known_encoders() if kind.scheme.islower() and ":" not in kind.scheme],
        "used": str(state.project.settings["encoder"]),
        "root": root.name,
        "folder": shlex.quote(str(root)),
        "model": shlex.quote(str(root / CLASSIFIER)),
        "unsorted": shlex.quote(str(root / UNSORTED)),
        "encoder": "" if now.encoder == "embedded" else f" --encoder {shlex.quote(now.encoder)}",
    }


CONTEXTS: dict[str, Callable[[AppState, Snapshot, ViewState], dict[str, Any]]] = {
    "status": _status, "dialog": _dialog, "classes": _classes, "try": _try, "review": _review,
    "suggest": _suggest, "understand": _understand, "export": _export,
}  # fmt: skip


def percent(part: float) -> str:
    """0.913 as "91"; but neither 0 nor 100 unless it is that.

    >>> percent(0.913), percent(0.9999), percent(1.0), percent(0.0001)
    ('91', '99.9', '100', '0.1')
    """
    if min(part, 1 - part) < 1e-9:
        return str(round(100 * part))
    rounded = round(100 * part)
    return str(rounded) if 0 < rounded < 100 else f"{min(99.9, max(0.1, 100 * part)):.1f}"


def _job_text(job: Job) -> str:
    if job.kind.startswith("encoder "):
        return f"Downloading {job.kind.removeprefix('encoder ')}: {job.done} of {job.total} MB"
    if job.kind != jobs.MAP:
        return f"Working: {job.done} of {job.total}"
    return (
        f"Drawing with UMAP: {job.done} of {job.total}" if job.total else "Drawing with UMAP: it takes half a minute …"
    )


def _address(photo: Photo, size: int = 160) -> str:
    """The address of a photo; it changes with the file."""
    return f"/photo/{quote(photo.path)}?size={size}&v={photo.mtime:x}-{photo.size:x}"


def _title(name: str) -> str:
    return "Unsorted" if name == UNSORTED else name


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_templates.globals |= {"TABS": TABS, "UNSORTED": UNSORTED, "STEP": STEP}
_templates.filters |= {
    "address": _address, "percent": percent, "counted": counted, "change": about_change, "title_of": _title,
    "job_text": _job_text,
}  # fmt: skip
