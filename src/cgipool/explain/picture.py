"""Draw a graph at every pooling level with matplotlib, and define the colour scale of its scores.

Shapes: n nodes, m edges, L levels.
"""

import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from cgipool.errors import counted
from cgipool.report.figures import short

if TYPE_CHECKING:
    from cgipool.explain.explanation import Explanation

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

INK, FAINT, RING, PLAIN = "#333333", "#dcdcdc", "#0b5fa5", "#b9c6d3"

MANY = 500
"""Above this number of nodes, the layout uses the distances to a few nodes instead of all distances."""

FEW = 60
"""Node names are drawn for graphs with at most this many nodes."""

COLOURS = LinearSegmentedColormap.from_list("score", colormaps["magma"](np.linspace(0.94, 0.56, 256)))
"""Pale for low scores, strong for high ones. A part of magma is as perceptually uniform as the whole, and every colour
in this part is light enough for black letters."""


@dataclass(frozen=True)
class Scale:
    """The colour scale of a score: the same for all levels of a graph, in every picture and page."""

    score: str
    """The score's name."""
    low: float
    high: float
    meaning: str
    """A sentence that explains the score."""
    span: str
    """A sentence that explains how the ends of the scale were chosen."""

    @property
    def ticks(self) -> list[float]:
        """Distinct round numbers from `low` to `high`."""
        tol = 1e-9 * (self.high - self.low)
        ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        return [float(tick) for tick in ticks if self.low - tol <= tick <= self.high + tol]

    def share(self, value: float) -> float:
        """The position of a score on the scale, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def colour(self, value: float) -> str:
        """The colour of a score, as #rrggbb; neutral for NaN."""
        return to_hex(COLOURS(self.share(value))) if np.isfinite(value) else PLAIN


def draw(one: "Explanation", form: str) -> bytes:
    """Return an image of the graph and of each level, as a file in the format "svg" or "png"."""
    if one.molecule is not None:
        from cgipool.explain.molecule import draw_molecule

        return draw_molecule(one, form)
    figure = pooling_figure(
        edges=one.edges,
        ringed=one.graph.node_truth,
        alive=one.trace.alive,
        score=one.trace.score,
        title=f"{one.name}: {one.verdict}",
        scale=one.scale,
        names=one.node_names,
    )
    out = io.BytesIO()
    figure.savefig(out, format=form)
    return out.getvalue()


def draw_pooling(
    path: Path,
    *,
    edges: Ints,
    ringed: NDArray[np.bool_] | None,
    alive: NDArray[np.bool_],
    score: Floats,
    title: str,
    scale: Scale | None = None,
) -> None:
    """Write the `pooling_figure` to a file."""
    pooling_figure(edges=edges, ringed=ringed, alive=alive, score=score, title=title, scale=scale).savefig(path)


