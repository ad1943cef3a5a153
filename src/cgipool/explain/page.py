"""An interactive page on one graph: one small file that contains its style, program and drawings, and makes no network
requests."""

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

import numpy as np
from matplotlib.colors import to_hex

from cgipool.explain.one import Explained
from cgipool.explain.picture import COLOURS, Scale
from cgipool.explain.view import views

STOPS = 16
"""Colours of a scale's gradient."""


def page(explained: Sequence[Explained]) -> str:
    """The page: what one model keeps of a graph, or several models side by side."""
    one = explained[0]
    facts = [one.size]
    if one.true_class is not None:
        facts.append(f"true class: {one.true_class}")
    if one.graph.node_truth is not None:
        facts.append("ringed nodes decide the class")
    most = max(each.trace.levels for each in explained)
    stops = ["Input", *(f"Level {level}" for level in range(1, most + 1))]
    parts = {
        "style": _file("cgipool.report", "page.css") + _file("cgipool.explain", "page.css"),
        "node": one.nodes_word,
        "title": escape(f"G{one.name.removeprefix('g')}"),
        "facts": escape(" · ".join(facts)),
        "most": str(most),
        "stops": "".join(f'<button type="button" data-stop="{i}">{stop}</button>' for i, stop in enumerate(stops)),
        "models": "\n".join(map(_section, explained)),
        "script": _file("cgipool.explain", "page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("cgipool.explain", "page.html"))


def _file(package: str, name: str) -> str:
    """A fixed part of a page. The style begins with that of our reports."""
    return (files(package) / "web" / name).read_text(encoding="utf-8")


def _section(one: Explained) -> str:
    """A model's prediction, its drawings, their legend, and its tables."""
    guess, probability = one.prediction
    captions = "".join(
        f'<p class="now" data-level="{level}">{escape(one.at_level(level) + _kept_scores(one, level))}</p>'
        for level in range(one.trace.levels + 1)
    )
    return (
        f'<section class="model" data-levels="{one.trace.levels}"><div class="said"><h2>{escape(one.method)}</h2>'
        f'<p class="guess">Predicted class <strong>{escape(guess)}</strong>, probability '
        f"<strong>{probability:.2f}</strong></p>"
        f'<ul class="bars" aria-label="Probabilities of the classes">{_bars(one)}</ul></div>'
        f'<div class="drawn"><div class="chart-box">{"".join(views(one))}<div aria-live="polite">{captions}</div></div>'
        f"{_legend(one)}</div>"
        f'<div class="counts">{_levels(one)}{_nodes(one)}</div></section>'
    )


def _bars(one: Explained) -> str:
    return "".join(
        f"<li><span>{escape(name)}{' (true class)' if name == one.true_class else ''}</span>"
        f'<span class="bar"><i style="width:{100 * p:.2f}%"></i></span><span class="share">{p:.3f}</span></li>'
        for name, p in one.probabilities.items()
    )


def _kept_scores(one: Explained, level: int) -> str:
    """The lowest and the highest score that a level keeps, in words."""
    span = _span(one, level)
    return "" if one.scale is None or span is None else f"; {one.scale.score} from {span[0]:.4f} to {span[1]:.4f}"


def _span(one: Explained, level: int) -> tuple[float, float] | None:
    if not level:
        return None
    kept = one.trace.score[level - 1, one.alive(level)]
    known = kept[np.isfinite(kept)]
    return (float(known.min()), float(known.max())) if known.size else None


def _legend(one: Explained) -> str:
    """The colour scale of all levels, with a bracket over the scores that the level keeps, and what it means."""
    words = f'<p class="legend">{escape(one.about_colours)}</p>'
    if one.scale is None:
        return words
    brackets = "".join(_bracket(one.scale, one, level) for level in range(1, one.trace.levels + 1))
    ticks = "".join(
        f'<span class="tick" style="left:{100 * one.scale.share(tick):.2f}%">{tick:g}</span>'
        for tick in one.scale.ticks
    )
    shades = ",".join(to_hex(COLOURS(share)) for share in np.linspace(0, 1, STOPS))
    return (
        f'<div class="scale"><span class="score">{escape(one.scale.score)}</span><div class="ruler">{brackets}'
        f'<div class="shades" style="background:linear-gradient(to right,{shades})"></div>{ticks}</div></div>{words}'
    )


def _bracket(scale: Scale, one: Explained, level: int) -> str:
    span = _span(one, level)
    if span is None:
        return ""
    left, right = (100 * scale.share(end) for end in span)
    return f'<i class="span" data-level="{level}" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'


def _levels(one: Explained) -> str:
    """The table of levels."""
    n, left = (
        one.graph.n_nodes,
        [(one.graph.n_nodes, len(one.edges)), *zip(one.nodes_left, one.edges_left, strict=True)],
    )
    rows = [
        (str(level) if level else "input", str(nodes), str(n - nodes), str(edges))
        for level, (nodes, edges) in enumerate(left)
    ]
    heads = ("level", f"{one.nodes_word}s kept", "dropped", f"{one.edges_word}s left")
    return _table(heads, rows, numbered=True)


def _nodes(one: Explained) -> str:
    """The folded table of all nodes: what hovering shows, as text."""
    labels = one.labels if any(one.labels) else []
    heads = [one.nodes_word, *(["name"] if one.node_names else []), *(["label"] if labels else [])]
    levels = range(1, one.trace.levels + 1) if one.scale is not None else ()
    heads += [f"{one.scale.score if one.scale else ''}, level {level}" for level in levels]
    rows = []
    for node in range(one.graph.n_nodes):
        row = [str(node), *one.node_names[node : node + 1], *labels[node : node + 1]]
        scores = (float(one.trace.score[level - 1, node]) for level in levels)
        row += [f"{score:.4f}" if np.isfinite(score) else "–" for score in scores]
        gone = one.dropped[node]
        rows.append((*row, f"level {gone}" if gone else "kept"))
    return f"<details><summary>All {one.nodes_word}s</summary>{_table((*heads, 'dropped at'), rows)}</details>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbered: bool = False) -> str:
    """A table, the first column of which names the rows; numbered ones belong to the levels."""
    top = "".join(f'<th scope="col"{"" if i == 0 else NUMBER}>{escape(head)}</th>' for i, head in enumerate(heads))
    body = ""
    for place, (first, *rest) in enumerate(rows):
        row = f' data-row="{place}"' if numbered else ""
        cells = "".join(f"<td{NUMBER}>{escape(cell)}</td>" for cell in rest)
        body += f'<tr{row}><th scope="row">{escape(first)}</th>{cells}</tr>'
    return f'<div class="scroll"><table class="plain"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


NUMBER = ' class="number"'
