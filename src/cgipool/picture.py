"""A picture of a graph that is pooled level by level; NumPy and matplotlib only.

Shapes: n nodes, m edges, L levels.
"""

import re
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cgipool.words import counted

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

INK, FAINT, RING, PLAIN = "#333333", "#dcdcdc", "#d62728", "#b9c6d3"

MANY = 500
"""Above so many nodes, all distances are too many: places then follow from the distances to a few nodes."""


def draw_pooling(
    path: Path,
    *,
    edges: Ints,
    ringed: NDArray[np.bool_] | None,
    alive: NDArray[np.bool_],
    score: Floats,
    title: str,
) -> None:
    """Write the `pooling_figure` to a file."""
    pooling_figure(edges=edges, ringed=ringed, alive=alive, score=score, title=title).savefig(path)


def pooling_figure(
    *,
    edges: Ints,
    ringed: NDArray[np.bool_] | None,
    alive: NDArray[np.bool_],
    score: Floats,
    title: str,
    score_name: str | None = "y_d",
) -> Figure:
    """Panels: the graph [m, 2], then each level with the kept nodes (alive [L, n]) coloured by their score [L, n]."""
    levels, n = alive.shape
    place = places(n, edges)
    rings = np.zeros(n, bool) if ringed is None else ringed
    wide, tall = np.maximum(np.ptp(place, 0), 1e-9)
    figure = Figure(figsize=(3.1 * (levels + 1) + 0.6, 3.1 * np.clip(tall / wide, 0.6, 1.3) + 1.0), dpi=150)
    panels = figure.subplots(1, levels + 1)
    big = min(85.0, 9000.0 / n)
    _draw_graph(panels[0], place, edges, np.ones(n, bool), rings, big)
    panels[0].scatter(place[:, 0], place[:, 1], s=big, c=PLAIN, edgecolors="none", zorder=3)
    panels[0].set_title(f"input: {counted(n, 'node')}", color=INK, fontsize=10)
    low, high = span_of(score[alive])
    for level, panel in enumerate(panels[1:]):
        here = alive[level]
        _draw_graph(panel, place, edges, here, rings, big)
        panel.scatter(place[~here, 0], place[~here, 1], s=0.3 * big, c=FAINT, edgecolors="none", zorder=2)
        shades = score[level, here] if score_name else PLAIN
        look = {"cmap": "viridis", "vmin": low, "vmax": high} if score_name else {}
        colours = panel.scatter(*place[here].T, s=big, c=shades, edgecolors="none", zorder=3, **look)
        kept = f", {np.count_nonzero(rings & here)} of {rings.sum()} in the motif" if rings.any() else ""
        panel.set_title(f"level {level + 1}: {counted(here.sum(), 'node')}{kept}", color=INK, fontsize=10)
    figure.suptitle(title, color=INK, parse_math=False)
    figure.subplots_adjust(left=0.01, right=0.93, top=0.82, bottom=0.08, wspace=0.04)
    if score_name:
        bar = figure.colorbar(colours, cax=figure.add_axes((0.945, 0.15, 0.009, 0.6)))
        bar.set_label(f"score {_in_math(score_name)} of kept nodes", color=INK, fontsize=9)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
    if rings.any():
        note = "ringed: the nodes of the motif, which decide the class    small grey: dropped"
        figure.text(0.01, 0.02, note, color=INK, fontsize=9)
    return figure


def span_of(values: Floats) -> tuple[float, float]:
    """The least and the largest of the values that are numbers; 0 and 1 where none is."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _in_math(name: str) -> str:
    """A score's name as formulas are set, if it is short enough to be a symbol."""
    return f"${name}$" if re.fullmatch(r"[a-z](_[a-z])?", name) else name


def _draw_graph(
    panel: Axes, place: Floats, edges: Ints, alive: NDArray[np.bool_], rings: NDArray[np.bool_], big: float
) -> None:
    """Edges (dark between living nodes) and rings; the same frame in every panel."""
    there = alive[edges].all(1)
    for some, colour, thick in ((~there, FAINT, 0.8), (there, INK, 1.1)):
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
    """[n, 2] where the nodes are drawn; the same graph always looks the same."""
    return layout(steps(n, edges)) if n <= MANY else rough_layout(n, edges)


def steps(n: int, edges: Ints) -> Floats:
    """[n, n] edges on the shortest path between two nodes, infinite where there is none."""
    length = np.full((n, n), np.inf)
    np.fill_diagonal(length, 0.0)
    length[edges[:, 0], edges[:, 1]] = length[edges[:, 1], edges[:, 0]] = 1.0
    for middle in range(n):
        length = np.minimum(length, length[:, middle, None] + length[None, middle])
    return length


def layout(distance: Floats, rounds: int = 300) -> Floats:
    """[n, 2] places whose distances resemble the given ones: stress majorisation (Gansner, Koren and North, 2004).

    It starts from classical scaling, so the same graph always looks the same; the wider side is put across.
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
    """[n, 2] places from the distances to a few nodes far from each other: pivot scaling (Brandes and Pich, 2007)."""
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
    """[n] edges on the shortest path from one node to each, infinite where there is none."""
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
    """Turned so that the wider side is across."""
    _, _, axes = np.linalg.svd(place - place.mean(0), full_matrices=False)
    return (place - place.mean(0)) @ axes.T
