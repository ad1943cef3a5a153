"""Merge stores, pack a store into one file, and write it as one tidy table. No torch."""

import csv
import hashlib
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cgipool.errors import UserError, csv_cell, excerpt
from cgipool.files import read_regular, write_atomically
from cgipool.study.measured import check_positive, measured
from cgipool.study.nested import with_choices
from cgipool.study.records import ODD, PLAIN, Book, StudyRecord, Wanted, read_book
from cgipool.study.stored import FORMAT, read_stored, write_stored
from cgipool.task.metrics import KNOWN, LATER

PARTS = ("cells", "failed", "studies")
"""The folders of a store that hold results; the others belong to runs in progress, or can be derived."""

MEASURED = ("val_loss", "epochs", "best_epoch", "parameters", "seconds")
"""Columns of the table for each split, besides its metrics and the validation metric."""

UNEQUAL = ("seconds", *(f"val_{metric}" for metric in KNOWN))
"""Entries that may differ between equal results: the validation metrics are missing in older records, as are the
metrics of each class."""


@dataclass
class Merged:
    """The outcome of a merge."""

    cells: int = 0
    """Cells that were copied."""
    same: int = 0
    """Cells that existed already, with the same results."""
    conflicts: list[str] = field(default_factory=list)
    """Keys of cells that existed already, with other results."""
    studies: int = 0
    """Studies that were copied or extended."""
    problems: list[str] = field(default_factory=list)
    """Problems with files of the other stores, and studies that contradict each other."""


