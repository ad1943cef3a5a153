"""Category and float columns of nodes, edges or graphs, and the vocabularies and statistics fitted on them.

Shapes: R rows (nodes, edges or graphs of a set), K category columns, D float columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import ranges
from cgipool.data.catalogue import CATALOGUE
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError, counted, excerpt, unknown

STRETCH = 1 << 22
"""Rows to read at a time."""

FEATURIZERS = ("auto", "labels", "atoms-and-bonds")

LABELS = (
    ("element", "degree", "charge", "hydrogens", "aromatic", "ring", "hybridisation", "chirality"),
    ("type", "stereo"),
)
"""The columns of atoms and bonds that `featurizer=labels` reads: those that earlier versions stored."""


class Rows:
    """[R, …] values that are computed when rows are read, so a memory-mapped set is never in memory as a whole."""

    def __init__(self, count: int, rows: Callable[[NDArray[np.int64]], NDArray[Any]]) -> None:
        self._count, self._rows = count, rows

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, which: NDArray[np.int64]) -> NDArray[Any]:
        return self._rows(which)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._rows(np.arange(self._count)), dtype)


class Codes(NamedTuple):
    """Category columns as codes, and the names of the codes."""

    names: tuple[Names, ...]
    of: Callable[[NDArray[np.int64]], NDArray[np.int32]]
    """[n] rows → [n, K] codes."""


def label_codes(category: NDArray[np.int32] | None, names: tuple[Names, ...], columns: Sequence[int] = ()) -> Codes:
    """The codes of label columns: of those with the numbers `columns`, or of all. K is 0 if there are none."""
    if category is None:
        return Codes((), lambda rows: np.empty((len(rows), 0), np.int32))
    values = np.asarray(category)
    if not columns or list(columns) == list(range(len(names))):
        return Codes(names, lambda rows: values[rows])
    chosen = np.array(columns)
    return Codes(tuple(names[j] for j in columns), lambda rows: values[rows[:, None], chosen])


def numbers_of(graphs: GraphSet, what: str, reads: Names) -> list[int]:
    """The numbers of the label columns with these names."""
    known = graphs.column_names.get(what, ())
    if missing := [name for name in reads if name not in known]:
        kind = "edge label" if what == "edge_category" else "node label"
        raise UserError(f"{graphs.name} has no {kind} column {missing[0]!r}, which the model reads")
    return [known.index(name) for name in reads]


def is_molecules(graphs: GraphSet) -> bool:
    """Whether these graphs have the columns that every version of the featurizer writes."""
    known = (("category", LABELS[0]), ("edge_category", LABELS[1]))
    named = graphs.column_names
    if all(what in named for what, _ in known):
        return all(named[what][: len(least)] == least for what, least in known)
    return (len(graphs.category_names), len(graphs.edge_category_names)) == (len(LABELS[0]), len(LABELS[1]))


def columns_read(graphs: GraphSet, featurizer: str) -> tuple[Names, Names]:
    """The names of the node and edge label columns that a model reads; empty if it reads all.

    Only sets of molecules have more columns than `labels` reads. "auto" reads all of them, except in sets of the
    catalogue.
    """
    if featurizer not in FEATURIZERS:
        raise unknown("featurizer", featurizer, FEATURIZERS)
    named = graphs.column_names
    full = (graphs.featurizer or {}).get("featurizer") == "molecules" and "mass" in named.get("category", ())
    if featurizer == "atoms-and-bonds" and not full:
        made = "its molecules were imported by an earlier version; import them again" if graphs.featurizer else ""
        raise UserError(f"{graphs.name} has no atom and bond features: {made or 'it was not imported from molecules'}")
    if full and (featurizer == "labels" or (featurizer == "auto" and graphs.name in CATALOGUE)):
        return LABELS
    return (), ()


def side_by_side(*parts: Codes) -> Codes:
    """Concatenate the columns of several `Codes`."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(column for part in parts for column in part.names)
    return Codes(names, lambda rows: np.concatenate([part.of(rows) for part in parts], axis=1))


class SideBySide:
    """Float columns of several arrays, concatenated when rows are read."""

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self._parts = parts
        self.shape = len(parts[0]), sum(part.shape[1] for part in parts)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        return np.concatenate([part[rows] for part in self._parts], axis=1)


def degree_codes(graphs: GraphSet) -> Codes:
    """The degrees of nodes as one column. Its names are the degrees that occur."""
    ptr, present = np.asarray(graphs.edge_ptr), np.empty(0, np.int64)
    for start in range(0, len(ptr) - 1, STRETCH):
        degree = np.diff(ptr[start : start + STRETCH + 1])
        present = np.union1d(present, np.flatnonzero(np.bincount(degree)))
    rank = np.zeros(present[-1] + 1 if len(present) else 0, dtype=np.int32)
    rank[present] = np.arange(len(present))
    return Codes((tuple(map(str, present.tolist())),), lambda nodes: rank[ptr[nodes + 1] - ptr[nodes]][:, None])


def node_codes(graphs: GraphSet, source: str, reads: Names) -> Codes:
    """The category columns of the nodes, without Weisfeiler–Lehman colours."""
    if source == "degree":
        return degree_codes(graphs)
    if graphs.category is None:
        raise UserError(f"{graphs.name} has no node labels; use 'degree'")
    labels = label_codes(graphs.category, graphs.category_names, numbers_of(graphs, "category", reads))
    return labels if source == "label" else side_by_side(labels, degree_codes(graphs))


