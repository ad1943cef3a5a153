"""A column `split` of the source that says which graphs are for training, validation and test."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.table import Table
from cgipool.data.splits import SIDES, Split, holdout
from cgipool.errors import excerpt

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
