"""What a store holds, read back: studies, finished cells, failed ones, and what is wrong with its files. No torch.

STORE/studies/NAME.json   a study: what it asks for, in which order, with the published numbers
STORE/cells/KEY.json      a finished cell: configuration, results of every split, provenance
STORE/failed/KEY.json     a cell that could not be finished, and why
STORE/searches/NAME.json  a search for settings: its space, its trials with their validation scores, its winner
STORE/work/KEY/           the training folder of a cell in hand
STORE/claims/KEY.json     who has it in hand
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
"""What code may raise on values of another kind than it expects, as a damaged or forged file may hold them."""

PLAIN = (str, int, float, NoneType)
"""What a value of an axis may be."""

GENERATION = 1
"""Part of every cell's key. Raised when the code gives other results for the same settings, so that cells of before and
after never meet in one table; the version of the package is not part of the key, as most versions change no result."""


def key_of(cell: dict[str, Any]) -> str:
    """The name of a cell in a store: a hash of all that determines its result."""
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
    the task, accuracy for classes), test (metrics by name, shares; those of every class or target column under
    per_class or per_column), graphs (train, val, test), parameters, seconds, curve (epoch, train_loss, val_loss,
    val_METRIC), diagnostics (at the best epoch); of an ensemble also members, each with test_METRIC, test, epochs,
    best_epoch and val_loss."""
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
        """The name of the recipe that its settings came from."""
        recipe = self.cell.get("recipe")
        return str(recipe.get("name", "")) if isinstance(recipe, dict) else ""

    @property
    def test_graphs(self) -> int:
        """How many graphs a split tests, on average."""
        return round(float(np.mean([row["graphs"]["test"] for row in self.splits])))

    @property
    def test_to_train(self) -> float:
        """The ratio of test to training graphs, which the corrected paired test needs."""
        return float(np.mean([row["graphs"]["test"] / row["graphs"]["train"] for row in self.splits]))


@dataclass(frozen=True)
class Wanted:
    """A cell as a study asks for it."""

    key: str
    at: dict[str, Any]
    """Its value on each axis of the study: method, dataset and whatever else varies."""
    published: tuple[float, float | None] | None = None
    """The paper's mean and its ±, in percent, if it prints them."""
    unread: tuple[str, ...] = ()
    """Axes whose setting the method does not read: cells that differ in these alone are one result."""
    choices: tuple[tuple[str, str], ...] = ()
    """Names and keys of the cells among which each split chooses; empty without nested selection."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The cells that are trained for it."""
        return tuple(key for _, key in self.choices) or (self.key,)

    @property
    def name(self) -> str:
        """Its place in words."""
        return place_in_words(self.at)


@dataclass(frozen=True)
class StudyRecord:
    """A study as its store remembers it."""

    name: str
    title: str
    about: str
    source: str
    """Where the published numbers are from."""
    axes: dict[str, list[Any]]
    """The values of each axis in the order they are shown; the first two are rows and columns."""
    titles: dict[str, dict[str, str]]
    """By axis, how a value is written: {"method": {"cgi": "CGIPool"}}."""
    curves: str | None
    """The axis that is the abscissa where the study is shown as curves; None: a table."""
    baseline: str | None
    """The method that the others are compared with."""
    cells: list[Wanted]
    analysis: Analysis = field(default_factory=Analysis)
    """How its results are read and compared."""

    def written(self, axis: str, value: Any) -> str:
        """How a value of an axis is written."""
        return printable(self.titles.get(axis, {}).get(str(value), str(value)))


@dataclass(frozen=True)
class RungRecord:
    """A round of a search; before it has begun it has no settings and no cells."""

    name: str
    settings: int
    cells: list[Wanted]


@dataclass(frozen=True)
class SearchRecord:
    """A search as its store remembers it: as of the last round that was begun or judged."""

    name: str
    rungs: list[RungRecord]
    winner: str | None
    """The name of the best setting, once the last rung is over."""


@dataclass
class Book:
    """All that a store holds."""

    studies: list[StudyRecord] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """By key, why a cell could not be finished."""
    problems: list[str] = field(default_factory=list)
    """Files that could not be used, each with its reason, and other things that a reader must know."""


def read_book(folder: Path) -> Book:
    """Read a store. What cannot be read is reported among the problems, by name; the rest is still there."""
    if not (folder / "studies").is_dir() and not (folder / "cells").is_dir():
        raise UserError(f"{folder} is no store: it has neither studies nor cells")
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
    """A study, by the file that its store keeps it in."""
    return _built(path, "study", _study)


def read_record(path: Path) -> Record:
    """A finished cell, by the file that its store keeps it in, or that a merge kept beside it (KEY.HASH.json)."""
    record = _built(path, "cell", record_of)
    if record.key != path.stem.split(".")[0]:
        raise UserError(f"{path} calls itself {excerpt(record.key)}")
    return record


def read_failure(path: Path) -> tuple[str, str]:
    """Why a cell could not be finished, and when that was."""
    return _built(path, "failure", lambda value: (str(value["reason"]), str(value.get("when", ""))))


def read_searches(folder: Path, book: Book) -> list[SearchRecord]:
    """The searches of a store, which are in no report; what cannot be read is added to the problems of its book."""
    searches = []
    for path in _files(folder / "searches"):
        with _noting(book):
            searches.append(_built(path, "search", _search))
    return searches


def validation_score(row: dict[str, Any], metric: str) -> float | None:
    """A primary metric on a split's validation graphs at the best epoch. Records made before it was kept have it on
    their thinned curve: at the epoch nearest to the best one, the earlier of two. None where a split has neither."""
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
    """What is wrong with one file is a problem of the book, and no reason to stop."""
    try:
        yield
    except UserError as error:
        book.problems.append(str(error))


def _built(path: Path, kind: str, build: Callable[[dict[str, Any]], T]) -> T:
    """What a function makes of a file's values. Whatever is odd about them is an error that names the file."""
    try:
        return build(read_stored(path))
    except KeyError as error:
        reason = f"it lacks {error}"
    except ODD as error:
        reason = excerpt(str(error))
    raise UserError(f"{path} is no {kind} of this format: {reason}")


def record_of(value: dict[str, Any]) -> Record:
    """A finished cell from the values of its file; an error of some kind where they are odd."""
    record = Record(*parts_of(value, key=str, cell=dict, splits=list, provenance=dict))
    check_provenance(record.provenance)
    key_of(record.cell)  # fails where it holds what JSON does not have, such as NaN
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
