"""Metrics of every task, by scikit-learn where it has them, and the choice of the positive class. No torch.

scikit-learn is imported by the functions that need it, so that `--help` and the readers of stored results start fast.
Shapes: n graphs, C classes, T columns.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, excerpt, rounded, unknown
from cgipool.task.decisions import class_of, ones_in

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]
Doubles = NDArray[np.float64]

PER_CLASS = "per_class"
"""The key of the per-class values in the metrics of a split."""

LATER = frozenset({PER_CLASS, "log_loss", "brier", "ece"})
"""Metrics that are missing in classification results stored by earlier versions."""


class Metric(NamedTuple):
    """How a metric is shown and compared."""

    title: str
    higher: bool = True
    """Whether a larger value is better."""
    percent: bool = True
    """Whether it is a share, shown in percent."""

    @property
    def scale(self) -> float:
        """The factor by which a value is multiplied when it is shown."""
        return 100.0 if self.percent else 1.0

    @property
    def digits(self) -> int:
        """Decimals in tables."""
        return 2 if self.percent else 3

    @property
    def sign(self) -> float:
        """1 if a larger value is better, else −1."""
        return 1.0 if self.higher else -1.0


METRICS: dict[str, dict[str, Metric]] = {
    "classification": {
        "accuracy": Metric("accuracy"),
        "balanced_accuracy": Metric("balanced accuracy"),
        "roc_auc": Metric("ROC-AUC"),
        "pr_auc": Metric("PR-AUC"),
        "mcc": Metric("MCC", percent=False),
        "log_loss": Metric("log loss", higher=False, percent=False),
        "brier": Metric("Brier score", higher=False, percent=False),
        "ece": Metric("calibration error", higher=False),
    },
    "regression": {
        "rmse": Metric("RMSE", higher=False, percent=False),
        "mae": Metric("MAE", higher=False, percent=False),
        "r2": Metric("R²", percent=False),
        "spearman": Metric("Spearman", percent=False),
    },
    "multilabel": {
        "roc_auc": Metric("ROC-AUC"),
        "pr_auc": Metric("PR-AUC"),
        "accuracy": Metric("accuracy"),
        "balanced_accuracy": Metric("balanced accuracy"),
        "log_loss": Metric("log loss", higher=False, percent=False),
        "brier": Metric("Brier score", higher=False, percent=False),
        "ece": Metric("calibration error", higher=False),
    },
}
"""By task and name. The first of a task is the primary one, by which models are compared."""

BASELINES = {"classification": "Majority class", "regression": "Mean target", "multilabel": "Label rates"}
"""By task: the title of the baseline that ignores the graphs."""

PER_COLUMN = "per_column"
"""The name under which the metrics of a split hold those of every target column."""

TITLES = {
    "accuracy": "accuracy, %",
    "balanced_accuracy": "balanced accuracy, %",
    "roc_auc": "ROC-AUC ({}), %",
    "pr_auc": "PR-AUC ({}), %",
    "mcc": "MCC, −1 to 1",
    "log_loss": "log loss",
    "brier": "Brier score",
    "ece": "calibration error, %",
}
"""Column headings of the metrics; the positive class goes in parentheses."""


KNOWN = {name: metric for metrics in METRICS.values() for name, metric in metrics.items()}
"""All metrics by name; a name means the same in every task."""


def primary_of(task: str) -> str:
    """The metric by which models of a task are compared."""
    return next(iter(METRICS[task]))


def titles_of(task: str) -> dict[str, str]:
    """The column headings of the metrics of a task."""
    if task == "classification":
        return TITLES
    return {name: f"{metric.title}, %" if metric.percent else metric.title for name, metric in METRICS[task].items()}


def check_metric(task: str, metric: str | None) -> str:
    """Return a metric of a task by name, by default the primary one. Raise UserError if the task does not have it."""
    if metric is not None and metric not in METRICS[task]:
        raise unknown(f"metric of {task}", metric, METRICS[task])
    return metric or next(iter(METRICS[task]))


def ordered(task: str, first: str) -> list[str]:
    """The metrics of a task by name, one of them first."""
    return list(dict.fromkeys((first, *METRICS[task])))


def written(metric: str, value: Any, digits: int = 2) -> str:
    """Format a metric for tables: shares in percent with so many digits, a dash for a missing value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    return rounded(100 * value, digits) if KNOWN[metric].percent else rounded(value, 3)


