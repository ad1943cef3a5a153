"""Molecules, one after another, to the pieces of a set."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.importers.chem import Chem
from cgipool.data.importers.imported import Imported, Skipped
from cgipool.data.importers.labels import Classes
from cgipool.data.importers.wishes import Wishes
from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles
from cgipool.errors import UserError

UNREAD, UNLABELLED, CUT = "rows that are no molecule", "rows without a label", "molecules cut to the largest fragment"
"""How `GraphSet.dropped` names what an import left out."""


PIECE = 4096
"""Rows of which a piece is made."""

LONGEST = 1000
"""Characters that are kept of a row left out: a quote that is never closed may hold much of a file."""


class Entry(NamedTuple):
    """One molecule of the source."""

    row: int
    id: str
    text: str
    """A SMILES or a molfile."""
    label: str


def gather_molecules(
    path: Path, name: str, entries: Iterable[Entry], classes: Classes, wishes: Wishes, *, molfiles: bool = False
) -> Iterator[Imported]:
    """The set of these molecules, in pieces; what is none is listed, or with `strict` an error."""
    rows = iter(entries)
    featurizer = MoleculeFeaturizer(largest_fragment=wishes.largest_fragment)
    found, first = 0, None
    while some := list(islice(rows, PIECE)):
        piece = _Piece(featurizer, molfiles)
        for entry in some:
            if (problem := piece.add(entry, classes)) is not None and wishes.strict:
                raise UserError(f"{path}, row {entry.row}: {problem.text!r} is no molecule: {problem.reason}")
        first = first or next(iter(piece.skipped), None)
        found += len(piece.y)
        yield piece.imported(name, classes)
    if not found:
        if first is None:
            raise UserError(f"{path} has no rows")
        raise UserError(f"{path}: not one row is a molecule; the first, row {first.row}: {first.reason}")


class _Piece:
    """Some molecules in the making."""

    def __init__(self, featurizer: MoleculeFeaturizer, molfiles: bool) -> None:
        self._featurizer, self._molfiles = featurizer, molfiles
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
            whole = (parse_block if self._molfiles else parse_smiles)(entry.text)
            molecule = self._featurizer.trim(whole)
        except NotAMoleculeError as error:
            text = entry.id if self._molfiles else entry.text
            text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
            self.skipped.append(Skipped(entry.row, str(error), text))
            return self.skipped[-1]
        self._cut += molecule is not whole
        self._featurizer.add(self._gather, molecule)
        self.y.append(y)
        told = (entry.row, entry.id, Chem.MolToSmiles(whole) if self._molfiles else entry.text)
        for column, value in zip(self._ids.values(), told, strict=True):
            column.append(value)
        return None

    def imported(self, name: str, classes: Classes) -> Imported:
        """The piece."""
        counts = {UNREAD: len(self.skipped), UNLABELLED: self._unlabelled, CUT: self._cut}
        graphs = self._gather.graph_set(name, self.y, classes.names)
        dropped = graphs.dropped | {what: count for what, count in counts.items() if count}
        graphs = replace(graphs, dropped=dropped, checked=True)
        return Imported(graphs, self._ids, self.skipped, self._featurizer.to_json())
