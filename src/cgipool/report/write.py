"""Writing a report: per study its tables and figures, and one page over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cgipool.errors import UserError, excerpt, unknown
from cgipool.files import write_atomically
from cgipool.report.figures import figures_of
from cgipool.report.page import page, study_shown
from cgipool.report.sound import drop_unusable
from cgipool.report.tables import latex, markdown, markdown_problems, tidy
from cgipool.report.view import DONE, View, view_of
from cgipool.study.positive import check_positive
from cgipool.study.records import ODD, Book, Record, read_book


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
    drop_unusable(book)
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
    for study in (study for study in book.studies if not studies or study.name in studies):
        try:
            view = view_of(study, book, positive)
            figures = figures_of(view)
            parts = {
                f"{study.name}.md": markdown(view),
                f"{study.name}.tex": latex(view),
                f"{study.name}.csv": tidy(view),
            }
            shown.append(study_shown(view, figures))
        except (*ODD, UserError) as error:
            book.problems.append(f"the study {study.name!r} is not shown: {excerpt(str(error))}")
            continue
        views.append(view)
        files |= parts | {f"{study.name}-{kind}.svg": text for kind, text in figures.items()}
    if not views:
        raise UserError(f"{store} has no study to report{_because(store, book)}")
    for view in views:
        files[f"{view.study.name}.md"] += markdown_problems(book.problems)
    files["index.html"] = page(shown, _cells(views), book.problems)
    return Report(_write(out, files), book.problems, views)


def _cells(views: list[View]) -> dict[str, Record]:
    return {entry.record.key: entry.record for view in views for entry in view.entries if entry.record}


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
