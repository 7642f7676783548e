"""How every figure of a report looks, and how it is written to a file.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart, and every method has a marker
of its own, the same in all figures. Sizes are for a phone's width.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..statistics import in_order

BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
"""Okabe and Ito's colours; their yellow is too light for a line on white and is darkened here."""
MARKERS = ("^", "v", "P", "X", "*", "<", ">", "h", "p", "d")
LONGEST = 27
"""Letters of a name that fit into a legend of two columns."""


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    colour: str
    marker: str
    line: Any
    width: float


_OWN = {
    "Zero-shot": Style("#777777", "_", (0, (3, 2)), 1.4),
    "LP++ (paper)": Style(BLUE, "o", "-", 1.8),
    "LP++ (released)": Style(GREEN, "s", "-", 1.8),
    "LP++ (default)": Style(RED, "D", "-", 2.4),
}


@dataclass(frozen=True)
class Picture:
    """A figure, ready to be written."""

    key: str
    """Short name for files and links."""
    title: str
    caption: str
    """What it shows, for those who cannot see it too."""
    figure: Any
    """matplotlib's Figure."""

    def svg(self) -> str:
        """As an SVG document."""
        return _render(self, "svg").decode()

    def inline_svg(self) -> str:
        """As an SVG element for an HTML page: without prolog, and with ids of its own."""
        text = self.svg()
        text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
        own = re.compile(r'(\bid="|url\(#|href="#)')
        return re.sub(r"<[^>]+>", lambda tag: own.sub(rf"\g<1>{self.key}-", tag.group()), text)

    def png(self) -> bytes:
        """As a PNG file."""
        return _render(self, "png")


def method_styles(methods: Sequence[str]) -> dict[str, Style]:
    """A colour, a marker and a line for each method, in the paper's order; LP++ is drawn strongest.

    >>> styles = method_styles(["LP++ (default)", "Zero-shot", "Mine"])
    >>> len({(style.colour, style.marker) for style in styles.values()})
    3
    """
    styles = {}
    others = [method for method in in_order(methods) if method not in _OWN]
    for place, method in enumerate(others):
        turn, colour = divmod(place, len(OTHERS))
        line = ((0, (4, 1.5)), (0, (1, 1)), "-.", "-")[turn % 4]
        styles[method] = Style(OTHERS[colour], MARKERS[place % len(MARKERS)], line, 1.2)
    return {method: _OWN[method] if method in _OWN else styles[method] for method in in_order(methods)}


@contextmanager
def house_style() -> Iterator[None]:
    """Settings of all figures; names are text, never formulas."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError('figures need matplotlib: pip install "lpplusplus[bench]".') from error
    settings: Any = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "svg.fonttype": "none",
        "text.parse_math": False,
        "text.usetex": False,
        "axes.unicode_minus": True,
    }
    with matplotlib.rc_context(settings):
        yield


def new_figure(height: float) -> tuple[Any, Any]:
    """A figure of a phone's width with one pair of axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _render(picture: Picture, kind: str) -> bytes:
    import matplotlib

    content = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    # With a salt, equal figures are equal files.
    with house_style(), matplotlib.rc_context({"svg.hashsalt": picture.key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # The reader's own fonts will have it.
        picture.figure.savefig(content, format=kind, dpi=200, metadata=metadata)
    return content.getvalue()


def add_legend(figure: Any, entries: Sequence[tuple[Any, str]]) -> None:
    """Below the axes, in two columns; the figure grows by what it needs."""
    names = [shortened(name) for _, name in entries]
    rows = -(-len(entries) // 2)
    figure.set_figheight(figure.get_figheight() - 0.6 + 0.21 * rows)
    # Names are put in afterwards, for matplotlib leaves out those that begin with "_".
    legend = figure.legend(
        [handle for handle, _ in entries],
        [str(place) for place in range(len(names))],
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.2,
        labelspacing=0.35,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def handle(style: Style, *, line: bool = True) -> Any:
    """A method's entry in a legend."""
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        color=style.colour,
        marker=style.marker,
        markersize=6,
        linestyle=style.line if line else "none",
        linewidth=style.width,
    )


def plain_line(colour: str, line: Any) -> Any:
    """A legend's entry for a line without markers."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=line, linewidth=1.3)


def on_sets(sets: Sequence[str]) -> str:
    """What an accuracy is of."""
    return sets[0] if len(sets) == 1 else f"average of {len(sets)} data sets"


def shortened(name: str) -> str:
    """A name that fits into a legend."""
    line = " ".join(name.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def in_shots(n: int) -> str:
    """1 shot, 2 shots."""
    return f"{n} shot{'s' * (n != 1)}"
