"""Molecules from a table with a column of SMILES and a column of classes."""

from collections.abc import Iterator
from pathlib import Path

from cgipool.data.importers.given import side_column, side_of
from cgipool.data.importers.imported import Imported
from cgipool.data.importers.labels import NO_CLASSES, choose_label, classes_of
from cgipool.data.importers.molecular import Entry, gather_molecules
from cgipool.data.importers.table import Table, few, open_table
from cgipool.data.importers.wishes import Wishes
from cgipool.data.spill import Work
from cgipool.errors import UserError

USUAL = ("smiles", "canonicalsmiles", "isomericsmiles", "smi", "mol")
"""Columns that are taken for the molecules unasked, by the letters and digits of their names; the first there is."""

THINGS = ("compound", "molecule", "mol", "cmpd", "drug", "chemical", "substance", "ligand", "sample", "structure")
IDS = (
    "id",
    "name",
    *(f"{thing}{what}" for what in ("id", "name") for thing in THINGS),
    *("moleculechemblid", "chemblid", "pubchemcid", "cid", "zincid", "drugbankid", "identifier", "title"),
)
"""Columns that are taken for the ids unasked, in the same way."""


def read_smiles(path: Path, name: str, wishes: Wishes, work: Work) -> Iterator[Imported]:
    """The set of a table; the labels, if any are read, are looked at first, since that is quick."""
    table = open_table(path, wishes.max_size)
    smiles, identity = smiles_column(table, wishes.smiles), id_column(table, wishes.id)
    if wishes.id is None and identity is not None and table.columns[identity] == wishes.label:
        identity = None
    side, notes = side_column(table, (smiles, identity), wishes.label)
    label, classes = None, NO_CLASSES
    if not wishes.unlabelled:
        others = [column for j, column in enumerate(table.columns) if j not in (smiles, identity, side)]
        label = table.column(choose_label(path, others, wishes.label))
        classes = classes_of(path, table.columns[label], (text for _, (text,) in table.rows(label)), wishes)
    if identity is None:
        notes = (*notes, no_ids(table))
    entries = _entries(table, smiles, label, identity, side)
    return gather_molecules(path, name, entries, classes, wishes, notes=lambda: (*notes, *table.notes))


def no_ids(table: Table) -> str:
    """What is said where no column holds ids."""
    columns = few(table.columns)
    return f"{table.path}: no id column was found ({columns}), so graphs are numbered from 0; name one with --id COLUMN"


def _entries(table: Table, smiles: int, label: int | None, identity: int | None, side: int | None) -> Iterator[Entry]:
    wanted = (smiles, label, identity, side)
    chosen = [column for column in wanted if column is not None]
    for row, fields in table.rows(*chosen):
        given = iter(fields)
        text, label_text, name, split = (None if column is None else next(given) for column in wanted)
        yield Entry(row, name or "", text or "", label_text or "", None if split is None else side_of(split))


def smiles_column(table: Table, asked: str | None) -> int:
    """The number of the column of SMILES: the one asked for, or the first of a usual name."""
    if asked is not None:
        return table.column(asked)
    found = table.usual(USUAL)
    if found is None:
        columns = few(table.columns)
        raise UserError(f"{table.path}: no column is called 'smiles' ({columns}); name it with --smiles COLUMN")
    return found


def id_column(table: Table, asked: str | None) -> int | None:
    """The number of the column of ids: the one asked for, or the first of a usual name; None where there is none."""
    return table.usual(IDS) if asked is None else table.column(asked)