def described(metric: str, value: float | None, digits: int = 1) -> str:
    """A metric and its value in words, such as "accuracy 83.1 %", "RMSE 0.672" or "ROC-AUC not defined"."""
    known = KNOWN[metric]
    if value is None or not math.isfinite(value):
        return f"{known.title} not defined"
    return f"{known.title} {rounded(100 * value, digits)} %" if known.percent else f"{known.title} {value:.3f}"


def report(y: Ints, p: Floats, thresholds: Doubles | None = None) -> dict[str, Any]:
    """Return all metrics of classes [n] and probabilities [n, C] by name.

    A value is None if it is not defined, such as ROC-AUC if all graphs have the same class. `thresholds` (decisions.py)
    change which class counts as predicted.
    """
    from sklearn.metrics import average_precision_score, log_loss, matthews_corrcoef, recall_score, roc_auc_score

    guess, classes = class_of(p, thresholds), p.shape[1]
    right, present = guess == y, np.unique(y)
    areas = {"roc_auc": _per_class(y, p, roc_auc_score), "pr_auc": _per_class(y, p, average_precision_score)}
    both = len(np.union1d(present, guess)) > 1  # otherwise scikit-learn warns
    return {
        "accuracy": float(np.mean(right)),
        "balanced_accuracy": float(recall_score(y, guess, labels=present, average="macro", zero_division=0.0)),
        "mcc": float(matthews_corrcoef(y, guess)) if both else 0.0,
        **{name: _over_classes(values) for name, values in areas.items()},
        "log_loss": float(log_loss(y, p, labels=range(classes))) if classes > 1 else 0.0,
        "brier": brier(p, y[:, None] == np.arange(classes)) / (2 if classes == 2 else 1),
        "ece": calibration_error(p.max(1), p.argmax(1) == y),
        PER_CLASS: areas,
    }


def brier(p: Floats, right: NDArray[np.bool_]) -> float:
    """The mean over graphs of the squared error of probabilities [n, C], summed over classes."""
    return float(np.mean(((p - right) ** 2).sum(1)))


def _per_class(y: Ints, p: Floats, area: Callable[..., float]) -> list[float | None]:
    """[C] ROC-AUC or PR-AUC of each class against the rest; None for a class that no graph or every graph has."""
    present = np.bincount(y, minlength=p.shape[1])
    return [float(area(y == c, p[:, c])) if 0 < present[c] < len(y) else None for c in range(p.shape[1])]


def _over_classes(areas: list[float | None]) -> float | None:
    known = [area for area in areas if area is not None]
    if not known:
        return None
    return known[1] if len(areas) == 2 else float(np.mean(known))


def label_report(targets: Doubles, p: Doubles, thresholds: Doubles | None = None) -> dict[str, Any]:
    """All metrics of 0/1 columns [n, T] with NaN where unknown: the mean over columns, and each column's.

    ROC-AUC, PR-AUC and balanced accuracy are means over the columns that have both values. `thresholds` (decisions.py)
    change which value counts as predicted.
    """
    from sklearn.metrics import average_precision_score, balanced_accuracy_score, log_loss, roc_auc_score

    def of_both(metric: Callable[..., float]) -> Callable[[Doubles, Doubles], float | None]:
        return lambda y, p: float(metric(y, p)) if len(np.unique(y)) > 1 else None

    metrics: dict[str, Callable[[Doubles, Doubles], float | None]] = {
        "roc_auc": of_both(roc_auc_score),
        "pr_auc": of_both(average_precision_score),
        "log_loss": lambda y, p: float(log_loss(y, p, labels=[0.0, 1.0])),
        "brier": lambda y, p: float(np.mean((p - y) ** 2)),
        "ece": lambda y, p: calibration_error(p, y == 1),
    }
    decided: dict[str, Callable[[Doubles, Doubles], float | None]] = {
        "accuracy": lambda y, guess: float(np.mean(guess == y)),
        "balanced_accuracy": of_both(balanced_accuracy_score),
    }
    parts = _over_columns(targets, p, metrics), _over_columns(targets, ones_in(p, thresholds).astype(float), decided)
    every, each = ({**parts[0], **parts[1]}, {**parts[0].get(PER_COLUMN, {}), **parts[1].get(PER_COLUMN, {})})
    named = {name: every[name] for name in METRICS["multilabel"]}
    return named | ({PER_COLUMN: {name: each[name] for name in named}} if each else {})


