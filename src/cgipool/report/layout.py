"""Where the cells of a study stand: which axes are rows and columns, and how places are written.

A context is a cell's place on all axes but that of the methods: usually a data set. Methods are compared within one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cgipool.errors import UserError
from cgipool.files import names_a_file
from cgipool.study.records import StudyRecord, Wanted


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    label: str
    group: str
    """What else places the row, where several axes do: the data set of a curve. Empty in a plain table."""
    method: str | None
    """The method that the row is of; None where the rows are no methods."""


@dataclass(frozen=True)
class Layout:
    """The parts that the axes of a study play."""

    study: StudyRecord
    methods: str
    columns: str
    beside: list[str]
    """The axes of the rows. That of the methods is last, so that methods to be compared are neighbours."""
    around: list[str]
    """The axes of a context."""

    def row_place(self, cell: Wanted) -> tuple[int, ...]:
        """Sorts the rows; cells with the same one share a row."""
        return self._place(cell, self.beside)

    def context_place(self, cell: Wanted) -> tuple[int, ...]:
        """Sorts the contexts."""
        return self._place(cell, self.around)

    def column(self, cell: Wanted) -> int:
        """The number of the cell's column."""
        return self._place(cell, [self.columns])[0]

    def row(self, cell: Wanted) -> Row:
        """The row that a cell is in."""
        *others, last = (self.study.written(axis, cell.at[axis]) for axis in self.beside)
        return Row(last, " · ".join(others), self.method(cell) if self.methods in self.beside else None)

    def method(self, cell: Wanted) -> str:
        """The method of a cell, as its axis has it."""
        return str(cell.at[self.methods])

    def context(self, cell: Wanted) -> str:
        """A cell's context as it is written: "NCI1 · ratio 0.2". A bare number is told by its axis."""
        words = [self.study.written(axis, cell.at[axis]) for axis in self.around]
        bare = [not isinstance(cell.at[axis], str) for axis in self.around]
        return " · ".join(f"{a} {w}" if b else w for a, w, b in zip(self.around, words, bare, strict=True))

    def _place(self, cell: Wanted, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.study.axes[axis].index(cell.at[axis]) for axis in axes)


def layout_of(study: StudyRecord) -> Layout:
    """Rows are the first axis and columns the second; the abscissa of curves takes the columns instead."""
    axes = study.axes
    methods = "method" if "method" in axes else next(iter(axes))
    columns = study.curves or list(axes)[1]
    beside = _several(study, [axis for axis in axes if axis != columns])
    around = _several(study, [axis for axis in axes if axis != methods])
    return Layout(study, methods, columns, sorted(beside, key=lambda axis: axis == methods), around)


def _several(study: StudyRecord, axes: list[str]) -> list[str]:
    """The axes that tell cells apart; at least one, as a place needs a name."""
    return [axis for axis in axes if len(study.axes[axis]) > 1] or axes[:1]


def check_study(study: StudyRecord) -> None:
    """Refuse a study that cannot be shown, saying why."""
    refused = f"the study {study.name!r} is not shown:"
    if not names_a_file(study.name):
        raise UserError(f"{refused} its name is no name of a file")
    if len(study.axes) < 2:
        raise UserError(f"{refused} it needs two axes, rows and columns")
    if study.curves is not None and study.curves not in study.axes:
        raise UserError(f"{refused} it has no axis {study.curves!r} to draw curves over")
    for cell in study.cells:
        for axis, values in study.axes.items():
            if cell.at.get(axis) not in values:
                raise UserError(f"{refused} its cell {cell.key} has no place on the axis {axis!r}")
        if cell.published is not None and not all(0 <= value <= 100 for value in cell.published if value is not None):
            raise UserError(f"{refused} what is published for its cell {cell.key} is no percentage and its ±")
