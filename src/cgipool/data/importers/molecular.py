"""Read molecules from tables of SMILES and from SDF files, in pieces."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.further import TableBuilder, few, kept
from cgipool.data.importers.imported import Imported, ImportOptions, Skipped
from cgipool.data.importers.labels import (
    COLUMN,
    WITHOUT,
    LabelledRows,
    Labels,
    read_labels,
    side_column,
    side_of,
    side_problem,
)
from cgipool.data.importers.labels import UNLABELLED as NO_LABELS
from cgipool.data.importers.table import Table, open_table, plain
from cgipool.data.importers.text import MAX_LINE, TextFile
from cgipool.data.molecules import Chem, MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles
from cgipool.data.names import Names, printable
from cgipool.data.spill import Work
from cgipool.errors import UserError, excerpt, in_bytes
from cgipool.processes import in_order

UNREAD, UNLABELLED, CUT = "rows that are not molecules", "rows without a label", "molecules cut to the largest fragment"
"""Keys of `GraphSet.dropped`: what an import skipped or changed."""


PIECE = 4096
"""Rows in a piece."""

LONGEST = 1000
"""Maximum characters kept of an id or of a skipped row: an unclosed quote may contain much of a file."""


class MoleculeRow(NamedTuple):
    """One molecule of the source."""

    row: int
    id: str
    text: str
    """A SMILES or a molfile."""
    labels: tuple[str, ...] = ()
    """The fields of the label columns."""
    side: str | None = None
    """train, val or test, if a column of the source says so."""
    kept: tuple[str, ...] = ()
    """The fields of the columns that are kept."""


def gather_molecules(
    path: Path,
    name: str,
    entries: Iterable[MoleculeRow],
    labels: Labels,
    options: ImportOptions,
    *,
    molfiles: bool = False,
    columns: Names = (),
    notes: Callable[[], Sequence[str]] = tuple,
    jobs: int = 1,
) -> Iterator[Imported]:
    """Yield the set of these molecules in pieces, read by `jobs` processes. Rows that are not molecules are listed, or
    raise UserError with `strict`. `columns` are the columns to keep; `notes()` returns what to say about the rows read
    so far."""
    rows, size = iter(entries), PIECE if jobs == 1 else max(1, PIECE // 4)
    start = list(islice(rows, size))
    pieces = chain([start] if start else [], iter(lambda: list(islice(rows, size)), []))
    reader = partial(_Reader, path, name, labels, options, molfiles, columns)
    several = jobs > 1 and len(start) == size  # starting a process takes as long as reading a few thousand rows
    first, found = None, 0
    for imported in in_order(reader, pieces, jobs) if several else map(reader(), pieces):
        first = first or next(iter(imported.skipped), None)
        found += imported.graphs.n_graphs
        yield replace(imported, notes=(*labels.notes, *notes()))
    if not found:
        if first is None:
            raise UserError(f"{path} has no rows")
        raise UserError(f"{path}: no row is a molecule; the first, row {first.row}: {first.reason}")


class _Reader:
    """Makes pieces of rows."""

    def __init__(
        self, path: Path, name: str, labels: Labels, options: ImportOptions, molfiles: bool, columns: Names
    ) -> None:
        self._path, self._name, self._strict = path, name, options.strict
        featurizer = MoleculeFeaturizer(options.largest_fragment, options.featurizer)
        self._piece = partial(_Piece, featurizer, molfiles, options.max_atoms, labels, columns)

    def __call__(self, rows: Sequence[MoleculeRow]) -> Imported:
        """The set of these rows."""
        piece = self._piece()
        for entry in rows:
            if (problem := piece.add(entry)) is not None and self._strict:
                raise UserError(
                    f"{self._path}, row {entry.row}: {excerpt(problem.text)!r} is not a molecule: {problem.reason}"
                )
        return piece.imported(self._name)


class _Piece:
    """A piece being built."""

    def __init__(
        self, featurizer: MoleculeFeaturizer, molfiles: bool, max_atoms: int, labels: Labels, columns: Names
    ) -> None:
        self._featurizer, self._molfiles, self._max_atoms = featurizer, molfiles, max_atoms
        self._builder = featurizer.builder()
        self._labels, self._table = LabelledRows(labels), TableBuilder(columns)
        self.skipped: list[Skipped] = []
        self._ids: dict[str, list[Any]] = {"row": [], "id": [], "smiles": []}
        self._unlabelled = self._cut = 0

    def add(self, entry: MoleculeRow) -> Skipped | None:
        """Add a row. Returns the skipped row if it is not a molecule."""
        if not self._labels.add(entry.labels):
            self._unlabelled += 1
            return None
        try:
            whole = (parse_block if self._molfiles else parse_smiles)(entry.text, self._max_atoms)
            molecule = self._featurizer.trim(whole)
        except NotAMoleculeError as error:
            self._labels.drop_last()
            text = excerpt(entry.id if self._molfiles else entry.text, LONGEST)
            self.skipped.append(Skipped(entry.row, str(error), text))
            return self.skipped[-1]
        self._cut += molecule is not whole
        self._featurizer.add(self._builder, molecule)
        self._table.add(entry.kept)
        values = (entry.row, printable(entry.id[:LONGEST]), Chem.MolToSmiles(whole) if self._molfiles else entry.text)
        for column, value in zip(("row", "id", "smiles"), values, strict=True):
            self._ids[column].append(value)
        if entry.side is not None:
            self._ids.setdefault("split", []).append(entry.side)
        return None

    def imported(self, name: str) -> Imported:
        """Return the finished piece."""
        counts = {UNREAD: len(self.skipped), UNLABELLED: self._unlabelled, CUT: self._cut}
        unknown = [-1] * len(self._ids["id"])
        graphs = self._featurizer.graph_set(self._builder, name, unknown, (), self._ids["id"])
        graphs = self._table.of(self._labels.of(graphs))
        dropped = graphs.dropped | {what: count for what, count in counts.items() if count}
        graphs = replace(graphs, dropped=dropped, checked=True)
        return Imported(graphs, self._ids, self.skipped)


USUAL = ("smiles", "canonicalsmiles", "isomericsmiles", "smi", "mol")
"""Column names used for the molecules by default, compared by letters and digits; the first match counts."""

THINGS = ("compound", "molecule", "mol", "cmpd", "drug", "chemical", "substance", "ligand", "sample", "structure")
IDS = (
    "id",
    "name",
    *(f"{thing}{what}" for what in ("id", "name") for thing in THINGS),
    *("moleculechemblid", "chemblid", "pubchemcid", "cid", "zincid", "drugbankid", "identifier", "title"),
)
"""Column names used for the ids by default, in the same way."""


def read_smiles(path: Path, name: str, options: ImportOptions, work: Work) -> Iterator[Imported]:
    """Read a table of SMILES. The labels are checked first, because that is fast."""
    table = open_table(path, options.max_size)
    smiles, identity = smiles_column(table, options.smiles), id_column(table, options.id)
    if options.id is None and identity is not None and table.columns[identity] in options.patterns:
        identity = None
    side, notes = side_column(table, (smiles, identity), options.patterns)
    labels = NO_LABELS
    if not options.unlabelled:
        others = [column for j, column in enumerate(table.columns) if j not in (smiles, identity, side)]

        def rows(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
            return (fields for _, fields in table.rows(*map(table.column, names)))

        labels = read_labels(path, others, rows, options)
    if identity is None:
        notes = (*notes, no_ids(table))
    named = [None if place is None else table.columns[place] for place in (smiles, identity, side)]
    columns = kept(table.readable, (*named, *labels.columns))
    entries = _entries(table, (smiles, identity, side), labels.columns, columns)
    return gather_molecules(
        path, name, entries, labels, options, columns=columns, notes=lambda: (*notes, *table.notes), jobs=work.jobs
    )


def no_ids(table: Table) -> str:
    """Return the note for a table without an id column."""
    columns = few(table.columns)
    return f"{table.path}: no id column was found ({columns}), so graphs are numbered from 0; name one with --id COLUMN"


def _entries(
    table: Table, wanted: tuple[int | None, ...], labels: Sequence[str], columns: Sequence[str]
) -> Iterator[MoleculeRow]:
    """The rows of a table; `wanted` are the columns with SMILES, id and split."""
    chosen = [column for column in wanted if column is not None]
    for row, fields in table.rows(*chosen, *map(table.column, (*labels, *columns))):
        given = iter(fields)
        text, name, split = (None if column is None else next(given) for column in wanted)
        values = tuple(islice(given, len(labels)))
        side = None if split is None else side_of(split)
        yield MoleculeRow(row, name or "", text or "", values, side, tuple(given))


def smiles_column(table: Table, asked: str | None) -> int:
    """Return the number of the SMILES column: the requested one, or the first with a usual name."""
    if asked is not None:
        return table.column(asked)
    found = table.usual(USUAL)
    if found is None:
        if {"source", "target"} <= set(table.columns):
            raise UserError(f"{table.path} is an edge list; import its folder, with graphs.csv next to edges.csv")
        columns = few(table.columns)
        raise UserError(f"{table.path}: no column is called 'smiles' ({columns}); name it with --smiles COLUMN")
    return found


def id_column(table: Table, asked: str | None) -> int | None:
    """Return the number of the id column: the requested one, or the first with a usual name; None if there is none."""
    return table.usual(IDS) if asked is None else table.column(asked)


END, RECORD_END = "M  END", "$$$$"

LONGEST_RECORD = 10 * MAX_LINE
"""Maximum characters of a record."""


class SdfRecord(NamedTuple):
    """One molecule of an SDF."""

    title: str
    block: str
    """The molfile."""
    data: dict[str, str]
    """The data items by name."""


def read_sdf(path: Path, name: str, options: ImportOptions, work: Work) -> Iterator[Imported]:
    """Read an SDF. The text is read several times (names, classes, molecules), so it is never in memory as a whole."""
    text = TextFile(path, options.max_size)
    names = item_names(text)
    if options.id is not None and options.id not in names:
        raise UserError(f"{path} has no data item {excerpt(options.id)!r}; it has: {few(list(names))}")
    side = next((item for item in names if plain(item) == COLUMN and item not in options.patterns), None)
    problem = None if side is None else side_problem(path, _fields(text, side))
    side = side if problem is None else None
    labels = NO_LABELS
    if not options.unlabelled:
        others = [item for item in names if item not in (options.id, side)]
        if not others:
            raise UserError(f"{path} has no data items, so its molecules have no classes; {WITHOUT}")

        def rows(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
            return (tuple(record.data.get(name, "") for name in names) for record in records(text))

        labels = read_labels(path, others, rows, options)
    columns = kept(tuple(names), (options.id, side, *labels.columns))
    entries = (
        MoleculeRow(
            row,
            id_of(record, options.id),
            record.block,
            tuple(record.data.get(name, "") for name in labels.columns),
            None if side is None else side_of(record.data.get(side, "")),
            tuple(record.data.get(name, "") for name in columns),
        )
        for row, record in enumerate(records(text), start=1)
    )
    notes = () if problem is None else (problem,)
    return gather_molecules(
        path, name, entries, labels, options, molfiles=True, columns=columns, notes=lambda: notes, jobs=work.jobs
    )


def item_names(text: TextFile) -> dict[str, None]:
    """Return the names of all data items, in order of first appearance."""
    names: dict[str, None] = {}
    for record in records(text):
        names.update(dict.fromkeys(record.data))
    return names


def id_of(record: SdfRecord, asked: str | None) -> str:
    """Return a molecule's id: the requested data item, else the record's title, else an item with a usual name."""
    if asked is not None:
        return record.data.get(asked, "")
    if record.title:
        return record.title
    items = {plain(name): value for name, value in record.data.items()}
    return next((items[name] for name in IDS if name in items), "")


def _fields(text: TextFile, item: str) -> Iterator[str]:
    return (record.data.get(item, "") for record in records(text))


def records(text: TextFile) -> Iterator[SdfRecord]:
    """Yield the records of an SDF."""
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


def _record(lines: list[str]) -> SdfRecord:
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
    return SdfRecord(lines[0].strip() if lines else "", "\n".join(lines[:end]) + "\n", items)
