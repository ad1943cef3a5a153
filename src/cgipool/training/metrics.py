"""What is reported of predictions: pure functions of classes and probabilities, no torch.

Shapes: y [n] true classes, p [n, C] probabilities. ROC-AUC and PR-AUC depend on which class counts as positive, so they
are kept for every class against the rest, under `PER_CLASS`. The two plain values beside them are of class 1 where
there are two classes, and otherwise the mean over the classes that occur.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.words import rounded

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]

PER_CLASS = "per_class"
"""The name under which the metrics of a split hold those of every class."""

TITLES = {
    "accuracy": "accuracy, %",
    "balanced_accuracy": "balanced accuracy, %",
    "roc_auc": "ROC-AUC ({}), %",
    "pr_auc": "PR-AUC ({}), %",
    "mcc": "MCC, −1 to 1",
}
"""How metrics are headed; what stands in parentheses is the positive class."""


def written(metric: str, value: Any) -> str:
    """A value of a metric as tables show it: a share in percent; a dash where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    return rounded(value, 3) if metric == "mcc" else rounded(100 * value)


def report(y: Ints, p: Floats) -> dict[str, Any]:
    """All metrics by name; None where one is not defined (an area when the test graphs are of one class)."""
    guess = p.argmax(1)
    areas = {"roc_auc": _per_class(y, p, roc_auc), "pr_auc": _per_class(y, p, average_precision)}
    return {
        "accuracy": float(np.mean(guess == y)),
        "balanced_accuracy": balanced_accuracy(y, guess),
        "mcc": mcc(y, guess, p.shape[1]),
        **{name: _over_classes(values) for name, values in areas.items()},
        PER_CLASS: areas,
    }


def balanced_accuracy(y: Ints, guess: Ints) -> float:
    """The mean over the classes that occur of the share of their graphs that were recognised."""
    return float(np.mean([np.mean(guess[y == c] == c) for c in np.unique(y)]))


def mcc(y: Ints, guess: Ints, classes: int) -> float:
    """Matthews' correlation coefficient, for any number of classes (Gorodkin 2004); 0 where it is undefined."""
    table = np.zeros((classes, classes))
    np.add.at(table, (y, guess), 1.0)
    truth, said, n = table.sum(1), table.sum(0), table.sum()
    covariance = np.trace(table) * n - truth @ said
    spread = np.sqrt((n * n - said @ said) * (n * n - truth @ truth))
    return float(covariance / spread) if spread > 0 else 0.0


def roc_auc(positive: NDArray[np.bool_], score: Floats) -> float:
    """The probability that a positive graph scores above a negative one; a tie counts one half."""
    values, inverse = np.unique(score, return_inverse=True)
    count = np.bincount(inverse, minlength=len(values))
    rank = np.cumsum(count) - (count - 1) / 2.0
    n = positive.sum()
    return float((rank[inverse][positive].sum() - n * (n + 1) / 2.0) / (n * (len(score) - n)))


def average_precision(positive: NDArray[np.bool_], score: Floats) -> float:
    """Area under the precision-recall curve as the step sum Σ (R_i − R_{i−1}) P_i over distinct thresholds."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.diff(score[order]) != 0, True)
    found = np.cumsum(positive[order])[last]
    precision = found / (np.flatnonzero(last) + 1)
    recall = np.append(0.0, found / positive.sum())
    return float(np.sum(np.diff(recall) * precision))


def _per_class(y: Ints, p: Floats, area: Callable[[NDArray[np.bool_], Floats], float]) -> list[float | None]:
    """[C] the area of each class against the rest; None for a class that no graph, or every graph, is of."""
    return [area(y == c, p[:, c]) if 0 < np.count_nonzero(y == c) < len(y) else None for c in range(p.shape[1])]


def _over_classes(areas: list[float | None]) -> float | None:
    known = [area for area in areas if area is not None]
    if not known:
        return None
    return known[1] if len(areas) == 2 else float(np.mean(known))
