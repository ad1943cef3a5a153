"""The page of an evaluation: its metrics, and a reliability diagram or predicted against measured values.

Shapes: n graphs, O outputs, T target columns.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import counted, excerpt
from cgipool.inference.evaluation import CLASSIFICATION, ModelEvaluation
from cgipool.inference.plot import Plot, in_digits
from cgipool.report.html import REPORT, fill, web_file
from cgipool.task.metrics import BINS, KNOWN, bins_of, ordered, titles_of, written

Floats = NDArray[np.float64]

HERE = "cgipool.inference"
"""The package with the web files of this page."""

MOST_POINTS = 4000
"""Maximum number of points in a scatter plot; of more graphs, evenly spaced ones are drawn."""

MOST_PLOTS = 12
"""Maximum number of target columns that get a plot; the table has all of them."""

MOST_CLASSES = 25
"""Maximum number of classes for which the confusion matrix is shown."""

WORST = 8
"""Number of graphs in the table of the largest errors."""

NUMBER = ' class="number"'


def evaluation_page(
    found: ModelEvaluation,
    metric: str | None = None,
    *,
    brand: str = "cgipool evaluate",
    title: str = "",
    lead: str = "",
    more: str = "",
    beside: str | None = None,
    last: str = "",
) -> str:
    """Return the page; `metric` is shown first, by default the task's primary one.

    `brand` names the command that writes the page. `lead`, `more` and `last` are HTML before the metrics, after them
    and at the end; `beside` replaces the table of the largest errors.
    """
    facts = [counted(len(found.ids), "graph"), f"task: {found.task.name}"]
    facts += [f"{found.unlabelled:,} without a label left out"] if found.unlabelled else []
    facts += [f"{found.unread:,} without a prediction left out"] if found.unread else []
    plots = (_scatter_plots if found.task.name == "regression" else _reliability)(found, beside)
    parts = {
        "style": "".join(
            [web_file(REPORT, "page.css"), *(web_file(HERE, name) for name in ("tips.css", "evaluation.css"))]
        ),
        "title": escape(excerpt(title or f"Evaluation on {Path(found.data).name}")),
        "brand": escape(brand),
        "lead": lead or f'<p class="words">{escape(excerpt(found.model))}</p>',
        "more": more,
        "last": last,
        "facts": escape(" · ".join(facts)),
        "tiles": _tiles(found, metric or found.task.primary),
        "plots": plots,
        "table": _columns(found),
        "script": web_file(HERE, "tips.js"),
    }
    return fill(web_file(HERE, "evaluation.html"), parts)


def _tiles(found: ModelEvaluation, first: str) -> str:
    """The metrics as a row of numbers, the most important one large."""
    titles, values = titles_of(found.task.name), found.values
    tiles = []
    for place, name in enumerate(ordered(found.task.name, first)):
        title, better = titles[name].format(found.positive), "higher" if KNOWN[name].higher else "lower"
        kind = ' class="first"' if place == 0 else ""
        tiles.append(
            f'<div{kind} title="{better} is better"><dt>{escape(title)} {"↑" if KNOWN[name].higher else "↓"}</dt>'
            f"<dd>{escape(written(name, values.get(name)))}</dd></div>"
        )
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _reliability(found: ModelEvaluation, more: str | None) -> str:
    """Reliability diagram and histogram of confidences; for classes also the confusion matrix."""
    p, y = found.predictions, found.targets
    if found.task.name == CLASSIFICATION:
        confidence, right = p.max(1), (p.argmax(1) == y).astype(float)
        words = ("probability of the most probable class", "share predicted right")
        about = "On the diagonal, the probabilities are calibrated."
    else:
        known = ~np.isnan(y)
        confidence, right = p[known], y[known]
        words = ("predicted probability", "share of ones")
        about = "All columns are taken together."
    histogram = _histogram(confidence, words)
    beside = f'<section class="card"><h2>Probabilities</h2>{histogram}</section>'
    diagram = (
        f'<section class="card"><h2>Reliability</h2>{_diagram(confidence, right, words)}'
        f'<p class="legend">The line over a bar is the {words[1]}. <i class="key bar-over"></i>overconfident '
        f'<i class="key bar-under"></i>underconfident. {about}</p></section>'
    )
    if found.task.name == CLASSIFICATION:
        diagram = f'<div class="column">{diagram}{beside}</div>'
        beside = _confusion(found) + (_mistakes(found) if more is None else "")
    return f'{diagram}<div class="column">{beside}{more or ""}</div>'


def _diagram(confidence: Floats, right: Floats, words: tuple[str, str]) -> str:
    plot, place = Plot((0.0, 1.0), (0.0, 1.0)), bins_of(confidence)
    for number in np.unique(place).tolist():
        inside = place == number
        observed, predicted, count = float(right[inside].mean()), float(confidence[inside].mean()), int(inside.sum())
        across = (number / BINS, (number + 1) / BINS)
        tip = f"{words[0]} {predicted:.3f}\n{words[1]} {observed:.3f}\n{counted(count, 'prediction')}"
        plot.bar("bar-ok", across, (0.0, min(observed, predicted)))
        plot.bar("bar-over" if predicted > observed else "bar-under", across, (observed, predicted))
        plot.bar("bar-all", across, (0.0, 1.0), tip)
        plot.line("mean", (across[0], observed), (across[1], observed))
    plot.line("diagonal", (0.0, 0.0), (1.0, 1.0))
    plot.axes(*words)
    return plot.svg(f"Reliability diagram: {words[1]} by {words[0]}")


def _histogram(confidence: Floats, words: tuple[str, str]) -> str:
    count = np.bincount(bins_of(confidence), minlength=BINS)
    plot = Plot((0.0, 1.0), (0.0, float(count.max()) * 1.08), (460, 150))
    for number, graphs in enumerate(count.tolist()):
        across = (number / BINS, (number + 1) / BINS)
        plot.bar("bar-count", across, (0.0, graphs), counted(graphs, "prediction"))
    plot.axes(words[0], "count", counts=True)
    return plot.svg("Histogram of the predicted probabilities")


def _confusion(found: ModelEvaluation) -> str:
    """The confusion matrix as a table whose cells are shaded by their share of the row."""
    names = found.task.columns
    if len(names) > MOST_CLASSES:
        return ""
    table = np.zeros((len(names), len(names)), int)
    np.add.at(table, (found.targets, found.guess), 1)
    head = "".join(f'<th scope="col" class="number">{escape(excerpt(name, 40))}</th>' for name in names)
    rows = ""
    for row, (name, counts) in enumerate(zip(names, table.tolist(), strict=True)):
        total = max(sum(counts), 1)
        cells = "".join(
            f'<td class="number {"hit" if row == column else "miss"}" style="--share:{100 * count / total:.0f}%" '
            f'data-tip="{escape(excerpt(name, 40))} predicted as {escape(excerpt(names[column], 40))}\n'
            f'{count:,} of {counted(sum(counts), "graph")}">{count:,}</td>'
            for column, count in enumerate(counts)
        )
        rows += f'<tr><th scope="row">{escape(excerpt(name, 40))}</th>{cells}</tr>'
    return (
        '<section class="card"><h2>Confusion matrix</h2><p class="words">Rows: the true class; columns: the predicted '
        f'class. A cell is shaded by its share of the row.{_rare(found)}</p><div class="scroll">'
        f'<table class="plain heat"><thead><tr><th scope="col">true</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _rare(found: ModelEvaluation) -> str:
    """A sentence about the threshold of the positive class."""
    if found.thresholds is None or found.classes is None or found.classes.positive is None:
        return ""
    place = found.classes.positive
    name, share = escape(excerpt(found.task.columns[place], 40)), 100 * found.thresholds[place]
    return f" {name} is predicted above a probability of {share:.1f} %, the threshold with the highest MCC."


def _mistakes(found: ModelEvaluation) -> str:
    """The wrong predictions with the highest probabilities."""
    names, guess, p = found.task.columns, found.guess, found.confidence
    wrong = np.flatnonzero(guess != found.targets)
    wrong = wrong[np.argsort(-p[wrong], kind="stable")][:WORST]
    if not wrong.size:
        return ""
    rows = [(found.ids[g], names[found.targets[g]], names[guess[g]], f"{p[g]:.3f}") for g in wrong.tolist()]
    return _worst("Most confident mistakes", ("graph", "true", "predicted", "probability"), rows)


def _worst(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A small table of single graphs."""
    top = "".join(f'<th scope="col"{"" if place == 0 else NUMBER}>{head}</th>' for place, head in enumerate(heads))
    body = ""
    for name, *rest in rows:
        cells = "".join(f"<td{NUMBER}>{escape(excerpt(text, 30))}</td>" for text in rest)
        body += f'<tr><th scope="row">{escape(excerpt(name, 40))}</th>{cells}</tr>'
    return (
        f'<section class="card"><h2>{title}</h2><div class="scroll"><table class="plain"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _scatter_plots(found: ModelEvaluation, more: str | None) -> str:
    """Predicted against measured values of each column, and its errors."""
    parts, columns = [], found.task.columns
    for column, name in enumerate(columns[:MOST_PLOTS]):
        known = np.flatnonzero(~np.isnan(found.targets[:, column]))
        if not known.size:
            continue
        measured, predicted = found.targets[known, column], found.predictions[known, column]
        ids = [found.ids[place] for place in known]
        title, plot = escape(excerpt(name, 60)), _scatter(ids, measured, predicted)
        if len(columns) > 1:
            parts.append(f'<section class="card"><h2>{title}</h2>{plot}{_errors(predicted - measured)}</section>')
            continue
        if more is None:
            worst = np.argsort(-np.abs(predicted - measured), kind="stable")[:WORST].tolist()
            rows = [(ids[g], *map(in_digits, (measured[g], predicted[g], predicted[g] - measured[g]))) for g in worst]
            beside = _worst("Largest errors", ("graph", "measured", "predicted", "error"), rows)
        else:
            beside = more
        parts.append(
            f'<section class="card"><h2>{title}</h2>{plot}</section><div class="column"><section class="card">'
            f"<h2>Errors</h2>{_errors(predicted - measured)}</section>"
            f"{beside}</div>"
        )
    if len(columns) > 1:
        parts.append(more or "")
    left = len(columns) - MOST_PLOTS
    note = f'<p class="words">{counted(left, "further column")}: see the table.</p>' if left > 0 else ""
    return "".join(parts) + note


def _scatter(ids: Sequence[str], measured: Floats, predicted: Floats) -> str:
    every = np.concatenate([measured, predicted])
    low, high = float(every.min()), float(every.max())
    margin = 0.04 * (high - low) or 1.0
    span = (low - margin, high + margin)
    plot = Plot(span, span)
    plot.line("diagonal", (span[0], span[0]), (span[1], span[1]))
    shown = np.unique(np.linspace(0, len(ids) - 1, min(len(ids), MOST_POINTS)).astype(int)).tolist()
    radius = 3.6 if len(shown) < 500 else 2.6
    for place in shown:
        x, y = plot.at(float(measured[place]), float(predicted[place]))
        tip = f"{excerpt(ids[place], 60)}\nmeasured {measured[place]:.4g}\npredicted {predicted[place]:.4g}"
        plot.parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius}" data-tip="{escape(tip)}"/>')
    plot.axes("measured", "predicted")
    note = f'<p class="legend">{len(shown):,} of {len(ids):,} graphs are drawn.</p>' if len(shown) < len(ids) else ""
    return plot.svg("Predicted against measured values") + note


