"""The options and the result of an import, and saving it: plain files next to a saved set, written in pieces."""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from cgipool.data.catalogue import extra_of
from cgipool.data.graphs import GraphSet
from cgipool.data.join import merge
from cgipool.data.spill import ImportProgress, Work, no_progress
from cgipool.data.splits import SIDES, Split, holdout, scaffold_splits, write_splits
from cgipool.data.store import featurizer_in, is_large, replacing
from cgipool.data.writer import GraphSetWriter
from cgipool.errors import UserError

IDS, SKIPPED = "ids.csv", "skipped.csv"
GIVEN, SCAFFOLDS = "given-splits.json", "scaffold-splits.json"

MAX_ATOMS = 3000
"""Larger molecules are skipped unless --max-atoms is raised: RDKit may take very long on them, or crash."""

OF_CLASSES = ("label", "task", "threshold", "skip_unlabelled")
"""The options that define the classes."""


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import; each format uses some of them."""

    label: str | tuple[str, ...] | None = None
    """The column with the classes, or the columns with the targets; names may be patterns with * and ?."""
    task: str = "auto"
    """What the label columns hold: "auto", "classification", "regression" or "multilabel"."""
    smiles: str | None = None
    """The column with the molecules."""
    threshold: float | None = None
    """Make two classes from a numeric column: below the threshold, and at or above it."""
    skip_unlabelled: bool = False
    """Skip rows without a label instead of raising an error."""
    strict: bool = False
    """Raise an error for a row that cannot be read, instead of skipping and listing it."""
    largest_fragment: bool = False
    """Keep only the largest fragment of each molecule."""
    featurizer: str | None = None
    """A function with further features of atoms and bonds, MODULE:FUNCTION."""
    unlabelled: bool = False
    """Read no classes: the graphs are for predictions."""
    directed: bool = False
    """Keep the direction of edges."""
    id: str | None = None
    """The column with the ids."""
    max_atoms: int = MAX_ATOMS
    """Maximum atoms of a molecule."""
    max_size: int | None = None
    """Maximum bytes of text; by default 16 GB, and 100 times its size for a compressed file."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names or patterns of label columns."""
        return () if self.label is None else (self.label,) if isinstance(self.label, str) else tuple(self.label)

    def only(self, form: str, useful: tuple[str, ...]) -> None:
        """Raise UserError for an option that the format does not use, or a class option if no classes are read."""
        for option_field in fields(self):
            name = option_field.name
            if getattr(self, name) == option_field.default:
                continue
            option = f"--{name.replace('_', '-')}"
            if name not in useful:
                raise UserError(f"{option} cannot be used with the format {form}")
            if self.unlabelled and name in OF_CLASSES:
                raise UserError(f"{option} cannot be used with --unlabelled, which reads no classes")


class Skipped(NamedTuple):
    """A row of the source that was skipped."""

    row: int
    """Counted from 1."""
    reason: str
    text: str
    """The content of the row, or its name."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A set and the origin of its graphs, or one piece of it: readers yield pieces one after another."""

    graphs: GraphSet
    ids: Mapping[str, Sequence[Any]]
    """Columns with one entry per graph: "row" in the source from 1 and, if available, "id", "smiles" and "split", the
    side of a split that the source defines."""
    skipped: Sequence[Skipped] = ()
    """The rows skipped because they could not be read."""
    splits: dict[str, list[Split]] = field(default_factory=dict)
    """Splits that belong to the set, by file name."""
    notes: Sequence[str] = ()
    """What a user should know about how it was read."""

    @property
    def features(self) -> dict[str, Any] | None:
        """The featurizer of molecules as plain values."""
        return self.graphs.featurizer

    def save(self, folder: str | Path) -> None:
        """Write everything into one folder atomically; an earlier import in it is replaced."""
        save_pieces(lambda work: iter([self]), Path(folder), self.graphs.name)


def together(pieces: Sequence[Imported]) -> Imported:
    """Combine the pieces of one import."""
    first = pieces[0]
    ids: dict[str, Sequence[Any]] = dict(first.ids)
    if len(pieces) > 1:
        ids = {column: [value for piece in pieces for value in piece.ids[column]] for column in first.ids}
    if "id" in ids and not any(ids["id"]):
        del ids["id"]
    skipped = [row for piece in pieces for row in piece.skipped]
    graphs, splits = merge([piece.graphs for piece in pieces]), dict(first.splits)
    if "split" in ids and (given := given_splits(graphs, ids["split"])) is not None:
        splits[GIVEN] = [given]
    notes = tuple(dict.fromkeys(note for piece in pieces for note in piece.notes))
    return Imported(_without_empty_ids(graphs), ids, skipped, splits, notes)


def _without_empty_ids(graphs: GraphSet) -> GraphSet:
    """Return the set, without ids if all of them are empty."""
    if graphs.graph_ids is None or len(graphs.graph_ids.data):
        return graphs
    return replace(graphs, graph_ids=None, checked=True)


def featurizer_of(data: str | Path) -> dict[str, Any] | None:
    """Return the featurizer of a saved import or of `solubility` as plain values; None for other sets."""
    if (found := featurizer_in(Path(data))) is not None:
        return found
    if extra_of(str(data).lower()):
        from cgipool.data.molecules import MoleculeFeaturizer

        return MoleculeFeaturizer().to_json()
    return None