def merge(into: Path, others: Sequence[Path]) -> Merged:
    """Copy studies, cells and failures of other stores into the first, which is created if it does not exist.

    Existing files stay as they are: a cell with other results is stored next to the existing one, as
    cells/KEY.HASH.json. Only studies are extended, and a failure is dropped if another store has the finished cell.
    """
    for store in (into, *others):
        _check_inside(store)
    books = [read_book(other) for other in others]
    try:
        for part in PARTS:
            (into / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make a store in {into}: {error.strerror or error}") from error
    ours = {study.name: study for study in read_book(into).studies}
    merged = Merged()
    for other, book in zip(others, books, strict=True):
        merged.problems += book.problems
        for study in book.studies:
            try:
                _merge_study(into, other, study, ours, merged)
            except ODD as error:
                merged.problems.append(f"{other}: study {study.name!r} is left out: {excerpt(str(error))}")
        for path in _cells(other, book):
            _merge_cell(into, path, merged)
        for key in book.records:
            (into / "failed" / f"{key}.json").unlink(missing_ok=True)
        for name in (f"{key}.json" for key in book.failed):
            if not any((into / part / name).exists() for part in ("cells", "failed")):
                _copy(other / "failed" / name, into / "failed" / name)
    return merged


def _cells(store: Path, book: Book) -> list[Path]:
    """The files of the intact cells, then those that an earlier merge kept next to them, which have a hash in their
    name."""
    beside = sorted((store / "cells").glob("*.*.json"))
    sound = [path for path in beside if path.stem.split(".", 1)[1] == _hash(_results(path))]
    return [store / "cells" / f"{key}.json" for key in book.records] + sound


def _merge_cell(into: Path, path: Path, merged: Merged) -> None:
    key, results = path.name.split(".")[0], _results(path)
    here, beside = (into / "cells" / f"{name}.json" for name in (key, f"{key}.{_hash(results)}"))
    if here.exists() and not _results(here):
        here.replace(here.with_name(f"{key}.damaged.json"))
        merged.problems.append(f"{here} was damaged; it is kept as {key}.damaged.json and replaced by the intact one")
    if not here.exists():
        _copy(path, here)
        merged.cells += 1
    elif results == _results(here):
        merged.same += 1
    else:
        if not beside.exists():
            _copy(path, beside)
        if key not in merged.conflicts:
            merged.conflicts.append(key)


def _results(path: Path) -> str:
    """A cell as text, without what may differ between equal results; a damaged file has no results."""
    try:
        value = {"format": FORMAT} | read_stored(path)
        splits = [_compared(row) for row in value["splits"]]
        return _text({name: part for name, part in value.items() if name != "provenance"} | {"splits": splits})
    except (UserError, *ODD):
        return ""


def _compared(row: dict[str, Any]) -> dict[str, Any]:
    """The parts of a split that must be equal."""
    test = {name: value for name, value in row["test"].items() if name not in LATER}
    members = [{name: part for name, part in member.items() if name != "test"} for member in row.get("members", [])]
    more = {"test": test} | ({"members": members} if members else {})
    return {name: part for name, part in row.items() if name not in UNEQUAL} | more


def _hash(results: str) -> str:
    return hashlib.sha256(results.encode()).hexdigest()[:8] if results else ""


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _copy(source: Path, target: Path) -> None:
    write_atomically(target, partial(Path.write_bytes, data=read_regular(source)), follow=False)


def _check_inside(store: Path) -> None:
    """Raise UserError if a file of a store is a link to a place outside it."""
    place = store.resolve()
    for part in (*PARTS, "searches"):
        for path in (store / part, *(store / part).glob("*.json")):
            if not path.resolve().is_relative_to(place):
                raise UserError(f"{path} is a link that leads out of {store}; remove it or put the file in its place")


def _merge_study(into: Path, other: Path, study: StudyRecord, ours: dict[str, StudyRecord], merged: Merged) -> None:
    source, mine = other / "studies" / f"{study.name}.json", ours.get(study.name)
    here = into / "studies" / source.name
    if source not in (other / "studies").glob("*.json"):
        merged.problems.append(f"{other} has the study {study.name!r} in a file of another name; it is left out")
    elif mine is None and here.exists():
        merged.problems.append(f"{here} is kept, although it is not study {study.name!r}; that of {other} is left out")
    elif mine is None:
        _copy(source, here)
        ours[study.name], merged.studies = study, merged.studies + 1
    elif (both := _joined(mine, study)) is None:
        merged.problems.append(f"the study {study.name!r} of {other} differs from that of {into}, which is kept")
    elif both != mine:
        write_stored(here, asdict(both))
        ours[study.name], merged.studies = both, merged.studies + 1


def _joined(mine: StudyRecord, other: StudyRecord) -> StudyRecord | None:
    """Return a study with the cells of both; None if they contradict each other, even in one cell."""
    places = {_text(cell.at): cell for cell in mine.cells}
    alike = all(getattr(mine, name) == getattr(other, name) for name in ("titles", "curves", "baseline"))
    if not alike or list(mine.axes) != list(other.axes) or any(places.get(_text(c.at), c) != c for c in other.cells):
        return None
    axes = {axis: values + [v for v in other.axes[axis] if v not in values] for axis, values in mine.axes.items()}
    return replace(mine, axes=axes, cells=mine.cells + [c for c in other.cells if _text(c.at) not in places])


def export(store: Path, path: Path) -> None:
    """Pack studies, searches, cells and failures of a store into a zip archive. The same files give the same bytes."""
    read_book(store)
    _check_inside(store)

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in (*PARTS, "searches"):
                _pack(archive, f"{part}/", b"")
                for file in sorted(path for path in (store / part).glob("*.json") if path.is_file()):
                    _pack(archive, f"{part}/{file.name}", read_regular(file))

    write_atomically(path, write)


def _pack(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name)  # dated 1980, the earliest year of the zip format
    info.external_attr = (0o40755 << 16) | 0x10 if info.is_dir() else 0o100644 << 16
    archive.writestr(info, content, archive.compression)


def rows(store: Path, positive: str | None = None) -> Iterator[dict[str, Any]]:
    """A row per study, finished cell and split: the place on all axes, recipe and ensemble, published numbers (in
    percent), the metrics on the test graphs (as shares), costs and versions. Unknown values are None; a cell without a
    study has an empty study name. `unread` names the axes whose setting the method does not read: their rows are one
    result. ROC-AUC and PR-AUC are of the class that the column `positive` names; `positive` asks for another. Cells of
    several tasks have the columns of all their metrics.
    """
    return _rows(with_choices(read_book(store)), positive)


def _rows(book: Book, positive: str | None) -> Iterator[dict[str, Any]]:
    check_positive(book.records.values(), positive)
    read = {key: measured(record, positive=positive) for key, record in book.records.items()}
    axes = dict.fromkeys(["method", "dataset", *(axis for study in book.studies for axis in study.axes)])
    columns = {axis: f"axis_{axis}" if axis in MEASURED else axis for axis in axes}
    metrics = dict.fromkeys(name for found in read.values() for row in found.rows for name in row)
    scores = dict.fromkeys([f"val_{found.record.primary}" for found in read.values()] or ["val_accuracy"])
    costs = [MEASURED[0], *scores, *MEASURED[1:]]
    for study, wanted in _wanted(book):
        record = book.records[wanted.key]
        place = {name: record.cell.get(name) for name in ("method", "dataset")} | wanted.at
        head = {"study": study, "key": wanted.key} | {column: place.get(axis) for axis, column in columns.items()}
        head |= {"recipe": record.recipe, "ensemble": record.cell.get("ensemble")} | head
        head |= {"unread": " ".join(wanted.unread)}
        head |= dict(zip(("published", "published_pm"), wanted.published or (None, None), strict=True))
        tail = {"device": record.provenance.get("device")}
        tail |= {name: record.provenance.get("versions", {}).get(name) for name in ("cgipool", "torch")}
        found = read[wanted.key]
        for row, test in zip(record.splits, found.rows, strict=True):
            result = {"split": row["split"]} | {name: test.get(name) for name in metrics}
            result |= {"positive": found.positive}
            result |= {name: row.get(name) for name in costs}
            yield head | result | {f"graphs_{name}": row["graphs"][name] for name in ("train", "test")} | tail


def _wanted(book: Book) -> Iterator[tuple[str, Wanted]]:
    """The finished cells, by study; then those of no study."""
    pairs = [(study.name, cell) for study in book.studies for cell in study.cells if cell.key in book.records]
    asked = {cell.key for _, cell in pairs}
    return iter(pairs + [("", Wanted(key, {})) for key in book.records if key not in asked])


def _plain(value: Any) -> Any:
    """A value that a table can hold; None for lists and tables."""
    return value if isinstance(value, PLAIN) else None


def write_csv(store: Path, path: Path, positive: str | None = None) -> list[str]:
    """Write the rows of a store as CSV, and return the problems with its files. For `positive` see `rows`."""
    book = with_choices(read_book(store))
    table = list(_rows(book, positive))
    if not table:
        raise UserError(f"{store} has no finished cells to write")

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writerow({name: csv_cell(name) for name in table[0]})
            writer.writerows({name: csv_cell(_plain(value)) for name, value in row.items()} for row in table)

    write_atomically(path, write)
    return book.problems