def _errors(error: Floats) -> str:
    """The histogram of predicted − measured."""
    end = float(np.abs(error).max()) or 1.0
    bins = min(41, 2 * int(np.sqrt(len(error))) + 1)
    count, edges = np.histogram(error, bins, (-end, end))
    plot = Plot((-end, end), (0.0, float(count.max()) * 1.08), (460, 150))
    for place, graphs in enumerate(count.tolist()):
        low, high = float(edges[place]), float(edges[place + 1])
        plot.bar("bar-count", (low, high), (0.0, graphs), f"{low:.3g} to {high:.3g}\n{counted(graphs, 'graph')}")
    plot.line("mean", (0.0, 0.0), (0.0, float(count.max()) * 1.08))
    plot.axes("predicted − measured", "count", counts=True)
    return plot.svg("Distribution of the errors")


def _columns(found: ModelEvaluation) -> str:
    """A table with a row for each target column, or for each class of more than two."""
    each: dict[str, dict[str, Any]] = found.by_column
    if len(each) < 2 or (found.task.name == CLASSIFICATION and len(each) == 2):
        return ""
    names = list(next(iter(each.values())))
    titles = [KNOWN[name].title + (", %" if KNOWN[name].percent else "") for name in names]
    head = "".join(f'<th scope="col" class="number">{escape(title)}</th>' for title in ("graphs", *titles))
    rows = ""
    for place, (column, values) in enumerate(each.items()):
        y = found.targets
        count = int((y == place).sum() if y.ndim == 1 else (~np.isnan(y[:, place])).sum())
        cells = "".join(f'<td class="number">{written(name, values[name])}</td>' for name in names)
        rows += f'<tr><th scope="row">{escape(excerpt(column, 60))}</th><td class="number">{count:,}</td>{cells}</tr>'
    what = "class" if found.task.name == CLASSIFICATION else "column"
    return (
        f'<section class="card wide"><h2>Each {what}</h2><div class="scroll"><table class="plain"><thead><tr>'
        f'<th scope="col">{what}</th>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>'
    )
