"""Further columns of a source, such as weights, times or descriptors, kept with a set as text.

`GraphSet.table` has the fields of K columns, graph by graph: field j of graph g is text g · K + j.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import pointer
from cgipool.data.check import graph_called
from cgipool.data.names import Names, Texts
from cgipool.errors import UserError, are, counted, excerpt, meant

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

MISSING = frozenset(("", "na", "n/a", "nan", "null"))
"""Fields that mean a missing value, ignoring case."""

MOST = 4096
"""Maximum number of columns to keep."""

SHOWN = 10
"""Maximum number of columns in a message."""


def is_missing(text: str) -> bool:
    """Whether a field means a missing value."""
    return text.lower() in MISSING


def few(names: Sequence[str]) -> str:
    """Names for a message; only the first ones if there are many."""
    shown = ", ".join(excerpt(name, 60) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names):,} in all)"


def kept(columns: Sequence[str], taken: Iterable[str | None]) -> Names:
    """The columns of a source to keep: those with a unique name that are not used otherwise."""
    count, used = Counter(columns), set(taken)
    return tuple(name for name in columns if name and count[name] == 1 and name not in used)[:MOST]


def names_of(graphs: "GraphSet") -> Names:
    """The names of the kept columns."""
    return graphs.column_names.get("table", ())


def column(graphs: "GraphSet", name: str) -> list[str]:
    """[G] the fields of a kept column, empty where missing."""
    known = names_of(graphs)
    if name not in known or graphs.table is None:
        has = f"{meant(name, known) or ';'} its columns: {few(known)}"
        if not known:
            has = "; it has none, because its source was not a table"
        raise UserError(f"{graphs.name} has no column {excerpt(name)!r}{has}")
    places = np.arange(graphs.n_graphs) * len(known) + known.index(name)
    return graphs.table.take(places)[:]


def numbers(graphs: "GraphSet", name: str) -> NDArray[np.float64]:
    """[G] a kept column as finite numbers. Raise UserError for a field that is missing or not a number."""
    texts = column(graphs, name)
    values = np.array([number_in(text) for text in texts], dtype=np.float64)
    return checked(graphs, name, texts, np.isfinite(values), values, "a finite number")


def times(graphs: "GraphSet", name: str) -> NDArray[np.float64]:
    """[G] a kept column as numbers that increase with time: numbers, or dates such as 2024-05-17."""
    texts = column(graphs, name)
    values = np.array([number_in(text) for text in texts], dtype=np.float64)
    if not np.isfinite(values).any():
        values = np.array([_date(text) for text in texts], dtype=np.float64)
    return checked(graphs, name, texts, np.isfinite(values), values, "a number or a date such as 2024-05-17")


def checked(
    graphs: "GraphSet",
    name: str,
    texts: Sequence[str],
    good: NDArray[np.bool_],
    values: NDArray[np.float64],
    kind: str,
) -> NDArray[np.float64]:
    """Return the values. If some are not good, raise UserError: how many are not `kind`, and the first."""
    if good.all():
        return values
    bad = np.flatnonzero(~good)
    first = f"the first in {graph_called(graphs, int(bad[0]))}: {excerpt(texts[bad[0]], 60)!r}"
    what = f"{counted(len(bad), 'value')} that {are(len(bad))} not {kind}"
    raise UserError(f"{graphs.name}: column {excerpt(name)!r} has {what}, {first}")


def number_in(text: str) -> float | None:
    """The finite number in a field; None for anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in text else None


def _date(text: str) -> float | None:
    """An ISO 8601 date, with or without a time of day, in seconds since 1970; None for anything else."""
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


class TableBuilder:
    """The fields of kept columns, added row by row."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._sizes = array("q")
        self._data = bytearray()

    def add(self, fields: Iterable[str]) -> None:
        """Add the fields of a graph, one per column."""
        for field in fields:
            text = field.encode("utf-8", "replace")
            self._sizes.append(len(text))
            self._data += text

    @property
    def texts(self) -> Texts:
        """All fields."""
        return Texts(pointer(np.array(self._sizes, np.int64)), np.frombuffer(bytes(self._data), np.uint8))

    def of(self, graphs: "GraphSet") -> "GraphSet":
        """The same graphs with these columns."""
        return with_table(graphs, self.names, self.texts)


def with_table(graphs: "GraphSet", names: Names, texts: Texts) -> "GraphSet":
    """The same graphs with these further columns."""
    if not names:
        return graphs
    texts.check("table", graphs.n_graphs * len(names), "field")
    return replace(graphs, table=texts, column_names=graphs.column_names | {"table": names}, checked=True)


def rows_of(texts: Texts, width: int, rows: NDArray[np.int64]) -> Texts:
    """The fields of some rows of a table with `width` columns."""
    return texts.take((rows[:, None] * width + np.arange(width)).ravel())
