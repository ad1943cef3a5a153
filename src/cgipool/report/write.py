"""Write the report of a store.

Cells and studies that cannot be shown are left out and listed as problems, so that one bad file never stops a report.
"""

import gc
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.errors import UserError, excerpt, printable, unknown
from cgipool.files import names_a_file, write_atomically
from cgipool.report.figures import figures_of
from cgipool.report.page import page, plain, study_data
from cgipool.report.page_cells import cell_data, splits_table
from cgipool.report.tables import latex, markdown, markdown_problems, tidy
from cgipool.report.training_curves import diagnostics, training_curves
from cgipool.report.view import DONE, View, view_of
from cgipool.study.analysis import check_margin
from cgipool.study.measured import check_metric_known, check_positive, measured
from cgipool.study.nested import with_choices
from cgipool.study.records import ODD, PLAIN, Book, Record, StudyRecord, read_book
from cgipool.task.metrics import KNOWN, primary_of

LARGEST = 1e100
"""Curves with larger numbers are not drawn."""


def drop_unusable(book: Book) -> dict[str, Any]:
    """Remove cells and studies that cannot be shown and list them as problems.

    Returns the page data of the remaining cells by key.
    """
    cells: dict[str, Any] = {}
    for key, record in list(book.records.items()):
        wrong = _wrong(record, cells)
        if wrong:
            book.problems.append(f"cells/{key}.json is not shown: {wrong}")
            del book.records[key]
    for key, reason in _misplaced(book):
        book.problems.append(f"cells/{key}.json is not shown: {reason}")
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


def check_study(study: StudyRecord) -> None:
    """Raise UserError if a study cannot be shown."""
    refused = f"the study {study.name!r} is not shown:"
    if not names_a_file(study.name):
        raise UserError(f"{refused} its name is not a valid file name")
    if len(study.axes) < 2:
        raise UserError(f"{refused} it needs at least two axes, for rows and columns")
    if study.curves is not None and study.curves not in study.axes:
        raise UserError(f"{refused} it has no axis {study.curves!r} for its curves")
    for cell in study.cells:
        for axis, values in study.axes.items():
            if cell.at.get(axis) not in values:
                raise UserError(f"{refused} its cell {cell.key} has no valid value on axis {axis!r}")
        shares = KNOWN[primary_of(study.analysis.tasks.get(str(cell.at.get("dataset")), "classification"))].percent
        numbers = [value for value in cell.published or () if value is not None]
        if shares and not all(0 <= value <= 100 for value in numbers):
            raise UserError(f"{refused} the published numbers of its cell {cell.key} must be percentages")


def _misplaced(book: Book) -> list[tuple[str, str]]:
    """Cells whose method or data set differs from the one that a study expects under their key."""
    found = {}
    for study in book.studies:
        for cell in study.cells:
            record = book.records.get(cell.key)
            for axis in ("method", "dataset"):
                if record is not None and axis in cell.at and record.cell.get(axis) != cell.at[axis]:
                    found[cell.key] = (
                        f"its {axis} is {record.cell.get(axis)!r}, but the study expects {cell.at[axis]!r}"
                    )
    return list(found.items())


def _wrong(record: Record, cells: dict[str, Any]) -> str | None:
    """Return why a cell cannot be shown. If it can, add its page data to `cells` and return None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns about overflow
            return _impossible(record) or _unreadable(record, cells)
    except (*ODD, Warning):
        return "its settings, numbers, curves, diagnostics or provenance have the wrong format"


def _impossible(record: Record) -> str | None:
    """Return what is impossible about a cell's numbers, if anything."""
    found = measured(record)
    numbers = [*found.values.values(), *(value for values in found.members.values() for value in values)]
    if not np.isfinite(numbers).all() or (found.metric.percent and any(not 0 <= value <= 100 for value in numbers)):
        limits = " that is not between 0 and 1" if found.metric.percent else " that is not finite"
        return f"it has a value of {found.metric.title}{limits}"
    if len({row["split"] for row in record.splits}) < len(record.splits):
        return "two of its splits have the same number"
    if any(row["graphs"]["train"] < 1 or row["graphs"]["test"] < 1 for row in record.splits):
        return "one of its splits has no training or test graphs"
    return None


