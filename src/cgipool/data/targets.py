"""What target columns hold, and the task that fits them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import TASKS
from cgipool.data.further import is_missing, number_in
from cgipool.data.names import Names, encode
from cgipool.errors import UserError, are, counted, excerpt, unknown

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

AUTO = "auto"

MOST_CLASSES = 20
"""A single column with more different numbers than this is a regression target."""


@dataclass
class TargetColumn:
    """What the values of a column are; only a few distinct ones are kept."""

    name: str
    rows: int = 0
    count: int = 0
    """Values that are numbers."""
    whole: bool = True
    """Whether all numbers are whole."""
    distinct: set[float] = field(default_factory=set)
    texts: int = 0
    """Values that are neither missing nor finite numbers."""
    text: tuple[int, str] | None = None
    """Row and content of the first of them."""

    def add(self, text: str, row: int) -> None:
        """Include a field of a table."""
        self.rows += 1
        if is_missing(text):
            return
        value = number_in(text)
        if value is None:
            self.text, self.texts = self.text or (row, text), self.texts + 1
            return
        self.count += 1
        self.whole = self.whole and value.is_integer()
        if len(self.distinct) <= MOST_CLASSES:
            self.distinct.add(value)

    @property
    def is_binary(self) -> bool:
        """Whether all values are 0 or 1."""
        return self.text is None and self.distinct <= {0.0, 1.0}

    def check(self, where: str, task: str) -> None:
        """Raise UserError unless all values fit a regression or multi-label task; `where` names the source."""
        where = f"{where}: column {excerpt(self.name)!r}"
        if self.text is not None:
            row, text = self.text
            bad = f"{counted(self.texts, 'value')} that {are(self.texts)} not a finite number"
            fits = "; for class names use --task classification" if not self.count else ""
            raise UserError(f"{where} has {bad}, the first in row {row}: {excerpt(text)!r}{fits}")
        if self.count == 0:
            raise UserError(f"{where} is empty in all {self.rows:,} rows")
        if task == "multilabel" and not self.is_binary:
            raise UserError(f"{where} has values other than 0 and 1; use --task regression")


def fitting_task(columns: Sequence[TargetColumn]) -> tuple[str, str]:
    """The task that the values of target columns fit, and why."""
    if len(columns) > 1:
        if all(column.is_binary for column in columns):
            return "multilabel", "all values are 0 or 1"
        return "regression", "there are values other than 0 and 1"
    (column,) = columns
    if column.count and not column.whole:
        return "regression", "there are numbers with fractions"
    if len(column.distinct) > MOST_CLASSES:
        return "regression", f"there are more than {MOST_CLASSES} different numbers"
    if column.text is not None:
        return TASKS[0], "not all values are numbers"
    return TASKS[0], f"there are only {len(column.distinct)} different numbers, all whole"


def task_of_values(values: NDArray[np.float64], name: str = "y") -> str:
    """The task that an array [G, T] of targets fits, NaN where missing."""
    if np.isinf(values).any():
        return "regression"  # whose checks name the value
    columns = []
    for column in values.T:
        known = column[~np.isnan(column)]
        found = TargetColumn(name, len(column), len(known), bool((known == np.floor(known)).all()))
        found.distinct.update(np.unique(known)[: MOST_CLASSES + 1].tolist())
        columns.append(found)
    return fitting_task(columns)[0]


def labelled(
    graphs: "GraphSet", rows: Sequence[NDArray[Any] | None], class_names: Names | None, task: str = AUTO
) -> "GraphSet":
    """The same graphs with labels: for each graph one class index, one number or a row of targets; None if missing.

    One whole number of an integer type per graph is a class. For numbers of a float type, `task` auto decides by the
    values as `data import` does.
    """
    if task not in (AUTO, *TASKS):
        raise unknown("task", task, (AUTO, *TASKS))
    if not len(rows) or all(row is None for row in rows):
        raise UserError(f"{graphs.name}: no graph has a label")
    width = _width(rows)
    whole = all(row is not None and row.dtype.kind in "biu" for row in rows)
    values = np.array([np.full(width, np.nan) if row is None else row for row in rows], np.float64).reshape(-1, width)
    if task == AUTO:
        task = TASKS[0] if width == 1 and whole else task_of_values(values)
    if task != TASKS[0]:
        return graphs.with_targets(values, task=task)
    if width != 1:
        raise UserError(f"{graphs.name}: y has {width} columns, and class labels are one; use task='multilabel'")
    if (bad := np.flatnonzero(values[:, 0] != np.floor(values[:, 0]))).size:
        found = "no y" if np.isnan(values[bad[0], 0]) else f"y = {values[bad[0], 0]:g}"
        raise UserError(f"graph {bad[0]} has {found}; class labels must be whole numbers without gaps")
    y = values[:, 0].astype(np.int64)
    codes, names = encode(y) if class_names is None else (y, class_names)
    return graphs.relabelled(codes, names)


def _width(rows: Sequence[NDArray[Any] | None]) -> int:
    """The number of targets of each graph, which must be the same."""
    first: tuple[int, int] | None = None
    for i, row in enumerate(rows):
        if row is not None:
            first = first or (i, len(row))
            if len(row) != first[1]:
                raise UserError(f"graphs {first[0]} and {i} differ: {first[1]} and {len(row)} values of y")
    return 1 if first is None else first[1]
