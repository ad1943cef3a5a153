"""Which cells and studies of a store can be shown. The others are listed as problems and left out, so that one bad file
never stops a report."""

import warnings
from dataclasses import replace

import numpy as np

from cgipool.errors import UserError, excerpt
from cgipool.report.courses import CURVES, course, diagnostics, thinned
from cgipool.report.layout import check_study
from cgipool.report.page import in_script
from cgipool.report.shown import cell_shown, splits_shown
from cgipool.study.positive import metrics_of
from cgipool.study.records import ODD, PLAIN, Book, Record, StudyRecord
from cgipool.words import printable

LARGEST = 1e100
"""Of the numbers that are drawn."""


def drop_unusable(book: Book) -> None:
    """Take out what no table can show, and list it among the problems."""
    for key, record in list(book.records.items()):
        wrong = _wrong(record)
        if wrong:
            book.problems.append(f"cells/{key}.json is not shown: {wrong}")
            del book.records[key]
    for key, said in _misplaced(book):
        book.problems.append(f"cells/{key}.json is not shown: {said}")
        book.records.pop(key, None)
    shown: list[StudyRecord] = []
    for study in book.studies:
        try:
            check_study(study)
        except UserError as error:
            book.problems.append(str(error))
            continue
        if study.name in [other.name for other in shown]:
            book.problems.append(f"a second study named {study.name!r} is not shown")
        else:
            title, about, source = map(printable, (study.title, study.about, study.source))
            shown.append(replace(study, title=title, about=about, source=source))
    book.studies = shown
    book.failed = {key: printable(reason) for key, reason in book.failed.items()}


def _misplaced(book: Book) -> list[tuple[str, str]]:
    """Cells that are of another method or data set than the study which asks for their key."""
    found = {}
    for study in book.studies:
        for cell in study.cells:
            record = book.records.get(cell.key)
            for axis in ("method", "dataset"):
                if record is not None and axis in cell.at and record.cell.get(axis) != cell.at[axis]:
                    found[cell.key] = f"its {axis} is {record.cell.get(axis)!r} where {cell.at[axis]!r} is due"
    return list(found.items())


def _wrong(record: Record) -> str | None:
    """Why a cell cannot be shown; None for a sound one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy's, about numbers that are too large
            return _impossible(record) or _unreadable(record)
    except (*ODD, Warning):
        return "its settings, numbers, curves, diagnostics or provenance are not of this format"


def _impossible(record: Record) -> str | None:
    """What of a cell's numbers cannot be."""
    values, members = record.percent(), [100 * share for share in record.members().values()]
    if not all(
        np.isfinite(some).all() and np.min(some) >= 0 and np.max(some) <= 100 for some in (values, members or 0)
    ):
        return "an accuracy in it is not a share between 0 and 1"
    if len(values) < len(record.splits):
        return "two of its splits have the same number"
    if any(row["graphs"]["train"] < 1 or row["graphs"]["test"] < 1 for row in record.splits):
        return "a split in it has no graphs"
    return None


def _unreadable(record: Record) -> str | None:
    """What of a cell cannot be drawn or written; other faults are raised."""
    recipe = record.cell.get("recipe")
    for values in (record.cell, recipe if isinstance(recipe, dict) else {}):
        for name, value in values.items():
            if not isinstance(value, PLAIN) and value is not recipe:
                return f"its {excerpt(name)} is neither text nor a number"
    for name in CURVES:
        found = course(record, name)
        if found is not None and max(found.epoch[-1], *map(abs, (*found.low, *found.high))) > LARGEST:
            return "its curves have numbers too large to draw"
        for row in record.splits:
            thinned(row, name)
    diagnostics(record), record.test_to_train, record.test_graphs
    in_script(cell_shown(record)), splits_shown(record, metrics_of(record))
    return None
