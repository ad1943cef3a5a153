"""Find the label columns of a source, decide on the task and read them; read the column that defines a split."""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import TASKS
from cgipool.data.further import few, is_missing, number_in
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import Imported, ImportOptions
from cgipool.data.importers.table import Table
from cgipool.data.names import Names, printable, sort_key
from cgipool.data.targets import AUTO, TOO_MANY, TargetColumn, fitting_task, replaced_targets
from cgipool.errors import UserError, counted, excerpt, unknown

USUAL = ("label", "class", "y")
"""Column names that are used for the labels by default, ignoring case."""

WITHOUT = "to import graphs without classes for prediction, use --unlabelled"
"""The end of messages about missing classes."""

LONGEST = 1000
"""Maximum characters of a class name."""

Rows = Callable[[Sequence[str]], Iterator[tuple[str, ...]]]
"""Yields the fields of some columns, row by row."""


@dataclass(frozen=True)
class ClassLabels:
    """The classes of a column."""

    names: Names
    code: dict[str, int]
    """Maps a field of the source to the number of its class. Missing labels are not included."""

    def number(self, text: str) -> int | None:
        """Return the class of a row with this label: None if the label is missing, −1 if no classes are read."""
        if not self.names:
            return -1
        return None if is_missing(text) else self.code[text]


NO_CLASSES = ClassLabels((), {})
"""Used when no classes are read."""


@dataclass(frozen=True)
class Labels:
    """What is read from the label columns of a source."""

    task: str = "classification"
    columns: Names = ()
    """The label columns."""
    classes: ClassLabels = NO_CLASSES
    """The classes of a classification."""
    skip_unlabelled: bool = False
    """Whether rows without any label are skipped."""
    notes: tuple[str, ...] = ()
    """How the task was chosen, if it was chosen by the values."""

    def number(self, texts: Sequence[str]) -> int | None:
        """The class of a row, −1 if no classes are read; None for a row to skip."""
        if self.task == TASKS[0]:
            return self.classes.number(texts[0] if texts else "")
        return None if self.skip_unlabelled and all(map(is_missing, texts)) else -1

    def values(self, texts: Sequence[str]) -> tuple[float, ...]:
        """The targets of a row, NaN where missing; nothing for a classification."""
        return () if self.task == TASKS[0] else tuple(math.nan if is_missing(text) else float(text) for text in texts)


UNLABELLED = Labels()
"""Used when no labels are read."""


