"""How trainings went, over the splits of a cell: curves brought to few points, fit to draw and to embed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import printable
from cgipool.study.records import Record

CURVES = ("train_loss", "val_loss", "val_accuracy")
"""What the curves of a split are of."""

POINTS = 80
"""A curve is drawn through at most so many epochs."""


@dataclass(frozen=True)
class Course:
    """A quantity by epoch over the splits of a cell, for as long as at least half of them were training."""

    epoch: list[int]
    mean: list[float]
    low: list[float]
    """The 10th percentile over splits."""
    high: list[float]
    """The 90th percentile over splits."""


def course(record: Record, name: str) -> Course | None:
    """A quantity of the curves, one of `CURVES`; None where no split has it.

    A stored curve has few of its split's epochs, and each split its own: between them a straight line is taken. Splits
    stop at different epochs, and those that go on are not the average ones: hence the half.
    """
    curves = [curve for row in record.splits if (curve := _curve(row, name)).size]
    if not curves:
        return None
    ends = sorted((int(epoch[-1]) for epoch, _ in curves), reverse=True)
    epochs = chosen(ends[(len(ends) - 1) // 2]) + 1
    table = np.stack([np.interp(epochs, at, value, left=np.nan, right=np.nan) for at, value in curves])
    low, high = _quantiles(table, (0.1, 0.9))
    return Course(epochs.tolist(), np.nanmean(table, axis=0).tolist(), low.tolist(), high.tolist())


def _quantiles(table: NDArray[np.float64], shares: tuple[float, ...]) -> NDArray[np.float64]:
    """[shares, columns] Quantiles of each column without its NaNs. `np.nanquantile` gives the same numbers, but takes
    one column at a time; here columns with equally many values go together."""
    ordered = np.sort(table, axis=0)  # puts NaN last
    known = np.count_nonzero(~np.isnan(table), axis=0)
    found = np.full((len(shares), table.shape[1]), np.nan)
    for count in np.unique(known[known > 0]):
        columns = known == count
        found[:, columns] = np.quantile(ordered[:count, columns], shares, axis=0)
    return found


def courses(record: Record) -> dict[str, Course]:
    """Those of `CURVES` that some split has."""
    return {name: found for name in CURVES if (found := course(record, name)) is not None}


def thinned(row: dict[str, Any], name: str) -> NDArray[np.float64]:
    """[2, points] Epochs and values of a split's curve, at few epochs; the first and the last among them."""
    curve = _curve(row, name)
    return curve[:, chosen(curve.shape[1])]


def chosen(length: int) -> NDArray[np.int64]:
    """At most POINTS places out of so many, evenly spread, the ends included."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def diagnostics(record: Record) -> dict[str, list[float]]:
    """By name, one mean over splits per level, of what a method tells of itself at the best epoch."""
    found: dict[str, list[list[float]]] = {}
    for row in record.splits:
        for name, levels in (row.get("diagnostics") or {}).items():
            found.setdefault(printable(name), []).append(levels)
    alike = {name: rows for name, rows in found.items() if len({len(levels) for levels in rows}) == 1}
    return {name: np.mean(np.asarray(rows, dtype=np.float64), axis=0).tolist() for name, rows in alike.items()}


def _curve(row: dict[str, Any], name: str) -> NDArray[np.float64]:
    """[2, epochs] epochs and values of a split, where there is a value."""
    curve = row.get("curve") or {}
    pairs = zip(curve.get("epoch") or [], curve.get(name) or [], strict=False)
    return np.array([pair for pair in pairs if pair[1] is not None], dtype=np.float64).reshape(-1, 2).T
