"""Training curves of a cell: statistics over its splits, thinned to a few points for figures and the page."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import printable
from cgipool.study.records import Record

POINTS = 80
"""Maximum number of epochs in a drawn curve."""


@dataclass(frozen=True)
class TrainingCurve:
    """A quantity by epoch over the splits of a cell. It ends when fewer than half of the splits are still training."""

    epoch: list[int]
    mean: list[float]
    low: list[float]
    """The 10th percentile over splits."""
    high: list[float]
    """The 90th percentile over splits."""


def training_curve(record: Record, name: str) -> TrainingCurve | None:
    """Return the curve of a quantity that splits record by epoch, or None if no split recorded it.

    Splits store different epochs, so values are interpolated linearly. Splits also stop at different epochs, and the
    longest ones are not typical; the curve therefore ends when fewer than half are left.
    """
    curves = [curve for row in record.splits if (curve := _curve(row, name)).size]
    if not curves:
        return None
    ends = sorted((int(epoch[-1]) for epoch, _ in curves), reverse=True)
    epochs = evenly_spaced(ends[(len(ends) - 1) // 2]) + 1
    table = np.stack([np.interp(epochs, at, value, left=np.nan, right=np.nan) for at, value in curves])
    low, high = _quantiles(table, (0.1, 0.9))
    return TrainingCurve(epochs.tolist(), np.nanmean(table, axis=0).tolist(), low.tolist(), high.tolist())


def _quantiles(table: NDArray[np.float64], shares: tuple[float, ...]) -> NDArray[np.float64]:
    """[shares, columns] quantiles of each column, ignoring NaN.

    Equal to `np.nanquantile` bit for bit, but computed for all columns at once, which is much faster.
    """
    ordered = np.sort(table, axis=0)  # puts NaN last
    known = np.count_nonzero(~np.isnan(table), axis=0)
    place = np.asarray(shares)[:, None] * (known - 1)
    below = np.clip(np.floor(place), 0, None).astype(np.int64)
    above = np.minimum(below + 1, len(table) - 1)
    share = place - below
    low, high = (np.take_along_axis(ordered, index, axis=0) for index in (below, above))
    high = np.where(share > 0, high, low)  # the value above may be NaN, but it is not used then
    # NumPy interpolates from the nearer end.
    return np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))


def training_curves(record: Record) -> dict[str, TrainingCurve]:
    """The curves of all quantities that at least one split recorded, by name."""
    names = ("train_loss", "val_loss", f"val_{record.primary}")
    return {name: found for name in names if (found := training_curve(record, name)) is not None}


def thinned(row: dict[str, Any], name: str) -> NDArray[np.float64]:
    """[2, points] epochs and values of a split's curve, thinned to `POINTS`; the first and last epoch are kept."""
    curve = _curve(row, name)
    return curve[:, evenly_spaced(curve.shape[1])]


def evenly_spaced(length: int) -> NDArray[np.int64]:
    """At most `POINTS` evenly spaced indices into an array of this length, including both ends."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def diagnostics(record: Record) -> dict[str, list[float]]:
    """The diagnostics that a method reports at the best epoch, by name: the mean over splits for each level."""
    found: dict[str, list[list[float]]] = {}
    for row in record.splits:
        for name, levels in (row.get("diagnostics") or {}).items():
            found.setdefault(printable(name), []).append(levels)
    alike = {name: rows for name, rows in found.items() if len({len(levels) for levels in rows}) == 1}
    return {name: np.mean(np.asarray(rows, dtype=np.float64), axis=0).tolist() for name, rows in alike.items()}


def _curve(row: dict[str, Any], name: str) -> NDArray[np.float64]:
    """[2, epochs] epochs and values of a split, without missing values."""
    curve = row.get("curve") or {}
    pairs = zip(curve.get("epoch") or [], curve.get(name) or [], strict=False)
    return np.array([pair for pair in pairs if pair[1] is not None], dtype=np.float64).reshape(-1, 2).T
