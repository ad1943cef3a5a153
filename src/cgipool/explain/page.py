"""An interactive page on one graph: one file with its style, its program and its data inside, which asks the network
for nothing. Needs plotly, the extra `explain`.

Shapes: n nodes, m edges, L levels.
"""

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError
from cgipool.explain.one import Explained
from cgipool.picture import places, span_of
from cgipool.report.page import in_script
from cgipool.words import counted

RING, PLAIN, GREY = "#d0453e", "#8fa3b8", "#8a929b"
"""Of rings, nodes without a score, and what the style sheet then gives the colours of the theme."""


def page(explained: Sequence[Explained]) -> str:
    """The page: what one model keeps of a graph, or several models side by side."""
    one = explained[0]
    place = places_of(one)
    data = {"charts": [_chart(each, place) for each in explained]}
    head = one.size
    if one.true_class is not None:
        head += f"; its class is {one.true_class}"
    if one.graph.node_truth is not None:
        head += "; ringed are the nodes that decide it"
    parts = {
        "style": _file("cgipool.report", "page.css") + _file("cgipool.explain", "page.css"),
        "title": escape(f"G{one.name.removeprefix('g')}"),
        "head": escape(head),
        "most": str(max(each.trace.levels for each in explained)),
        "models": "\n".join(_section(number, each) for number, each in enumerate(explained)),
        "plotly": _plotly(),
        "data": in_script(data),
        "script": _file("cgipool.explain", "page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("cgipool.explain", "page.html"))


def _file(package: str, name: str) -> str:
    """A fixed part of a page. The style begins with that of our reports."""
    return (files(package) / "web" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """plotly's program."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError("an interactive page needs plotly: pip install 'cgipool[explain]'") from None
    return get_plotlyjs()


def places_of(one: Explained) -> NDArray[Any]:
    """[n, 2] where the nodes are drawn: a molecule's as chemists do."""
    if one.molecule is None:
        return places(one.graph.n_nodes, one.edges)
    return np.asarray(one.molecule.GetConformer().GetPositions())[:, :2]


def _chart(one: Explained, place: NDArray[Any]) -> dict[str, Any]:
    """For the input and every level: the traces that plotly draws, and a line of words."""
    n, m = counted(one.graph.n_nodes, "node"), counted(len(one.edges), "edge")
    shown = [{"traces": _traces(one, place, -1), "words": f"Input: {one.size}"}]
    for level, (nodes, edges) in enumerate(zip(one.nodes_left, one.edges_left, strict=True)):
        words = f"Level {level + 1}: {nodes} of {n} and {edges} of {m} are left"
        shown.append({"traces": _traces(one, place, level), "words": words})
    return {"levels": shown, "layout": _layout(place)}


def _layout(place: NDArray[Any]) -> dict[str, Any]:
    low, high = place.min(0), place.max(0)
    margin = max(0.08 * float((high - low).max()), 0.5)
    spans = [[a - margin, b + margin] for a, b in zip(low, high, strict=True)]
    hidden = {"visible": False, "fixedrange": True}
    return {
        "xaxis": hidden | {"range": spans[0]},
        "yaxis": hidden | {"range": spans[1], "scaleanchor": "x"},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "height": 430,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
    }


def _traces(one: Explained, place: NDArray[Any], level: int) -> list[dict[str, Any]]:
    """What plotly draws: faint edges, kept edges, rings, dropped nodes, kept nodes; level −1 is the input."""
    n = one.graph.n_nodes
    alive = one.trace.alive[level] if level >= 0 else np.ones(n, bool)
    rings = np.zeros(n, bool) if one.graph.node_truth is None else one.graph.node_truth
    there = alive[one.edges].all(1)
    size = float(np.clip(400 / n, 5, 17))
    ring = {"symbol": "circle-open", "size": 1.7 * size, "color": RING, "line": {"width": 2}}
    marker: dict[str, Any] = {"size": size, "color": PLAIN, "line": {"width": 1, "color": GREY}}
    if level >= 0 and one.trace.ranking is not None:
        marker |= _colours(one.trace.ranking, one.trace.score[level, alive])
    small = {"size": 0.6 * size, "color": GREY}
    words = _hover(one, level)
    return [
        {"uid": "-gone-edges"} | _lines(place, one.edges[~there], 1.0),
        {"uid": "-kept-edges"} | _lines(place, one.edges[there], 1.6),
        {"uid": "-ringed"} | _points(place, rings) | {"marker": ring, "hoverinfo": "skip"},
        {"uid": "-gone"} | _points(place, ~alive, words) | {"marker": small},
        {"uid": "-kept"} | _points(place, alive, words) | {"marker": marker} | _letters(one, alive),
    ]


def _colours(name: str, score: NDArray[np.float32]) -> dict[str, Any]:
    low, high = span_of(score)
    bar = {
        "orientation": "h",
        "thickness": 9,
        "len": 0.6,
        "y": 0,
        "yanchor": "top",
        "outlinewidth": 0,
        "tickvals": [low, (low + high) / 2, high],
        "tickformat": ".3f",
        "title": {"text": escape(name), "side": "top"},
    }
    return {"color": score.tolist(), "colorscale": "Viridis", "cmin": low, "cmax": high, "colorbar": bar}


def _lines(place: NDArray[Any], edges: NDArray[np.int64], width: float) -> dict[str, Any]:
    """Each edge a line of its own: a gap follows its two ends."""
    ends = np.full((len(edges), 3, 2), np.nan)
    ends[:, :2] = place[edges]
    x, y = ends.reshape(-1, 2).T.tolist()
    return {"x": x, "y": y, "mode": "lines", "hoverinfo": "skip", "line": {"color": GREY, "width": width}}


def _points(place: NDArray[Any], which: NDArray[np.bool_], words: Sequence[str] = ()) -> dict[str, Any]:
    """Some of the nodes, with the words [n] that are shown on hover."""
    x, y = place[which].T.tolist()
    points = {"x": x, "y": y, "mode": "markers"}
    if not words:
        return points
    told = [words[node] for node in np.flatnonzero(which).tolist()]
    return points | {"hovertext": told, "hovertemplate": "%{hovertext}<extra></extra>"}


def _letters(one: Explained, which: NDArray[np.bool_]) -> dict[str, Any]:
    """The elements beside the atoms of a molecule; carbon goes without saying."""
    if one.molecule is None:
        return {}
    text = ["" if one.labels[atom] == "C" else one.labels[atom] for atom in np.flatnonzero(which).tolist()]
    return {"mode": "markers+text", "text": text, "textposition": "top center"}


def _hover(one: Explained, level: int) -> list[str]:
    """[n] what is said of each node: its label, its scores at the level (of one that is gone, its last ones), and when
    it was dropped."""
    dropped, said = one.trace.dropped, []
    for node, label in enumerate(one.labels):
        lines = [f"<b>node {node}</b>" + (f": {escape(label)}" if label else "")]
        gone = int(dropped[node])
        last = level if not gone else min(level, gone - 1)
        if level >= 0:
            lines += [f"{escape(name)} {values[last, node]:.4f}" for name, values in one.trace.scores.items()]
        if gone and level >= gone - 1:
            lines.append(f"dropped at level {gone}")
        said.append("<br>".join(lines))
    return said


def _section(number: int, one: Explained) -> str:
    """A model's heading, its probabilities, the place of its chart, and its table of levels."""
    bars = "".join(
        f"<li><span>{escape(name)}{' (its class)' if name == one.true_class else ''}</span>"
        f'<span class="bar"><i style="width:{100 * p:.2f}%"></i></span><span class="share">{p:.3f}</span></li>'
        for name, p in one.probabilities.items()
    )
    levels = [(0, one.graph.n_nodes, len(one.edges))]
    levels += [(i + 1, *left) for i, left in enumerate(zip(one.nodes_left, one.edges_left, strict=True))]
    rows = "".join(
        f'<tr data-level="{level}"><th scope="row">{level or "input"}</th><td class="number">{nodes}</td>'
        f'<td class="number">{edges}</td></tr>'
        for level, nodes, edges in levels
    )
    return (
        f'<section class="model"><h2>{escape(one.method)}</h2><p class="words">{escape(one.verdict)}.</p>'
        f'<ul class="bars" aria-label="Probabilities of the classes">{bars}</ul>'
        f'<div class="chart-box"><div class="graph" id="graph-{number}"></div>'
        f'<p class="words now" id="words-{number}" aria-live="polite"></p></div>'
        f'<div class="scroll"><table class="plain"><thead><tr><th scope="col">level</th><th scope="col" class="number">'
        f'nodes</th><th scope="col" class="number">edges</th></tr></thead><tbody>{rows}</tbody></table></div></section>'
    )
