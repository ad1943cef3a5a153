"""Prepare the data of single cells for the page.

Numbers are formatted here as in the tables, so the page only displays text. Plain numbers are added where the page
draws them or sorts by them.
"""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import rounded
from cgipool.report.blocks import interval, marks_of, number, probability, quantity
from cgipool.report.training_curves import TrainingCurve, diagnostics, thinned
from cgipool.report.view import CellResult, View
from cgipool.study.measured import Measured
from cgipool.study.records import Record
from cgipool.study.statistics import Gap, Paired, Summary
from cgipool.task.metrics import KNOWN, titles_of, written

Facts = list[list[str]]
"""Pairs of name and value, one per line."""

STEPS = 1000
"""Heights in a chart are integers from 0 to this. A chart is about 200 pixels high."""


def entry_data(view: View, entry: CellResult) -> dict[str, Any]:
    """Return the data of a cell within a study."""
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
        "splits": splits_table(entry.measured) if entry.measured else None,
    }


def cell_data(record: Record, curves: dict[str, TrainingCurve]) -> dict[str, Any]:
    """Return the data of a cell that are the same in every study. `curves` are its training curves by name."""
    recipe = record.cell.get("recipe")
    settings = dict(recipe) if isinstance(recipe, dict) else {}
    others = {name: value for name, value in record.cell.items() if name != "recipe"}
    provenance = {name: value for name, value in record.provenance.items() if name != "command"}
    command = record.provenance.get("command")
    return {
        "command": None if command is None else str(command),
        "settings": [*_flat(others), ["recipe", _text(settings.pop("name", recipe))], *_flat(settings)],
        "provenance": [["cell", record.key], *_flat(provenance)],
        "charts": _charts(record, curves),
        "diagnostics": _diagnostics(record),
    }


def axis(low: float, high: float, count: int) -> list[dict[str, Any]]:
    """About `count` round numbers between two ends, each with its position and text."""
    rough = (high - low or 1.0) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step)))
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [{"at": place * step, "text": number(place * step, digits)} for place in places]


def _notices(entry: CellResult) -> list[str]:
    found = []
    if entry.outdated:
        found.append("This cell was trained with another version of the program, whose results may differ.")
    if entry.unread:
        axes = " and ".join(entry.unread)
        found.append(f"This method does not use {axes}: the same result is shown for every value of {axes}.")
    return found


def _views(view: View, entry: CellResult) -> dict[str, Any]:
    """The cell in each view of the table: a value to sort by, a main line, a line under it, and whether it is bold."""
    shown: dict[str, Any] = {"accuracy": None, "difference": None, "rank": None}
    if entry.summary is None:
        return shown
    under = f"paper {number(entry.wanted.published[0], entry.digits)}" if entry.wanted.published else ""
    shown["accuracy"] = _line(entry.summary.mean, mean_and_error(entry.summary, entry.digits), under, entry.best)
    if entry.gap:
        gap = entry.gap
        bold = gap.low > 0 or gap.high < 0
        main = number(gap.difference, entry.digits, sign=True)
        shown["difference"] = _line(gap.difference, main, interval(gap.low, gap.high, entry.digits - 1), bold)
    if entry.rank is not None and len(view.methods) > 1:
        shown["rank"] = _line(entry.rank, _rank(entry.rank), "", entry.best)
    return shown


def _line(value: float, main: str, under: str, bold: bool) -> dict[str, Any]:
    return {"value": value, "main": main, "under": under, "bold": bold}


def mean_and_error(summary: Summary, digits: int) -> str:
    """Mean and standard error, such as "81.06 ± 0.33"; only the mean if there is no error."""
    return number(summary.mean, digits) + ("" if summary.se is None else f" ± {number(summary.se, digits)}")


def _rank(rank: float) -> str:
    return number(rank, 0 if rank == int(rank) else 1)


def _facts(view: View, entry: CellResult) -> Facts:
    total, gap, against, digits = entry.summary, entry.gap, entry.against, entry.digits
    assert total is not None, "the cell is done"
    percent = ", %" if entry.measured and entry.measured.metric.percent else ""
    facts = [[f"mean ± SE{percent}", mean_and_error(total, digits)]]
    facts.append(["95 % interval", interval(total.low, total.high, digits)])
    facts.append(["SD over splits", number(total.sd, digits)])
    if entry.rank is not None:
        facts.append(["rank", _rank(entry.rank)])
    if entry.wanted.published:
        mean, spread = entry.wanted.published
        facts.append([f"published{percent}", f"{number(mean, digits)} ± {number(spread, digits)}"])
    if gap:
        facts.append(["ours − published", _with_interval(gap, digits)])
        facts += [["binomial floor of ±", number(gap.floor, digits)]] if gap.floor else []
    if against:
        facts.append([f"{view.baseline} − this", _with_interval(against.paired, digits)])
        facts.append(["p, Holm-adjusted", f"{probability(against.adjusted)} {against.mark}".strip()])
    return facts


