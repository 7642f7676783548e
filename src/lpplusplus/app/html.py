"""HTML from Python: every text is escaped, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from .project import Photo

_VOID = ("img", "input", "br", "meta", "link")


def h(tag: str, *children: Any, **attributes: Any) -> Markup:
    """An element. Lists are children too; None and False are left out, of attributes as well.

    >>> print(h("a", "<b>", ["&", None], href='"x"', data_to="y", hidden=True, title=None))
    <a href="&#34;x&#34;" data-to="y" hidden>&lt;b&gt;&amp;</a>
    """
    said = "".join(
        f" {name.strip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[Any]) -> Markup:
    """One after the other."""
    parts = []
    for child in children:
        if isinstance(child, list | tuple):
            parts.append(joined(child))
        elif child is not None and child is not False:
            parts.append(escape(child))
    return Markup("").join(parts)


def address(photo: Photo, size: int = 160) -> str:
    """The address of a photo; it changes with the file."""
    return f"/photo/{quote(photo.path)}?size={size}&v={photo.mtime:x}-{photo.size:x}"


def button(
    text: str, do: str, *, kind: str | None = None, label: str | None = None, disabled: bool = False, **about: Any
) -> Markup:
    """A button for an action; `about` has the action's arguments."""
    data = {f"data-{name}": value for name, value in about.items()}
    return h(
        "button", text, type="button", data_do=do, class_=kind, aria_label=label, title=label, disabled=disabled, **data
    )


def picture(photo: Photo | None, size: int = 160, alt: str = "") -> Markup:
    """A photo, loaded when it is scrolled into view; nothing if it does not exist any more."""
    if photo is None:
        return Markup("")
    return h("img", src=address(photo, size), alt=alt, loading="lazy", decoding="async", draggable="false")


def thumb(photo: Photo, note: str = "", *, bad: bool = False) -> Markup:
    """A photo that can be opened, dragged, and moved with the keyboard; `bad` if it cannot be read."""
    return h(
        "button",
        h("span", "?", class_="unreadable", aria_hidden="true") if bad else picture(photo),
        note and h("span", note, class_="note"),
        type="button", class_="photo", draggable="true", data_do="open", data_photo=photo.path, data_key=photo.path,
        aria_label=photo.path,
    )  # fmt: skip
