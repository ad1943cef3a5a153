"""The page that `fit --auto` writes: what was chosen and why, and what to expect of it."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

from cgipool.auto.fit import AutoResult
from cgipool.errors import counted
from cgipool.inference.evaluation_page import Plot, evaluation_page
from cgipool.task.metrics import KNOWN, written

NUMBER = ' class="number"'


def auto_page(found: AutoResult) -> str:
    """Return the page."""
    metric = found.estimate["metric"]
    more = _expect(found, metric) + _ranking(found.table, metric) + _learning(found.curve, metric)
    title = f"The best model for {found.crossed.data}"
    return evaluation_page(found.crossed, metric, brand="cgipool fit --auto", title=title, more=more)


def _expect(found: AutoResult, metric: str) -> str:
    """The estimate on held-out graphs, in words."""
    estimate, known = found.estimate, KNOWN[metric]
    unit = " %" if known.percent else ""
    value, low, high = (written(metric, estimate.get(name)) for name in (metric, "low", "high"))
    return (
        f'<p class="words">Numbers above and below: every graph predicted by models that were not trained on it, '
        f"{counted(len(found.crossed.ids), 'graph')} in all. The choice among candidates was made by them, so they are "
        f"slightly optimistic. On {counted(estimate['graphs'], 'graph')} held out from every choice: "
        f"<strong>{escape(known.title)} {value}{unit}</strong> (95&nbsp;% interval {low} to {high}).</p>"
    )


def _ranking(rows: Sequence[dict[str, Any]], metric: str) -> str:
    """The candidates, the best first, with the difference of each finalist to the best and its interval."""
    title = KNOWN[metric].title + (", %" if KNOWN[metric].percent else "")
    heads = ["candidate", title, "difference to the best", "95 % interval", "scored on", "in the model", "seconds", ""]
    top = "".join(f'<th scope="col"{NUMBER if 0 < n < 7 else ""}>{head}</th>' for n, head in enumerate(heads))
    body = "".join(_row(row, rows[0], metric) for row in rows)
    return (
        '<section class="wide"><h2>What was tried</h2><p class="words">Differences are means over the folds, with '
        "intervals of the corrected resampled t-test for new graphs like these (Nadeau and Bengio 2003). Rows without "
        'one were left behind after fewer folds.</p><div class="scroll"><table class="plain"><thead>'
        f"<tr>{top}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _row(row: dict[str, Any], best: dict[str, Any], metric: str) -> str:
    difference = interval = ""
    if row["low"] is not None:
        difference = _signed(row["score"] - best["score"], metric)
        interval = f"{_signed(row['low'], metric)} to {_signed(row['high'], metric)}"
    times = f"× {row['counts']}" if row["counts"] else ""
    cells = [written(metric, row["score"]), difference, interval, row["scored on"], times, f"{row['seconds']:.0f}"]
    numbers = "".join(f"<td{NUMBER}>{escape(text)}</td>" for text in cells)
    return f'<tr><th scope="row">{escape(row["name"])}</th>{numbers}<td>{escape(row["note"])}</td></tr>'


def _signed(value: float, metric: str) -> str:
    text = written(metric, abs(value))
    return ("+" if value > 0 else "−" if value < 0 else "") + text


def _learning(curve: Sequence[tuple[int, float]], metric: str) -> str:
    """The metric by the number of training graphs: would more labels help?"""
    if len(curve) < 2:
        return ""
    scale = 100.0 if KNOWN[metric].percent else 1.0
    points = [(float(count), scale * value) for count, value in curve]
    low, high = min(y for _, y in points), max(y for _, y in points)
    space = 0.15 * (high - low) or abs(high) * 0.1 or 0.1
    plot = Plot((0.0, 1.08 * points[-1][0]), (low - space, high + space), (460, 300))
    for start, end in pairwise(points):
        plot.line("curve", start, end)
    for x, y in points:
        a, b = plot.at(x, y)
        plot.parts.append(f'<circle class="point" cx="{a:.1f}" cy="{b:.1f}" r="4.5"/>')
    better = "higher" if KNOWN[metric].higher else "lower"
    plot.axes("training graphs", f"{KNOWN[metric].title} ({better} is better)")
    return (
        '<section class="card narrow"><h2>Would more labels help?</h2>'
        f"{plot.svg('metric by the number of training graphs')}"
        '<p class="legend">The best candidate, trained on fewer graphs; mean over folds.</p></section>'
    )