def pooling_figure(
    *,
    edges: Ints,
    ringed: NDArray[np.bool_] | None,
    alive: NDArray[np.bool_],
    score: Floats,
    title: str,
    scale: Scale | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Panels: the graph [m, 2], then each level with the kept nodes (alive [L, n]) coloured by their score [L, n].

    `names` [n] are written at the nodes of a small graph. Without a scale all kept nodes have one colour.
    """
    levels, n = alive.shape
    place = places(n, edges)
    rings = np.zeros(n, bool) if ringed is None else ringed
    wide, tall = np.maximum(np.ptp(place, 0), 1e-9)
    figure = Figure(figsize=(3.1 * (levels + 1) + 0.6, 3.1 * np.clip(tall / wide, 0.6, 1.3) + 1.25), dpi=150)
    panels = figure.subplots(1, levels + 1)
    big = min(85.0, 9000.0 / n)
    for number, panel in enumerate(panels):
        here = alive[number - 1] if number else np.ones(n, bool)
        _draw_graph(panel, place, edges, here, rings, big)
        panel.scatter(*place[~here].T, s=0.3 * big, c=FAINT, edgecolors="none", zorder=2)
        values = score[number - 1, here].tolist() if number else []
        colours = PLAIN if scale is None or not number else [scale.colour(value) for value in values]
        panel.scatter(*place[here].T, s=big, c=colours, edgecolors=INK, linewidths=min(0.5, big / 100), zorder=3)
        if n <= FEW:
            _write_names(panel, place, here, names)
        kept = f", motif {np.count_nonzero(rings & here)} of {rings.sum()}" if rings.any() else ""
        count = (
            f"level {number}: {here.sum()} of {counted(n, 'node')}{kept}" if number else f"input: {counted(n, 'node')}"
        )
        panel.set_title(count, color=INK, fontsize=10)
    figure.suptitle(title, color=INK, parse_math=False)
    figure.subplots_adjust(left=0.01, right=0.93, top=0.82, bottom=0.16, wspace=0.04)
    notes = ["Ringed: the nodes of the motif, which decide the class."] if rings.any() else []
    if scale is not None:
        _draw_scale(figure, scale)
        notes.append(f"{scale.meaning} {scale.span}")
    lines = [line for note in notes for line in textwrap.wrap(note, int(17 * figure.get_figwidth()))]
    figure.text(0.01, 0.02, "\n".join(lines), color=INK, fontsize=8, parse_math=False)
    return figure


def _write_names(panel: Axes, place: Floats, alive: NDArray[np.bool_], names: Sequence[str]) -> None:
    for name, point, here in zip(names, place, alive, strict=False):
        look: Any = {"color": INK if here else "#777777", "fontsize": 6, "ha": "center", "va": "top", "zorder": 4}
        look["bbox"] = {"boxstyle": "square,pad=0", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        panel.annotate(short(name), point, (0, -6), textcoords="offset points", parse_math=False, **look)


def _draw_scale(figure: Figure, scale: Scale) -> None:
    """Add the colour bar."""
    shades = ScalarMappable(Normalize(scale.low, scale.high), COLOURS)
    bar = figure.colorbar(shades, cax=figure.add_axes((0.945, 0.2, 0.009, 0.55)), ticks=scale.ticks)
    bar.set_label(f"score {_in_math(scale.score)} of kept nodes", color=INK, fontsize=9)
    bar.ax.set_yticklabels([f"{tick:g}" for tick in scale.ticks])
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def _in_math(name: str) -> str:
    """Typeset the name of a score as math if it is a symbol."""
    return f"${name}$" if re.fullmatch(r"[a-z](_[a-z])?", name) else name


def _draw_graph(
    panel: Axes, place: Floats, edges: Ints, alive: NDArray[np.bool_], rings: NDArray[np.bool_], big: float
) -> None:
    """Draw edges (dark between kept nodes) and rings. All panels have the same limits."""
    kept = alive[edges].all(1)
    for some, colour, thick in ((~kept, FAINT, 0.8), (kept, INK, 1.1)):
        panel.add_collection(LineCollection(list(place[edges[some]]), colors=colour, linewidths=thick, zorder=1))
    panel.scatter(
        place[rings, 0], place[rings, 1], s=2.2 * big, facecolors="white", edgecolors=RING, linewidths=1.6, zorder=2
    )
    margin = max(0.08 * np.ptp(place, 0).max(), 0.1)
    panel.set_xlim(place[:, 0].min() - margin, place[:, 0].max() + margin)
    panel.set_ylim(place[:, 1].min() - margin, place[:, 1].max() + margin)
    panel.set_aspect("equal")
    panel.axis("off")


def places(n: int, edges: Ints) -> Floats:
    """[n, 2] node positions; the same graph always gets the same layout."""
    return layout(steps(n, edges)) if n <= MANY else rough_layout(n, edges)


def steps(n: int, edges: Ints) -> Floats:
    """[n, n] length of the shortest path between two nodes, infinite if there is none."""
    length = np.full((n, n), np.inf)
    np.fill_diagonal(length, 0.0)
    length[edges[:, 0], edges[:, 1]] = length[edges[:, 1], edges[:, 0]] = 1.0
    for middle in range(n):
        length = np.minimum(length, length[:, middle, None] + length[None, middle])
    return length


def layout(distance: Floats, rounds: int = 300) -> Floats:
    """[n, 2] positions whose distances approximate the given: stress majorisation (Gansner, Koren and North, 2004).

    It starts from classical scaling, so the result is deterministic. The wider side is horizontal.
    """
    n = len(distance)
    if n == 1:
        return np.zeros((1, 2))
    joined = np.isfinite(distance)
    distance = np.where(joined, distance, distance[joined].max() / 2 + 1.5)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    place = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-3))
    place = place + 0.01 * np.random.default_rng(0).standard_normal(place.shape)  # parts twins that coincide
    weight = 1.0 / (distance + np.eye(n)) ** 2 - np.eye(n)
    solve = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    for _ in range(rounds):
        gap = np.linalg.norm(place[:, None] - place[None], axis=2) + np.eye(n)
        pull = -weight * distance / gap
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(1))
        place = solve @ pull @ place
    return _across(place)


def rough_layout(n: int, edges: Ints, pivots: int = 50) -> Floats:
    """[n, 2] positions from the distances to a few distant nodes: pivot MDS (Brandes and Pich, 2007)."""
    columns = [steps_from(0, n, edges)]
    while len(columns) < min(pivots, n):
        columns.append(steps_from(int(np.min(columns, 0).argmax()), n, edges))
    distance = np.stack(columns, 1)
    joined = np.isfinite(distance)
    square = np.where(joined, distance, distance[joined].max() / 2 + 1.5) ** 2
    centred = square - square.mean(0) - square.mean(1, keepdims=True) + square.mean()
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    return _across(left[:, :2] * values[:2] ** 0.5)


def steps_from(node: int, n: int, edges: Ints) -> Floats:
    """[n] length of the shortest path from one node to every node, infinite if there is none."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    length = np.full(n, np.inf)
    length[node], step = 0.0, 0
    while True:
        reached = ends[length[ends[:, 0]] == step, 1]
        fresh = reached[np.isinf(length[reached])]
        if not fresh.size:
            return length
        step += 1
        length[fresh] = step


def _across(place: Floats) -> Floats:
    """Rotate so that the wider side is horizontal."""
    _, _, axes = np.linalg.svd(place - place.mean(0), full_matrices=False)
    return (place - place.mean(0)) @ axes.T
