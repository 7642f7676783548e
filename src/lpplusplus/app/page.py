"""The page itself: NiceGUI sends changed HTML to each tab, and events back.

A tab shows a few slots. After any change all slots are rendered, and those that differ from the tab's are sent. The
script in the browser changes only what differs in them, so that focus and scrolling stay. All tabs show the same state:
a tab's only own state is its `Place`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from anyio import to_thread
from markupsafe import Markup
from nicegui import Client, ui
from nicegui.events import GenericEventArguments

from ..images.errors import SourceError
from . import exports, maps, texts
from .desk import Desk, Place
from .html import h
from .texts import say
from .views import classes, export, frame, review, suggest, try_it, understand

log = logging.getLogger(__name__)
SECONDS = 0.2
"""Between two checks for changes."""
VIEWS: dict[str, Callable[..., Markup]] = {
    "classes": classes.render,
    "try": try_it.render,
    "review": review.render,
    "suggest": suggest.render,
    "understand": understand.render,
    "export": export.render,
}
IN_BROWSER = (
    "uploading", "refused", "offline", "no_camera", "take", "close", "webcam",
)  # fmt: skip
"""Texts for the script."""


def add_page(desk: Desk) -> None:
    """Make `/` the page of a desk."""

    @ui.page("/", title=f"{desk.project.root.name} – lpp app", dark=None)
    def index(client: Client) -> None:
        told = json.dumps({key: texts.TEXTS[key] for key in IN_BROWSER}).replace("<", "\\u003c")
        ui.add_head_html('<link rel="stylesheet" href="/lpp/page.css">')
        ui.add_head_html(f'<script>window.lppTexts = {told};</script><script src="/lpp/page.js" defer></script>')
        ui.html(_skeleton(desk), sanitize=False).classes("lpp-root")
        tab = Tab(desk, client)
        ui.on("lpp", tab.handle)
        ui.timer(SECONDS, tab.refresh)


def _skeleton(desk: Desk) -> Markup:
    return Markup("").join([
        h("a", say("skip"), href="#view", class_="skip"),
        h("header", h("h1", desk.project.root.name), h("div", id="tabs", role="tablist", aria_label=say("main_tabs")),
          class_="head"),
        h("div", id="status", role="status", aria_live="polite"),
        h("div", id="uploads", role="status", aria_live="polite"),
        h("div", id="view", role="tabpanel", tabindex="-1", aria_labelledby="tab-classes"),
        h("dialog", h("div", id="dialog"), id="photo-dialog", aria_labelledby="dialog-title"),
        h("dialog", id="webcam-dialog", aria_label=say("webcam")),
        h("div", id="messages", role="status", aria_live="polite"),
        h("div", id="preview", aria_hidden="true"),
    ])  # fmt: skip


class Tab:
    """One tab of a browser."""

    def __init__(self, desk: Desk, client: Client) -> None:
        self.desk, self.client = desk, client
        self.place: Place | None = None
        """None until the browser has sent it."""
        self._sent: dict[str, str] = {}
        self._seen: tuple[int, int] | None = None
        self._shown: object = None
        self._told: list[str] = []
        self._busy = asyncio.Lock()

    async def refresh(self) -> None:
        """Send what has changed."""
        if self.place is not None and not self._busy.locked() and self._state() != self._seen:
            async with self._busy:
                await self._send()

    async def handle(self, event: GenericEventArguments) -> None:
        """Do an action; if it is refused, show why and change nothing."""
        asked = event.args[0] if isinstance(event.args, list) and event.args else event.args
        if not isinstance(asked, Mapping):
            return
        about = {str(key): value for key, value in asked.items()}
        name = str(about.pop("do", ""))
        async with self._busy:
            if name == "hello":
                self.place, self._sent, self._shown = Place.read(str(about.get("place", ""))), {}, None
            elif self.place is not None and name in ACTIONS:
                await to_thread.run_sync(self._act, ACTIONS[name], about)
            await self._send()

    def _state(self) -> tuple[int, int]:
        return self.desk.learner.snapshot.number, self.desk.changes

    def _act(self, action: Callable[[Tab, Mapping[str, Any]], None], about: Mapping[str, Any]) -> None:
        try:
            action(self, about)
        except (SourceError, OSError, KeyError, ValueError, TypeError) as error:
            log.info("refused: %s", error)
            self._tell(" ".join(str(error).split()))

    def _tell(self, text: str) -> None:
        self._told.append(text)

    async def _send(self) -> None:
        self._seen = self._state()
        slots = await to_thread.run_sync(self._slots)
        changed = {name: slot for name, slot in slots.items() if self._sent.get(name) != slot}
        self._sent |= changed
        told, self._told = self._told, []
        if changed or told:
            said = ", ".join(json.dumps(value) for value in (changed, self._here.address(), self._here.tab, told))
            self.client.run_javascript(f"lpp.put({said})")

    def _slots(self) -> dict[str, str]:
        place, now = self._here, self.desk.learner.snapshot
        slots = {"status": str(frame.status(self.desk, now))}
        content = now.version, self.desk.changes, replace(place, more=dict(place.more))
        if content != self._shown:  # With thousands of photos the view is large; progress comes often.
            slots |= {
                "tabs": str(frame.tabs(place)),
                "view": str(VIEWS[place.tab](self.desk, now, place)),
                "dialog": str(frame.dialog(now, place)),
            }
            self._shown = content
        return slots

    @property
    def _here(self) -> Place:
        assert self.place is not None
        return self.place

    def _changed(self) -> None:
        self.desk.learner.look()

    # Actions; `about` is the data of the button or form.

    def _do_tab(self, about: Mapping[str, Any]) -> None:
        if about["to"] in VIEWS:
            self._here.tab = about["to"]

    def _do_add_class(self, about: Mapping[str, Any]) -> None:
        self.desk.project.add_class(str(about["name"]))
        self._changed()

    def _do_renaming(self, about: Mapping[str, Any]) -> None:
        self._here.renaming = str(about["name"])

    def _do_rename(self, about: Mapping[str, Any]) -> None:
        self.desk.project.rename(str(about["name"]), str(about["to"]))
        self._here.renaming = None
        self._changed()

    def _do_remove_class(self, about: Mapping[str, Any]) -> None:
        self.desk.project.remove_class(str(about["name"]))
        self._changed()

    def _do_move(self, about: Mapping[str, Any]) -> None:
        photos = _photos(about)
        self._step_past(photos)
        self.desk.project.move(photos, str(about["to"]))
        self._here.photo = None
        self._changed()

    def _do_remove(self, about: Mapping[str, Any]) -> None:
        photos = _photos(about)
        self._step_past(photos)
        self.desk.project.remove(photos)
        self._here.photo = None
        self._changed()

    def _do_undo(self, _: Mapping[str, Any]) -> None:
        self._again(self.desk.project.undo, "undone")

    def _do_redo(self, _: Mapping[str, Any]) -> None:
        self._again(self.desk.project.redo, "redone")

    def _again(self, what: Callable[[], Any], word: str) -> None:
        change = what()
        if change is None:
            self._tell(say("nothing_to_undo"))
            return
        if self._here.tab == "suggest" and change.moves and word == "undone":
            self._here.at = change.moves[-1][1]  # The photo is back: look at it again.
        self._tell(say(word, what=texts.reverted(change)))
        self._changed()

    def _do_open(self, about: Mapping[str, Any]) -> None:
        self._here.photo = str(about["photo"])

    def _do_close(self, _: Mapping[str, Any]) -> None:
        self._here.photo = self._here.renaming = None

    def _do_more(self, about: Mapping[str, Any]) -> None:
        more = self._here.more
        more[str(about["to"])] = more.get(str(about["to"]), 0) + classes.STEP

    def _do_step(self, about: Mapping[str, Any]) -> None:
        self._step(int(about["by"]))

    def _step(self, by: int) -> None:
        order = suggest.queue(self.desk.learner.snapshot)
        if order:
            self._here.at = order[(suggest.position(order, self._here) + by) % len(order)].path

    def _step_past(self, photos: list[str]) -> None:
        """The labelled photo is moved away: show the next one."""
        order = suggest.queue(self.desk.learner.snapshot)
        if order and order[suggest.position(order, self._here)].path in photos:
            self._step(1)

    def _do_keep(self, about: Mapping[str, Any]) -> None:
        self.desk.keep(str(about["photo"]))

    def _do_cell(self, about: Mapping[str, Any]) -> None:
        self._here.tab, self._here.cell = "understand", (str(about["truth"]), str(about["answer"]))

    def _do_map(self, about: Mapping[str, Any]) -> None:
        maps.draw(self.desk, str(about["to"]))

    def _do_tried(self, about: Mapping[str, Any]) -> None:
        self._here.tried = str(about["key"])

    def _do_add_tried(self, about: Mapping[str, Any]) -> None:
        self.desk.take_tried(str(about["tried"]), str(about["to"]))
        self._here.tried = None
        self._tell(say("try_added", name=about["to"]))
        self._changed()

    def _do_look(self, _: Mapping[str, Any]) -> None:
        self._changed()

    def _do_cancel(self, _: Mapping[str, Any]) -> None:
        self.desk.learner.cancel()

    def _do_go_on(self, _: Mapping[str, Any]) -> None:
        self._changed()

    def _do_export(self, about: Mapping[str, Any]) -> None:
        if about["to"] in exports.KINDS:
            exports.export(self.desk, about["to"])

    def _do_encoder(self, about: Mapping[str, Any]) -> None:
        exports.switch(self.desk, str(about["to"]))

    def _do_cancel_job(self, about: Mapping[str, Any]) -> None:
        self.desk.cancel(str(about["to"]))


ACTIONS: dict[str, Callable[[Tab, Mapping[str, Any]], None]] = {
    name.removeprefix("_do_"): action for name, action in vars(Tab).items() if name.startswith("_do_")
}


def _photos(about: Mapping[str, Any]) -> list[str]:
    found = about["photo"]
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]
