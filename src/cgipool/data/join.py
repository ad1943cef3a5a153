"""Concatenate sets, and build a set from graphs one by one."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cgipool.data.build import pointer
from cgipool.data.further import names_of
from cgipool.data.names import Names, Texts, end_to_end, sort_key
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

LABELS = ("category", "edge_category")
COLUMNS = ("category", "attributes", "edge_weight", "edge_category", "edge_attributes", "node_truth", "targets")


def join(sets: Sequence["GraphSet"], name: str | None = None) -> "GraphSet":
    """The graphs of all sets, in order. Raise UserError unless the sets have the same columns and names."""
    from cgipool.data.graphs import GraphSet

    if not sets:
        raise UserError("there are no graphs to join")
    first = sets[0]
    for other in sets[1:]:
        check_same_columns(first, other)
        for what in LABELS:
            if getattr(other, f"{what}_names") != getattr(first, f"{what}_names"):
                raise _different(first, other, f"{what}_names")

    def together(what: str) -> NDArray[Any] | None:
        return None if getattr(first, what) is None else np.concatenate([getattr(part, what) for part in sets])

    columns: dict[str, Any] = {what: together(what) for what in COLUMNS}
    shared = tuple(name for name in names_of(first) if all(name in names_of(part) for part in sets))
    column_names = {what: names for what, names in shared_columns(sets).items() if what != "table"}
    column_names |= {"table": shared} if shared else {}
    return GraphSet(
        name or first.name,
        pointer(np.concatenate([part.sizes for part in sets])),
        pointer(np.concatenate([part.degree for part in sets])),
        np.concatenate([part.edge_disp for part in sets]),
        np.concatenate([part.y for part in sets]),
        first.class_names,
        category_names=first.category_names,
        edge_category_names=first.edge_category_names,
        graph_ids=_texts(sets, "graph_ids", [part.n_graphs for part in sets]),
        node_names=_texts(sets, "node_names", [part.n_nodes for part in sets]),
        column_names=column_names,
        table=_table(sets, shared) if shared else None,
        featurizer=first.featurizer if all(part.featurizer == first.featurizer for part in sets) else None,
        task=first.task,
        directed=first.directed,
        **columns,
        checked=True,
    )


def shared_columns(sets: Iterable["GraphSet"]) -> dict[str, Names]:
    """The column names on which all sets agree."""
    first, *others = (part.column_names for part in sets)
    return {what: names for what, names in first.items() if all(part.get(what) == names for part in others)}


def _table(sets: Sequence["GraphSet"], shared: Names) -> Texts:
    """The fields of the further columns that all sets have."""
    parts = []
    for part in sets:
        assert part.table is not None
        known = names_of(part)
        places = np.arange(part.n_graphs)[:, None] * len(known) + np.array([known.index(name) for name in shared])
        parts.append(part.table.take(places.ravel()))
    return Texts.join(parts)


def _texts(sets: Sequence["GraphSet"], what: str, counts: Sequence[int]) -> Texts | None:
    """Ids or names of all sets; empty texts for a set that has none."""
    parts = [getattr(part, what) for part in sets]
    if all(texts is None for texts in parts):
        return None
    return Texts.join([Texts.of([""] * n) if texts is None else texts for texts, n in zip(parts, counts, strict=True)])


def merge(sets: Sequence["GraphSet"]) -> "GraphSet":
    """Concatenate the parts of one set. Each part has the names of its own labels. The counts in `dropped` are added
    up."""
    if len(sets) == 1:
        return sets[0]
    changes: list[dict[str, Any]] = [{} for _ in sets]
    for what in LABELS:
        columns = [getattr(part, what) for part in sets]
        if any(codes is None for codes in columns):
            continue
        union = Union()
        coded = [union.add(codes, getattr(part, f"{what}_names")) for codes, part in zip(columns, sets, strict=True)]
        for change, codes in zip(changes, coded, strict=True):
            change |= {what: union.in_order(codes), f"{what}_names": union.names}
    recoded = [replace(part, **change, checked=True) for part, change in zip(sets, changes, strict=True)]
    dropped: Counter[str] = Counter()
    for part in sets:
        dropped.update(part.dropped)
    return replace(join(recoded), dropped=dict(dropped), checked=True)


class Union:
    """The names of label columns in several sets, coded in order of first appearance.

    At the end the names are sorted, unless all of them occur in the first set: then its order is kept.
    """

    def __init__(self) -> None:
        self._tables: list[dict[str, int]] = []
        self._first: tuple[Names, ...] = ()
        self._new = False

    def add(self, codes: NDArray[np.int32], names: tuple[Names, ...]) -> NDArray[np.int32]:
        """Convert codes [n, K] into the names of one set to codes into the names of all sets so far."""
        if not self._tables:
            self._first = names
            self._tables = [{name: code for code, name in enumerate(column)} for column in names]
        if names == self._first:
            return codes
        before = sum(map(len, self._tables))
        moved = [
            np.array([table.setdefault(name, len(table)) for name in column], np.int32)
            for table, column in zip(self._tables, names, strict=True)
        ]
        self._new = self._new or sum(map(len, self._tables)) > before
        return _recoded(codes, moved)

    @property
    def names(self) -> tuple[Names, ...]:
        """The names of each column in their final order."""
        return tuple(tuple(sorted(table, key=sort_key)) for table in self._tables) if self._new else self._first

    @property
    def is_ordered(self) -> bool:
        """Whether the codes that `add` returned are already indices into `names`."""
        return not self._new or _stay(self._ranks())

    def in_order(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Convert codes that `add` returned to indices into `names`."""
        return _recoded(codes, self._ranks()) if self._new else codes

    def _ranks(self) -> list[NDArray[np.int32]]:
        """For each column, the index in `names` of each code that `add` returned."""
        ranks = []
        for table, names in zip(self._tables, self.names, strict=True):
            rank = np.empty(len(table), np.int32)
            rank[[table[name] for name in names]] = np.arange(len(table))
            ranks.append(rank)
        return ranks