class LabelledRows:
    """The labels of the graphs of a set, added row by row."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._y, self._targets = array("q"), array("d")

    def add(self, texts: Sequence[str]) -> bool:
        """Add the fields of a row. Returns False if the row has no label and must be skipped."""
        number = self.labels.number(texts)
        if number is not None:
            self._y.append(number)
            self._targets.extend(self.labels.values(texts))
        return number is not None

    def drop_last(self) -> None:
        """Remove the row that was added last."""
        del self._y[-1]
        if width := self._width:
            del self._targets[-width:]

    @property
    def _width(self) -> int:
        return 0 if self.labels.task == TASKS[0] else len(self.labels.columns)

    def of(self, graphs: GraphSet, rows: NDArray[np.int64] | None = None) -> GraphSet:
        """The same graphs with these labels, one row per graph; `rows` selects rows."""
        chosen = slice(None) if rows is None else rows
        if not self._width:
            return graphs.relabelled(np.frombuffer(self._y, np.int64)[chosen], self.labels.classes.names)
        targets = np.frombuffer(self._targets, np.float64).reshape(-1, self._width)[chosen]
        return replaced_targets(graphs, targets, self.labels.columns, self.labels.task)


def target_names(count: int) -> Names:
    """The default names of label columns, for a source without names."""
    return tuple(f"target {column}" for column in range(count))


def rows_of_numbers(names: Names, values: Sequence[NDArray[Any]]) -> Rows:
    """Yield numbers as fields: `values` has a row per graph, with one column for each of `names`."""

    def rows(chosen: Sequence[str]) -> Iterator[tuple[str, ...]]:
        places = [names.index(name) for name in chosen]
        return (tuple(repr(row[place].item()) for place in places) for row in values)

    return rows


def numbered(graphs: GraphSet, labels: Labels, values: Sequence[NDArray[Any]], first: int) -> Imported:
    """The graphs with labels that are read from rows of numbers; `first` is the number of the first row."""
    labelled, names = LabelledRows(labels), target_names(len(values[0]) if len(values) else 0)
    rows = rows_of_numbers(names, values)(labels.columns)
    kept = np.array([place for place, texts in enumerate(rows) if labelled.add(texts)], np.int64)
    if len(kept) < graphs.n_graphs:
        dropped = graphs.dropped | {"graphs without a label": graphs.n_graphs - len(kept)}
        graphs = replace(graphs.subset(kept), dropped=dropped, checked=True)
    return Imported(labelled.of(graphs), {"row": (kept + first).tolist()}, notes=labels.notes)


def read_labels(
    path: Path, columns: Sequence[str], rows: Rows, options: ImportOptions, default: Sequence[str] = ()
) -> Labels:
    """Find the label columns, decide on the task, and check every value.

    Without --label, the columns `default` are read or, if there are none, the column with a usual name.
    """
    if options.task not in (AUTO, *TASKS):
        raise unknown("task", options.task, (AUTO, *TASKS))
    chosen = chosen_columns(path, columns, options.patterns) if options.patterns or not default else list(default)
    if options.threshold is not None and options.task not in (AUTO, TASKS[0]):
        raise UserError(f"--threshold makes two classes, which --task {options.task} does not predict; leave one out")
    if options.threshold is not None or (options.task == TASKS[0] and len(chosen) == 1):
        if len(chosen) > 1:
            raise UserError("--threshold needs exactly one label column")
        return _classification(path, chosen[0], rows, options)
    if options.task == TASKS[0]:
        raise UserError(f"--task classification needs one label column, not {len(chosen)}; use --task multilabel")
    found = [TargetColumn(name) for name in chosen]
    for number, texts in enumerate(rows(chosen), start=1):
        for column, text in zip(found, texts, strict=True):
            column.add(text, number)
    task, reason = fitting_task(found) if options.task == AUTO else (options.task, "")
    what = f"column {excerpt(chosen[0])!r}" if len(chosen) == 1 else counted(len(chosen), "label column")
    notes = (f"{path}: {what}: task {task}, because {reason} (choose another with --task)",) if reason else ()
    if task == TASKS[0]:
        return replace(_classification(path, chosen[0], rows, options), notes=notes)
    for column in found:
        column.check(str(path), task)
    return Labels(task, tuple(chosen), skip_unlabelled=options.skip_unlabelled, notes=notes)


def chosen_columns(path: Path, columns: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The label columns that match the patterns, in the order of the source; by default the usual one."""
    if not patterns:
        return [_usual_label(path, columns)]
    chosen: set[str] = set()
    for pattern in patterns:
        matches = {name for name in columns if name == pattern} or {n for n in columns if fnmatchcase(n, pattern)}
        if not matches:
            raise UserError(f"{path} has no label column {excerpt(pattern)!r}; it may be one of: {few(columns)}")
        chosen |= matches
    return [name for name in columns if name in chosen]


def _usual_label(path: Path, columns: Sequence[str]) -> str:
    """The only column with a usual name, else the only column."""
    if not columns:
        raise UserError(f"{path} has no column for the label; {WITHOUT}")
    usual = [column for column in columns if column.lower() in USUAL]
    likely = usual if usual else list(columns)
    if len(likely) > 1:
        raise UserError(
            f"{path}: several columns could hold the label ({few(likely)}); choose with --label COLUMN, which can be "
            "repeated or be a pattern such as 'NR-*'"
        )
    return likely[0]


def _classification(path: Path, column: str, rows: Rows, options: ImportOptions) -> Labels:
    classes = classes_of(path, column, (text for (text,) in rows([column])), options)
    return Labels(columns=(column,), classes=classes)


