"""Review: mistakes, doubtful labels, confusable pairs, duplicates; each with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from ...images.duplicates import Duplicate
from ..desk import Desk, Place
from ..html import button, h, joined, thumb
from ..project import Photo
from ..snapshot import Snapshot
from ..texts import percent, say

MOST = 24
"""Mistakes that are shown."""


def render(desk: Desk, now: Snapshot, _: Place) -> Markup:
    """The tab."""
    if now.held is None and (now.check is None or not now.check.duplicates):
        return h("p", say("review_wait"), class_="hint")
    photos = now.listing.where()
    doubted = {one.path for one in now.insight.mislabelled} if now.insight is not None else set()
    in_two = now.insight.duplicates_of_two_classes if now.insight else ()
    cards = [
        ("mislabelled", _doubts(desk, now, photos)),
        (
            "twins",
            [_pair(one, photos) for one in in_two if _both(one, photos)],
        ),
        ("mistakes", _mistakes(desk, now, photos, doubted)),
        (
            "duplicates",
            [_pair(one, photos) for one in (now.check.duplicates if now.check else ()) if _both(one, photos)],
        ),
    ]
    found = [_section(name, some, "cards") for name, some in cards if some]
    if now.insight is not None and now.insight.confused:
        told = [
            h("li", button(say("confused_pair", truth=one.truth, answer=one.answer, images=one.images), "cell",
                           truth=one.truth, answer=one.answer))
            for one in now.insight.confused
        ]  # fmt: skip
        found.append(_section("confused", told, "list"))
    return joined(found) or h("p", say("review_empty"), class_="hint")


def _section(name: str, cards: list[Any], kind: str) -> Markup:
    body = h("ul", cards, class_=kind)
    return h("section", h("h2", say(name)), h("p", say(f"{name}_about"), class_="quiet"), body, data_key=name)


def _doubts(desk: Desk, now: Snapshot, photos: dict[str, Photo]) -> list[Markup]:
    return [
        card(photos[one.path], one.label, one.answer, one.probability)
        for one in (now.insight.mislabelled if now.insight is not None else ())
        if one.path in photos and not desk.is_kept(one.path, one.label)
    ]


def _mistakes(desk: Desk, now: Snapshot, photos: dict[str, Photo], others: set[str]) -> list[Markup]:
    held = now.held
    if held is None:
        return []
    said, truth = held.probabilities, held.truth
    wrong = np.flatnonzero(~held.right)
    order = wrong[np.argsort(-said[wrong].max(axis=1), kind="stable")]
    found: list[Markup] = []
    for row in order.tolist():
        path, label = held.images.paths[row], held.classes[truth[row]]
        if len(found) < MOST and path in photos and path not in others and not desk.is_kept(path, label):
            best = int(said[row].argmax())
            found.append(card(photos[path], label, held.classes[best], float(said[row, best])))
    return found


def card(photo: Photo, label: str, answer: str, chance: float) -> Markup:
    """A photo that was answered otherwise than it is labelled."""
    path = photo.path
    return h(
        "li",
        thumb(photo),
        h("p", say("is_but_looks", label=label, answer=answer, percent=percent(chance))),
        h("div", [
            button(say("move_it", name=answer), "move", photo=path, to=answer, kind="primary"),
            button(say("keep"), "keep", photo=path, name=label, label=say("keep_it", path=path)),
            button(say("remove"), "remove", photo=path, label=say("remove_it", path=path)),
        ], class_="buttons wrapped"),
        data_key=path,
    )  # fmt: skip


def _both(one: Duplicate, photos: dict[str, Photo]) -> bool:
    return one.first in photos and one.second in photos


def _pair(one: Duplicate, photos: dict[str, Photo]) -> Markup:
    sides = ((one.first, one.first_label), (one.second, one.second_label))
    return h(
        "li",
        [
            h("div", thumb(photos[path]), h("p", label),
              button(say("remove"), "remove", photo=path, label=say("remove_it", path=path)))
            for path, label in sides
        ],
        class_="pair", data_key=f"{one.first} {one.second}",
    )  # fmt: skip