def value_report(targets: Doubles, predicted: Doubles) -> dict[str, Any]:
    """All metrics of real-valued columns [n, T] with NaN where unknown: the mean over columns, and each column's."""
    from scipy.stats import spearmanr
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    def r2(y: Doubles, p: Doubles) -> float | None:
        return float(r2_score(y, p)) if len(y) > 1 and np.ptp(y) > 0 else None

    def spearman(y: Doubles, p: Doubles) -> float | None:
        constant = len(y) < 2 or np.ptp(y) == 0 or np.ptp(p) == 0
        return None if constant else float(spearmanr(y, p).statistic)

    metrics: dict[str, Callable[[Doubles, Doubles], float | None]] = {
        "rmse": lambda y, p: float(root_mean_squared_error(y, p)),
        "mae": lambda y, p: float(mean_absolute_error(y, p)),
        "r2": r2,
        "spearman": spearman,
    }
    return _over_columns(targets, predicted, metrics)


def _over_columns(
    targets: Doubles, predictions: Doubles, metrics: Mapping[str, Callable[[Doubles, Doubles], float | None]]
) -> dict[str, Any]:
    """The mean of each metric over the columns where it is defined, and for several columns each column's values."""
    each: dict[str, list[float | None]] = {name: [] for name in metrics}
    for target, predicted in zip(targets.T, predictions.T, strict=True):
        known = ~np.isnan(target)
        for name, metric in metrics.items():
            each[name].append(metric(target[known], predicted[known]) if known.any() else None)
    means: dict[str, Any] = {name: _mean_of(values) for name, values in each.items()}
    return means | ({PER_COLUMN: each} if targets.shape[1] > 1 else {})


def _mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are defined; None if none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


BINS = 15
"""Bins of equal width of the expected calibration error (Guo et al. 2017 use 15)."""


def bins_of(confidence: Floats) -> Ints:
    """The bin of each confidence, from 0 to BINS − 1."""
    return np.minimum((confidence * BINS).astype(int), BINS - 1)


def calibration_error(confidence: Floats, right: NDArray[np.bool_]) -> float:
    """Expected calibration error: the mean over bins of |accuracy − confidence|, weighted by the bins' graphs."""
    gaps = np.bincount(bins_of(confidence), confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidence))


MEAN = "mean over classes"
"""The label of ROC-AUC and PR-AUC if no class is positive."""

CLASS_1 = "class 1"
"""Their label in results that were stored without per-class values."""


@dataclass(frozen=True)
class Classes:
    """The names of the classes, and the positive one."""

    names: tuple[str, ...]
    positive: int | None
    """Its index in `names`; None: the mean over all classes is shown."""

    @property
    def label(self) -> str:
        """The class that ROC-AUC and PR-AUC refer to, or "mean over classes"."""
        return MEAN if self.positive is None else excerpt(self.names[self.positive], 60)

    def but(self, name: str) -> "Classes":
        """Return a copy with another positive class."""
        if not self.names:
            raise UserError(f"there is no class {name!r}: the targets are not classes")
        if name not in self.names:
            raise unknown("class", name, self.names)
        return replace(self, positive=self.names.index(name))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"names": list(self.names), "positive": self.positive}

    @classmethod
    def from_json(cls, value: Any) -> "Classes | None":
        """Read the output of `to_json`; None for anything else."""
        names = value.get("names") if isinstance(value, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        positive = value.get("positive")
        valid = positive is None or (type(positive) is int and 0 <= positive < len(names))
        return cls(tuple(names), positive) if valid else None


def classes_of(graphs: GraphSet) -> Classes:
    """Return the classes of a data set and choose the positive one.

    With two classes it is class 1 for a data set of the catalogue. For any other data set it is the rarer class, or the
    last if both are equally frequent. With more than two classes there is none.
    """
    if graphs.n_classes != 2:
        return Classes(tuple(graphs.class_names), None)
    entry = CATALOGUE.get(graphs.name)
    if entry is not None and entry.graphs == graphs.n_graphs:  # another data set may have the same name
        return Classes(tuple(graphs.class_names), 1)
    first, second = (int(np.count_nonzero(graphs.y == c)) for c in (0, 1))
    return Classes(tuple(graphs.class_names), 0 if first < second else 1)


def shown(test: Mapping[str, Any], classes: Classes | None) -> dict[str, Any]:
    """The metrics of a split by name, ROC-AUC and PR-AUC as those of the positive class; without classes as stored."""
    plain = {name: value for name, value in test.items() if name not in (PER_CLASS, PER_COLUMN)}
    if classes is None or classes.positive is None:
        return plain
    return plain | {name: values[classes.positive] for name, values in test[PER_CLASS].items()}