def classes_of(path: Path, column: str, fields: Iterable[str], options: ImportOptions) -> ClassLabels:
    """Return the classes in these fields, one per row. Raise UserError with advice if they are not classes."""
    where = f"{path}: column {excerpt(column)!r}"
    found: dict[str, int] = {}
    span = _Span()
    rows = missing = first = 0
    for text in fields:
        rows += 1
        if is_missing(text):
            missing, first = missing + 1, first or rows
        elif options.threshold is None:
            found.setdefault(text, rows)
        else:
            span.add(text, rows)
    if rows == 0:
        raise UserError(f"{path} has no rows")
    if missing == rows:
        raise UserError(f"{where} is empty in all {rows:,} rows; {WITHOUT}")
    if missing and not options.skip_unlabelled:
        count = f"{missing:,} of {rows:,} rows, the first of them row {first}"
        raise UserError(f"{where} has no label in {count}; use --skip-unlabelled to skip them")
    if options.threshold is not None:
        return _two_classes(where, span, options.threshold)
    return _one_class_per_value(where, found, rows - missing)


class _Span:
    """The range of a numeric column; the values are not stored, as there may be as many as rows."""

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.not_a_number: tuple[str, int] | None = None
        """The first field that is not a number, and its row."""

    def add(self, text: str, row: int) -> None:
        """Include a field in the range."""
        number = number_in(text)
        if number is None:
            self.not_a_number = self.not_a_number or (text, row)
        else:
            self.low, self.high = min(self.low, number), max(self.high, number)


class _Sides(dict[str, int]):
    """Maps a number to its side of a threshold: 0 below, 1 at or above."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self._threshold = threshold

    def __missing__(self, text: str) -> int:
        return int(float(text) >= self._threshold)


def _two_classes(where: str, span: _Span, threshold: float) -> ClassLabels:
    """Return two classes: numbers below a threshold, and the rest."""
    if not math.isfinite(threshold):
        raise UserError(f"--threshold must be a number, not {threshold}")
    if span.not_a_number is not None:
        text, row = span.not_a_number
        raise UserError(f"{where}, row {row}: {excerpt(text)!r} is not a number; --threshold needs numbers")
    if not span.low < threshold <= span.high:
        goes = f"from {span.low:g} to {span.high:g}"
        raise UserError(f"{where} goes {goes}; a threshold of {threshold:g} does not make two classes")
    return ClassLabels((f"below {threshold:g}", f"{threshold:g} and above"), _Sides(threshold))


def _one_class_per_value(where: str, found: dict[str, int], rows: int) -> ClassLabels:
    """Make each value a class; 1 and 1.0 are the same class."""
    numbers = [number_in(text) for text in found]
    all_numbers = None not in numbers
    whole = all(number is None or number.is_integer() for number in numbers)
    distinct = set(numbers) if all_numbers else set(found)
    if (all_numbers and not whole) or len(distinct) > TOO_MANY or (len(distinct) == rows and rows > 2):
        what = "numbers" if all_numbers else "values"
        way = "use --task regression, --threshold T to make two classes, or" if all_numbers else "choose"
        raise UserError(
            f"{where} holds {len(distinct):,} different {what} in {rows:,} rows, which are not classes; {way} another "
            "column with --label"
        )
    if long := next((text for text in found if len(text) > LONGEST), None):
        raise UserError(f"{where} has a class whose name is too long: {excerpt(long, 60)!r}")
    name = {text: str(int(float(text))) if all_numbers else printable(text) for text in found}
    names = tuple(sorted(set(name.values()), key=sort_key))
    place = {known: number for number, known in enumerate(names)}
    return ClassLabels(names, {text: place[name[text]] for text in found})


COLUMN = "split"

SIDE = {
    "": "",
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
"""Values of a split column, ignoring case, and the side each means; an empty field puts the graph on no side."""


def side_column(table: Table, taken: Sequence[int | None], labels: Sequence[str]) -> tuple[int | None, tuple[str, ...]]:
    """Return the number of the column `split`, and a note if it exists but cannot be used."""
    place = table.usual((COLUMN,))
    if place is None or place in taken or table.columns[place] in labels:
        return None, ()
    problem = side_problem(table.path, (text for _, (text,) in table.rows(place)))
    return (place, ()) if problem is None else (None, (problem,))


def side_problem(path: Path, fields: Iterable[str]) -> str | None:
    """Return why a column `split` cannot be used: it holds something other than names of sides. None if it can."""
    for text in fields:
        if text.lower() not in SIDE:
            return f"{path}: column 'split' is not used: it holds {excerpt(text, 60)!r}, not only train, val and test"
    return None


def side_of(text: str) -> str:
    """Return the side that a field names."""
    return SIDE[text.lower()]
