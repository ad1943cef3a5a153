"""What the page shows of a cell. Every number is text here, written as in the tables; the page only places it.

Plain numbers go along where the page draws or sorts by them.
"""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import rounded
from cgipool.report.blocks import interval, marks_of, number, probability
from cgipool.report.courses import Course, diagnostics, thinned
from cgipool.report.view import Entry, View
from cgipool.study.positive import Metrics
from cgipool.study.records import Record
from cgipool.study.statistics import Summary
from cgipool.training.metrics import TITLES, written

Facts = list[list[str]]
"""Names and values, one line each."""

STEPS = 1000
"""Heights in a chart, which is about 200 pixels high, are whole numbers from 0 to this."""


def entry_shown(view: View, entry: Entry) -> dict[str, Any]:
    """A cell at its place in a study."""
    done = entry.summary is not None
    return {
        "key": entry.wanted.key,
        "row": entry.row,
        "column": entry.column,
        "label": f"{view.title(entry.method)} on {entry.context}",
        "status": entry.status,
        "reason": entry.reason,
        "marks": marks_of(entry),
        "notices": _notices(entry),
        "views": _views(view, entry),
        "facts": _facts(view, entry) if done else [],
        "dots": _dots(entry) if done else None,
        "splits": splits_shown(entry.record, entry.metrics) if entry.record and entry.metrics else None,
    }


def cell_shown(record: Record, courses: dict[str, Course]) -> dict[str, Any]:
    """A cell itself, whichever study it is shown in, with the courses of its training by name."""
    recipe = record.cell.get("recipe")
    settings = dict(recipe) if isinstance(recipe, dict) else {}
    others = {name: value for name, value in record.cell.items() if name != "recipe"}
    provenance = {name: value for name, value in record.provenance.items() if name != "command"}
    command = record.provenance.get("command")
    return {
        "command": None if command is None else str(command),
        "settings": [*_flat(others), ["recipe", _text(settings.pop("name", recipe))], *_flat(settings)],
        "provenance": [["cell", record.key], *_flat(provenance)],
        "charts": _charts(record, courses),
        "diagnostics": _diagnostics(record),
    }


def axis(low: float, high: float, count: int) -> list[dict[str, Any]]:
    """About `count` round numbers between two ends: where each stands, and its text."""
    rough = (high - low or 1.0) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step)))
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [{"at": place * step, "text": number(place * step, digits)} for place in places]


def _notices(entry: Entry) -> list[str]:
    found = []
    if entry.outdated:
        found.append("Another version of the program made this cell; its results may differ from today's.")
    if entry.unread:
        axes = " and ".join(entry.unread)
        found.append(f"This method does not read {axes}: the same result stands at every value of {axes}.")
    return found


def _views(view: View, entry: Entry) -> dict[str, Any]:
    """What the table shows in each of its views: a value to sort by, a main line, one under it, whether it is bold."""
    shown: dict[str, Any] = {"accuracy": None, "difference": None, "rank": None}
    if entry.summary is None:
        return shown
    under = f"paper {number(entry.wanted.published[0])}" if entry.wanted.published else ""
    shown["accuracy"] = _line(entry.summary.mean, mean_and_error(entry.summary), under, entry.best)
    if entry.gap:
        gap = entry.gap
        bold = gap.low > 0 or gap.high < 0
        main = number(gap.difference, sign=True)
        shown["difference"] = _line(gap.difference, main, interval(gap.low, gap.high, 1), bold)
    if entry.rank is not None and len(view.methods) > 1:
        shown["rank"] = _line(entry.rank, _rank(entry.rank), "", entry.best)
    return shown


def _line(value: float, main: str, under: str, bold: bool) -> dict[str, Any]:
    return {"value": value, "main": main, "under": under, "bold": bold}


def mean_and_error(summary: Summary) -> str:
    """ "81.06 ± 0.33", or the mean alone."""
    return number(summary.mean) + ("" if summary.se is None else f" ± {number(summary.se)}")


def _rank(rank: float) -> str:
    return number(rank, 0 if rank == int(rank) else 1)


def _facts(view: View, entry: Entry) -> Facts:
    total, gap, against = entry.summary, entry.gap, entry.against
    assert total is not None, "the cell is done"
    facts = [["mean ± SE, %", mean_and_error(total)], ["95 % interval", interval(total.low, total.high)]]
    facts.append(["SD over splits", number(total.sd)])
    if entry.rank is not None:
        facts.append(["rank", _rank(entry.rank)])
    if entry.wanted.published:
        mean, spread = entry.wanted.published
        facts.append(["published, %", f"{number(mean)} ± {number(spread)}"])
    if gap:
        facts.append(["ours − published", f"{number(gap.difference, sign=True)} ({interval(gap.low, gap.high)})"])
        facts.append(["binomial floor of ±", number(gap.floor)])
    if against:
        one = against.paired
        facts.append(
            [f"{view.baseline} − this", f"{number(one.difference, sign=True)} ({interval(one.low, one.high)})"]
        )
        facts.append(["p, Holm-adjusted", f"{probability(against.adjusted)} {against.mark}".strip()])
    return facts


