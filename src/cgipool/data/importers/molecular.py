"""Molecules from tables of SMILES and from SDF files, one after another, as the pieces of a set."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.importers.chem import Chem
from cgipool.data.importers.imported import COLUMN, Imported, Skipped, side_column, side_of, strange_side
from cgipool.data.importers.labels import NO_CLASSES, WITHOUT, Classes, choose_label, classes_of
from cgipool.data.importers.options import ImportOptions
from cgipool.data.importers.table import Table, few, open_table, plain
from cgipool.data.importers.text import MAX_LINE, Text
from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles
from cgipool.data.names import printable
from cgipool.data.spill import Work
from cgipool.errors import UserError, excerpt, in_bytes

UNREAD, UNLABELLED, CUT = "rows that are no molecule", "rows without a label", "molecules cut to the largest fragment"
"""How `GraphSet.dropped` names what an import left out."""


PIECE = 4096
"""Rows of which a piece is made."""

LONGEST = 1000
"""Characters that are kept of an id, and of a row left out: a quote that is never closed may hold much of a file."""


class Entry(NamedTuple):
    """One molecule of the source."""

    row: int
    id: str
    text: str
    """A SMILES or a molfile."""
    label: str
    side: str | None = None
    """Whether it is for training, validation or test, where a column of the source says so."""


def gather_molecules(
    path: Path,
    name: str,
    entries: Iterable[Entry],
    classes: Classes,
    wishes: ImportOptions,
    *,
    molfiles: bool = False,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Iterator[Imported]:
    """The set of these molecules, in pieces; what is none is listed, or with `strict` an error. `notes` gives what is
    to be said about how they were read, as far as they were."""
    rows = iter(entries)
    featurizer = MoleculeFeaturizer(largest_fragment=wishes.largest_fragment)
    found, first = 0, None
    while some := list(islice(rows, PIECE)):
        piece = _Piece(featurizer, molfiles, wishes.max_atoms)
        for entry in some:
            if (problem := piece.add(entry, classes)) is not None and wishes.strict:
                raise UserError(f"{path}, row {entry.row}: {excerpt(problem.text)!r} is no molecule: {problem.reason}")
        first = first or next(iter(piece.skipped), None)
        found += len(piece.y)
        yield replace(piece.imported(name, classes), notes=notes())
    if not found:
        if first is None:
            raise UserError(f"{path} has no rows")
        raise UserError(f"{path}: not one row is a molecule; the first, row {first.row}: {first.reason}")


class _Piece:
    """Some molecules in the making."""

    def __init__(self, featurizer: MoleculeFeaturizer, molfiles: bool, max_atoms: int) -> None:
        self._featurizer, self._molfiles, self._max_atoms = featurizer, molfiles, max_atoms
        self._gather = featurizer.gather()
        self.y: list[int] = []
        self.skipped: list[Skipped] = []
        self._ids: dict[str, list[Any]] = {"row": [], "id": [], "smiles": []}
        self._unlabelled = self._cut = 0

    def add(self, entry: Entry, classes: Classes) -> Skipped | None:
        """Add a row; the row itself if it is no molecule."""
        if (y := classes.number(entry.label)) is None:
            self._unlabelled += 1
            return None
        try:
            whole = (parse_block if self._molfiles else parse_smiles)(entry.text, self._max_atoms)
            molecule = self._featurizer.trim(whole)
        except NotAMoleculeError as error:
            text = excerpt(entry.id if self._molfiles else entry.text, LONGEST)
            self.skipped.append(Skipped(entry.row, str(error), text))
            return self.skipped[-1]
        self._cut += molecule is not whole
        self._featurizer.add(self._gather, molecule)
        self.y.append(y)
        told = (entry.row, printable(entry.id[:LONGEST]), Chem.MolToSmiles(whole) if self._molfiles else entry.text)
        for column, value in zip(("row", "id", "smiles"), told, strict=True):
            self._ids[column].append(value)
        if entry.side is not None:
            self._ids.setdefault("split", []).append(entry.side)
        return None

    def imported(self, name: str, classes: Classes) -> Imported:
        """The piece."""
        counts = {UNREAD: len(self.skipped), UNLABELLED: self._unlabelled, CUT: self._cut}
        graphs = self._featurizer.graph_set(self._gather, name, self.y, classes.names, self._ids["id"])
        dropped = graphs.dropped | {what: count for what, count in counts.items() if count}
        graphs = replace(graphs, dropped=dropped, checked=True)
        return Imported(graphs, self._ids, self.skipped)


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


def read_smiles(path: Path, name: str, wishes: ImportOptions, work: Work) -> Iterator[Imported]:
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


END, RECORD_END = "M  END", "$$$$"

LONGEST_RECORD = 10 * MAX_LINE
"""Characters of the longest record."""


class Record(NamedTuple):
    """One molecule of an SDF."""

    title: str
    block: str
    """The molfile."""
    data: dict[str, str]
    """The data items by name."""


def read_sdf(path: Path, name: str, wishes: ImportOptions, work: Work) -> Iterator[Imported]:
    """The set of an SDF; its text is read several times (names, classes, molecules) so that nothing of it is held."""
    text = Text(path, wishes.max_size)
    names = item_names(text)
    if wishes.id is not None and wishes.id not in names:
        raise UserError(f"{path} has no data item {excerpt(wishes.id)!r}; it has: {few(list(names))}")
    side = next((item for item in names if plain(item) == COLUMN and item != wishes.label), None)
    strange = None if side is None else strange_side(path, _fields(text, side))
    side = side if strange is None else None
    label, classes = "", NO_CLASSES
    if not wishes.unlabelled:
        others = [item for item in names if item not in (wishes.id, side)]
        if not others:
            raise UserError(f"{path} holds no molecule with data items; a class is needed for each; {WITHOUT}")
        label = choose_label(path, others, wishes.label)
        classes = classes_of(path, label, _fields(text, label), wishes)
    entries = (
        Entry(
            row,
            id_of(record, wishes.id),
            record.block,
            record.data.get(label, ""),
            None if side is None else side_of(record.data.get(side, "")),
        )
        for row, record in enumerate(records(text), start=1)
    )
    notes = () if strange is None else (strange,)
    return gather_molecules(path, name, entries, classes, wishes, molfiles=True, notes=lambda: notes)


def item_names(text: Text) -> dict[str, None]:
    """The names of all data items, in the order in which they appear."""
    names: dict[str, None] = {}
    for record in records(text):
        names.update(dict.fromkeys(record.data))
    return names


def id_of(record: Record, asked: str | None) -> str:
    """What a molecule is called: the data item asked for, else the record's title, else an item of a usual name."""
    if asked is not None:
        return record.data.get(asked, "")
    if record.title:
        return record.title
    items = {plain(name): value for name, value in record.data.items()}
    return next((items[name] for name in IDS if name in items), "")


def _fields(text: Text, item: str) -> Iterator[str]:
    return (record.data.get(item, "") for record in records(text))


def records(text: Text) -> Iterator[Record]:
    """The records of a file one after another."""
    lines: list[str] = []
    size = 0
    for line in text.lines():
        if line.startswith(RECORD_END):
            yield _record(lines)
            lines, size = [], 0
            continue
        lines.append(line)
        size += len(line) + 1
        if size > LONGEST_RECORD:
            raise UserError(f"{text.path} has a record of more than {in_bytes(LONGEST_RECORD)}")
    if any(line.strip() for line in lines):
        yield _record(lines)


def _record(lines: list[str]) -> Record:
    end = next((i for i, line in enumerate(lines) if line.startswith(END)), len(lines) - 1) + 1
    data: dict[str, list[str]] = {}
    key: str | None = None
    for line in lines[end:]:
        if line.startswith(">") and "<" in line:
            key = line[line.index("<") + 1 :].partition(">")[0]
            data[key] = []
        elif not line.strip():
            key = None
        elif key is not None:
            data[key].append(line.strip())
    items = {name: " ".join(parts) for name, parts in data.items()}
    return Record(lines[0].strip() if lines else "", "\n".join(lines[:end]) + "\n", items)
