"""Build an interactive page about one graph: one file that contains its styles, script and drawings. It makes no
network requests.

Shapes: n nodes, m edges.
"""

from collections.abc import Sequence
from html import escape

import numpy as np
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from cgipool.explain.explanation import Explanation
from cgipool.explain.picture import COLOURS, FEW, Scale, places
from cgipool.report.figures import short
from cgipool.report.html import REPORT, fill, web_file

STOPS = 16
"""Number of colours in the gradient of the scale."""


def page(explained: Sequence[Explanation]) -> str:
    """Return the page: what one model keeps of a graph, or several models side by side."""
    one = explained[0]
    facts = [one.size]
    if one.true_class is not None:
        facts.append(f"true class: {one.true_class}")
    if one.prediction[0] in one.measured:
        facts.append(f"measured {one.prediction[0]}: {one.measured[one.prediction[0]]:.4g}")
    if one.graph.node_truth is not None:
        facts.append("ringed nodes decide the class")
    most = max(each.trace.levels for each in explained)
    stops = ["Input", *(f"Level {level}" for level in range(1, most + 1))]
    parts = {
        "brand": "What the pooling keeps",
        "style": web_file(REPORT, "page.css") + web_file("cgipool.inference", "tips.css") + _file("page.css"),
        "node": one.nodes_word,
        "title": escape(f"G{one.name.removeprefix('g')}"),
        "facts": escape(" · ".join(facts)),
        "most": str(most),
        "stops": "".join(f'<button type="button" data-stop="{i}">{stop}</button>' for i, stop in enumerate(stops)),
        "models": "\n".join(map(_section, explained)),
        "script": web_file("cgipool.inference", "tips.js") + _file("page.js"),
    }
    return fill(_file("page.html"), parts)


def _file(name: str) -> str:
    return web_file("cgipool.explain", name)


def _section(one: Explanation) -> str:
    """A model's prediction, its drawings, their legend, and its tables."""
    captions = "".join(
        f'<p class="now" data-level="{level}">{escape(one.at_level(level) + _kept_scores(one, level))}</p>'
        for level in range(one.trace.levels + 1)
    )
    return (
        f'<section class="model" data-levels="{one.trace.levels}"><div class="said"><h2>{escape(one.method)}</h2>'
        f'<p class="guess">{_guess(one)}</p><ul class="bars" aria-label="Predictions">{_bars(one)}</ul></div>'
        f'<div class="drawn"><div class="chart-box">{"".join(views(one))}<div aria-live="polite">{captions}</div></div>'
        f"{_legend(one)}</div>"
        f'<div class="counts">{_levels(one)}{_nodes(one)}</div></section>'
    )


def _guess(one: Explanation) -> str:
    """The prediction as a sentence."""
    name, value = one.prediction
    if one.task == "classification":
        return f"Predicted class <strong>{escape(name)}</strong>, probability <strong>{value:.2f}</strong>"
    if one.task == "regression":
        return f"Predicted {escape(name)}: <strong>{value:.4g}</strong>"
    return f"Predicted probability of {escape(name)}: <strong>{value:.2f}</strong>"


def _bars(one: Explanation) -> str:
    """The probability of each class or label as a bar; of several target columns the predicted values."""
    if one.task == "regression":
        if len(one.outputs) == 1:
            return ""
        values = (
            (name, value, f" (measured {one.measured[name]:.4g})" if name in one.measured else "")
            for name, value in one.predictions.items()
        )
        return "".join(
            f'<li><span>{escape(name)}</span><span>{known}</span><span class="share">{value:.4g}</span></li>'
            for name, value, known in values
        )
    true = {one.true_class: " (true class)"} | {name: f" (true: {value:g})" for name, value in one.measured.items()}
    return "".join(
        f"<li><span>{escape(name)}{true.get(name, '')}</span>"
        f'<span class="bar"><i style="width:{100 * p:.2f}%"></i></span><span class="share">{p:.3f}</span></li>'
        for name, p in one.predictions.items()
    )


def _kept_scores(one: Explanation, level: int) -> str:
    """Describe the lowest and the highest score that a level keeps."""
    span = _span(one, level)
    return "" if one.scale is None or span is None else f"; {one.scale.score} from {span[0]:.4f} to {span[1]:.4f}"


