"""Molecules, one after another, to the pieces of a set."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.importers.chem import Chem
from cgipool.data.importers.imported import Imported, Skipped
from cgipool.data.importers.labels import Classes
from cgipool.data.importers.wishes import Wishes
from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles
from cgipool.data.names import printable
from cgipool.errors import UserError, excerpt

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
    wishes: Wishes,
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
