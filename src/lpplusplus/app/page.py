"""The page itself: one websocket for each tab, which carries changed HTML to the browser and events back.

A tab shows a few slots. After any change all slots are rendered, and those that differ from the tab's are sent. The
script in the browser changes only what differs in them, so that focus and scrolling stay. All tabs show the same state:
a tab's only own state is its `Place`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from anyio import create_task_group, to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..encoders.base import EncoderError
from ..images.errors import SourceError, StoreError
from . import exports, maps, texts
from .desk import Desk, Place
from .html import h
from .texts import say
from .views import classes, export, frame, review, suggest, try_it, understand

log = logging.getLogger(__name__)
SECONDS = 0.1
"""Between two messages to a tab, at least, unless a person has asked for something."""
VIEWS: dict[str, Callable[..., Markup]] = {
    "classes": classes.render,
    "try": try_it.render,
    "review": review.render,
    "suggest": suggest.render,
    "understand": understand.render,
    "export": export.render,
}


def routes(desk: Desk) -> list[BaseRoute]:
    """`/`, the page of a desk, and `/tab`, the websocket of each tab."""

    async def index(_: Request) -> HTMLResponse:
        return HTMLResponse(_page(desk.project.root.name))

    async def tab(socket: WebSocket) -> None:
        await socket.accept()
        await Tab(desk, socket).run()

    return [Route("/", index), WebSocketRoute("/tab", tab)]


def _page(name: str) -> str:
    head = h("head", [
        h("meta", charset="utf-8"), h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("title", f"{name} – lpp app"), h("link", rel="icon", href="/lpp/icon.svg"),
        h("link", rel="stylesheet", href="/lpp/page.css"), h("script", src="/lpp/page.js", defer=True),
    ])  # fmt: skip
    body = h("body", [
        h("a", say("skip"), href="#view", class_="skip"),
        h("header", h("h1", name), h("div", id="tabs", role="tablist", aria_label=say("main_tabs")), class_="head"),
        h("main", [
            h("div", id="status", role="status", aria_live="polite"),
            h("div", id="uploads", role="status", aria_live="polite"),
            h("div", id="view", role="tabpanel", tabindex="-1", aria_labelledby="tab-classes"),
        ]),
        h("dialog", h("div", id="dialog"), id="photo-dialog", aria_labelledby="dialog-title"),
        h("dialog", id="webcam-dialog", aria_label=say("webcam")),
        h("div", id="messages", role="status", aria_live="polite"),
        h("div", id="preview", aria_hidden="true"),
    ])  # fmt: skip
    return "<!doctype html>" + str(h("html", head, body, lang="en"))


class Tab:
    """One tab of a browser."""

    def __init__(self, desk: Desk, socket: WebSocket) -> None:
        self.desk, self.socket = desk, socket
        self.place = Place()
        self._sent: dict[str, str] = {}
        self._shown: object = None
        self._told: list[str] = []
        self._news, self._busy = asyncio.Event(), asyncio.Lock()

    async def run(self) -> None:
        """Answer what the browser asks, and tell it what has changed, until it leaves."""
        with suppress(WebSocketDisconnect, ValueError):  # Or what it sends is no JSON.
            self.place = Place.read(str(await self.socket.receive_json()))
            with self.desk.listening(partial(asyncio.get_running_loop().call_soon_threadsafe, self._news.set)):
                async with create_task_group() as tasks:
                    tasks.start_soon(self._follow)
                    with suppress(WebSocketDisconnect, ValueError):
                        async for asked in self.socket.iter_json():
                            await self._do(asked)
                    tasks.cancel_scope.cancel()

    async def _follow(self) -> None:
        """Send what has changed."""
        self._news.set()
        with suppress(WebSocketDisconnect):
            while True:
                await self._news.wait()
                self._news.clear()
                async with self._busy:
                    await self._send()
                await asyncio.sleep(SECONDS)  # Progress comes often.

    async def _do(self, asked: Any) -> None:
        """Do an action; if it is refused, show why and change nothing."""
        about = dict(asked) if isinstance(asked, dict) else {}
        action = ACTIONS.get(str(about.pop("do", "")))
        if action is not None:
            async with self._busy:
                await to_thread.run_sync(self._act, action, about)
                await self._send()

    def _act(self, action: Callable[[Tab, Mapping[str, Any]], None], about: Mapping[str, Any]) -> None:
        try:
            action(self, about)
        except (SourceError, StoreError, EncoderError, OSError) as error:
            log.info("refused: %s", error)
            self._tell(" ".join(str(error).split()))
        except Exception:
            log.exception("a mistake of the page, when it was asked for %s", dict(about))
            self._tell(say("mistake"))

    def _tell(self, text: str) -> None:
        self._told.append(text)

    async def _send(self) -> None:
        slots = await to_thread.run_sync(self._slots)
        changed = {name: slot for name, slot in slots.items() if self._sent.get(name) != slot}
        self._sent |= changed
        told, self._told = self._told, []
        if changed or told:
            await self.socket.send_json(
                {"slots": changed, "place": self.place.address(), "tab": self.place.tab, "told": told}
            )

    def _slots(self) -> dict[str, str]:
        place, now = self.place, self.desk.learner.snapshot
        slots = {"status": str(frame.status(self.desk, now))}
        for kind, job in list(self.desk.jobs.items()):
            slots[export.job_id(kind)] = str(export.progress(job))
        content = now.version, self.desk.changes, replace(place, more=dict(place.more))
        if content != self._shown:  # With thousands of photos the view is large; progress comes often.
            slots |= {
                "tabs": str(frame.tabs(place)),
                "view": str(VIEWS[place.tab](self.desk, now, place)),
                "dialog": str(frame.dialog(now, place)),
            }
            self._shown = content
        return slots

    def _changed(self) -> None:
        self.desk.learner.look()

    # Actions; `about` is the data of the button or form.

    def _do_tab(self, about: Mapping[str, Any]) -> None:
        if about["to"] in VIEWS:
            self.place.tab = about["to"]

    def _do_add_class(self, about: Mapping[str, Any]) -> None:
        self.desk.project.add_class(str(about["name"]))
        self._changed()

    def _do_renaming(self, about: Mapping[str, Any]) -> None:
        self.place.renaming = str(about["name"])

    def _do_rename(self, about: Mapping[str, Any]) -> None:
        self.desk.project.rename(str(about["name"]), str(about["to"]))
        self.place.renaming = None
        self._changed()

    def _do_remove_class(self, about: Mapping[str, Any]) -> None:
        self.desk.project.remove_class(str(about["name"]))
        self._changed()

    def _do_move(self, about: Mapping[str, Any]) -> None:
        photos = _photos(about)
        self._step_past(photos)
        self.desk.project.move(photos, str(about["to"]))
        self.place.photo = None
        self._changed()

    def _do_remove(self, about: Mapping[str, Any]) -> None:
        photos = _photos(about)
        self._step_past(photos)
        self.desk.project.remove(photos)
        self.place.photo = None
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
        if self.place.tab == "suggest" and change.moves and word == "undone":
            self.place.at = change.moves[-1][1]  # The photo is back: look at it again.
        self._tell(say(word, what=texts.reverted(change)))
        self._changed()

    def _do_open(self, about: Mapping[str, Any]) -> None:
        self.place.photo = str(about["photo"])

    def _do_close(self, _: Mapping[str, Any]) -> None:
        self.place.photo = self.place.renaming = None

    def _do_more(self, about: Mapping[str, Any]) -> None:
        more = self.place.more
        more[str(about["to"])] = more.get(str(about["to"]), 0) + classes.STEP

    def _do_step(self, about: Mapping[str, Any]) -> None:
        self._step(int(about["by"]))

    def _step(self, by: int) -> None:
        order = suggest.queue(self.desk.learner.snapshot)
        if order:
            self.place.at = order[(suggest.position(order, self.place) + by) % len(order)].path

    def _step_past(self, photos: list[str]) -> None:
        """The labelled photo is moved away: show the next one."""
        order = suggest.queue(self.desk.learner.snapshot)
        if order and order[suggest.position(order, self.place)].path in photos:
            self._step(1)

    def _do_keep(self, about: Mapping[str, Any]) -> None:
        self.desk.keep(str(about["photo"]))

    def _do_cell(self, about: Mapping[str, Any]) -> None:
        self.place.tab, self.place.cell = "understand", (str(about["truth"]), str(about["answer"]))

    def _do_map(self, about: Mapping[str, Any]) -> None:
        maps.draw(self.desk, str(about["to"]))

    def _do_tried(self, about: Mapping[str, Any]) -> None:
        self.place.tried = str(about["key"])

    def _do_add_tried(self, about: Mapping[str, Any]) -> None:
        self.desk.take_tried(str(about["tried"]), str(about["to"]))
        self.place.tried = None
        self._tell(say("try_added", name=about["to"]))
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
