"""Classes as columns: names, photos, and how good it is."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ...images.hold_out import BOTH, NAMES
from ...images.sources.folders import UNSORTED
from ..desk import Desk, Place
from ..html import button, h, joined, thumb
from ..project import Photo
from ..snapshot import Snapshot
from ..texts import counted, percent, say

AT_FIRST = 300
"""Photos that are shown at first, over all classes; the rest on request. Each is loaded when it is in view."""
FEWEST, STEP = 6, 60


def render(desk: Desk, now: Snapshot, place: Place) -> Markup:
    """The tab."""
    columns = [*now.listing.classes.items()]
    limit = max(FEWEST, AT_FIRST // (len(columns) + 1))
    return joined([
        h("form", [
            h("label", say("new_class"), for_="new-class"),
            h("input", id="new-class", name="name", placeholder=say("new_class_hint"), autocomplete="off",
              maxlength=100),
            h("button", say("add_class"), type="submit", class_="primary"),
        ], data_do="add_class", class_="flow"),
        None if columns else h("p", say("first"), class_="hint"),
        h("div", [
            h("div", [
                _column(now, name, photos, place, limit, number) for number, (name, photos) in enumerate(columns, 1)
            ], _column(now, UNSORTED, now.listing.unsorted, place, limit, 0), class_="bays"),
            _how_good(now),
        ], class_="beside" if now.insight is not None and now.insight.accuracy is not None else None),
        h("p", say("keys_classes"), class_="quiet"),
    ])  # fmt: skip


def _column(now: Snapshot, name: str, photos: Sequence[Photo], place: Place, limit: int, number: int) -> Markup:
    title = say("unsorted") if name == UNSORTED else name
    shown = limit + place.more.get(name, 0)
    rest = len(photos) - shown
    return h(
        "section",
        h("header", _title(name, title, number, place), class_="flow"),
        zone(name, title, say("drop")),
        h("div", [thumb(photo, bad=photo.path in now.unreadable) for photo in photos[:shown]],
          class_="photos", data_class=name),
        button(say("more", count=min(rest, STEP)), "more", to=name) if rest > 0 else None,
        h("p", counted(len(photos)), class_="quiet count"),
        class_="bay", data_drop=name, data_key=f"column {name}", aria_label=f"{title}: {counted(len(photos))}",
    )  # fmt: skip


def _title(name: str, title: str, number: int, place: Place) -> list[Markup | None]:
    if name == UNSORTED:
        return [h("h2", title)]
    if place.renaming == name:
        return [
            h("form", [
                h("input", name="to", value=name, aria_label=say("rename_class", name=name), maxlength=100),
                h("button", say("rename_ok"), type="submit", class_="primary"),
            ], data_do="rename", data_name=name, class_="flow"),
        ]  # fmt: skip
    return [
        h("h2", h("kbd", str(number)) if number <= 9 else None, title),
        h("span", [
            button("✎", "renaming", name=name, label=say("rename_class", name=name), kind="icon"),
            button("✕", "remove_class", name=name, label=say("remove_class", name=name), kind="icon"),
        ], class_="icons"),
    ]  # fmt: skip


def zone(name: str, title: str, text: str) -> Markup:
    """Where photos can be dropped, chosen, or taken."""
    return h(
        "div",
        h("span", text, class_="quiet"),
        h("span", [
            h("label", [
                say("choose"),
                h("input", type="file", accept="image/*", multiple=name != "try", data_upload=name,
                  class_="hidden-input", aria_label=say("choose_for", name=title)),
            ], class_="button"),
            h("button", say("webcam"), type="button", data_webcam=name, aria_label=say("webcam_for", name=title)),
        ], class_="buttons"),
        class_="zone",
    )  # fmt: skip


def _how_good(now: Snapshot) -> Markup | None:
    insight = now.insight
    if insight is None or insight.accuracy is None or now.measured is None:
        return None
    told = [h("li", f"{say('measured_on', photos=len(now.measured.support_))}.")]
    for one in now.check.expected[1:] if now.check is not None else ():
        low, high = (percent(part) for part in one.interval)
        told.append(
            h("li", say("more_photos", photos=round(one.photos), accuracy=percent(one.accuracy), low=low, high=high))
        )
    if insight.weakest:
        weak = ", ".join(
            say("weak", label=one.label, accuracy=percent(one.accuracy), images=one.images) for one in insight.weakest
        )
        told.append(h("li", f"{say('weakest')} {weak}"))
    if now.seconds is not None:
        told.append(
            h("li", say("learned_in", photos=counted(now.learned), seconds=f"{now.seconds:.1f}"), class_="quiet")
        )
    shown = h("div", curve(now), h("ul", told), class_="flow wrapped")
    return h("section", h("h2", say("enough")), shown, class_="card")


def curve(now: Snapshot) -> Markup | None:
    """The learning curve as a drawing."""
    if now.curve is None:
        return None
    shots, lines = now.curve
    wide, high, left, top = 320, 170, 40, 10
    last = max(1, len(shots) - 1)
    lowest = max(0.0, min(min(line) for line in lines.values()) - 0.05)

    def at(turn: int, value: float) -> str:
        x, y = left + (wide - left - 10) * turn / last, top + (high - top - 40) * (1 - value) / (1 - lowest)
        return f"{x:.1f},{y:.1f}"

    names = {BOTH: say("curve_both"), NAMES: say("curve_names")}
    counts = [f"{n:.3g}" for n in shots]
    told = [
        f"{names[name]}: " + ", ".join(f"{n}: {percent(part)} %" for n, part in zip(counts, line, strict=True))
        for name, line in lines.items()
    ]
    drawn = [
        h("polyline", points=" ".join(at(i, part) for i, part in enumerate(line)), class_=f"line line-{number}")
        for number, (name, line) in enumerate(lines.items())
    ]
    ticks = [h("text", n, x=at(i, 0).split(",")[0], y=high - 24, text_anchor="middle") for i, n in enumerate(counts)]
    sides = [
        h("text", f"{percent(value)} %", x=left - 4, y=float(at(0, value).split(",")[1]) + 4, text_anchor="end")
        for value in (1.0, lowest)
    ]
    keys = [h("li", h("span", class_=f"swatch line-{number}"), names[name]) for number, name in enumerate(lines)]
    return h(
        "figure",
        h("figcaption", say("curve")),
        h("svg", drawn, ticks, sides,
          h("text", say("curve_axis"), x=wide / 2, y=high - 6, text_anchor="middle"),
          viewBox=f"0 0 {wide} {high}", role="img", aria_label=f"{say('curve')}. {'; '.join(told)}"),
        h("ul", keys, class_="keys"),
        class_="curve",
    )  # fmt: skip
