"""One level of a graph as SVG for a page: RDKit's drawing of a molecule, or nodes and edges.

Shapes: n nodes, m edges.
"""

from html import escape

import numpy as np
from numpy.typing import NDArray

from cgipool.explain.one import Explained
from cgipool.explain.picture import FEW, places
from cgipool.report.style import short

WIDE, HIGH, MARGIN = 640, 430, 26
"""Size of a drawing and the width of its margin, in pixels."""

Places = list[tuple[float, float]]


def views(one: Explained) -> list[str]:
    """The input and every level of a graph, each as an SVG element."""
    if one.molecule is not None:
        from cgipool.explain.molecule import draw_level

        drawn = [draw_level(one, level, WIDE, HIGH) for level in range(one.trace.levels + 1)]
        return [_svg(one, level, content + _spots(one, level, where)) for level, (content, where) in enumerate(drawn)]
    where = _fitted(places(one.graph.n_nodes, one.edges))
    return [_svg(one, level, _graph(one, level, where)) for level in range(one.trace.levels + 1)]


def tip(one: Explained, level: int, node: int) -> str:
    """What the page says about a node, line by line: its name and label, its scores at the level (the last ones if it
    was dropped before), and the level that dropped it."""
    label, gone = one.labels[node], one.dropped[node]
    lines = [one.node_name(node) + (f": {label}" if label else "")]
    last = min(level, gone) if gone else level
    if level:
        lines += [f"{name} {values[last - 1, node]:.4f}" for name, values in one.trace.scores.items()]
    if gone and level >= gone:
        lines.append(f"dropped at level {gone}")
    return "\n".join(lines)


def _svg(one: Explained, level: int, content: str) -> str:
    kind = "graph" if one.molecule is None else "molecule"
    return (
        f'<svg class="view {kind}" data-level="{level}" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'aria-label="{escape(one.at_level(level))}">{content}</svg>'
    )


def _spots(one: Explained, level: int, where: Places) -> str:
    """Invisible circles over the atoms, which show their scores."""
    alive = one.alive(level).tolist()
    return "".join(_spot(one, level, node, where[node], 11, kept) for node, kept in enumerate(alive))


def _spot(
    one: Explained, level: int, node: int, at: tuple[float, float], radius: float, kept: bool, look: str = ""
) -> str:
    return (
        f'<circle class="node {"kept" if kept else "gone"}" data-tip="{escape(tip(one, level, node))}" '
        f'cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"{look}/>'
    )


def _graph(one: Explained, level: int, where: Places) -> str:
    """Dropped edges, kept edges, rings, nodes and names."""
    alive, n = one.alive(level).tolist(), one.graph.n_nodes
    radius = float(np.clip(60 / np.sqrt(n), 2.5, 9.0))
    both = one.alive(level)[one.edges].all(1)
    parts = [_lines("gone", where, one.edges[~both]), _lines("kept", where, one.edges[both])]
    if one.graph.node_truth is not None:
        for node in np.flatnonzero(one.graph.node_truth).tolist():
            x, y = where[node]
            parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{radius + 4:.1f}"/>')
    for node, kept in sorted(enumerate(alive), key=lambda pair: pair[1]):
        look = f' fill="{one.colour(level, node)}"' if kept else ""
        parts.append(_spot(one, level, node, where[node], radius if kept else 0.55 * radius, kept, look))
    if n <= FEW:
        for name, kept, (x, y) in zip(one.node_names, alive, where, strict=False):
            style = "kept" if kept else "gone"
            parts.append(
                f'<text class="name {style}" x="{x:.1f}" y="{y + radius + 12:.1f}">{escape(short(name))}</text>'
            )
    return "".join(parts)


def _lines(kind: str, where: Places, edges: NDArray[np.int64]) -> str:
    steps = (f"M{where[a][0]:.1f} {where[a][1]:.1f}L{where[b][0]:.1f} {where[b][1]:.1f}" for a, b in edges.tolist())
    return f'<path class="edges {kind}" d="{"".join(steps)}"/>'


def _fitted(place: NDArray[np.floating]) -> Places:
    """[n] places in the drawing, in the same proportions."""
    low, high = place.min(0), place.max(0)
    room = np.array([WIDE - 2 * MARGIN, HIGH - 2 * MARGIN])
    zoom = (room / np.maximum(high - low, 1e-9)).min()
    zoom = min(float(zoom), 110.0)  # a graph of two nodes does not fill the width
    fitted = (place - (low + high) / 2) * [zoom, -zoom] + np.array([WIDE, HIGH]) / 2  # y points down
    return [(x, y) for x, y in fitted.tolist()]
