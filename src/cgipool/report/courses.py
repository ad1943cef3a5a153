"""How trainings went, over the splits of a cell: curves brought to few points, fit to draw and to embed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.study.records import Record

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
    """A quantity of the curves (train_loss, val_loss or val_accuracy); None where no split has it.

    Splits stop at different epochs, and those that go on are not the average ones: hence the half.
    """
    curves = sorted((_curve(row, name) for row in record.splits), key=lambda curve: -curve.shape[1])
    curves = [curve for curve in curves if curve.shape[1]]
    if not curves:
        return None
    last = curves[(len(curves) - 1) // 2].shape[1]
    table = np.full((len(curves), last), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: curve.shape[1]] = curve[1, :last]
    places = [place for place in chosen(last) if np.isfinite(table[:, place]).any()]
    shown = table[:, places]
    low, high = np.nanquantile(shown, (0.1, 0.9), axis=0)
    epochs = curves[0][0, places].astype(int)
    return Course(epochs.tolist(), np.nanmean(shown, axis=0).tolist(), low.tolist(), high.tolist())


def thinned(row: dict[str, Any], name: str) -> list[tuple[int, float]]:
    """Epoch and value of a split's curve, at few epochs; the first and the last among them."""
    curve = _curve(row, name)
    few = curve[:, chosen(curve.shape[1])].T
    return [(int(epoch), float(value)) for epoch, value in few if np.isfinite(value)]


def chosen(length: int) -> NDArray[np.int64]:
    """At most POINTS places out of so many, evenly spread, the ends included."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def diagnostics(record: Record) -> dict[str, list[float]]:
    """By name, one mean over splits per level, of what a method tells of itself at the best epoch."""
    found: dict[str, list[list[float]]] = {}
    for row in record.splits:
        for name, levels in (row.get("diagnostics") or {}).items():
            found.setdefault(name, []).append(levels)
    alike = {name: rows for name, rows in found.items() if len({len(levels) for levels in rows}) == 1}
    return {name: np.mean(np.asarray(rows, dtype=np.float64), axis=0).tolist() for name, rows in alike.items()}


def _curve(row: dict[str, Any], name: str) -> NDArray[np.float64]:
    """[2, epochs] epochs and values of a split; a value that is None becomes NaN."""
    curve = row.get("curve") or {}
    epochs, values = (np.array(curve.get(part) or [], dtype=np.float64) for part in ("epoch", name))
    length = min(len(epochs), len(values))
    return np.stack([epochs[:length], values[:length]])
