"""How figures look: colours that the colour-blind can tell apart, and dashes and markers that need no colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT, RULE = "#24292f", "#8a929b", "#dfe3e8"

PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#5c5c5c"]
"""Okabe and Ito's, with violet and grey in the place of yellow and black."""
DASHES: list[Any] = ["-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]

STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a title is a $
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": 8.5,
    "text.color": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # where matplotlib would find room for it, after a search that takes long
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
"""Characters of a name in a figure."""

WIDTH = 9.6
"""Of a figure, in inches."""


@dataclass(frozen=True)
class Look:
    """How the marks of a method look, in every figure of a study."""

    colour: str
    dashes: Any
    marker: str


def looks(methods: Sequence[str]) -> list[Look]:
    """One look for each."""
    count = range(len(methods))
    return [Look(PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)]) for i in count]


def short(text: str) -> str:
    """A name as long as a figure has room for."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def panels(count: int, *, height: float, across: int = 3) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, in rows of at most `across`."""
    across = min(across, count)
    rows = math.ceil(count / across)
    figure = Figure(figsize=(WIDTH, height * rows + 0.7), layout="constrained")
    grid = figure.subplots(rows, across, squeeze=False).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    return figure, grid[:count]