def _unreadable(record: Record, cells: dict[str, Any]) -> str | None:
    """Return what about a cell cannot be drawn or written, if anything. Other errors are raised."""
    recipe = record.cell.get("recipe")
    for values in (record.cell, recipe if isinstance(recipe, dict) else {}):
        for name, value in values.items():
            if not isinstance(value, PLAIN) and value is not recipe:
                return f"its {excerpt(name)} is neither a string nor a number"
    curves = training_curves(record)
    if any(max(found.epoch[-1], *map(abs, (*found.low, *found.high))) > LARGEST for found in curves.values()):
        return "its curves have numbers too large to draw"
    diagnostics(record), record.test_to_train, record.test_graphs
    splits_table(measured(record))
    cells[record.key] = plain(cell_data(record, curves))
    return None


@dataclass(frozen=True)
class Report:
    """The files of a report, and what it shows."""

    files: list[Path]
    problems: list[str]
    """Problems of the store, with file names relative to it."""
    views: list[View]

    @property
    def wanted(self) -> int:
        """Number of cells that the studies request."""
        return sum(view.wanted for view in self.views)

    @property
    def present(self) -> int:
        """Number of these cells that are done."""
        return sum(view.count(DONE) for view in self.views)


def write_report(
    store: Path,
    out: Path,
    studies: Sequence[str] = (),
    positive: str | None = None,
    metric: str | None = None,
    margin: float | None = None,
) -> Report:
    """Write a report on the studies of a store, by default all, to a folder. Files of an earlier report are replaced.

    `positive` is the class for ROC-AUC and PR-AUC, in the cells that have it. `metric` is the metric to compare by, in
    the cells whose task has it; by default that of the study file, or the primary metric of each task. `margin` is the
    difference below which methods count as equivalent, in the unit of the metric; by default that of the study file.
    """
    if margin is not None:
        check_margin(margin)
    if not store.is_dir():
        raise UserError(f"{store} is not a store: the folder does not exist")
    book = with_choices(read_book(store))
    _prepare(out)
    # A report must not depend on where its store is.
    book.problems = [problem.replace(f"{store}/", "") for problem in book.problems]
    cells = drop_unusable(book)
    names = [study.name for study in book.studies]
    for name in studies:
        if name not in names:
            raise unknown("study", name, names)
    if not names:
        raise UserError(f"{store} has no study to report{_because(store, book)}")
    check_positive(book.records.values(), positive)
    check_metric_known(book.records.values(), metric)
    views: list[View] = []
    files: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    with _frozen_objects():
        for study in _in_order(book, studies):
            try:
                view = view_of(study, book, positive, metric, margin)
                figures = figures_of(view)
                parts = {
                    f"{study.name}.md": markdown(view),
                    f"{study.name}.tex": latex(view),
                    f"{study.name}.csv": tidy(view),
                }
                shown.append(study_data(view, figures, cells))
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


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Exclude the objects that exist now from garbage collection: scanning all records of a store again and again is
    slow."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _in_order(book: Book, names: Sequence[str]) -> list[StudyRecord]:
    """The named studies in the given order, or all studies in the order in which their training started."""
    if names:
        found = {study.name: study for study in book.studies}
        return [found[name] for name in dict.fromkeys(names)]
    return sorted(book.studies, key=lambda study: (_began(study, book), study.name))


def _began(study: StudyRecord, book: Book) -> tuple[bool, str]:
    """Sort key: when the first cell of a study was started. Studies without cells come last."""
    records = [book.records[cell.key] for cell in study.cells if cell.key in book.records]
    times = [str(record.provenance["started"]) for record in records if record.provenance.get("started")]
    return not times, min(times, default="")


def _because(store: Path, book: Book) -> str:
    if book.problems:
        return f": {'; '.join(book.problems)}"
    searched = (store / "searches").is_dir()
    return "; to see the scores of a search, run `cgipool study search FILE --dry-run`" if searched else ""


def _prepare(out: Path) -> None:
    """Create the folder first, so that an invalid path fails before the work starts."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: the folder cannot be created ({error.strerror})") from None


def _write(out: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        # JSON may contain lone surrogates, which UTF-8 cannot encode.
        write_atomically(out / name, partial(Path.write_bytes, data=text.encode(errors="replace")))
    return [out / name for name in files]
