"""Which column holds the classes, and what the classes are."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgipool.data.importers.options import ImportOptions
from cgipool.data.importers.table import few
from cgipool.data.names import Names, printable, sort_key
from cgipool.errors import UserError, excerpt

USUAL = ("label", "class", "y")
"""Column names that are taken for the classes unasked, in any case of letters."""

MISSING = frozenset(("", "na", "n/a", "nan", "null"))
"""What stands for a missing label, in any case of letters."""

WITHOUT = "for graphs without classes, to predict these, there is --unlabelled"
"""What a message says where no classes are found."""

LONGEST = 1000
"""Characters of the longest name of a class."""

MOST = 100
"""More classes than this are taken for a mistake: a column of names or measurements."""


def choose_label(path: Path, columns: Sequence[str], asked: str | None) -> str:
    """The name of the label column: the one asked for, the only one there is, or the only one of a usual name."""
    if asked is not None:
        if asked not in columns:
            raise UserError(f"{path} has no label column {excerpt(asked)!r}; it may be one of: {few(columns)}")
        return asked
    if not columns:
        raise UserError(f"{path} has no column for the label; {WITHOUT}")
    usual = [name for name in columns if name.lower() in USUAL]
    likely = usual if usual else list(columns)
    if len(likely) > 1:
        raise UserError(f"{path}: several columns could hold the label ({few(likely)}); choose with --label COLUMN")
    return likely[0]


def is_missing(text: str) -> bool:
    """Whether a field says that there is no label."""
    return text.lower() in MISSING


@dataclass(frozen=True)
class Classes:
    """The classes of a column."""

    names: Names
    code: dict[str, int]
    """From a field as it stands in the source to the number of its class; missing labels are not in it."""

    def number(self, text: str) -> int | None:
        """The class of a row with this label: None where that is missing, −1 where no classes are read."""
        if not self.names:
            return -1
        return None if is_missing(text) else self.code[text]


NO_CLASSES = Classes((), {})
"""Where no classes are read."""


def classes_of(path: Path, column: str, fields: Iterable[str], wishes: ImportOptions) -> Classes:
    """The classes in these fields, one per row; what cannot be classified is an error that says how to go on."""
    where = f"{path}: column {excerpt(column)!r}"
    found: dict[str, int] = {}
    span = _Span()
    rows = missing = first = 0
    for text in fields:
        rows += 1
        if is_missing(text):
            missing, first = missing + 1, first or rows
        elif wishes.threshold is None:
            found.setdefault(text, rows)
        else:
            span.add(text, rows)
    if rows == 0:
        raise UserError(f"{path} has no rows")
    if missing == rows:
        raise UserError(f"{where} is empty in all {rows:,} rows; {WITHOUT}")
    if missing and not wishes.skip_unlabelled:
        count = f"{missing:,} of {rows:,} rows, the first of them row {first}"
        raise UserError(f"{where} has no label in {count}; --skip-unlabelled leaves such rows out")
    if wishes.threshold is not None:
        return _two_classes(where, span, wishes.threshold)
    return _as_they_stand(where, found, rows - missing)


class _Span:
    """Where the numbers of a column lie; there may be as many different ones as rows, so they are not held."""

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.strange: tuple[str, int] | None = None
        """The first field that is no number, and its row."""

    def add(self, text: str, row: int) -> None:
        """Look at a field."""
        number = _number(text)
        if number is None:
            self.strange = self.strange or (text, row)
        else:
            self.low, self.high = min(self.low, number), max(self.high, number)


class _Sides(dict[str, int]):
    """From a number to its side of a threshold: 0 below, 1 from it on."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self._threshold = threshold

    def __missing__(self, text: str) -> int:
        return int(float(text) >= self._threshold)


def _two_classes(where: str, span: _Span, threshold: float) -> Classes:
    """Numbers below a threshold, and the others."""
    if not math.isfinite(threshold):
        raise UserError(f"--threshold must be a number, not {threshold}")
    if span.strange is not None:
        text, row = span.strange
        raise UserError(f"{where}, row {row}: {excerpt(text)!r} is not a number; --threshold needs numbers")
    if not span.low < threshold <= span.high:
        goes = f"from {span.low:g} to {span.high:g}"
        raise UserError(f"{where} goes {goes}; a threshold of {threshold:g} does not make two classes")
    return Classes((f"below {threshold:g}", f"{threshold:g} and above"), _Sides(threshold))


def _as_they_stand(where: str, found: dict[str, int], rows: int) -> Classes:
    """Each value a class; 1 and 1.0 are the same."""
    numbers = [_number(text) for text in found]
    all_numbers = None not in numbers
    whole = all(number is None or number.is_integer() for number in numbers)
    distinct = set(numbers) if all_numbers else set(found)
    if (all_numbers and not whole) or len(distinct) > MOST or (len(distinct) == rows and rows > 2):
        what = "numbers" if all_numbers else "values"
        way = ", or --threshold T to make two classes" if all_numbers else ""
        raise UserError(
            f"{where} holds {len(distinct):,} different {what} in {rows:,} rows; cgipool classifies: give a column of "
            f"classes (--label){way}"
        )
    if long := next((text for text in found if len(text) > LONGEST), None):
        raise UserError(f"{where} has a class whose name is too long: {excerpt(long, 60)!r}")
    name = {text: str(int(float(text))) if all_numbers else printable(text) for text in found}
    names = tuple(sorted(set(name.values()), key=sort_key))
    place = {known: number for number, known in enumerate(names)}
    return Classes(names, {text: place[name[text]] for text in found})


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
