"""An import written to disk piece by piece: of a source larger than memory only a piece is held."""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import GIVEN, IDS, SCAFFOLDS, SKIPPED, Imported, Skipped, given_splits
from cgipool.data.spill import ImportProgress, Work, nobody
from cgipool.data.splits import write_splits
from cgipool.data.store import is_large, replacing
from cgipool.data.writer import GraphSetWriter

Pieces = Callable[[Work], Iterator[Imported]]
"""Gives the pieces of an import; what must be held meanwhile goes where `Work` says."""


@dataclass(frozen=True, eq=False)
class Saved:
    """What an import left in its folder."""

    graphs: GraphSet
    """Its arrays are in memory, or on disk if they are large."""
    skipped: int
    """How many rows were left out because they could not be read; `read_skipped` gives them."""
    splits: dict[str, int]
    """By file name, the number of splits that go with the set."""
    notes: tuple[str, ...] = ()
    """What a user should know about how it was read."""


def save_pieces(
    pieces: Pieces, folder: Path, name: str, *, scaffolds: tuple[int, int] | None = None, tell: ImportProgress = nobody
) -> Saved:
    """Write an import into one folder, which appears whole or not at all; an earlier import in it is replaced.

    `scaffolds` asks for so many splits by scaffold, of a seed, if the set is one of molecules.
    """
    with replacing(folder, name) as fresh:
        with _Folder(fresh) as target:
            for piece in pieces(Work(fresh.parent, tell)):
                target.add(piece)
                tell("graphs", target.graphs.n_graphs)
        if scaffolds is not None:
            target.splits[SCAFFOLDS] = _split_by_scaffold(fresh, *scaffolds)
        if target.sides is not None:
            target.splits |= _split_as_given(fresh, target.sides)
    graphs = GraphSet.load(folder, mmap=is_large(folder), checked=True)
    return Saved(graphs, target.skipped, target.splits, tuple(target.notes))


class _Folder:
    """The folder of an import while it is written; a context, at whose end all is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self.graphs = GraphSetWriter(folder)
        self._tables: dict[str, _Table] = {}
        self._has_id = False
        self.skipped = 0
        self.splits: dict[str, int] = {}
        self.sides: list[str] | None = None
        """Of each graph, where a column of the source gives it."""
        self.notes: dict[str, None] = {}

    def __enter__(self) -> "_Folder":
        self._open.enter_context(self.graphs)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._open.__exit__(kind, *rest)
        if kind is None and "id" in self._tables[IDS].header and not self._has_id:
            _drop_column(self._folder / IDS, "id")

    def add(self, piece: Imported) -> None:
        """Write one piece after the others."""
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

    def _table(self, name: str, header: Sequence[str]) -> "_Table":
        if name not in self._tables:
            file = self._open.enter_context((self._folder / name).open("w", encoding="utf-8", newline=""))
            self._tables[name] = _Table(file, header)
        return self._tables[name]


class _Table:
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
        table = _Table(new, header[:place] + header[place + 1 :])
        table.rows(row[:place] + row[place + 1 :] for row in rows)
    fresh.replace(path)


def _split_as_given(folder: Path, sides: Sequence[str]) -> dict[str, int]:
    split = given_splits(GraphSet.load(folder, mmap=True), sides)
    if split is None:
        return {}
    write_splits(folder / GIVEN, [split])
    return {GIVEN: 1}


def _split_by_scaffold(folder: Path, count: int, seed: int) -> int:
    from cgipool.data.scaffolds import scaffold_splits

    with (folder / IDS).open(encoding="utf-8", newline="") as stream:
        smiles = (row["smiles"] for row in csv.DictReader(stream))
        splits = scaffold_splits(smiles, seed=seed, indices=range(count))
    write_splits(folder / SCAFFOLDS, splits)
    return count