def _with_interval(found: Gap | Paired, digits: int) -> str:
    return f"{number(found.difference, digits, sign=True)} ({interval(found.low, found.high, digits)})"


def _dots(entry: CellResult) -> dict[str, Any]:
    """The result of every split, the mean with its interval, the published mean, and an axis that covers all."""
    assert entry.measured is not None, "the cell is done"
    assert entry.summary is not None, "the cell is done"
    percent, digits = " %" if entry.measured.metric.percent else "", entry.digits
    published = entry.wanted.published[0] if entry.wanted.published else None
    values = entry.measured.values
    every = [*values.values(), *([] if published is None else [published])]
    pad = 0.05 * (max(every) - min(every)) or (1.0 if percent else 0.1)
    low, high = min(every) - pad, max(every) + pad
    total = entry.summary
    return {
        "low": low,
        "high": high,
        "axis": axis(low, high, 7),
        "label": f"Test {quantity(entry.measured.metric)} of every split",
        "dots": [{"at": at, "text": f"split {split}: {number(at, digits)}{percent}"} for split, at in values.items()],
        "mean": total.mean,
        "interval": None if total.low is None else [total.low, total.high],
        "published": None
        if published is None
        else {"at": published, "text": f"published: {number(published, digits)}{percent}"},
    }


def splits_table(found: Measured) -> dict[str, Any]:
    """Return the table of metrics and training facts of each split."""
    record, known = found.record, titles_of(found.record.task)
    names = list(dict.fromkeys(name for row in found.rows for name in row))
    titles = [known[name].format(found.positive) if name in known else name for name in names]
    rows = [
        [
            str(row["split"]),
            *(written(name, test.get(name)).replace("-", "−") for name in names),
            _decimal(row.get("val_loss"), 4),
            _decimal(row.get("best_epoch"), 0),
            _decimal(row.get("epochs"), 0),
            _decimal(row.get("seconds"), 1),
        ]
        for row, test in zip(record.splits, found.rows, strict=True)
    ]
    return {"head": ["split", *titles, "validation loss", "best epoch", "epochs", "seconds"], "rows": rows}


def _charts(record: Record, curves: dict[str, TrainingCurve]) -> list[dict[str, Any]]:
    """Charts of loss and the primary validation metric by epoch, for the quantities that were recorded."""
    score, metric = f"val_{record.primary}", KNOWN[record.primary]
    threads = [thread for row in record.splits if (thread := thinned(row, "val_loss")).size]
    losses = [(curves[name], kind) for name, kind in (("val_loss", "val"), ("train_loss", "train")) if name in curves]
    charts = []
    if losses:
        words = (
            "Loss by epoch. Thin lines: validation loss of each split. Thick line: mean validation loss. Dashed line: "
            "mean training loss. Means end when fewer than half of the splits are still training."
        )
        charts.append(_chart("Loss by epoch", words, losses, threads))
    if score in curves:
        label = f"Validation {metric.title} by epoch"
        words = f"{label}: the mean, and the range from 10 to 90 % of the splits."
        charts.append(_chart(label, words, [(curves[score], "val")], []))
    return charts


def _chart(
    label: str, words: str, curves: list[tuple[TrainingCurve, str]], threads: list[NDArray[np.float64]]
) -> dict[str, Any]:
    values = np.concatenate([*(np.array(found.low + found.high) for found, _ in curves), *(t[1] for t in threads)])
    last = int(max([found.epoch[-1] for found, _ in curves] + [thread[0, -1] for thread in threads]))
    low, high = float(values.min()), float(values.max())

    def heights(values: Any) -> list[int]:
        return np.rint((np.asarray(values) - low) * (STEPS / (high - low or 1.0))).astype(int).tolist()

    lines = []
    for found, kind in curves:
        lines.append({"kind": kind, "steps": _steps(found.epoch), "mean": heights(found.mean)})
        if not threads:  # the lines of single splits replace the band
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
    """Differences between successive epochs, which compress better than the epochs."""
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
    """Nested values as pairs of name and text, with joined names such as recipe.width."""
    facts: Facts = []
    for name, part in value.items():
        facts += _flat(part, f"{prefix}{name}.") if isinstance(part, dict) else [[f"{prefix}{name}", _text(part)]]
    return facts


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
