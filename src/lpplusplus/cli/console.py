"""Output for people and programs: results on stdout, progress and errors on stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .._core.errors import plain

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError
    from ..images.insight import Insight

WIDTH = 140
"""Columns of a line, if there is no terminal to ask."""
_json = False
SECONDS_BETWEEN_LINES = 20
"""Between two lines of progress, if there is no terminal to draw a bar on."""


def out() -> Console:
    """Standard output."""
    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDTH)


def err() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, emoji=False, width=None if sys.stderr.isatty() else WIDTH)


def use_json(wanted: bool) -> None:
    """Print what is given to `show_json`, and not what is said and shown; or the other way round."""
    global _json
    _json = wanted


def wants_json() -> bool:
    """Whether results are printed as JSON."""
    return _json


def say(text: str, *values: object) -> None:
    """Print a line with rich's markup. `values` replace each {}; brackets in them are not markup."""
    if _json:
        return
    first, *rest = text.split("{}")
    filled = first + "".join(escape(plain(value)) + part for value, part in zip(values, rest, strict=True))
    out().print(filled, soft_wrap=True)


def in_words(insight: "Insight") -> None:
    """Print in plain words what training found."""
    from ..images.words import advice, summary

    for sentence in summary(insight):
        say("{}", sentence)
    for heading, lines in advice(insight):
        if len(lines) == 1:
            say("[bold]{}[/] {}", heading, lines[0])
            continue
        say("[bold]{}[/]", heading)
        for line in lines:
            say("  {}", line)


def complain(text: str) -> None:
    """Print an error, as one line on standard error."""
    err().print(Text.assemble(("lpp:", "bold red"), " ", plain(" ".join(text.splitlines()))), soft_wrap=True)


def remark(text: str) -> None:
    """Print a line for people on standard error, so that it does not disturb programs."""
    err().print(Text(plain(text)), soft_wrap=True)


def warn(text: str) -> None:
    """Print a remark on standard error."""
    err().print(Text.assemble(("lpp:", "yellow"), " ", plain(text)), soft_wrap=True)


def tell_skipped(skipped: "Iterable[ImageError | tuple[str, str]]") -> list[dict[str, str]]:
    """Warn of each image that was left out: errors, or path and reason. Returns the same for JSON."""
    pairs = (one if isinstance(one, tuple) else (one.path, one.reason) for one in skipped)
    told = [{"path": path, "reason": reason} for path, reason in pairs]
    for one in told:
        warn(f"skipped: {one['path']}: {one['reason']}")
    return told


def show_json(value: Any) -> None:
    """Print one JSON value on standard output, with `--json`."""
    if _json:
        # ASCII, so that any file name and any terminal will do. At once, since who started a service waits for it.
        print(json.dumps(value, allow_nan=False), flush=True)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]], right: Sequence[str] = ()) -> None:
    """Print a table. Columns named in `right` are aligned right. If no column has a name, there is no heading."""
    if _json:
        return
    heading = Text(plain(title), "bold", no_wrap=True, overflow="ignore") if title else None
    table = Table(title=heading, title_justify="left", header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for cells in rows:
        table.add_row(*(Text(plain(cell)) for cell in cells))  # Brackets are not markup.
    out().print(table)


def percent(part: float | None) -> str:
    """0.913 as "91.3 %"."""
    return "–" if part is None else f"{100 * part:.1f} %"


Told = Callable[..., None]
"""Called as `told(done, total)`, or `told(done, total, what)` with what is being done now."""


@contextmanager
def bar(what: str) -> Iterator[Told]:
    """A progress bar on standard error; if there is no terminal, a line now and then."""
    console = err()
    if not console.is_terminal:
        yield _lines(what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int, now: str = what) -> None:
            progress.update(task, completed=done, total=total, description=escape(plain(now)))

        yield told


def _minutes(seconds: float) -> str:
    """70 seconds as "1 min"; less than a minute in seconds."""
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def _lines(what: str) -> Told:
    began = last = time.monotonic()

    def told(done: int, total: int, now: str = what) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            left = (last - began) * (total - done) / done if done else 0.0
            warn(f"{now}: {done} of {total}" + (f", about {_minutes(left)} left" if left else ""))

    return told
