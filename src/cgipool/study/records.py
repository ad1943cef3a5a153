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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError, excerpt
from cgipool.files import read_json
from cgipool.words import printable

FORMAT = 1
"""Of the files of a store. Raised when an older reader would misread them."""

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
    """Per split: split, epochs, best_epoch, val_loss and val_accuracy (at the best epoch), test (metrics by name,
    shares; those of every class under per_class), graphs (train, val, test), parameters, seconds, curve (epoch,
    train_loss, val_loss, val_accuracy), diagnostics (at the best epoch); of an ensemble also members, each with
    test_accuracy, epochs, best_epoch and val_loss."""
    provenance: dict[str, Any]
    """command, versions, commit, device, precision, started, finished, seconds, data and splits (hashes), classes
    (their names, and which one is positive unless another is asked for)."""

    @property
    def recipe(self) -> str:
        """The name of the recipe that its settings came from."""
        recipe = self.cell.get("recipe")
        return str(recipe.get("name", "")) if isinstance(recipe, dict) else ""

    def accuracies(self) -> dict[int, float]:
        """One test accuracy per split, a share, by the split's number."""
        return {row["split"]: float(row["test"]["accuracy"]) for row in self.splits}

    def members(self) -> dict[int, float]:
        """Of an ensemble, the mean test accuracy of its members on each split; nothing of other cells."""
        rows = [row for row in self.splits if row.get("members")]
        return {row["split"]: float(np.mean([member["test_accuracy"] for member in row["members"]])) for row in rows}

    def percent(self) -> NDArray[np.float64]:
        """[splits] test accuracies in percent, by number of split."""
        values = self.accuracies()
        return np.array([100.0 * values[split] for split in sorted(values)])

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
    for path, value in _files(folder / "studies", book):
        try:
            book.studies.append(_study(value))
        except ODD as error:
            book.problems.append(f"{path} is no study of this format: {_said(error)}")
    for path, value in _files(folder / "cells", book):
        try:
            record = _record(value)
            outdated = record.key != key_of(record.cell)
        except ODD as error:
            book.problems.append(f"{path} is no cell of this format: {_said(error)}")
            continue
        if record.key != path.stem.split(".")[0]:
            book.problems.append(f"{path} calls itself {record.key}")
        elif path.stem != record.key:
            book.problems.append(f"{path} differs from {record.key}.json, which is shown: two results of one cell")
        else:
            if outdated:
                book.problems.append(f"{path} was made by another version, whose results may differ")
            book.records[record.key] = record
    for path, value in _files(folder / "failed", book):
        reason = value.get("reason") if isinstance(value, dict) else None
        book.failed[path.stem] = reason if isinstance(reason, str) else "unknown"
    return book


def read_searches(folder: Path, book: Book) -> list[SearchRecord]:
    """The searches of a store, which are in no report; what cannot be read is added to the problems of its book."""
    searches = []
    for path, value in _files(folder / "searches", book):
        try:
            searches.append(_search(value))
        except ODD as error:
            book.problems.append(f"{path} is no search of this format: {_said(error)}")
    return searches


def validation_accuracy(row: dict[str, Any]) -> float | None:
    """Of a split at its best epoch. Records made before it was kept have it on their thinned curve: at the epoch
    nearest to the best one, the earlier of two. None where a split has neither."""
    if row.get("val_accuracy") is not None:
        return float(row["val_accuracy"])
    curve = row.get("curve", {})
    points = zip(curve.get("epoch", []), curve.get("val_accuracy", []), strict=False)
    known = [(abs(epoch - row["best_epoch"]), epoch, value) for epoch, value in points if value is not None]
    return float(min(known)[2]) if known else None


def _files(folder: Path, book: Book) -> Iterator[tuple[Path, Any]]:
    for path in sorted(folder.glob("*.json")):
        try:
            if not path.is_file():  # a pipe would be waited for
                raise UserError(f"{path} is not a file")
            yield path, read_json(path)
        except UserError as error:
            book.problems.append(str(error))


def _said(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else excerpt(str(error))


def _expect_format(value: Any) -> None:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        raise ValueError(f"format {found!r}, where {FORMAT} is expected")


def _record(value: Any) -> Record:
    _expect_format(value)
    record = Record(*_parts(value, key=str, cell=dict, splits=list, provenance=dict))
    _parts({"versions": {}} | record.provenance, versions=dict)
    if not record.splits:
        raise ValueError("it has no splits")
    for row in record.splits:
        _parts(row, test=dict)
        float(row["test"]["accuracy"])
        _parts(row, split=int)
        _parts(row["graphs"], train=int, test=int)
        for member in row.get("members", []):
            float(member["test_accuracy"])
    return record


def _study(value: Any) -> StudyRecord:
    _expect_format(value)
    name, title, about, source = _parts(value, name=str, title=str, about=str, source=str)
    axes, titles, curves, baseline = _parts(
        value, axes=dict, titles=dict, curves=(str, NoneType), baseline=(str, NoneType)
    )
    _parts(axes, **dict.fromkeys(axes, list))
    for values in axes.values():
        _plain(values)
    _parts(titles, **dict.fromkeys(titles, dict))
    for written in titles.values():
        _parts(written, **dict.fromkeys(written, str))
    return StudyRecord(name, title, about, source, axes, titles, curves, baseline, list(map(_wanted, value["cells"])))


def _wanted(value: Any) -> Wanted:
    key, at = _parts(value, key=str, at=dict)
    _plain([*at.values(), *(value.get("published") or ())])
    unread = tuple(axis for axis in at if axis in value.get("unread", ()))
    if value.get("published") is None:
        return Wanted(key, at, unread=unread)
    mean, spread = value["published"]
    _parts({"mean": mean, "spread": spread}, mean=(int, float), spread=(int, float, NoneType))
    return Wanted(key, at, (mean, spread), unread)


def _search(value: Any) -> SearchRecord:
    _expect_format(value)
    name, rungs, winner = _parts(value, name=str, rungs=list, winner=(dict, NoneType))
    return SearchRecord(name, list(map(_rung, rungs)), None if winner is None else str(winner["name"]))


def _rung(value: Any) -> RungRecord:
    name, methods, datasets, trials = _parts(value, name=str, methods=list, datasets=list, trials=list)
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


def _parts(value: dict[str, Any], /, **kinds: Any) -> list[Any]:
    """What stands under these names, in their order; an error unless each is of its kind."""
    for name, kind in kinds.items():
        if not isinstance(value[name], kind):
            raise ValueError(f"its {name} is of another kind, {type(value[name]).__name__}")
    return [value[name] for name in kinds]
