"""Tables with formatted cells and explanatory notes, independent of the output format; the table of results."""

from dataclasses import dataclass, field

from cgipool.errors import rounded
from cgipool.report.comparisons import LEVEL
from cgipool.report.view import DONE, FAILED, CellResult, View
from cgipool.task.metrics import Metric

NOTHING = "–"
"""Replaces a missing number."""

OUTDATED, UNREAD = "†", "‡"
"""Marks for a cell of another version, and for a cell shown several times because its method ignores a setting."""


@dataclass
class Block:
    """A table with its title and explanatory notes."""

    title: str
    words: list[str]
    head: list[str]
    rows: list[list[str]]
    left: int = 1
    """Number of leading columns that hold text; the others hold numbers."""
    strong: set[tuple[int, int]] = field(default_factory=set)
    """Row and column of each bold cell."""


def accuracy(view: View) -> Block:
    """Table of our results ± standard error, with the published numbers below."""
    words = [
        f"Test {quantity(view.metric)}: mean over splits ± its standard error. Best of each comparison in bold.",
        "Splits of one data set share graphs: the standard error is for the mean over such splits (estimand: these "
        "graphs), not for new graphs.",
    ]
    if any(entry.gap for entry in view.entries):
        words.append("Below: the published mean, and in parentheses ours minus published.")
    if any(entry.against for entry in view.entries):
        words.append(
            f"▲ significantly better than {view.baseline}, ▼ significantly worse: corrected paired test, "
            f"Holm-adjusted p below {LEVEL}."
        )
    words += [f"{mark} {meaning}" for mark, meaning in footnotes(view)]
    if view.count(DONE) < len(view.entries):
        words.append(f"{NOTHING} marks a missing cell, “failed” a cell whose training failed.")
    block = Block(heading(view.metric), words, [_row_heading(view), *view.columns], [])
    for number, row in enumerate(view.rows):
        label = f"{row.group} · {row.label}" if row.group else row.label
        entries = [view.entry(number, column) for column in range(len(view.columns))]
        block.strong |= {(len(block.rows), place) for place, e in enumerate(entries, 1) if e is not None and e.best}
        block.rows.append([label, *map(_ours, entries)])
        if any(entry is not None and entry.wanted.published for entry in entries):
            block.rows.append(["published", *map(_published, entries)])
    return block


def heading(metric: Metric | None) -> str:
    """The title of the first table: "Accuracy", "RMSE"."""
    return "Results" if metric is None else metric.title[:1].upper() + metric.title[1:]


def marks_of(entry: CellResult) -> list[str]:
    """The marks shown after the result of a cell."""
    found = [entry.against.mark] if entry.against and entry.against.mark else []
    return found + [mark for mark, given in ((OUTDATED, entry.outdated), (UNREAD, entry.unread)) if given]


def footnotes(view: View) -> list[tuple[str, str]]:
    """The marks in the table and their meanings, except those of the comparison."""
    found = []
    if any(entry.outdated for entry in view.entries):
        found.append((OUTDATED, "trained with another version, whose results may differ."))
    axes = list(dict.fromkeys(axis for entry in view.entries for axis in entry.unread))
    if axes:
        found.append((UNREAD, f"one result shown several times: the method does not use {' and '.join(axes)}."))
    return found


def quantity(metric: Metric | None) -> str:
    """What a study measures, in a sentence: "accuracy in percent", "RMSE (lower is better)"."""
    if metric is None:
        return "results by the metric of each data set"
    return metric.title + (" in percent" if metric.percent else "") + ("" if metric.higher else " (lower is better)")


def unit(metric: Metric | None) -> str:
    """The unit of differences, after a comma: "in percentage points"."""
    if metric is None:
        return "in the unit of each metric, shares in percentage points"
    return "in percentage points" if metric.percent else f"in units of {metric.title}"


def number(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """Format a number with a typographic minus sign (never for 0); a dash for None."""
    if value is None:
        return NOTHING
    return rounded(value, digits, sign).replace("-", "−")


def interval(low: float | None, high: float | None, digits: int = 2) -> str:
    """Format an interval."""
    return NOTHING if low is None else f"{number(low, digits)} to {number(high, digits)}"


def probability(p: float) -> str:
    """Format a p-value with three decimals."""
    return "<0.001" if p < 0.001 else rounded(p, 3)


def _row_heading(view: View) -> str:
    return " · ".join(view.layout.row_axes)


def _ours(entry: CellResult | None) -> str:
    if entry is None or entry.summary is None:
        return "failed" if entry is not None and entry.status == FAILED else NOTHING
    text = number(entry.summary.mean, entry.digits)
    if entry.summary.se is not None:
        text += f" ± {number(entry.summary.se, entry.digits)}"
    marks = "".join(marks_of(entry))
    return f"{text} {marks}" if marks else text


def _published(entry: CellResult | None) -> str:
    if entry is None or entry.wanted.published is None:
        return NOTHING
    text = number(entry.wanted.published[0], entry.digits)
    return text if entry.gap is None else f"{text} ({number(entry.gap.difference, entry.digits, sign=True)})"
