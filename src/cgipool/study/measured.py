"""One metric of a stored cell, split by split, in the unit for display. No torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.catalogue import CATALOGUE
from cgipool.errors import UserError, unknown
from cgipool.study.records import Record
from cgipool.task.metrics import CLASS_1, KNOWN, MEAN, METRICS, PER_CLASS, Classes, Metric, shown


@dataclass(frozen=True)
class Measured:
    """A finished cell, read by one metric."""

    record: Record
    name: str
    """The metric, a key of `METRICS` of the record's task."""
    values: dict[int, float]
    """By the number of the split, the metric on its test graphs: shares in percent, other metrics as they are. Splits
    on which the metric is not defined are left out."""
    whole: dict[int, float]
    """The same for the ensemble's mean prediction; without an ensemble and without seeds, equal to `values`."""
    members: dict[int, list[float]]
    """The same for every member of an ensemble, or every seed; empty for single trainings, and for metrics not stored
    for members."""
    positive: str
    """What ROC-AUC and PR-AUC of classes refer to: a class by its name, "class 1", or "mean over classes"."""
    rows: list[dict[str, Any]]
    """All test metrics of each split, by name."""

    @property
    def metric(self) -> Metric:
        """The metric's display and direction."""
        return KNOWN[self.name]

    @property
    def array(self) -> NDArray[np.float64]:
        """[splits] the values, by number of split."""
        return np.array([self.values[split] for split in sorted(self.values)], dtype=np.float64)

    @property
    def member_means(self) -> dict[int, float]:
        """By split, the mean over members."""
        return {split: float(np.mean(found)) for split, found in self.members.items()}


def measured(record: Record, metric: str | None = None, positive: str | None = None, seeds: bool = False) -> Measured:
    """Read a cell by a metric, or by the primary one if its task does not have that metric.

    `positive` names the class that ROC-AUC and PR-AUC refer to; a cell without such a class shows its own default. With
    `seeds`, the number of a split is the mean over its trainings, not the result of their ensemble.
    """
    name = metric if metric in METRICS[record.task] else record.primary
    label, classes = _positive(record, positive)
    rows = [shown(row["test"], classes) for row in record.splits]
    whole, members = _columns(record, name, rows, classes)
    values = whole
    if seeds and any(row.get("members") for row in record.splits):
        single = [row["split"] for row in record.splits if not row.get("members")]  # of a classical method
        values = {split: value for split, value in whole.items() if split in single}
        values |= {split: float(np.mean(found)) for split, found in members.items()}
    return Measured(record, name, values, whole, members, label, rows)


def _columns(
    record: Record, name: str, rows: list[dict[str, Any]], classes: Classes | None
) -> tuple[dict[int, float], dict[int, list[float]]]:
    """A metric of each split, and of each member in each split."""
    scale = KNOWN[name].scale
    values, members = {}, {}
    for row, test in zip(record.splits, rows, strict=True):
        if test.get(name) is not None:
            values[row["split"]] = scale * float(test[name])
        found = [_of_member(member, name, classes) for member in row.get("members", [])]
        if found and None not in found:
            members[row["split"]] = [scale * float(value) for value in found if value is not None]
    return values, members


def _of_member(member: dict[str, Any], name: str, classes: Classes | None) -> float | None:
    """A metric of a member. Members in cells of earlier versions have the primary one alone."""
    if "test" not in member:
        return member.get(f"test_{name}")
    return shown(member["test"], classes if PER_CLASS in member["test"] else None).get(name)


def check_metric_known(records: Iterable[Record], metric: str | None) -> None:
    """Raise UserError if no cell has the requested metric."""
    if metric is None:
        return
    tasks = dict.fromkeys(record.task for record in records) or ["classification"]
    known = [name for task in tasks for name in METRICS[task]]
    if metric not in known:
        raise unknown("metric", metric, dict.fromkeys(known))


def check_positive(records: Iterable[Record], positive: str | None) -> None:
    """Raise UserError if no cell has the requested class."""
    if positive is None:
        return
    known = [classes for record in records if (classes := _classes(record)) is not None]
    names = {name for classes in known for name in classes.names}
    if not known:
        raise UserError(f"--positive {positive!r}: an earlier version stored these cells, with values of class 1 alone")
    if positive not in names:
        raise unknown("class", positive, names)


def _positive(record: Record, positive: str | None) -> tuple[str, Classes | None]:
    """What ROC-AUC and PR-AUC refer to, and the classes with the one that is positive.

    Cells stored by earlier versions hold one value alone: of class 1, or with more than two classes the mean.
    """
    if record.task != "classification":
        return "mean over columns", None
    classes = _classes(record)
    if classes is None:
        entry = CATALOGUE.get(str(record.cell.get("dataset")))
        return MEAN if entry is not None and entry.classes > 2 else CLASS_1, None
    if positive in classes.names:
        classes = classes.but(positive)
    return classes.label, classes


def _classes(record: Record) -> Classes | None:
    """The classes of a cell; None unless every split has the metrics of each class."""
    classes = Classes.from_json(record.provenance.get("classes"))
    if classes is None:
        return None
    for row in record.splits:
        values = row["test"].get(PER_CLASS)
        if not isinstance(values, Mapping) or not all(
            isinstance(each, list) and len(each) == len(classes.names) for each in values.values()
        ):
            return None
    return classes
