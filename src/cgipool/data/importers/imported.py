"""What an import gives, the splits that its source gives, and how both are kept: plain files beside a saved set."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.table import Table
from cgipool.data.join import merge
from cgipool.data.splits import SIDES, Split, holdout
from cgipool.data.store import featurizer_in
from cgipool.errors import UserError, excerpt

GIVEN = "given-splits.json"
COLUMN = "split"

SIDE = {
    "": "",
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
"""What a column may hold, in any case of letters → the side; none of them means that the graph is on no side."""


def side_column(table: Table, taken: Sequence[int | None], label: str | None) -> tuple[int | None, tuple[str, ...]]:
    """The number of a column called `split` that gives the sides, and what is to be said if it cannot be used."""
    place = table.usual((COLUMN,))
    if place is None or place in taken or table.columns[place] == label:
        return None, ()
    strange = strange_side(table.path, (text for _, (text,) in table.rows(place)))
    return (place, ()) if strange is None else (None, (strange,))


def strange_side(path: Path, fields: Iterable[str]) -> str | None:
    """Why a column called `split` is not used, if it holds anything but the names of sides."""
    for text in fields:
        if text.lower() not in SIDE:
            return f"{path}: column 'split' is not used: it holds {excerpt(text, 60)!r}, not only train, val and test"
    return None


def side_of(text: str) -> str:
    """The side that a field names."""
    return SIDE[text.lower()]


def given_splits(graphs: GraphSet, sides: Sequence[str]) -> Split | None:
    """The split that a column gives; None unless some graphs train and others test.

    Where it names no validation graphs, a tenth of the training graphs takes their place, drawn by class.
    """
    of = np.array(sides)
    train, val, test = (np.flatnonzero(of == side) for side in SIDES)
    if not graphs.is_labelled or len(train) < 2 or not len(test):
        return None
    if not len(val):
        kept, held = holdout(graphs.subset(train), 0.1, seed=0)
        train, val = train[kept], train[held]
    return Split(0, train, val, test)


IDS, SKIPPED, SCAFFOLDS = "ids.csv", "skipped.csv", "scaffold-splits.json"


class Skipped(NamedTuple):
    """A row of the source that is no graph of the set."""

    row: int
    """Counted from 1."""
    reason: str
    text: str
    """What stood there, or the name of it."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A set and where its graphs come from; or one piece of it, as the readers give them one after another."""

    graphs: GraphSet
    ids: Mapping[str, Sequence[Any]]
    """Columns with one entry per graph: "row" in the source from 1 and, where there are such, "id", "smiles" and the
    side that a column "split" of the source gives."""
    skipped: Sequence[Skipped] = ()
    """The rows left out because they could not be read."""
    splits: dict[str, list[Split]] = field(default_factory=dict)
    """Splits that go with the set, by file name."""
    notes: Sequence[str] = ()
    """What a user should know about how it was read."""

    @property
    def features(self) -> dict[str, Any] | None:
        """The featuriser of molecules as plain values."""
        return self.graphs.featurizer

    def save(self, folder: str | Path) -> None:
        """Write everything into one folder, which appears whole or not at all; an earlier import in it is replaced."""
        from cgipool.data.importers.saving import save_pieces

        save_pieces(lambda work: iter([self]), Path(folder), self.graphs.name)


def together(pieces: Sequence[Imported]) -> Imported:
    """The pieces of one import as one."""
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
    """The same set, without ids where each of them is empty."""
    if graphs.graph_ids is None or len(graphs.graph_ids.data):
        return graphs
    return replace(graphs, graph_ids=None, checked=True)


def featurizer_of(data: str | Path) -> dict[str, Any] | None:
    """How the molecules of a saved import, or of the built-in set of molecules, became graphs; None for other sets."""
    if (found := featurizer_in(Path(data))) is not None:
        return found
    if str(data).lower() == "solubility":
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
        raise UserError(f"{path} is damaged: it is no table with a header") from None


def read_skipped(folder: str | Path) -> Iterator[Skipped]:
    """The rows that an import left out, as its skipped.csv lists them; none where there is no such file."""
    path = Path(folder) / SKIPPED
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                yield Skipped(int(row["row"]), row["reason"], row["text"])
    except (KeyError, TypeError, ValueError, csv.Error):
        raise UserError(f"{path} is damaged: it does not list rows, reasons and texts") from None
