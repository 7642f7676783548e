"""The page itself: one websocket for each tab, which carries changed HTML to the browser and events back.

A tab shows a few slots. After any change all slots are rendered, and those that differ from the tab's are sent. The
script in the browser changes only what differs in them, so that focus and scrolling stay. All tabs show the same state:
a tab's only own state is its `ViewState`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from anyio import create_task_group, to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ..encoders.base import EncoderError
from ..images.errors import SourceError, StoreError
from ..images.journal import Change
from . import jobs
from .project import about_turn
from .state import TABS, AppState, ViewState
from .views import STEP, position, queue, render, render_job, render_page, still_sure

log = logging.getLogger(__name__)
SECONDS = 0.1
"""Between two messages to a tab, at least, unless a person has asked for something."""


def routes(state: AppState) -> list[BaseRoute]:
    """`/`, the page, and `/tab`, the websocket of each tab."""

    async def index(_: Request) -> HTMLResponse:
        return HTMLResponse(render_page("page.html", name=state.project.root.name))

    async def tab(socket: WebSocket) -> None:
        await socket.accept()
        await Tab(state, socket).run()

    return [Route("/", index), WebSocketRoute("/tab", tab)]


class Tab:
    """One tab of a browser."""

    def __init__(self, state: AppState, socket: WebSocket) -> None:
        self.state, self.socket = state, socket
        self.view = ViewState()
        self._sent: dict[str, str] = {}
        self._shown: object = None
        self._told: list[str] = []
        self._news, self._busy = asyncio.Event(), asyncio.Lock()

    async def run(self) -> None:
        """Answer what the browser asks, and tell it what has changed, until it leaves."""
        with suppress(WebSocketDisconnect, ValueError):  # Or what it sends is no JSON.
            self.view = ViewState.read(str(await self.socket.receive_json()))
            with self.state.listening(partial(asyncio.get_running_loop().call_soon_threadsafe, self._news.set)):
                async with create_task_group() as tasks:
                    tasks.start_soon(self._follow)
                    with suppress(WebSocketDisconnect, ValueError):
                        while self._is_open:
                            await self._do(await self.socket.receive_json())
                    tasks.cancel_scope.cancel()

    @property
    def _is_open(self) -> bool:
        """Whether the browser has not left while something was sent."""
        return self.socket.application_state is WebSocketState.CONNECTED

    async def _follow(self) -> None:
        """Send what has changed."""
        self._news.set()
        with suppress(WebSocketDisconnect):
            while self._is_open:
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

    def _act(self, action: Callable[..., None], about: Mapping[str, Any]) -> None:
        try:
            action(self, **about)
        except (SourceError, StoreError, EncoderError, OSError) as error:
            log.info("refused: %s", error)
            self._told.append(" ".join(str(error).split()))
        except Exception:
            log.exception("a mistake of the page, when it was asked for %s", dict(about))
            self._told.append("This is a mistake of the program; what it prints in the terminal says more.")

    async def _send(self) -> None:
        slots = await to_thread.run_sync(self._slots)
        changed = {name: slot for name, slot in slots.items() if self._sent.get(name) != slot}
        self._sent |= changed
        told, self._told = self._told, []
        if (changed or told) and self._is_open:
            await self.socket.send_json(
                {"slots": changed, "place": self.view.address(), "tab": self.view.tab, "told": told}
            )

    def _slots(self) -> dict[str, str]:
        view, now = self.view, self.state.learner.snapshot
        parts = {"status": "status"}
        content = now.version, self.state.changes, replace(view, more=dict(view.more))
        if content != self._shown:  # With thousands of photos the view is large; progress comes often.
            parts |= {"tabs": "tabs", "view": view.tab, "dialog": "dialog"}
            self._shown = content
            self._sent = {slot: html for slot, html in self._sent.items() if slot in parts}  # It has the jobs' slots.
        slots = {slot: render(part, self.state, now, view) for slot, part in parts.items()}
        return slots | {job.slot: render_job(job) for job in list(self.state.jobs.values()) if not job.over}

    # Actions; their arguments are the data of the button or form.

    def _do_tab(self, to: str) -> None:
        if to in TABS:
            self.view.tab = to

    def _do_add_class(self, name: str) -> None:
        self.state.project.add_class(name)
        self.state.learner.look()

    def _do_renaming(self, name: str) -> None:
        self.view.renaming = name

    def _do_rename(self, name: str, to: str) -> None:
        self.state.project.rename(name, to)
        self.view.renaming = None
        self.state.learner.look()

    def _do_remove_class(self, name: str) -> None:
        self.state.project.remove_class(name)
        self.state.learner.look()

    def _do_move(self, photo: str | list[str], to: str) -> None:
        with self._leaving(photo) as photos:
            self.state.project.move(photos, to)

    def _do_accept(self) -> None:
        sure = still_sure(self.state.learner.snapshot)
        with self._leaving([*sure]):
            self.state.project.sort(sure)

    def _do_remove(self, photo: str | list[str]) -> None:
        with self._leaving(photo) as photos:
            self.state.project.remove(photos)

    @contextmanager
    def _leaving(self, photo: str | list[str]) -> Iterator[list[str]]:
        """These photos go elsewhere: close the dialog, and show the next photo to label."""
        photos = [photo] if isinstance(photo, str) else photo
        order = queue(self.state.learner.snapshot)
        if order and order[position(order, self.view)].path in photos:
            self._do_step(1)
        yield photos
        self.view.photo = None
        self.state.learner.look()

    def _do_undo(self) -> None:
        self._turn(self.state.project.undo(), "Undone")

    def _do_redo(self) -> None:
        self._turn(self.state.project.redo(), "Done again")

    def _turn(self, change: Change | None, word: str) -> None:
        if change is None:
            self._told.append("Nothing to undo")
            return
        if self.view.tab == "suggest" and change.moves and word == "Undone":
            self.view.at = change.moves[-1][1]  # The photo is back: look at it again.
        self._told.append(f"{word}: {about_turn(change)}")
        self.state.learner.look()

    def _do_open(self, photo: str) -> None:
        self.view.photo = photo

    def _do_close(self) -> None:
        self.view.photo = self.view.renaming = None

    def _do_more(self, to: str) -> None:
        self.view.more[to] = self.view.more.get(to, 0) + STEP

    def _do_step(self, by: str | int) -> None:
        order = queue(self.state.learner.snapshot)
        if order:
            self.view.at = order[(position(order, self.view) + int(by)) % len(order)].path

    def _do_keep(self, photo: str, name: str) -> None:
        self.state.keep(photo, name)

    def _do_cell(self, truth: str, answer: str) -> None:
        self.view.tab, self.view.cell = "understand", (truth, answer)

    def _do_map(self, to: str) -> None:
        jobs.draw(self.state, to)

    def _do_tried(self, key: str) -> None:
        self.view.tried = key

    def _do_add_tried(self, tried: str, to: str) -> None:
        self.state.take_tried(tried, to)
        self.view.tried = None
        self._told.append(f"Added to {to}.")
        self.state.learner.look()

    def _do_cancel(self) -> None:
        self.state.learner.cancel()

    def _do_go_on(self) -> None:
        self.state.learner.look()

    def _do_export(self, to: str) -> None:
        jobs.export(self.state, to)

    def _do_encoder(self, to: str) -> None:
        jobs.switch(self.state, to)

    def _do_cancel_job(self, to: str) -> None:
        self.state.cancel(to)


ACTIONS: dict[str, Callable[..., None]] = {
    name.removeprefix("_do_"): action for name, action in vars(Tab).items() if name.startswith("_do_")
}
