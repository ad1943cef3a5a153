"""Which cells and studies of a store can be shown. The others are listed as problems and left out, so that one bad file
never stops a report."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.errors import UserError, excerpt, printable, unknown
from cgipool.files import write_atomically
from cgipool.report.courses import courses, diagnostics
from cgipool.report.figures import figures_of
from cgipool.report.page import page, plain, study_shown
from cgipool.report.shown import cell_shown, splits_shown
from cgipool.report.tables import latex, markdown, markdown_problems, tidy
from cgipool.report.view import DONE, View, check_study, view_of
from cgipool.study.positive import check_positive, metrics_of
from cgipool.study.records import ODD, PLAIN, Book, Record, StudyRecord, read_book

LARGEST = 1e100
"""Of the numbers that are drawn."""


def drop_unusable(book: Book) -> dict[str, Any]:
    """Take out what no table can show, and list it among the problems. Of the other cells, by key, what the page
    shows."""
    cells: dict[str, Any] = {}
    for key, record in list(book.records.items()):
        wrong = _wrong(record, cells)
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
    return cells


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


def _wrong(record: Record, cells: dict[str, Any]) -> str | None:
    """Why a cell cannot be shown; None for a sound one, which is added to `cells`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy's, about numbers that are too large
            return _impossible(record) or _unreadable(record, cells)
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


def _unreadable(record: Record, cells: dict[str, Any]) -> str | None:
    """What of a cell cannot be drawn or written; other faults are raised."""
    recipe = record.cell.get("recipe")
    for values in (record.cell, recipe if isinstance(recipe, dict) else {}):
        for name, value in values.items():
            if not isinstance(value, PLAIN) and value is not recipe:
                return f"its {excerpt(name)} is neither text nor a number"
    trained = courses(record)
    if any(max(found.epoch[-1], *map(abs, (*found.low, *found.high))) > LARGEST for found in trained.values()):
        return "its curves have numbers too large to draw"
    diagnostics(record), record.test_to_train, record.test_graphs
    splits_shown(record, metrics_of(record))
    cells[record.key] = plain(cell_shown(record, trained))
    return None


@dataclass(frozen=True)
class Report:
    """What was written."""

    files: list[Path]
    problems: list[str]
    """What is wrong with the store, by name of file, relative to the store."""
    views: list[View]

    @property
    def wanted(self) -> int:
        """How many cells the studies ask for."""
        return sum(view.wanted for view in self.views)

    @property
    def present(self) -> int:
        """How many of them are there."""
        return sum(view.count(DONE) for view in self.views)


def write_report(store: Path, out: Path, studies: Sequence[str] = (), positive: str | None = None) -> Report:
    """Report the studies of a store, by default all, into a folder; its own files of before are replaced. `positive`
    names the class that ROC-AUC and PR-AUC are of, in the cells that have it."""
    if not store.is_dir():
        raise UserError(f"{store} is no store: there is no such folder")
    book = read_book(store)
    _prepare(out)
    # A report is to be the same wherever its store lies.
    book.problems = [problem.replace(f"{store}/", "") for problem in book.problems]
    cells = drop_unusable(book)
    names = [study.name for study in book.studies]
    for name in studies:
        if name not in names:
            raise unknown("study", name, names)
    if not names:
        raise UserError(f"{store} has no study to report{_because(store, book)}")
    check_positive(book.records.values(), positive)
    views: list[View] = []
    files: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    for study in _in_order(book, studies):
        try:
            view = view_of(study, book, positive)
            figures = figures_of(view)
            parts = {
                f"{study.name}.md": markdown(view),
                f"{study.name}.tex": latex(view),
                f"{study.name}.csv": tidy(view),
            }
            shown.append(study_shown(view, figures, cells))
        except (*ODD, UserError) as error:
            book.problems.append(f"the study {study.name!r} is not shown: {excerpt(str(error))}")
            continue
        views.append(view)
        files |= parts | {f"{study.name}-{kind}.svg": text for kind, text in figures.items()}
    if not views:
        raise UserError(f"{store} has no study to report{_because(store, book)}")
    for view in views:
        files[f"{view.study.name}.md"] += markdown_problems(book.problems)
    files["index.html"] = page(shown, book.problems)
    return Report(_write(out, files), book.problems, views)


def _in_order(book: Book, names: Sequence[str]) -> list[StudyRecord]:
    """The studies as they are named. If none is, all of them: the one whose training began first comes first."""
    if names:
        found = {study.name: study for study in book.studies}
        return [found[name] for name in dict.fromkeys(names)]
    return sorted(book.studies, key=lambda study: (_began(study, book), study.name))


def _began(study: StudyRecord, book: Book) -> tuple[bool, str]:
    """Sorts studies by the time at which their first cell was started; those without one come last."""
    records = [book.records[cell.key] for cell in study.cells if cell.key in book.records]
    times = [str(record.provenance["started"]) for record in records if record.provenance.get("started")]
    return not times, min(times, default="")


def _because(store: Path, book: Book) -> str:
    if book.problems:
        return f": {'; '.join(book.problems)}"
    searched = (store / "searches").is_dir()
    return "; the scores of a search are shown by `cgipool study search FILE --dry-run`" if searched else ""


def _prepare(out: Path) -> None:
    """Make the folder before the work, so that a wrong one is told at once."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: it is no folder, and cannot become one ({error.strerror})") from None


def _write(out: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        # A lone surrogate, which JSON can hold, has no UTF-8.
        write_atomically(out / name, partial(Path.write_bytes, data=text.encode(errors="replace")))
    return [out / name for name in files]
