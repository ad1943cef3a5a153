"""The metrics of stored cells, ROC-AUC and PR-AUC as those of one class. No torch."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from cgipool.data.catalogue import CATALOGUE
from cgipool.errors import UserError, unknown
from cgipool.study.records import Record
from cgipool.training.metrics import CLASS_1, MEAN, PER_CLASS, Classes, shown


class Metrics(NamedTuple):
    """What is shown of the test graphs of a cell."""

    positive: str
    """What ROC-AUC and PR-AUC are of: a class by its name, "class 1", or "mean over classes"."""
    rows: list[dict[str, Any]]
    """The metrics of each split, by name."""


def metrics_of(record: Record, positive: str | None = None) -> Metrics:
    """The metrics of a cell. `positive` names the class that ROC-AUC and PR-AUC are of; a cell without such a class
    shows its own default. Cells stored by earlier versions hold one value alone: of class 1, or with more than two
    classes the mean."""
    classes = _classes(record)
    if classes is None:
        entry = CATALOGUE.get(str(record.cell.get("dataset")))
        before = MEAN if entry is not None and entry.classes > 2 else CLASS_1
        return Metrics(before, [shown(row["test"], None) for row in record.splits])
    if positive in classes.names:
        classes = classes.but(positive)
    return Metrics(classes.label, [shown(row["test"], classes) for row in record.splits])


def check_positive(records: Iterable[Record], positive: str | None) -> None:
    """An error if a class is asked for that no cell has."""
    if positive is None:
        return
    known = [classes for record in records if (classes := _classes(record)) is not None]
    names = {name for classes in known for name in classes.names}
    if not known:
        raise UserError(f"--positive {positive!r}: an earlier version stored these cells, with values of class 1 alone")
    if positive not in names:
        raise unknown("class", positive, names)


def _classes(record: Record) -> Classes | None:
    """The classes of a cell; None unless every split has the metrics of each of them."""
    classes = Classes.from_json(record.provenance.get("classes"))
    if classes is None:
        return None
    for row in record.splits:
        values = row["test"].get(PER_CLASS)
        if not isinstance(values, dict) or not all(
            isinstance(each, list) and len(each) == len(classes.names) for each in values.values()
        ):
            return None
    return classes
