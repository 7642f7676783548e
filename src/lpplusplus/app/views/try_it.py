"""Try it: a photo, what it is taken for, and why."""

from __future__ import annotations

from markupsafe import Markup

from ..desk import Desk, Place
from ..html import button, h, joined, thumb
from ..snapshot import Reply, Snapshot
from ..texts import percent, say
from .classes import zone

MOST = 5
"""Answers that are shown."""


def render(desk: Desk, now: Snapshot, place: Place) -> Markup:
    """The tab."""
    if now.model is None:
        return h("p", say("try_nothing"), class_="hint")
    reply = desk.reply(now, place.tried)
    return joined([
        h("section", zone("try", say("photo"), say("try_hint")), class_="bay wide", data_drop="try"),
        None if reply is None or place.tried is None else _answer(now, reply, place.tried),
    ])  # fmt: skip


def _answer(now: Snapshot, reply: Reply, key: str) -> Markup:
    photos = now.listing.where()
    near = [photos[path] for path in reply.nearest if path in photos]
    unsure = say("try_unknown") if reply.none is None else say("try_none" if reply.none else "try_some")
    return h(
        "section",
        h("div", [
            h("div", h("img", src=f"/tried/{key}", alt=say("tried_photo")), class_="large"),
            h("div", [
                h("h2", say("answers")),
                h("ol", [_bar(label, chance) for label, chance in reply.answers[:MOST]], class_="bars"),
                h("p", unsure, class_="none" if reply.none else "quiet"),
                near and h("h3", say("try_because")),
                h("div", [thumb(photo, photo.path.partition("/")[0]) for photo in near], class_="photos"),
                h("h3", say("try_add")),
                h("div", [button(name, "add_tried", to=name, tried=key) for name in now.listing.classes],
                  class_="buttons wrapped"),
            ]),
        ], class_="halves"),
        aria_live="polite",
    )  # fmt: skip


def _bar(label: str, chance: float) -> Markup:
    return h(
        "li",
        h("span", label, class_="name"),
        h("svg", h("rect", width=f"{100 * chance:.1f}", height=1), viewBox="0 0 100 1", preserveAspectRatio="none",
          class_="bar", aria_hidden="true"),
        h("span", f"{percent(chance)} %", class_="number"),
    )  # fmt: skip