class Columns:
    """Fitted columns: the values with a column of the joint one-hot input, and the standardisation of floats."""

    vocabulary: str
    values: tuple[Names, ...]
    seen: tuple[tuple[bool, ...], ...]
    mean: tuple[float, ...] | None
    scale: tuple[float, ...] | None

    def _has_other(self, j: int) -> bool:
        """Whether category column j has a one-hot column for "other"."""
        return self.vocabulary == "train"

    def _widths(self) -> list[int]:
        return [len(names) + self._has_other(j) for j, names in enumerate(self.values)]

    @property
    def columns(self) -> int:
        """Width of the joint one-hot input."""
        return sum(self._widths())

    @property
    def others(self) -> tuple[int, ...]:
        """The "other" columns. No training row uses them."""
        ends = np.cumsum(self._widths()) - 1
        return tuple(end for j, end in enumerate(ends.tolist()) if self._has_other(j))

    @property
    def n_floats(self) -> int:
        """D, the number of float columns."""
        return 0 if self.mean is None else len(self.mean)

    def places(self, j: int, names: Names) -> NDArray[np.int32]:
        """[len(names)] for each value of category column j, its position among the columns of j; "other" is last."""
        other = len(self.values[j])
        place = {name: c if self.seen[j][c] else other for c, name in enumerate(self.values[j])}
        return np.array([place.get(name, other) for name in names], dtype=np.int32)

    def unknown(self, codes: Codes) -> list[NDArray[np.bool_]]:
        """For each code of each category column, whether its value has no column of its own."""
        return [self.places(j, names) == len(self.values[j]) for j, names in enumerate(codes.names)]

    def categories(self, codes: Codes, count: int) -> Rows:
        """[count, K] the columns of the joint one-hot input that are 1."""
        offsets = np.cumsum([0, *self._widths()])
        tables = [self.places(j, names) + np.int32(offsets[j]) for j, names in enumerate(codes.names)]
        return Rows(count, lambda rows: _looked_up(tables, codes.of(rows)))

    def standardised(self, values: NDArray[Any] | SideBySide) -> Rows:
        """[R, D] the float columns, standardised by the mean and scale of the training rows."""
        mean, scale = np.array(self.mean), np.array(self.scale)
        return Rows(len(values), lambda rows: ((values[rows] - mean) / scale).astype(np.float32))


def _looked_up(tables: Sequence[NDArray[np.int32]], codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """[n, K] the entries of each column's table at its codes."""
    found = np.empty(codes.shape, dtype=np.int32)
    for j, table in enumerate(tables):
        found[:, j] = table[codes[:, j]]
    return found


def known(codes: Codes, stretches: Iterable[NDArray[np.int64]], vocabulary: str) -> tuple[tuple[bool, ...], ...]:
    """For each value of each category column, whether it occurs in these rows; always True with vocabulary "all"."""
    found = [np.full(len(names), vocabulary == "all") for names in codes.names]
    for rows in stretches:
        for seen, column in zip(found, codes.of(rows).T, strict=True):
            seen[column] = True
    return tuple(tuple(seen.tolist()) for seen in found)


def moments(
    values: NDArray[Any] | SideBySide, stretches: Callable[[], Iterable[NDArray[np.int64]]], what: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation (1 where it is 0) of float columns over these rows, in float64."""
    count, mean, square = 0, np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for rows in stretches():
        count += len(rows)
        mean += values[rows].astype(np.float64).sum(axis=0)
    if count == 0:
        raise UserError(what)
    mean /= count
    for rows in stretches():
        square += np.square(values[rows].astype(np.float64) - mean).sum(axis=0)
    deviation = np.sqrt(square / count)
    return tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())


def node_stretches(graphs: GraphSet, ids: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the nodes of the graphs `ids`, some at a time."""
    return _stretches(graphs.node_ptr[ids], graphs.sizes[ids])


def edge_stretches(graphs: GraphSet, ids: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the stored edges of the graphs `ids`, some at a time."""
    first = graphs.edge_ptr[graphs.node_ptr[ids]]
    return _stretches(first, graphs.edge_ptr[graphs.node_ptr[ids + 1]] - first)


def _stretches(first: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    ends = np.cumsum(counts)
    marks = np.searchsorted(ends, np.arange(STRETCH, ends[-1] if len(ends) else 0, STRETCH))
    for start, stop in pairwise(np.unique(np.concatenate([[0], marks, [len(counts)]])).tolist()):
        yield ranges(first[start:stop], counts[start:stop])


def source_names(graphs: GraphSet, prefix: str = "") -> tuple[Names, Names]:
    """The source's names of the label columns and attribute columns of nodes or, with the prefix "edge_", of edges."""
    return tuple(graphs.column_names.get(f"{prefix}{what}", ()) for what in ("category", "attributes"))  # type: ignore[return-value]


def check_source_names(graphs: GraphSet, thing: str, found: Names, fitted: Names) -> None:
    """Raise UserError if columns have other names than at fitting. Sources without names pass."""
    if len(found) != len(fitted) or found == fitted:
        return
    j = next(j for j, pair in enumerate(zip(found, fitted, strict=True)) if pair[0] != pair[1])
    names = f"is {excerpt(found[j])!r}; the encoder was fitted on {excerpt(fitted[j])!r}"
    raise UserError(f"{graphs.name}: {thing} column {j} {names}")


def other_width(graphs: GraphSet, width: int, thing: str, fitted: int) -> UserError:
    """The error for a set with another number of columns than at fitting."""
    return UserError(f"{graphs.name} has {counted(width, thing)}; the encoder was fitted on {fitted}")
