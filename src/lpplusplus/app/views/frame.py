"""The frame around every tab: tabs, undo, accuracy, progress; and the dialog of one photo."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from ...images.sources.folders import UNSORTED
from ..desk import Desk, Place
from ..html import button, h, joined, picture
from ..snapshot import Snapshot
from ..texts import PHASES, TABS, change, counted, percent, say


def tabs(place: Place) -> Markup:
    """The parts of the page."""
    return joined(
        h(
            "button", text, type="button", role="tab", id=f"tab-{name}", data_do="tab", data_to=name, data_key=name,
            aria_selected="true" if name == place.tab else "false", aria_controls="view",
        )
        for name, text in TABS.items()
    )  # fmt: skip


def status(desk: Desk, now: Snapshot) -> Markup:
    """How good it is, undo, progress, and what went wrong."""
    undo, redo = desk.project.undoable, desk.project.redoable
    return joined([
        h("div", [
            h("p", headline(now), class_="headline"),
            h("div", [
                button(say("undo"), "undo", disabled=undo is None, label=_titled("undo", undo)),
                button(say("redo"), "redo", label=_titled("redo", redo)) if redo else None,
            ], class_="buttons"),
        ], class_="flow spread"),
        _progress(desk, now),
        now.problem and h("p", say("problem", problem=now.problem), class_="problem", role="alert"),
        _unreadable(now),
    ])  # fmt: skip


def _titled(which: str, found: Any) -> str:
    return say("nothing_to_undo") if found is None else say(f"{which}_what", what=change(found.about))


def headline(now: Snapshot) -> Markup:
    """How good it is, in a line."""
    insight = now.insight
    if len(now.listing.classes) < 2:
        return Markup("") + say("classes_missing")
    if now.classifier is None:
        return Markup("") + say("names_alone")
    lacking = [name for name, photos in now.listing.classes.items() if not photos]
    if len(now.listing.classes) - len(lacking) < 2:
        known = ", ".join(name for name in now.listing.classes if name not in lacking)
        missing = say("or").join(lacking)
        return Markup("") + say("one_class", photos=counted(now.learned), known=known, missing=missing)
    if insight is None or insight.accuracy is None or insight.interval is None:
        return Markup("") + say("too_few", photos=counted(now.learned))
    low, high = (percent(part) for part in insight.interval)
    stale = now.measured is not now.classifier
    return joined([
        h("strong", say("accuracy", accuracy=percent(insight.accuracy)), class_="accuracy"), " ",
        h("span", say("interval", low=low, high=high)), " ",
        h("span", f"({say('measuring_again')})", class_="quiet") if stale else None,
    ])  # fmt: skip


def _progress(desk: Desk, now: Snapshot) -> Markup:
    if now.phase == "idle" and not now.measuring:
        if not desk.learner.paused:
            return Markup("")
        return h("p", say("paused"), " ", button(say("go_on"), "go_on"), class_="flow")
    text = PHASES["measuring" if now.phase == "idle" else now.phase].format(done=now.done, total=now.total)
    known = {"max": now.total, "value": now.done} if now.phase == "embedding" and now.total else {}
    return h("div", h("span", text), h("progress", aria_label=text, **known),
             button(say("cancel"), "cancel"), class_="flow progress")  # fmt: skip


def _unreadable(now: Snapshot) -> Markup | None:
    if not now.unreadable:
        return None
    shown = list(now.unreadable.items())[:20]
    rows = [
        h("li", h("code", path), f" {reason} ", button(say("remove"), "remove", photo=path))
        for path, reason in shown
    ]  # fmt: skip
    return h(
        "details", h("summary", say("unreadable", photos=counted(len(now.unreadable)))), h("ul", rows), class_="problem"
    )


def dialog(now: Snapshot, place: Place) -> Markup:
    """One photo, large, and what can be done with it."""
    photo = now.listing.where().get(place.photo or "")
    if photo is None:
        return Markup("")
    label = photo.path.partition("/")[0] if "/" in photo.path else UNSORTED
    shown = say("unsorted") if label == UNSORTED else label
    said = None
    if now.held is not None and photo.path in now.held.images.paths:
        chances = now.held.probabilities[list(now.held.images.paths).index(photo.path)]
        best = int(chances.argmax())
        said = say("held_out_said", answer=now.held.classes[best], percent=percent(float(chances[best])))
    return joined([
        h("h2", photo.path, id="dialog-title"),
        h("p", now.unreadable[photo.path], class_="problem") if photo.path in now.unreadable else
        h("div", picture(photo, 640, alt=say("photo_of", path=photo.path, label=shown)), class_="large"),
        said and h("p", said),
        h("p", say("move_to")),
        h("div", [class_button(name, number, photo.path, name == label) for number, name in enumerate(targets(now), 1)],
          class_="buttons wrapped"),
        h("div", button(say("remove"), "remove", photo=photo.path, kind="danger"), button(say("close"), "close"),
          class_="flow spread"),
    ])  # fmt: skip


def targets(now: Snapshot) -> list[str]:
    """Where a photo can go: the classes as they are numbered, then unsorted."""
    return [*now.listing.classes, UNSORTED]


def class_button(name: str, number: int, photo: str, disabled: bool = False) -> Markup:
    """A button that moves a photo to a class."""
    text = say("unsorted") if name == UNSORTED else name
    key = h("kbd", str(number)) if number <= 9 and name != UNSORTED else None
    return h("button", key, text, type="button", data_do="move", data_photo=photo, data_to=name, disabled=disabled)
