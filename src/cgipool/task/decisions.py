"""From probabilities to classes and labels: the most probable ones, or by thresholds, for rare classes. No torch.

Shapes: n graphs, C classes, T columns. Thresholds are probabilities. For classes [C], the class with the largest ratio
of probability to threshold is predicted, so [1 − t, t] predicts class 1 if its probability is above t. For 0/1 columns
[T], 1 is predicted above the threshold.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

OF_DECISIONS = ("accuracy", "balanced_accuracy", "mcc")
"""Metrics that depend on the thresholds."""

FEWEST = 5
"""Fewer graphs of either value are too few to choose a threshold by."""

NOISE = 12.0
"""The best of all thresholds has n φ² above this for at most one in eight sets of random predictions, measured on sets
of 30 to 20,000 graphs. A single threshold has a χ² distribution, with a 95 % quantile of only 3.84, which the best
one exceeds in about half of them."""

SMALLEST, LARGEST = float(np.finfo(np.float64).tiny), float(np.nextafter(1.0, 0.0))
"""A threshold lies strictly between 0 and 1."""


def class_of(p: Floats, thresholds: Doubles | None = None) -> NDArray[np.int64]:
    """[n] the predicted classes."""
    return np.asarray(p if thresholds is None else p / thresholds).argmax(-1)


def ones_in(p: Floats, thresholds: Doubles | None = None) -> NDArray[np.bool_]:
    """[n, T] whether 1 is predicted."""
    return p > (0.5 if thresholds is None else thresholds)


def decided(p: Floats, thresholds: Doubles, classes: bool) -> Doubles:
    """The predictions of `class_of` or `ones_in` in place of the probabilities: 1 for what is predicted, else 0."""
    return np.eye(p.shape[1])[class_of(p, thresholds)] if classes else ones_in(p, thresholds).astype(np.float64)


def best_thresholds(targets: NDArray[Any], p: Floats) -> list[float] | None:
    """The thresholds with the highest Matthews correlation, from classes [n] or columns [n, T] with NaN where unknown.
    None for more than two classes, or if all are one half."""
    if targets.ndim == 2:
        known = ~np.isnan(targets)
        found = [_best(y[k] > 0.5, values[k]) for y, values, k in zip(targets.T, p.T, known.T, strict=True)]
    elif p.shape[1] == 2:
        threshold = _best(targets == 1, p[:, 1])
        found = [1.0 - threshold, threshold]
    else:
        return None
    return found if any(value != 0.5 for value in found) else None


def _best(y: NDArray[np.bool_], p: Floats) -> float:
    """The threshold with the highest Matthews correlation φ; of equal ones the nearest to one half. One half if
    random predictions could have as high a one."""
    if min(y.sum(), (~y).sum()) < FEWEST:
        return 0.5
    order = np.argsort(-p, kind="stable")
    values, right = p[order], y[order]
    last = np.flatnonzero(np.diff(values) < 0)  # a threshold lies between two different probabilities
    if not last.size:
        return 0.5
    found, chosen = np.cumsum(right)[last], last + 1.0
    ones, n = float(right.sum()), float(len(y))
    correlation = (found * n - chosen * ones) / np.sqrt(chosen * (n - chosen) * ones * (n - ones))
    if n * max(correlation.max(), 0.0) ** 2 < NOISE:
        return 0.5
    cuts = np.clip((values[last] + values[last + 1]) / 2.0, SMALLEST, LARGEST)
    best = np.flatnonzero(correlation >= correlation.max() - 1e-12)
    return float(cuts[best[np.argmin(np.abs(cuts[best] - 0.5))]])


def thresholds_in(value: Any, outputs: int) -> Doubles | None:
    """Thresholds from the description in a file; None if there are none, or if they are not valid."""
    if not isinstance(value, list) or len(value) != outputs or not all(isinstance(each, float) for each in value):
        return None
    return np.array(value) if all(0.0 < each < 1.0 for each in value) else None
