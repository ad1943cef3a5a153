"""Target columns: their values, the task that fits them, and sets with other targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgipool.data.check import TASKS
from cgipool.data.further import is_missing, number_in
from cgipool.data.names import Names, encode
from cgipool.errors import UserError, are, counted, excerpt, unknown

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

AUTO = "auto"

MOST_CLASSES = 20
"""A single column with more distinct numbers than this is a regression target."""

TOO_MANY = 100
"""More classes than this are treated as a mistake, such as a column of names or measurements."""


@dataclass
class TargetColumn:
    """Summary of the values of a column. Only a few distinct values are kept."""

    name: str
    rows: int = 0
    count: int = 0
    """Number of values that are finite numbers."""
    whole: bool = True
    """Whether all numbers are whole."""
    distinct: set[float] = field(default_factory=set)
    texts: int = 0
    """Number of values that are neither missing nor finite numbers."""
    text: tuple[int, str] | None = None
    """Row and content of the first of these."""

    def add(self, text: str, row: int) -> None:
        """Add a field of a table."""
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
    """The task that fits the values of target columns, and the reason."""
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
    """The task that fits an array [G, T] of targets, NaN where missing."""
    if np.isinf(values).any():
        return "regression"  # its checks report the value
    columns = []
    for column in values.T:
        known = column[~np.isnan(column)]
        found = TargetColumn(name, len(column), len(known), bool((known == np.floor(known)).all()))
        found.distinct.update(np.unique(known)[: MOST_CLASSES + 1].tolist())
        columns.append(found)
    return fitting_task(columns)[0]


def labelled(
    graphs: "GraphSet",
    rows: Sequence[NDArray[Any] | None],
    class_names: Names | None,
    task: str = AUTO,
    columns: Names = (),
) -> "GraphSet":
    """The same graphs with labels: for each graph a class index, a number or a row of targets; None if missing.

    One value of an integer type per graph is a class. For values of a float type, `task` auto decides by the values, as
    `data import` does. `columns` are the names of the targets, if there are as many targets.
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
        return graphs.with_targets(values, columns if len(columns) == width else None, task)
    if width != 1:
        raise UserError(f"{graphs.name}: y has {width} columns; class labels are one column. Use task='multilabel'")
    _check_classes(graphs.name, values[:, 0])
    y = values[:, 0].astype(np.int64)
    if class_names is None and (count := len(np.unique(y))) > TOO_MANY:
        what = f"y holds {count:,} different numbers in {counted(len(y), 'graph')}, which are not classes"
        raise UserError(f"{graphs.name}: {what}; use the task regression")
    codes, names = encode(y) if class_names is None else (y, class_names)
    return graphs.relabelled(codes, names)


def _width(rows: Sequence[NDArray[Any] | None]) -> int:
    """The number of targets of each graph, which must be equal."""
    first: tuple[int, int] | None = None
    for i, row in enumerate(rows):
        if row is not None:
            first = first or (i, len(row))
            if len(row) != first[1]:
                raise UserError(f"graphs {first[0]} and {i} differ: {first[1]} and {len(row)} values of y")
    return 1 if first is None else first[1]


def _check_classes(where: str, y: NDArray[np.float64]) -> None:
    """Raise UserError unless all labels are whole numbers."""
    need = "class labels must be whole numbers"
    if (missing := np.flatnonzero(np.isnan(y))).size:
        raise UserError(f"{where}: y is missing {in_graphs(missing)}; {need}")
    if (bad := np.flatnonzero(~np.isfinite(y) | (y != np.floor(y)))).size:
        raise UserError(f"{where}: y is not a whole number {in_graphs(bad)}: {y[bad[0]]:g}; {need}")


def in_graphs(numbers: Sequence[int] | NDArray[np.int64]) -> str:
    """ "in 3 graphs, first in graph 5": the end of a message about graphs with these numbers."""
    return f"in {counted(len(numbers), 'graph')}, first in graph {numbers[0]}"


def checked_targets(
    graphs: "GraphSet", targets: ArrayLike, names: Sequence[str] | None
) -> tuple[NDArray[np.float64], Names | None]:
    """Targets as [G, T] and their names. Raise UserError for text, empty columns, and names that do not fit."""
    where = graphs.name
    try:
        values = np.asarray(targets)
    except ValueError:
        raise UserError(f"{where}: targets must be of shape [G] or [G, T]; the rows differ in length") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise UserError(f"{where}: targets must be of shape [G] or [G, T], not {list(values.shape)}")
    if len(values) != graphs.n_graphs:
        raise UserError(f"{where}: targets has {counted(len(values), 'row')} for {counted(graphs.n_graphs, 'graph')}")
    named = None if names is None else (names,) if isinstance(names, str) else tuple(map(str, names))
    if named is not None and len(named) != values.shape[1]:
        given = f"{counted(len(named), 'name')} {are(len(named))} given"
        raise UserError(f"{where}: targets has {counted(values.shape[1], 'column')}, but {given}")
    if named is not None and (twice := [name for name in named if named.count(name) > 1]):
        raise UserError(f"{where}: {named.count(twice[0])} target columns are named {excerpt(twice[0])!r}")
    columns = np.empty(values.shape)
    for j, column in enumerate(values.T):
        columns[:, j] = _numbers(f"{where}: target column {excerpt(named[j] if named else f'target {j}')!r}", column)
    return columns, named


def _numbers(where: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """[G] a column as numbers, NaN where missing; None and numbers in text are accepted."""
    bad: list[int] = []
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
    else:
        numbers = np.full(len(column), np.nan)
        for graph, value in enumerate(column):
            try:
                numbers[graph] = np.nan if value is None else float(value)
            except (TypeError, ValueError, OverflowError):
                bad.append(graph)
    if bad:
        what = f"{counted(len(bad), 'value')} that {are(len(bad))} not a number"
        raise UserError(f"{where} has {what}, first in graph {bad[0]}: {excerpt(str(column[bad[0]]), 60)!r}")
    if len(numbers) and np.isnan(numbers).all():
        raise UserError(f"{where} has no value: it is missing {in_graphs(range(len(numbers)))}")
    return numbers


def replaced_targets(
    graphs: "GraphSet", values: NDArray[np.float64], names: Names | None, task: str | None
) -> "GraphSet":
    """The same graphs with target columns [G, T] instead of classes. A column may be empty, as in a part of a set."""
    if task is None:
        binary = values.shape[1] > 1 and np.isin(values[~np.isnan(values)], (0.0, 1.0)).all()
        task = "multilabel" if binary else "regression"
    column_names = {what: known for what, known in graphs.column_names.items() if what != "targets"}
    column_names |= {} if names is None else {"targets": names}
    changes: dict[str, Any] = {"task": task, "targets": values, "column_names": column_names}
    return replace(graphs, **changes, y=np.full(graphs.n_graphs, -1, np.int64), class_names=(), checked=False)
