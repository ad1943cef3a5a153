"""Writing a report: per study its tables and figures, and one page over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cgipool.errors import UserError, unknown
from cgipool.files import write_atomically
from cgipool.report.courses import CURVES, course, diagnostics, thinned
from cgipool.report.figures import figures_of
from cgipool.report.layout import check_study
from cgipool.report.page import page
from cgipool.report.tables import latex, markdown, tidy
from cgipool.report.view import DONE, View, view_of
from cgipool.study.positive import check_positive
from cgipool.study.records import Book, Record, StudyRecord, read_book


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
    _drop_unusable(book)
    names = [study.name for study in book.studies]
    for name in studies:
        if name not in names:
            raise unknown("study", name, names)
    if not names:
        raise UserError(f"{store} has no study to report{_because(store, book)}")
    check_positive(book.records.values(), positive)
    views = [view_of(study, book, positive) for study in book.studies if not studies or study.name in studies]
    files: dict[str, str] = {}
    figures = {view.study.name: figures_of(view) for view in views}
    for view in views:
        name = view.study.name
        files |= {f"{name}.md": markdown(view, book.problems), f"{name}.tex": latex(view), f"{name}.csv": tidy(view)}
        files |= {f"{name}-{kind}.svg": text for kind, text in figures[name].items()}
    files["index.html"] = page(views, figures, book.problems)
    return Report(_write(out, files), book.problems, views)


def _drop_unusable(book: Book) -> None:
    """Take out what no table can show, and say so."""
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
            shown.append(study)
    book.studies = shown


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
    values = record.percent()
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 100:
        return "an accuracy in it is no share between 0 and 1"
    if any(row["graphs"]["train"] < 1 or row["graphs"]["test"] < 1 for row in record.splits):
        return "a split in it has no graphs"
    try:
        diagnostics(record), record.provenance.items()
        for name in CURVES:
            course(record, name), [thinned(row, name) for row in record.splits]
    except (AttributeError, TypeError, ValueError):
        return "its curves, diagnostics or provenance are not of this format"
    return None


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
        write_atomically(out / name, partial(Path.write_bytes, data=text.encode()))
    return [out / name for name in files]