def read_ids(folder: str | Path) -> dict[str, list[str]]:
    """The columns of a saved import's ids.csv by name, one entry per graph."""
    path = Path(folder) / IDS
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
            return {name: list(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, csv.Error):
        raise UserError(f"{path} is damaged: it is not a table with a header") from None


def read_skipped(folder: str | Path) -> Iterator[Skipped]:
    """Yield the rows that an import skipped, from its skipped.csv; nothing if there is no such file."""
    path = Path(folder) / SKIPPED
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                yield Skipped(int(row["row"]), row["reason"], row["text"])
    except (KeyError, TypeError, ValueError, csv.Error):
        raise UserError(f"{path} is damaged: it does not list rows, reasons and texts") from None


def given_splits(graphs: GraphSet, sides: Sequence[str]) -> Split | None:
    """Return the split that a column defines; None unless it names training and test graphs.

    If it names no validation graphs, a tenth of the training graphs is used instead, stratified by class.
    """
    of = np.array(sides)
    train, val, test = (np.flatnonzero(of == side) for side in SIDES)
    if not graphs.is_labelled or len(train) < 2 or not len(test):
        return None
    if not len(val):
        kept, held = holdout(graphs.subset(train), 0.1, seed=0)
        train, val = train[kept], train[held]
    return Split(0, train, val, test)


Pieces = Callable[[Work], Iterator[Imported]]
"""Yields the pieces of an import; intermediate data is stored where `Work` says."""


@dataclass(frozen=True, eq=False)
class Saved:
    """The content of an import's folder."""

    graphs: GraphSet
    """Its arrays are in memory, or on disk if they are large."""
    skipped: int
    """How many rows were skipped because they could not be read; `read_skipped` lists them."""
    splits: dict[str, int]
    """The number of splits in each split file, by file name."""
    notes: tuple[str, ...] = ()
    """What a user should know about how it was read."""


def save_pieces(
    pieces: Pieces,
    folder: Path,
    name: str,
    *,
    scaffolds: tuple[int, int] | None = None,
    tell: ImportProgress = no_progress,
    jobs: int = 1,
) -> Saved:
    """Write an import into one folder atomically; an earlier import in it is replaced.

    `scaffolds` is (number of scaffold splits, seed), for sets of molecules.
    """
    with replacing(folder, name) as fresh:
        with _Folder(fresh) as target:
            for piece in pieces(Work(fresh.parent, tell, jobs)):
                target.add(piece)
                tell("graphs", target.graphs.n_graphs)
        if scaffolds is not None:
            target.splits[SCAFFOLDS] = _split_by_scaffold(fresh, *scaffolds)
        if target.sides is not None:
            target.splits |= _split_as_given(fresh, target.sides)
    graphs = GraphSet.load(folder, mmap=is_large(folder), checked=True)
    return Saved(graphs, target.skipped, target.splits, tuple(target.notes))


class _Folder:
    """The folder of an import while it is written; a context manager that completes the files on exit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self.graphs = GraphSetWriter(folder)
        self._tables: dict[str, _CsvWriter] = {}
        self._has_id = False
        self.skipped = 0
        self.splits: dict[str, int] = {}
        self.sides: list[str] | None = None
        """The side of each graph, if a column of the source gives it."""
        self.notes: dict[str, None] = {}

    def __enter__(self) -> "_Folder":
        self._open.enter_context(self.graphs)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._open.__exit__(kind, *rest)
        if kind is None and "id" in self._tables[IDS].header and not self._has_id:
            _drop_column(self._folder / IDS, "id")

    def add(self, piece: Imported) -> None:
        """Append one piece."""
        number, ids = self.graphs.n_graphs, piece.ids
        self.graphs.append(piece.graphs)
        rows = zip(range(number, self.graphs.n_graphs), *ids.values(), strict=True)
        self._table(IDS, ["graph", *ids]).rows(rows)
        self._has_id = self._has_id or any(ids.get("id", ()))
        if piece.skipped:
            self._table(SKIPPED, Skipped._fields).rows(iter(piece.skipped))
            self.skipped += len(piece.skipped)
        if "split" in ids:
            self.sides = self.sides or []
            self.sides.extend(map(sys.intern, ids["split"]))
        self.notes |= dict.fromkeys(piece.notes)
        for name, splits in piece.splits.items():
            write_splits(self._folder / name, splits)
            self.splits[name] = len(splits)

    def _table(self, name: str, header: Sequence[str]) -> "_CsvWriter":
        if name not in self._tables:
            file = self._open.enter_context((self._folder / name).open("w", encoding="utf-8", newline=""))
            self._tables[name] = _CsvWriter(file, header)
        return self._tables[name]


class _CsvWriter:
    """A CSV file with a header."""

    def __init__(self, file: IO[str], header: Sequence[str]) -> None:
        self.header = header
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(header)

    def rows(self, rows: Iterator[Sequence[Any]]) -> None:
        self._writer.writerows(rows)


def _drop_column(path: Path, name: str) -> None:
    fresh = path.with_suffix(".tmp")
    with path.open(encoding="utf-8", newline="") as old, fresh.open("w", encoding="utf-8", newline="") as new:
        rows = csv.reader(old)
        header = next(rows)
        place = header.index(name)
        table = _CsvWriter(new, header[:place] + header[place + 1 :])
        table.rows(row[:place] + row[place + 1 :] for row in rows)
    fresh.replace(path)


def _split_as_given(folder: Path, sides: Sequence[str]) -> dict[str, int]:
    split = given_splits(GraphSet.load(folder, mmap=True), sides)
    if split is None:
        return {}
    write_splits(folder / GIVEN, [split])
    return {GIVEN: 1}


def _split_by_scaffold(folder: Path, count: int, seed: int) -> int:
    with (folder / IDS).open(encoding="utf-8", newline="") as stream:
        smiles = (row["smiles"] for row in csv.DictReader(stream))
        splits = scaffold_splits(smiles, seed=seed, indices=range(count))
    write_splits(folder / SCAFFOLDS, splits)
    return count
