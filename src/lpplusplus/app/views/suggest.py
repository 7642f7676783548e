"""Suggest: label unsorted photos one by one, the most useful first, with one key each."""

from __future__ import annotations

from markupsafe import Markup

from ...images.sources.folders import UNSORTED
from ...images.suggesting import Suggestion
from ..desk import Desk, Place
from ..html import button, h, joined, picture
from ..snapshot import Snapshot
from ..texts import percent, say
from .classes import zone
from .frame import class_button

STRIP = 8
"""Number of next photos that are shown small."""


def render(_: Desk, now: Snapshot, place: Place) -> Markup:
    """The tab."""
    drop = h("section", zone(UNSORTED, say("unsorted"), say("drop")), class_="bay wide", data_drop=UNSORTED)
    if not now.listing.unsorted:
        return joined([h("p", say("suggest_empty"), class_="hint"), drop])
    if len(now.listing.classes) < 2:
        return joined([h("p", say("suggest_classes"), class_="hint"), drop])
    order = queue(now)
    if not order:
        bad = all(photo.path in now.unreadable for photo in now.listing.unsorted)
        return joined([h("p", say("suggest_unreadable" if bad else "suggest_wait"), class_="hint"), drop])
    at = position(order, place)
    photos, one = now.listing.where(), order[at]
    photo = photos[one.path]
    return joined([
        h("p", say("suggest_left", count=len(now.listing.unsorted)), class_="quiet"),
        h("div", [
            h("div", picture(photo, 640, alt=one.path), class_="large", data_key=one.path),
            h("div", [
                h("h2", say("suggest_guess", guess=one.guess, percent=percent(one.probability))),
                button(say("accept", name=one.guess), "move", photo=one.path, to=one.guess, kind="primary big accept"),
                h("p", say("suggest_why", reason=one.reason), class_="quiet"),
                h("h3", say("which_class")),
                h("div", [class_button(name, n, one.path) for n, name in enumerate(now.listing.classes, 1)],
                  class_="buttons wrapped"),
                h("div", [
                    button(say("previous"), "step", by=-1), button(say("next"), "step", by=1),
                    button(say("remove"), "remove", photo=one.path),
                ], class_="buttons wrapped"),
                h("p", say("keys_suggest"), class_="quiet"),
            ]),
        ], class_="halves", data_keys="suggest", data_photo=one.path),
        h("div", [picture(photos[other.path]) for other in order[at + 1 : at + 1 + STRIP]], class_="strip",
          aria_hidden="true"),
        drop,
    ])  # fmt: skip


def queue(now: Snapshot) -> list[Suggestion]:
    """Suggestions that are still unsorted."""
    there = {photo.path for photo in now.listing.unsorted}
    return [one for one in now.suggested if one.path in there]


def position(order: list[Suggestion], place: Place) -> int:
    """Position of the photo that is being labelled; the first if it is gone."""
    return next((i for i, one in enumerate(order) if one.path == place.at), 0)
