"""Reading a store: studies, finished cells, failures, and problems with its files. No torch.

STORE/studies/NAME.json   a study: its cells in order, with the published numbers
STORE/cells/KEY.json      a finished cell: configuration, results of every split, provenance
STORE/failed/KEY.json     a cell that could not be finished, and why
STORE/searches/NAME.json  a search for settings: its space, its trials with their validation scores, its winner
STORE/work/KEY/           the training folder of a running or interrupted cell
STORE/claims/KEY.json     which process trains it
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from cgipool.errors import UserError, excerpt, printable
from cgipool.study.analysis import Analysis
from cgipool.study.stored import check_number, check_provenance, check_row, parts_of, read_stored
from cgipool.task.metrics import METRICS, primary_of

T = TypeVar("T")

ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The exceptions that unexpected values can cause, such as those of a damaged or forged file."""

PLAIN = (str, int, float, NoneType)
"""The types of an axis value."""

GENERATION = 1
"""Part of every cell's key. It is raised when the code gives other results for the same settings, so that old and new
cells never meet in one table. The version of the package is not part of the key, as most versions change no result."""


def key_of(cell: dict[str, Any]) -> str:
    """The key of a cell in a store: a hash of everything that determines its result."""
    plain = json.dumps({"generation": GENERATION} | cell, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()[:20]


def place_in_words(at: dict[str, Any]) -> str:
    """A place on the axes of a study: method=cgi,dataset=NCI1."""
    return ",".join(f"{axis}={value}" for axis, value in at.items())


@dataclass(frozen=True)
class Record:
    """A finished cell."""

    key: str
    cell: dict[str, Any]
    """What determines the result: method, dataset, recipe (all settings), seed, splits, first, split_kind, ensemble."""
    splits: list[dict[str, Any]]
    """Per split: split, epochs, best_epoch, val_loss and val_METRIC (at the best epoch; METRIC is the primary metric of
    the task, accuracy for classes, and the one that early stopping watched), test (metrics by name, shares; those of
    every class or target column under per_class or per_column), graphs (train, val, test), parameters, seconds, curve
    (epoch, train_loss, val_loss, val_METRIC), diagnostics (at the best epoch); of an ensemble also members, each with
    test_METRIC, test, epochs, best_epoch and val_loss."""
    provenance: dict[str, Any]
    """command, versions, commit, device, precision, started, finished, seconds, data and splits (hashes); classes
    (their names, and which one is positive unless another is asked for), or task and columns (of the targets)."""

    @property
    def task(self) -> str:
        """What was predicted."""
        return str(self.provenance.get("task", "classification"))

    @property
    def primary(self) -> str:
        """The metric by which models of its task are compared."""
        return primary_of(self.task)

    @property
    def recipe(self) -> str:
        """The name of the recipe."""
        recipe = self.cell.get("recipe")
        return str(recipe.get("name", "")) if isinstance(recipe, dict) else ""

    @property
    def test_graphs(self) -> int:
        """Mean number of test graphs in a split."""
        return round(float(np.mean([row["graphs"]["test"] for row in self.splits])))

    @property
    def test_to_train(self) -> float:
        """The ratio of test to training graphs, which the corrected paired test needs."""
        return float(np.mean([row["graphs"]["test"] / row["graphs"]["train"] for row in self.splits]))


@dataclass(frozen=True)
class Wanted:
    """A cell that a study needs."""

    key: str
    at: dict[str, Any]
    """Its value on each axis of the study: method, dataset and whatever else varies."""
    published: tuple[float, float | None] | None = None
    """The paper's mean and its ±, in percent, if it prints them."""
    unread: tuple[str, ...] = ()
    """Axes whose setting the method does not read: cells that differ only in these share one result."""
    choices: tuple[tuple[str, str], ...] = ()
    """Names and keys of the cells among which each split chooses; empty without nested selection."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the trained cells it needs."""
        return tuple(key for _, key in self.choices) or (self.key,)

    @property
    def name(self) -> str:
        """Its position on the axes as text."""
        return place_in_words(self.at)


@dataclass(frozen=True)
class StudyRecord:
    """A study as stored."""

    name: str
    title: str
    about: str
    source: str
    """The source of the published numbers."""
    axes: dict[str, list[Any]]
    """The values of each axis in display order; the first two axes are rows and columns."""
    titles: dict[str, dict[str, str]]
    """Display names of axis values: {"method": {"cgi": "CGIPool"}}."""
    curves: str | None
    """The axis to draw curves over; None: the study is a table."""
    baseline: str | None
    """The method that all others are compared with."""
    cells: list[Wanted]
    analysis: Analysis = field(default_factory=Analysis)
    """How its results are read and compared."""

    def written(self, axis: str, value: Any) -> str:
        """The display name of an axis value."""
        return printable(self.titles.get(axis, {}).get(str(value), str(value)))


@dataclass(frozen=True)
class RungRecord:
    """A round of a search; before it starts it has neither settings nor cells."""

    name: str
    settings: int
    cells: list[Wanted]


@dataclass(frozen=True)
class SearchRecord:
    """A search as stored after the latest round that was started or finished."""

    name: str
    rungs: list[RungRecord]
    winner: str | None
    """The name of the best setting, after the last rung."""


@dataclass
class Book:
    """The content of a store."""

    studies: list[StudyRecord] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The reasons of failures, by key."""
    problems: list[str] = field(default_factory=list)
    """Problems: files that could not be used, each with the reason, and other remarks for the reader."""


def read_book(folder: Path) -> Book:
    """Read a store. Files that cannot be read are listed in `problems`; the rest is returned."""
    if not (folder / "studies").is_dir() and not (folder / "cells").is_dir():
        raise UserError(f"{folder} is not a store: it has neither studies nor cells")
    book = Book()
    for path in _files(folder / "studies"):
        with _noting(book):
            book.studies.append(read_study_record(path))
    for path in _files(folder / "cells"):
        with _noting(book):
            record = read_record(path)
            if path.stem != record.key:
                raise UserError(f"{path} differs from {record.key}.json, which is shown: two results of one cell")
            if record.key != key_of(record.cell):
                book.problems.append(f"{path} was made by another version, whose results may differ")
            book.records[record.key] = record
    for path in _files(folder / "failed"):
        with _noting(book):
            book.failed[path.stem] = read_failure(path)[0]
    return book


def read_study_record(path: Path) -> StudyRecord:
    """Read a study from its file in a store."""
    return _built(path, "study record", _study)


def read_record(path: Path) -> Record:
    """Read a finished cell from its file in a store, or from one that a merge kept next to it (KEY.HASH.json)."""
    record = _built(path, "cell record", record_of)
    if record.key != path.stem.split(".")[0]:
        raise UserError(f"{path} holds the cell {excerpt(record.key)}, which does not match its name")
    return record


def read_failure(path: Path) -> tuple[str, str]:
    """Read the reason and the time of a failure."""
    return _built(path, "failure record", lambda value: (str(value["reason"]), str(value.get("when", ""))))


def read_searches(folder: Path, book: Book) -> list[SearchRecord]:
    """Return the searches of a store, which no report includes; problems are added to its book."""
    searches = []
    for path in _files(folder / "searches"):
        with _noting(book):
            searches.append(_built(path, "search record", _search))
    return searches


def validation_score(row: dict[str, Any], metric: str) -> float | None:
    """The primary metric on a split's validation graphs at the best epoch. Older records do not have it; then it is
    read from their thinned curve, at the epoch nearest to the best one (the earlier of two). None if neither exists."""
    if row.get(f"val_{metric}") is not None:
        return float(row[f"val_{metric}"])
    curve = row.get("curve", {})
    points = zip(curve.get("epoch", []), curve.get(f"val_{metric}", []), strict=False)
    known = [(abs(epoch - row["best_epoch"]), epoch, value) for epoch, value in points if value is not None]
    return float(min(known)[2]) if known else None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


@contextmanager
def _noting(book: Book) -> Iterator[None]:
    """Record an error in one file as a problem, and continue."""
    try:
        yield
    except UserError as error:
        book.problems.append(str(error))


def _built(path: Path, kind: str, build: Callable[[dict[str, Any]], T]) -> T:
    """Apply a function to the values of a file. Unexpected values raise an error that names the file."""
    try:
        return build(read_stored(path))
    except KeyError as error:
        reason = f"it lacks {error}"
    except ODD as error:
        reason = excerpt(str(error))
    raise UserError(f"{path} is not a valid {kind}: {reason}")


def record_of(value: dict[str, Any]) -> Record:
    """Build a finished cell from the values of its file; unexpected values raise one of `ODD`."""
    record = Record(*parts_of(value, key=str, cell=dict, splits=list, provenance=dict))
    check_provenance(record.provenance)
    key_of(record.cell)  # raises for values that JSON does not have, such as NaN
    if not record.splits:
        raise ValueError("it has no splits")
    if record.task not in METRICS:
        raise ValueError(f"its task {excerpt(record.task)!r} is unknown")
    for row in record.splits:
        check_row(row, record.primary)
    if len({row["split"] for row in record.splits}) < len(record.splits):
        raise ValueError("it has two results of one split")
    return record


def _study(value: dict[str, Any]) -> StudyRecord:
    name, title, about, source = parts_of(value, name=str, title=str, about=str, source=str)
    axes, titles, curves, baseline = parts_of(
        value, axes=dict, titles=dict, curves=(str, NoneType), baseline=(str, NoneType)
    )
    parts_of(axes, **dict.fromkeys(axes, list))
    for values in axes.values():
        _plain(values)
    parts_of(titles, **dict.fromkeys(titles, dict))
    for written in titles.values():
        parts_of(written, **dict.fromkeys(written, str))
    cells = list(map(_wanted, value["cells"]))
    analysis = Analysis.from_json(value.get("analysis", {}))
    return StudyRecord(name, title, about, source, axes, titles, curves, baseline, cells, analysis)


def _wanted(value: Any) -> Wanted:
    key, at = parts_of(value, key=str, at=dict)
    _plain([*at.values(), *(value.get("published") or ())])
    unread = tuple(axis for axis in at if axis in value.get("unread", ()))
    choices = tuple((str(name), str(one)) for name, one in value.get("choices", ()))
    if value.get("published") is None:
        return Wanted(key, at, unread=unread, choices=choices)
    mean, spread = value["published"]
    check_number("published mean", mean)
    if spread is not None:
        check_number("published ±", spread)
    return Wanted(key, at, (mean, spread), unread, choices)


def _search(value: dict[str, Any]) -> SearchRecord:
    name, rungs, winner = parts_of(value, name=str, rungs=list, winner=(dict, NoneType))
    return SearchRecord(name, list(map(_rung, rungs)), None if winner is None else str(winner["name"]))


def _rung(value: Any) -> RungRecord:
    name, methods, datasets, trials = parts_of(value, name=str, methods=list, datasets=list, trials=list)
    places = [{"method": method, "dataset": dataset} for method in methods for dataset in datasets]
    cells = [
        Wanted(str(key), {"setting": trial["name"]} | place)
        for trial in trials
        for key, place in zip(trial["cells"], places, strict=True)
    ]
    return RungRecord(name, len(trials), cells)


def _plain(values: Iterable[Any]) -> None:
    if not all(isinstance(value, PLAIN) and value not in (math.inf, -math.inf) and value == value for value in values):
        raise ValueError("a value of an axis is neither text nor a finite number")
