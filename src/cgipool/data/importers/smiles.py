"""Molecules from a table with a column of SMILES and a column of classes."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cgipool.data.importers.imported import Imported
from cgipool.data.importers.labels import NO_CLASSES, choose_label, classes_of
from cgipool.data.importers.molecular import Entry, gather_molecules
from cgipool.data.importers.table import Table, few
from cgipool.data.importers.wishes import Wishes
from cgipool.data.spill import Work
from cgipool.errors import UserError

USUAL = ("smiles", "canonical_smiles", "mol")
"""Column names that are taken for the molecules unasked, in any case of letters; the first there is."""

IDS = ("id", "name")
"""Column names whose values are kept as the ids of the rows; the first there is."""


def read_smiles(path: Path, name: str, wishes: Wishes, work: Work) -> Iterator[Imported]:
    """The set of a table; the labels, if any are read, are looked at first, since that is quick."""
    table = Table(path)
    smiles, identity = _smiles_column(table, wishes.smiles), _usual(table, IDS)
    if identity is not None and table.columns[identity] == wishes.label:
        identity = None
    if wishes.unlabelled:
        return gather_molecules(path, name, _entries(table, smiles, None, identity), NO_CLASSES, wishes)
    others = [column for j, column in enumerate(table.columns) if j not in (smiles, identity)]
    label = table.column(choose_label(path, others, wishes.label))
    fields = (text for _, (text,) in table.rows(label))
    classes = classes_of(path, table.columns[label], fields, wishes)
    return gather_molecules(path, name, _entries(table, smiles, label, identity), classes, wishes)


def molecule_rows(
    path: Path, column: str | None = None, start: int = 0, stop: int | None = None
) -> Iterator[tuple[str, str]]:
    """Id and SMILES of the rows of a table, from `start` up to `stop` counted from 0, or of all; without an id column
    the id is the row's number, from 1."""
    table = Table(path)
    smiles, identity = _smiles_column(table, column), _usual(table, IDS)
    columns = (smiles,) if identity is None else (smiles, identity)
    for row, (text, *names) in islice(table.rows(*columns, start=start), None if stop is None else stop - start):
        yield (names[0] if names and names[0] else str(row)), text


def _entries(table: Table, smiles: int, label: int | None, identity: int | None) -> Iterator[Entry]:
    chosen = [column for column in (smiles, label, identity) if column is not None]
    for row, (text, *others) in table.rows(*chosen):
        label_text = "" if label is None else others[0]
        yield Entry(row, "" if identity is None else others[-1], text, label_text)


def _smiles_column(table: Table, asked: str | None) -> int:
    if asked is not None:
        return table.column(asked)
    found = _usual(table, USUAL)
    if found is None:
        columns = few(table.columns)
        raise UserError(f"{table.path}: no column is called 'smiles' ({columns}); name it with --smiles COLUMN")
    return found


def _usual(table: Table, usual: tuple[str, ...]) -> int | None:
    """The first column that has one of these names, in the order of the names."""
    lowered = {name.lower(): name for name in reversed(table.columns)}
    return next((table.column(lowered[name]) for name in usual if name in lowered), None)