def check_same_columns(one: "GraphSet", other: "GraphSet") -> None:
    """Raise UserError unless two sets have the same classes and columns."""
    if other.class_names != one.class_names:
        raise _different(one, other, "class_names")
    if other.task != one.task:
        raise _different(one, other, "tasks")
    if other.directed != one.directed:
        raise UserError(f"only one of {one.name} and {other.name} is directed")
    for what in COLUMNS:
        if _width(getattr(other, what)) != _width(getattr(one, what)):
            raise _different(one, other, f"columns_of_{what}")


def _recoded(codes: NDArray[np.int32], ranks: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """[n, K] codes, mapped column by column; the same array if nothing changes."""
    if _stay(ranks):
        return codes
    return np.stack([rank[column] for rank, column in zip(ranks, codes.T, strict=True)], axis=1)


def _stay(ranks: Sequence[NDArray[np.int32]]) -> bool:
    return all(np.array_equal(rank, np.arange(len(rank))) for rank in ranks)


def _different(one: "GraphSet", other: "GraphSet", what: str) -> UserError:
    return UserError(f"{one.name} and {other.name} have different {what.replace('_', ' ')}")


def _width(values: NDArray[Any] | None) -> tuple[int, ...] | None:
    return None if values is None else values.shape[1:]


Coded = tuple[NDArray[np.int32] | None, tuple[Names, ...]]
"""Label columns as codes, and the names of the codes."""


class GraphParts:
    """Graphs, each as a dictionary of columns under the field names of a GraphSet, with size, source and target."""

    def __init__(self, parts: Sequence[dict[str, Any]]) -> None:
        self.parts = parts
        self.sizes = [part["size"] for part in parts]
        self.rows = [len(part["source"]) for part in parts]

    def of_nodes(self, key: str, dtype: DTypeLike | None = None) -> NDArray[Any] | None:
        """[N, K] the columns of all nodes; None if no graph has them."""
        return self._end_to_end(key, self.sizes, dtype)

    def of_edges(self, key: str, dtype: DTypeLike | None = None) -> NDArray[Any] | None:
        """[E, K] the columns of all edges; None if no graph has them."""
        return self._end_to_end(key, self.rows, dtype)

    def _end_to_end(self, key: str, counts: list[int], dtype: DTypeLike | None) -> NDArray[Any] | None:
        values = end_to_end(key, [part[key] for part in self.parts], counts)
        return values if values is None or dtype is None else values.astype(dtype)

    def ends(self, key: str) -> NDArray[np.int64]:
        """[E] one end of all edges, as node numbers of the whole set."""
        starts = np.cumsum(self.sizes, dtype=np.int64) - np.array(self.sizes, dtype=np.int64)
        ends = (part[key] + start for part, start in zip(self.parts, starts, strict=True))
        return np.concatenate([np.empty(0, np.int64), *ends])

    def graphset(
        self,
        name: str,
        y: NDArray[np.signedinteger],
        class_names: Names,
        category: Coded,
        edge_category: Coded,
        directed: bool = False,
    ) -> "GraphSet":
        """Build the set; the labels are given as codes."""
        from cgipool.data.graphs import GraphSet

        return GraphSet.from_edges(
            name,
            self.sizes,
            self.ends("source"),
            self.ends("target"),
            y,
            class_names=class_names,
            category=category[0],
            category_names=category[1],
            attributes=self.of_nodes("attributes", np.float32),
            edge_weight=_alone("edge_weight", self.of_edges("edge_weight", np.float32)),
            edge_category=edge_category[0],
            edge_category_names=edge_category[1],
            edge_attributes=self.of_edges("edge_attributes", np.float32),
            node_truth=_alone("node_truth", self.of_nodes("node_truth", np.bool_)),
            directed=directed,
        )


def _alone(key: str, values: NDArray[Any] | None) -> NDArray[Any] | None:
    """[n] the only column."""
    if values is None:
        return None
    if values.shape[1] != 1:
        raise UserError(f"{key} has {values.shape[1]} columns; it must have one")
    return values[:, 0]


class _Numbers(dict[tuple[str, ...], int]):
    """Numbers rows in order of first appearance."""

    def __missing__(self, row: tuple[str, ...]) -> int:
        number = self[row] = len(self)
        return number


class LabelColumns:
    """Columns of names, added row by row. At the end, the names of each column are coded in sorted order.

    Equal rows share a number: there are few distinct rows, and one look-up per row is faster than one per column.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._number = _Numbers()
        self._rows = array("i")

    def extend(self, rows: Iterable[tuple[str, ...]]) -> None:
        """Add rows, each with one name per column."""
        self._rows.extend(map(self._number.__getitem__, rows))

    def columns(self) -> tuple[NDArray[np.int32] | None, tuple[Names, ...]]:
        """Codes [rows, columns] and the sorted names of each column; None without columns."""
        if not self._width:
            return None, ()
        codes, names = np.empty((len(self._number), self._width), np.int32), []
        for j in range(self._width):
            column = [row[j] for row in self._number]
            ranked = sorted(set(column), key=sort_key)
            rank = {name: number for number, name in enumerate(ranked)}
            codes[:, j] = [rank[name] for name in column]
            names.append(tuple(ranked))
        return codes[np.array(self._rows, np.int32)], tuple(names)


class GraphSetBuilder:
    """Collects graphs one by one and builds a set of them."""

    def __init__(self, node_columns: int, edge_columns: int, node_floats: int = 0, edge_floats: int = 0) -> None:
        self.nodes = LabelColumns(node_columns)
        """Labels of the nodes, one row each."""
        self.edges = LabelColumns(edge_columns)
        """Labels of the edges, one row each."""
        self._floats = [np.empty((0, node_floats), np.float32)], [np.empty((0, edge_floats), np.float32)]
        self._sizes, self._ends = array("q"), array("q")
        self._first = 0

    def add(self, size: int, ends: Iterable[tuple[int, int]]) -> None:
        """Add a graph of `size` nodes and these edges; nodes are numbered from 0 within the graph."""
        first = self._first
        self._ends.extend(first + end for pair in ends for end in pair)
        self._sizes.append(size)
        self._first += size

    def add_attributes(self, nodes: NDArray[np.float32], edges: NDArray[np.float32]) -> None:
        """Add float columns of the nodes and edges of a graph. Each edge is given once and added in both directions."""
        self._floats[0].append(nodes)
        self._floats[1].extend((edges, edges))

    def graph_set(self, name: str, y: Sequence[int], class_names: Names, **columns: Any) -> "GraphSet":
        """Build the set of all graphs that were added; `columns` are further fields of a GraphSet."""
        from cgipool.data.graphs import GraphSet

        category, category_names = self.nodes.columns()
        edge_category, edge_category_names = self.edges.columns()
        ends = np.array(self._ends, dtype=np.int64).reshape(-1, 2)
        for what, parts in zip(("attributes", "edge_attributes"), self._floats, strict=True):
            if parts[0].shape[1]:
                columns[what] = np.concatenate(parts)
        return GraphSet.from_edges(
            name,
            np.array(self._sizes, dtype=np.int64),
            ends[:, 0],
            ends[:, 1],
            np.array(y, dtype=np.int64),
            class_names=class_names,
            category=category,
            category_names=category_names,
            edge_category=edge_category,
            edge_category_names=edge_category_names,
            **columns,
        )
