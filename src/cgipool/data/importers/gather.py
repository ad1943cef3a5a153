"""Graphs put end to end one by one, in growing flat arrays: what is held is what the set will hold."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names, sort_key


class Coded:
    """Columns of names, coded as the rows come; the codes are put in the order of the sorted names at the end."""

    def __init__(self, width: int) -> None:
        self._tables: list[dict[str, int]] = [{} for _ in range(width)]
        self._codes = array("i")

    def extend(self, rows: Iterable[Sequence[str]]) -> None:
        """Add rows, each with one name per column."""
        for row in rows:
            for table, name in zip(self._tables, row, strict=True):
                self._codes.append(table.setdefault(name, len(table)))

    def columns(self) -> tuple[NDArray[np.int32] | None, tuple[Names, ...]]:
        """Codes [rows, columns] and the sorted names of each column; None where there is no column."""
        if not self._tables:
            return None, ()
        codes = np.array(self._codes, dtype=np.int32).reshape(-1, len(self._tables))
        names = []
        for j, table in enumerate(self._tables):
            ranked = sorted(table, key=sort_key)
            rank = np.empty(len(table), dtype=np.int32)
            rank[[table[name] for name in ranked]] = np.arange(len(table))
            codes[:, j] = rank[codes[:, j]]
            names.append(tuple(ranked))
        return codes, tuple(names)


class Gather:
    """A set in the making."""

    def __init__(self, node_columns: int, edge_columns: int) -> None:
        self.nodes = Coded(node_columns)
        """Labels of the nodes, one row each."""
        self.edges = Coded(edge_columns)
        """Labels of the edges, one row each."""
        self._sizes, self._ends = array("q"), array("q")
        self._first = 0

    def add(self, size: int, ends: Iterable[tuple[int, int]]) -> None:
        """Add a graph of `size` nodes and these edges, whose ends count from 0 within the graph."""
        for source, target in ends:
            self._ends.append(self._first + source)
            self._ends.append(self._first + target)
        self._sizes.append(size)
        self._first += size

    def graph_set(self, name: str, y: Sequence[int], class_names: Names, **columns: Any) -> GraphSet:
        """The set of all graphs added; `columns` are further fields of a GraphSet."""
        category, category_names = self.nodes.columns()
        edge_category, edge_category_names = self.edges.columns()
        ends = np.array(self._ends, dtype=np.int64).reshape(-1, 2)
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
