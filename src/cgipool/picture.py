"""A picture of a graph that is pooled level by level; NumPy and matplotlib only.

Shapes: n nodes, m edges, L levels.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

Floats = NDArray[np.floating]

INK, FAINT, RING, PLAIN = "#333333", "#dcdcdc", "#d62728", "#b9c6d3"


def draw_pooling(
    path: Path,
    *,
    edges: NDArray[np.int64],
    ringed: NDArray[np.bool_] | None,
    alive: NDArray[np.bool_],
    score: Floats,
    title: str,
) -> None:
    """Panels: the graph [m, 2], then each level with the kept nodes (alive [L, n]) coloured by their score [L, n]."""
    levels, n = alive.shape
    place = layout(steps(n, edges))
    rings = np.zeros(n, bool) if ringed is None else ringed
    span = place.max(0) - place.min(0)
    figure = Figure(figsize=(3.1 * (levels + 1) + 0.6, 3.1 * np.clip(span[1] / span[0], 0.6, 1.3) + 1.0), dpi=150)
    panels = figure.subplots(1, levels + 1)
    _draw_graph(panels[0], place, edges, np.ones(n, bool), rings)
    panels[0].scatter(place[:, 0], place[:, 1], s=85, c=PLAIN, edgecolors="none", zorder=3)
    panels[0].set_title(f"input: {n} nodes", color=INK)
    shown = score[alive]
    low, high = float(shown.min()), float(shown.max())
    for level, panel in enumerate(panels[1:]):
        here = alive[level]
        _draw_graph(panel, place, edges, here, rings)
        panel.scatter(place[~here, 0], place[~here, 1], s=25, c=FAINT, edgecolors="none", zorder=2)
        colours = panel.scatter(
            place[here, 0],
            place[here, 1],
            s=85,
            c=score[level, here],
            cmap="viridis",
            vmin=low,
            vmax=high,
            edgecolors="none",
            zorder=3,
        )
        kept = f", {np.count_nonzero(rings & here)} of {rings.sum()} in the motif" if rings.any() else ""
        panel.set_title(f"level {level + 1}: {here.sum()} nodes{kept}", color=INK, fontsize=10)
    panels[0].title.set_fontsize(10)
    figure.suptitle(title, color=INK)
    figure.subplots_adjust(left=0.01, right=0.93, top=0.82, bottom=0.08, wspace=0.04)
    if levels:
        bar = figure.colorbar(colours, cax=figure.add_axes((0.945, 0.15, 0.009, 0.6)))
        bar.set_label("score $y_d$ of kept nodes", color=INK, fontsize=9)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
    if rings.any():
        note = "ringed: the nodes of the motif, which decide the class    small grey: dropped"
        figure.text(0.01, 0.02, note, color=INK, fontsize=9)
    figure.savefig(path)


def _draw_graph(panel: Axes, place: Floats, edges: NDArray[np.int64], alive: NDArray[np.bool_], rings: NDArray) -> None:
    """Edges (dark between living nodes) and rings; the same frame in every panel."""
    for one, other in edges:
        there = alive[one] and alive[other]
        panel.plot(*place[[one, other]].T, color=INK if there else FAINT, lw=1.1 if there else 0.8, zorder=1)
    panel.scatter(
        place[rings, 0], place[rings, 1], s=190, facecolors="white", edgecolors=RING, linewidths=1.6, zorder=2
    )
    margin = 0.08 * (place.max(0) - place.min(0)).max()
    panel.set_xlim(place[:, 0].min() - margin, place[:, 0].max() + margin)
    panel.set_ylim(place[:, 1].min() - margin, place[:, 1].max() + margin)
    panel.set_aspect("equal")
    panel.axis("off")


def steps(n: int, edges: NDArray[np.int64]) -> Floats:
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
    _, _, axes = np.linalg.svd(place - place.mean(0), full_matrices=False)
    return (place - place.mean(0)) @ axes.T
