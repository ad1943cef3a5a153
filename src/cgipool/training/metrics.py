"""What is reported of predictions: pure functions of classes and probabilities, no torch.

Shapes: y [n] true classes, p [n, C] probabilities. With more than two classes the two areas are means over the classes
that occur, each against the rest.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


def report(y: Ints, p: Floats) -> dict[str, float | None]:
    """All metrics by name; None where one is not defined (an area when the test graphs are of one class)."""
    guess = p.argmax(1)
    return {
        "accuracy": float(np.mean(guess == y)),
        "balanced_accuracy": balanced_accuracy(y, guess),
        "mcc": mcc(y, guess, p.shape[1]),
        "roc_auc": _over_classes(y, p, roc_auc),
        "pr_auc": _over_classes(y, p, average_precision),
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


def _over_classes(y: Ints, p: Floats, area: Callable[[NDArray[np.bool_], Floats], float]) -> float | None:
    present = np.unique(y)
    if len(present) < 2:
        return None
    if p.shape[1] == 2:
        return area(y == 1, p[:, 1])
    return float(np.mean([area(y == c, p[:, c]) for c in present]))
