"""Nested selection: each split chooses one of several settings by its own validation graphs. No torch.

The settings are trained as ordinary cells. Here they become one result, which holds the test metrics of the chosen
setting alone; other test results are not read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cgipool.errors import excerpt
from cgipool.study.records import ODD, Book, Record, Wanted, key_of, validation_score
from cgipool.task.metrics import KNOWN

BEST, BEST_TITLE = "best", "Best of all"
"""On the method axis: each split chooses among all settings of all other methods. It adds no cells."""


def entry_of(choices: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The key and the choices of a stored study's entry, from names and keys. Choices that a method does not
    distinguish count once; if none is left to choose, the entry is the cell itself."""
    names: dict[str, str] = {}
    for name, key in choices:
        names.setdefault(key, name)
    if len(names) == 1:
        return {"key": next(iter(names))}
    pairs = [[name, key] for key, name in names.items()]
    return {"key": key_of({"select": "nested", "choices": pairs}), "choices": pairs}


def choose(scores: Sequence[float | None], sign: float) -> int | None:
    """The index of the best validation score (the first of equal ones); None if a score is missing."""
    known = [sign * score for score in scores if score is not None]
    return known.index(max(known)) if known and len(known) == len(scores) else None


def with_choices(book: Book) -> Book:
    """The book with a record for each nested cell whose choices are all finished.

    Records that only serve as choices are left out, so that their test results are shown nowhere.
    """
    nested = [cell for study in book.studies for cell in study.cells if cell.choices]
    if not nested:
        return book
    alone = {cell.key for study in book.studies for cell in study.cells if not cell.choices}
    parts = {key for cell in nested for key in cell.keys} - alone
    records = {key: record for key, record in book.records.items() if key not in parts}
    failed = {key: reason for key, reason in book.failed.items() if key not in parts}
    problems = list(book.problems)
    for cell in nested:
        reasons = [f"{name}: {book.failed[key]}" for name, key in cell.choices if _lost(book, key)]
        if reasons:
            failed[cell.key] = "; ".join(reasons)
        elif all(key in book.records for key in cell.keys):
            try:
                records[cell.key] = _composed(cell, book.records)
            except ODD as error:
                problems.append(f"{cell.name} is not shown, as its choices do not fit together: {excerpt(str(error))}")
    return Book(book.studies, records, failed, problems)


def _lost(book: Book, key: str) -> bool:
    return key in book.failed and key not in book.records


def _composed(cell: Wanted, records: Mapping[str, Record]) -> Record:
    """Build one record from the chosen rows."""
    names = [name for name, _ in cell.choices]
    parts = [records[key] for key in cell.keys]
    first, rows = parts[0], []
    if len({part.task for part in parts}) > 1:
        raise ValueError("they have several tasks")
    by_split = [{row["split"]: row for row in part.splits} for part in parts]
    for row in first.splits:
        options = [found[row["split"]] for found in by_split]
        place = choose([validation_score(one, first.primary) for one in options], KNOWN[first.primary].sign)
        if place is None:  # a control without epochs has a validation loss alone
            place = choose([one["val_loss"] for one in options], -1.0) or 0
        rows.append(options[place] | {"chosen": names[place]})
    recipes = [part.cell["recipe"] for part in parts]
    shared = {name: value for name, value in recipes[0].items() if all(one.get(name) == value for one in recipes)}
    own: dict[str, Any] = {"recipe": {"name": recipes[0].get("name", "")} | shared, "select": "nested"}
    own |= {"method": BEST} if cell.at.get("method") == BEST else {}
    provenance = first.provenance | {"seconds": sum(part.provenance.get("seconds", 0.0) for part in parts)}
    provenance |= {"choices": dict(cell.choices)}
    provenance.pop("command", None)
    return Record(cell.key, first.cell | own, rows, provenance)


def chosen(record: Record) -> dict[str, int]:
    """The number of splits that chose each choice, in the order of the study; empty without nested selection."""
    names = record.provenance.get("choices", {}) if record.cell.get("select") == "nested" else {}
    return {name: sum(row.get("chosen") == name for row in record.splits) for name in names}