def _span(one: Explanation, level: int) -> tuple[float, float] | None:
    if not level:
        return None
    kept = one.trace.score[level - 1, one.alive(level)]
    known = kept[np.isfinite(kept)]
    return (float(known.min()), float(known.max())) if known.size else None


def _legend(one: Explanation) -> str:
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


def _bracket(scale: Scale, one: Explanation, level: int) -> str:
    span = _span(one, level)
    if span is None:
        return ""
    left, right = (100 * scale.share(end) for end in span)
    return f'<i class="span" data-level="{level}" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'


def _levels(one: Explanation) -> str:
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


def _nodes(one: Explanation) -> str:
    """The folded table of all nodes, with the content of the tooltips."""
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
    """An HTML table whose first column names the rows. Rows are linked to the levels if `numbered`."""
    top = "".join(f'<th scope="col"{"" if i == 0 else NUMBER}>{escape(head)}</th>' for i, head in enumerate(heads))
    body = ""
    for place, (first, *rest) in enumerate(rows):
        row = f' data-row="{place}"' if numbered else ""
        cells = "".join(f"<td{NUMBER}>{escape(cell)}</td>" for cell in rest)
        body += f'<tr{row}><th scope="row">{escape(first)}</th>{cells}</tr>'
    return f'<div class="scroll"><table class="plain"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


NUMBER = ' class="number"'


WIDE, HIGH, MARGIN = 640, 430, 26
"""Width, height and margin of a drawing in pixels."""

Places = list[tuple[float, float]]


def views(one: Explanation) -> list[str]:
    """The input and every level of a graph, each as an SVG element."""
    if one.molecule is not None:
        from cgipool.explain.molecule import draw_level

        drawn = [draw_level(one, level, WIDE, HIGH) for level in range(one.trace.levels + 1)]
        return [_svg(one, level, content + _spots(one, level, where)) for level, (content, where) in enumerate(drawn)]
    where = _fitted(places(one.graph.n_nodes, one.edges))
    return [_svg(one, level, _graph(one, level, where)) for level in range(one.trace.levels + 1)]


def tip(one: Explanation, level: int, node: int) -> str:
    """The tooltip of a node: name, label, scores at the level (or at the level that dropped it), and the level that
    dropped it."""
    label, gone = one.labels[node], one.dropped[node]
    lines = [one.node_name(node) + (f": {label}" if label else "")]
    last = min(level, gone) if gone else level
    if level:
        lines += [f"{name} {values[last - 1, node]:.4f}" for name, values in one.trace.scores.items()]
    if gone and level >= gone:
        lines.append(f"dropped at level {gone}")
    return "\n".join(lines)


def _svg(one: Explanation, level: int, content: str) -> str:
    kind = "graph" if one.molecule is None else "molecule"
    return (
        f'<svg class="view {kind}" data-level="{level}" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'aria-label="{escape(one.at_level(level))}">{content}</svg>'
    )


def _spots(one: Explanation, level: int, where: Places) -> str:
    """Invisible circles over the atoms, which carry the tooltips."""
    alive = one.alive(level).tolist()
    return "".join(_spot(one, level, node, where[node], 11, kept) for node, kept in enumerate(alive))


def _spot(
    one: Explanation, level: int, node: int, at: tuple[float, float], radius: float, kept: bool, look: str = ""
) -> str:
    return (
        f'<circle class="node {"kept" if kept else "gone"}" data-tip="{escape(tip(one, level, node))}" '
        f'cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"{look}/>'
    )


def _graph(one: Explanation, level: int, where: Places) -> str:
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
    """[n] positions scaled to the drawing, with the aspect ratio kept."""
    low, high = place.min(0), place.max(0)
    room = np.array([WIDE - 2 * MARGIN, HIGH - 2 * MARGIN])
    zoom = (room / np.maximum(high - low, 1e-9)).min()
    zoom = min(float(zoom), 110.0)  # a graph of two nodes does not fill the width
    fitted = (place - (low + high) / 2) * [zoom, -zoom] + np.array([WIDE, HIGH]) / 2  # y points down
    return [(x, y) for x, y in fitted.tolist()]