def _dots(entry: Entry) -> dict[str, Any]:
    """The accuracy of every split, the mean with its interval, and the published mean, with an axis that has all."""
    assert entry.record is not None, "the cell is done"
    assert entry.summary is not None, "the cell is done"
    published = entry.wanted.published[0] if entry.wanted.published else None
    values = {split: 100.0 * share for split, share in entry.record.accuracies().items()}
    every = [*values.values(), *([] if published is None else [published])]
    pad = 0.05 * (max(every) - min(every)) or 1.0
    low, high = min(every) - pad, max(every) + pad
    total = entry.summary
    return {
        "low": low,
        "high": high,
        "axis": axis(low, high, 7),
        "dots": [{"at": at, "text": f"split {split}: {number(at)} %"} for split, at in values.items()],
        "mean": total.mean,
        "interval": None if total.low is None else [total.low, total.high],
        "published": None if published is None else {"at": published, "text": f"published: {number(published)} %"},
    }


def splits_shown(record: Record, metrics: Metrics) -> dict[str, Any]:
    """The numbers of each split as a table."""
    names = list(dict.fromkeys(name for row in metrics.rows for name in row))
    titles = [TITLES[name].format(metrics.positive) if name in TITLES else name for name in names]
    rows = [
        [
            str(row["split"]),
            *(written(name, test.get(name)).replace("-", "−") for name in names),
            _decimal(row.get("val_loss"), 4),
            _decimal(row.get("best_epoch"), 0),
            _decimal(row.get("epochs"), 0),
            _decimal(row.get("seconds"), 1),
        ]
        for row, test in zip(record.splits, metrics.rows, strict=True)
    ]
    return {"head": ["split", *titles, "validation loss", "best epoch", "epochs", "seconds"], "rows": rows}


def _charts(record: Record, courses: dict[str, Course]) -> list[dict[str, Any]]:
    """Loss and validation accuracy by epoch, as far as they are known."""
    threads = [thread for row in record.splits if (thread := thinned(row, "val_loss")).size]
    losses = [(courses[name], kind) for name, kind in (("val_loss", "val"), ("train_loss", "train")) if name in courses]
    charts = []
    if losses:
        words = (
            "Loss by epoch. Thin lines: validation, each split. Thick line: mean of validation. Dashed line: mean of "
            "training. Means are drawn while at least half of the splits train."
        )
        charts.append(_chart("Loss by epoch", words, losses, threads))
    if "val_accuracy" in courses:
        words = "Validation accuracy by epoch: the mean, and the range from 10 to 90 % of the splits."
        charts.append(_chart("Validation accuracy by epoch", words, [(courses["val_accuracy"], "val")], []))
    return charts


def _chart(
    label: str, words: str, courses: list[tuple[Course, str]], threads: list[NDArray[np.float64]]
) -> dict[str, Any]:
    values = np.concatenate([*(np.array(found.low + found.high) for found, _ in courses), *(t[1] for t in threads)])
    last = int(max([found.epoch[-1] for found, _ in courses] + [thread[0, -1] for thread in threads]))
    low, high = float(values.min()), float(values.max())

    def heights(values: Any) -> list[int]:
        return np.rint((np.asarray(values) - low) * (STEPS / (high - low or 1.0))).astype(int).tolist()

    lines = []
    for found, kind in courses:
        lines.append({"kind": kind, "steps": _steps(found.epoch), "mean": heights(found.mean)})
        if not threads:  # which show more than a band
            lines[-1] |= {"low": heights(found.low), "high": heights(found.high)}
    return {
        "label": label,
        "words": words,
        "courses": lines,
        "threads": [{"steps": _steps(epoch), "values": heights(value)} for epoch, value in threads],
        "last": last,
        "low": low,
        "high": high,
        "top": STEPS,
        "across": [tick for tick in axis(1, last, 6) if tick["at"] == round(tick["at"])],
        "up": axis(low, high, 4),
    }


def _steps(epochs: Any) -> list[int]:
    """From each epoch to the next, which compresses better than the epochs."""
    return np.diff(np.asarray(epochs, dtype=np.int64), prepend=0).tolist()


def _diagnostics(record: Record) -> dict[str, Any] | None:
    found = diagnostics(record)
    if not found:
        return None
    levels = max(map(len, found.values()))
    rows = [[name, *(number(v, 4) for v in values), *["–"] * (levels - len(values))] for name, values in found.items()]
    head = ["at the best epoch, mean over splits", *(f"level {level + 1}" for level in range(levels))]
    return {"head": head, "rows": rows}


def _decimal(value: Any, digits: int) -> str:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return rounded(value, digits).replace("-", "−") if known else "–"


def _flat(value: dict[str, Any], prefix: str = "") -> Facts:
    """Nested values as names and text, the names joined: recipe.width."""
    facts: Facts = []
    for name, part in value.items():
        facts += _flat(part, f"{prefix}{name}.") if isinstance(part, dict) else [[f"{prefix}{name}", _text(part)]]
    return facts


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
