"""The page that `fit --auto` writes: the chosen model, the reasons for it, and its expected performance."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

from cgipool.auto.fit import AutoResult
from cgipool.auto.search import NOT_TRIED
from cgipool.errors import counted, excerpt
from cgipool.explain.plain import drawing
from cgipool.inference.evaluation import worst_of
from cgipool.inference.evaluation_page import evaluation_page
from cgipool.inference.plot import Plot
from cgipool.pool import METHODS
from cgipool.task.metrics import KNOWN, written

NUMBER = ' class="number"'

PICTURES = 6
"""Number of graphs with the largest errors that are drawn."""


def auto_page(found: AutoResult) -> str:
    """Return the page."""
    metric = found.estimate["metric"]
    return evaluation_page(
        found.crossed,
        metric,
        brand="cgipool fit --auto",
        title=f"The best model for {found.crossed.data}",
        lead=_expect(found, metric) + _why(found, metric) + _about_numbers(found),
        more=_ranking(found.table, metric),
        beside=_learning(found.curve, found.curve_folds, metric),
        last=_pictures(found),
    )


def _with_unit(metric: str, value: float | None) -> str:
    return written(metric, value) + ("&nbsp;%" if KNOWN[metric].percent else "")


def _rounded(metric: str, value: float | None) -> str:
    """A metric of the held-out graphs, as `fit --auto` prints it: with the digits that so few graphs can tell."""
    return written(metric, value, 1) + ("&nbsp;%" if KNOWN[metric].percent else "")


def _expect(found: AutoResult, metric: str) -> str:
    """The estimate on held-out graphs, in words."""
    estimate, title = found.estimate, KNOWN[metric].title
    title = title[:1].upper() + title[1:]
    value, low, high = (_rounded(metric, estimate.get(name)) for name in (metric, "low", "high"))
    return (
        f'<div class="expect"><p>Expect on new graphs</p><p><strong>{escape(title)} {value}</strong></p>'
        f"<p>95&nbsp;% interval {low} to {high}, from {counted(estimate['graphs'], 'graph')} held out from every "
        "choice</p></div>"
    )


def _why(found: AutoResult, metric: str) -> str:
    """The choice and its reasons, in one paragraph."""
    rows = found.table
    members, best = [row for row in rows if row["counts"]], rows[0]
    names = _listed([_called(row) + (f" (× {row['counts']})" if row["counts"] > 1 else "") for row in members])
    value, alone = found.crossed.values[metric], best["score"]
    tried = sum(row["score"] is not None for row in rows)
    words = f"{counted(tried, 'candidate')} of {len(rows)} got a score. The best alone is {_called(best)} with "
    words += f"{escape(KNOWN[metric].title)} {_with_unit(metric, alone)}. "
    if len(members) == 1 and members[0] is best:
        words += "No blend with others did better, so the model is this one. "
    elif value is not None:
        gain = written(metric, abs(value - alone)) + (" percentage points" if KNOWN[metric].percent else "")
        words += f"The model blends {names}: their errors partly cancel, which improves it by {gain}. "
    ties = [row for row in rows[1:] if row["low"] is not None and row["low"] <= 0.0 <= row["high"]]
    if ties:
        clearly = "is not clearly worse" if len(ties) == 1 else "are not clearly worse"
        words += f"Alone, {_listed([_called(row) for row in ties])} {clearly} than the best. "
    guess = next((row["score"] for row in rows if _is_constant(row)), None)
    if guess is not None and not _is_constant(best):
        words += f"A constant prediction, which ignores the graphs, has {_with_unit(metric, guess)}."
    return f'<p class="about">{words}</p>'


def _about_numbers(found: AutoResult) -> str:
    return (
        f'<p class="words">The numbers below: all {counted(len(found.crossed.ids), "graph")} of the search, each '
        "predicted by models that were not trained on it. The choice was made by these numbers, so they are slightly "
        "optimistic.</p>"
    )


def _called(row: dict[str, Any]) -> str:
    """The name of a candidate, with the title of its method."""
    title = METHODS[row["method"]].title if row["method"] in METHODS and not _is_constant(row) else ""
    name = f"<b>{escape(row['name'])}</b>"
    return f"{name} ({escape(title)})" if title else name


def _is_constant(row: dict[str, Any]) -> bool:
    """Whether a candidate is a constant prediction."""
    return row["method"] in METHODS and METHODS[row["method"]].architecture == "constant"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _ranking(rows: Sequence[dict[str, Any]], metric: str) -> str:
    """The candidates, best first, with the difference of each finalist to the best one and its interval."""
    title = KNOWN[metric].title + (", %" if KNOWN[metric].percent else "")
    heads = ["candidate", title, "difference to the best", "95 % interval", "scored on", "in the model", "seconds"]
    shown = [row for row in rows if row["note"] != NOT_TRIED]
    top = "".join(f'<th scope="col"{NUMBER if n else ""}>{head}</th>' for n, head in enumerate(heads))
    body = "".join(_row(row, rows[0], metric) for row in shown)
    left = "; ".join(row["name"] for row in rows if row not in shown)
    note = f'<p class="legend">Not tried, as the budget was spent: {escape(left)}.</p>' if left else ""
    return (
        '<section class="wide"><h2>What was tried</h2><p class="words">Differences are means over the folds, with '
        "intervals of the corrected resampled t-test for new graphs like these (Nadeau and Bengio 2003). Rows without "
        "one were dropped after fewer folds, or after the first look: one fold, with a quarter of the epochs.</p>"
        '<div class="scroll whole"><table class="plain"><thead>'
        f"<tr>{top}</tr></thead><tbody>{body}</tbody></table></div>{note}</section>"
    )


def _row(row: dict[str, Any], best: dict[str, Any], metric: str) -> str:
    difference = interval = ""
    if row["low"] is not None:
        difference = _signed(row["score"] - best["score"], metric)
        interval = f"{_signed(row['low'], metric)} to {_signed(row['high'], metric)}"
    times = f"× {row['counts']}" if row["counts"] else ""
    cells = [written(metric, row["score"]), difference, interval, row["scored on"], times, f"{row['seconds']:.0f}"]
    numbers = "".join(f"<td{NUMBER}>{escape(text)}</td>" for text in cells)
    note = f"<small>{escape(row['note'])}</small>" if row["note"] else ""
    kind = ' class="chosen"' if row["counts"] else ""
    return f'<tr{kind}><th scope="row">{escape(row["name"])}{note}</th>{numbers}</tr>'


def _signed(value: float, metric: str) -> str:
    text = written(metric, abs(value))
    return ("+" if value > 0 else "−" if value < 0 else "") + text


def _learning(curve: Sequence[tuple[int, float]], folds: int, metric: str) -> str:
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
        '<section class="card"><h2>Would more labels help?</h2>'
        f"{plot.svg('metric by the number of training graphs')}"
        '<p class="legend">The best candidate, trained on all and on fewer graphs; '
        f"{'one fold' if folds == 1 else f'mean over {folds} folds'}.</p></section>"
    )


def _pictures(found: AutoResult) -> str:
    """Drawings of the graphs with the largest errors."""
    cards, word = "", "measured" if found.crossed.task.name == "regression" else "true"
    for mistake in worst_of(found.crossed, PICTURES):
        graph = found.searched.subset([mistake.place])
        picture = drawing(graph) or f'<p class="large">{counted(graph.n_nodes, "node")}: too large to draw</p>'
        true, predicted = (escape(excerpt(text, 60)) for text in mistake[1:])
        cards += (
            f'<figure class="card">{picture}<figcaption><b>{escape(excerpt(found.crossed.ids[mistake.place], 60))}</b>'
            f"<span>{word} <i>{true}</i></span><span>predicted <i>{predicted}</i></span></figcaption></figure>"
        )
    if not cards:
        return ""
    return f'<section class="wide"><h2>The largest errors</h2><div class="pictures">{cards}</div></section>'
