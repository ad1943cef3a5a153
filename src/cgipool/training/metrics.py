"""Metrics of predictions, pure functions of classes and probabilities, and which class is positive. No torch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.graphs import GraphSet
from cgipool.errors import excerpt, rounded, unknown

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


MEAN = "mean over classes"
"""What the two areas are of where no class is positive."""

CLASS_1 = "class 1"
"""What they are of in results that were stored without the areas of every class."""


@dataclass(frozen=True)
class Classes:
    """The names of the classes, and the positive one."""

    names: tuple[str, ...]
    positive: int | None
    """Its place among the names; None: the mean over all classes is shown."""

    @property
    def label(self) -> str:
        """What ROC-AUC and PR-AUC are of, in words."""
        return MEAN if self.positive is None else excerpt(self.names[self.positive], 60)

    def but(self, name: str) -> "Classes":
        """The same with another positive class."""
        if name not in self.names:
            raise unknown("class", name, self.names)
        return replace(self, positive=self.names.index(name))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"names": list(self.names), "positive": self.positive}

    @classmethod
    def from_json(cls, value: Any) -> "Classes | None":
        """What `to_json` gave; None for anything else."""
        names = value.get("names") if isinstance(value, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        positive = value.get("positive")
        sound = positive is None or (type(positive) is int and 0 <= positive < len(names))
        return cls(tuple(names), positive) if sound else None


def classes_of(graphs: GraphSet) -> Classes:
    """The classes of a set. Of two, the positive one is class 1 in a data set of the catalogue; in the user's own it is
    the rarer of the whole set, and the last where both are equally frequent. Of more than two, none is."""
    if graphs.n_classes != 2:
        return Classes(tuple(graphs.class_names), None)
    entry = CATALOGUE.get(graphs.name)
    if entry is not None and entry.graphs == graphs.n_graphs:  # an own set may have the same name
        return Classes(tuple(graphs.class_names), 1)
    first, second = (int(np.count_nonzero(graphs.y == c)) for c in (0, 1))
    return Classes(tuple(graphs.class_names), 0 if first < second else 1)


def shown(test: Mapping[str, Any], classes: Classes | None) -> dict[str, Any]:
    """The metrics of a split by name, ROC-AUC and PR-AUC as those of the positive class; without classes as stored."""
    plain = {name: value for name, value in test.items() if name != PER_CLASS}
    if classes is None or classes.positive is None:
        return plain
    return plain | {name: values[classes.positive] for name, values in test[PER_CLASS].items()}
