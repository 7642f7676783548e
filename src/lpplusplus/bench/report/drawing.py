"""How every figure of a report looks, and how it is written to a file.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart. Every method has its own
marker, the same in all figures. Sizes are for a phone's width.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .statistics import in_order
from .table import printable

BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
"""Okabe and Ito's colours; their yellow is too light for a line on white and is darkened here."""
MARKERS = ("^", "v", "P", "X", "*", "<", ">", "h", "p", "d", "8")
"""Eleven, so that 55 methods have different pairs of a colour and a marker."""
BARS = "Bars are 95 % intervals of the mean over tasks."
"""End of a caption."""
LONGEST = 27
"""Letters of a line that fit into a legend of two columns; longer names take several lines."""


Style: TypeAlias = dict[str, Any]
"""How a method is drawn: arguments of `plot`, `errorbar` and legends."""


def look(colour: str, marker: str, line: Any, width: float) -> Style:
    """A style by what it consists of."""
    return {"color": colour, "marker": marker, "linestyle": line, "linewidth": width}


_OWN = {
    "Zero-shot": look("#777777", "_", (0, (3, 2)), 1.4),
    "LP++ (paper)": look(BLUE, "o", "-", 1.8),
    "LP++ (released)": look(GREEN, "s", "-", 1.8),
    "LP++ (default)": look(RED, "D", "-", 2.4),
}


@dataclass(frozen=True)
class Plot:
    """A figure, ready to be written."""

    key: str
    """Short name for files and links."""
    title: str
    caption: str
    """What it shows, in words for those who cannot see it."""
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
    >>> len({(style["color"], style["marker"]) for style in styles.values()})
    3
    """
    styles = {}
    for number, method in enumerate(in_order(method for method in methods if method not in _OWN)):
        turn, colour = divmod(number, len(OTHERS))
        line = ((0, (4, 1.5)), (0, (1, 1)), "-.", "-")[turn % 4]
        styles[method] = look(OTHERS[colour], MARKERS[number % len(MARKERS)], line, 1.2)
    return {method: _OWN.get(method) or styles[method] for method in in_order(methods)}


@contextmanager
def house_style() -> Iterator[None]:
    """Settings of all figures; names are shown as text, never as formulas."""
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


def new_figure(height: float, x: str, y: str = "", grid: Literal["both", "x", "y"] = "both") -> tuple[Any, Any]:
    """A figure of a phone's width with one pair of axes, which are named and have a grid."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel=x, ylabel=y)
    axes.grid(True, axis=grid, color="0.9")
    return figure, axes


def _render(plot: Plot, kind: str) -> bytes:
    import matplotlib

    content = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    # With a salt, equal figures are equal files.
    with house_style(), matplotlib.rc_context({"svg.hashsalt": plot.key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # The reader's own fonts will have it.
        plot.figure.savefig(content, format=kind, dpi=200, metadata=metadata)
    return content.getvalue()


def add_legend(figure: Any, entries: Sequence[tuple[Style, str]]) -> None:
    """Below the axes, in two columns; the figure grows by what it needs."""
    from matplotlib.lines import Line2D

    names = [in_lines(name) for _, name in entries]
    rows = -(-len(names) // 2)  # The legend fills its first column, then its second; a row is as high as its names.
    lines = sum(1 + max(name.count("\n") for name in names[row::rows]) for row in range(rows))
    figure.set_figheight(figure.get_figheight() - 0.6 + 0.21 * lines)
    # Names are put in afterwards, because matplotlib leaves out those that begin with "_".
    look = {"frameon": False, "fontsize": 9, "handlelength": 2.4, "columnspacing": 1.2, "labelspacing": 0.35}
    numbers = [str(number) for number in range(len(names))]
    keys = [Line2D([], [], markersize=6, **style) for style, _ in entries]
    legend = figure.legend(keys, numbers, loc="outside lower center", ncols=2, **look)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def in_lines(name: str) -> str:
    """A whole name, in lines that fit into a legend."""
    return textwrap.fill(printable(name), LONGEST)
