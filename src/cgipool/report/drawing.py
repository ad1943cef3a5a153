"""The style of all figures, and how they become SVG text."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from cgipool.report.view import View

INK, FAINT, RULE = "#24292f", "#8a929b", "#dfe3e8"

PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#5c5c5c"]
"""The palette of Okabe and Ito, with violet and grey instead of yellow and black."""
DASHES: list[Any] = ["-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]

STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # titles may contain a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": 8.5,
    "text.color": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # the position matplotlib would find after a slow search
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}

LONGEST = 26
"""Maximum number of characters of a name in a figure."""

WIDTH = 9.6
"""Width of a figure in inches."""


@dataclass(frozen=True)
class Look:
    """Colour, dashes and marker of a method, the same in every figure of a study."""

    colour: str
    dashes: Any
    marker: str


def looks(methods: Sequence[str]) -> list[Look]:
    """One look for each method."""
    count = range(len(methods))
    return [Look(PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)]) for i in count]


def short(text: str) -> str:
    """Shorten a name to at most `LONGEST` characters."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def panels(count: int, *, height: float, across: int = 3) -> tuple[Figure, list[Axes]]:
    """Create a figure with `count` panels, at most `across` in a row."""
    across = min(across, count)
    rows = math.ceil(count / across)
    figure = Figure(figsize=(WIDTH, height * rows + 0.7), layout="constrained")
    grid = figure.subplots(rows, across, squeeze=False).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    return figure, grid[:count]


def axis_title(view: View) -> str:
    """The label of an axis that shows results."""
    if view.metric is None:
        return "result"
    return view.metric.title + (", percent" if view.metric.percent else "")


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG text. It is laid out first, with empty labels at fixed positions: `savefig` would draw the
    whole figure twice for this and search for label positions, which is slow."""
    for axis in (axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)):
        if not axis.get_label_text():
            axis.set_label_coords(0, 0)
    FigureCanvasSVG(figure)
    figure.dpi = 72  # the resolution of SVG, which text is measured in
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
