"""A folder of edge lists: graphs.csv (graph, label), edges.csv (graph, source, target) and, if it is there, nodes.csv.

Graphs and nodes have any names; nodes are numbered in the sorted order of their names within each graph. Further
columns of nodes.csv (graph, node, …) and edges.csv are read by their values: numbers of which at least one is written
with a point or an exponent are attributes, all else is labels. `label` is always a label; `weight` of edges, a weight.

Shapes: G graphs, N nodes, R rows of edges.csv.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import Imported, Skipped
from cgipool.data.importers.labels import choose_label, classes_of, is_missing
from cgipool.data.importers.table import Table
from cgipool.data.importers.wishes import Wishes
from cgipool.data.names import Names, encode_columns, sort_key
from cgipool.errors import UserError

Ints = NDArray[np.int64]

GRAPHS, EDGES, NODES = "graphs.csv", "edges.csv", "nodes.csv"


def read_edges(path: Path, name: str, wishes: Wishes) -> Imported:
    """The set of a folder; a graph without nodes is left out and listed."""
    listed = _Graphs(path / GRAPHS, wishes)
    names: dict[str, int] = {}
    edges = _Rows(path / EDGES, ("source", "target"), listed, names)
    nodes = _Rows(path / NODES, ("node",), listed, names) if (path / NODES).is_file() else None
    rank = _rank(names)
    source, target = (edges.graph * len(rank) + rank[ends] for ends in edges.named)
    if nodes is None:
        keys, order = np.unique(np.concatenate([source, target])[np.tile(edges.kept, 2)]), np.empty(0, np.int64)
    else:
        keys, order = _given_nodes(nodes, rank)
        for ends, column in ((source, "source"), (target, "target")):
            _check_known(edges, ends, column, keys)
    sizes = np.bincount(keys // max(len(rank), 1), minlength=len(listed.ids))
    filled = sizes > 0
    skipped = _empty_graphs(path, listed, filled, wishes)
    graphs = GraphSet.from_edges(
        name,
        sizes[filled],
        np.searchsorted(keys, source[edges.kept]),
        np.searchsorted(keys, target[edges.kept]),
        np.array(listed.y)[filled],
        class_names=listed.class_names,
        **_columns(edges, np.flatnonzero(edges.kept), "edge_"),
        **({} if nodes is None else _columns(nodes, order, "")),
    )
    for what, count in (("graphs without nodes", len(skipped)), ("graphs without a label", listed.unlabelled)):
        if count:
            graphs.dropped[what] = count
    chosen = np.flatnonzero(filled)
    return Imported(graphs, {"row": [listed.rows[g] for g in chosen], "id": [listed.ids[g] for g in chosen]}, skipped)


class _Graphs:
    """graphs.csv: the graphs in its order; those without a label have no number."""

    def __init__(self, path: Path, wishes: Wishes) -> None:
        table = Table(path)
        graph = table.column("graph")
        label = table.column(choose_label(path, [c for c in table.columns if c != "graph"], wishes.label))
        classes = classes_of(path, table.columns[label], (text for _, (text,) in table.rows(label)), wishes)
        self.class_names: Names = classes.names
        self.ids: list[str] = []
        self.rows: list[int] = []
        self.y: list[int] = []
        self.number: dict[str, int] = {}
        """By id; −1 without a label."""
        for row, (identity, text) in table.rows(graph, label):
            if identity in self.number:
                raise UserError(f"{path}, row {row}: graph {identity!r} stands there a second time")
            self.number[identity] = -1 if is_missing(text) else len(self.ids)
            if not is_missing(text):
                self.ids.append(identity)
                self.rows.append(row)
                self.y.append(classes.code[text])
        self.unlabelled = len(self.number) - len(self.ids)


class _Rows:
    """The rows of edges.csv or nodes.csv: their graph, the nodes they name, and further columns as text."""

    def __init__(self, path: Path, named: tuple[str, ...], listed: _Graphs, names: dict[str, int]) -> None:
        self.path = path
        table = Table(path)
        first = ("graph", *named)
        self.further = [column for column in table.columns if column not in first]
        columns = [table.column(column) for column in (*first, *self.further)]
        graph: list[Ints] = [np.empty(0, np.int64)]
        codes: list[list[Ints]] = [[np.empty(0, np.int64)] for _ in named]
        texts: list[list[pa.Array]] = [[] for _ in self.further]
        for batch in table.batches(*columns):
            graph.append(self._graph(batch[0], listed, sum(map(len, graph))))
            for place, column in zip(codes, batch[1:], strict=False):
                place.append(_codes(column, names))
            for place, column in zip(texts, batch[len(first) :], strict=True):
                place.append(column)
        self.graph = np.concatenate(graph)
        self.named = [np.concatenate(parts) for parts in codes]
        self.kept = self.graph >= 0
        """[R] False for rows of graphs without a label."""
        self.texts = [pa.chunked_array(parts, pa.string()) for parts in texts]

    def _graph(self, column: pa.Array, listed: _Graphs, before: int) -> Ints:
        coded = column.dictionary_encode()
        number = [listed.number.get(identity, -2) for identity in coded.dictionary.to_pylist()]
        graph = np.array(number, dtype=np.int64)[coded.indices.to_numpy()]
        if (unknown := graph == -2).any():
            row = int(np.argmax(unknown))
            raise UserError(f"{self.path}, row {before + row + 1}: graph {column[row].as_py()!r} is not in {GRAPHS}")
        return graph


def _codes(column: pa.Array, table: dict[str, int]) -> Ints:
    """[rows] the number of each name, a new name getting the next."""
    coded = column.dictionary_encode()
    number = [table.setdefault(name, len(table)) for name in coded.dictionary.to_pylist()]
    return np.array(number, dtype=np.int64)[coded.indices.to_numpy()]


def _rank(names: dict[str, int]) -> Ints:
    """[names] the place of each name, by its number, in sorted order."""
    rank = np.empty(len(names), dtype=np.int64)
    rank[[names[name] for name in sorted(names, key=sort_key)]] = np.arange(len(names))
    return rank


def _given_nodes(nodes: _Rows, rank: Ints) -> tuple[Ints, Ints]:
    """Sorted keys graph · names + name of the nodes, and the row each stands in."""
    rows = np.flatnonzero(nodes.kept)
    keys = nodes.graph[rows] * len(rank) + rank[nodes.named[0][rows]]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (again := keys[1:] == keys[:-1]).any():
        row = rows[order[1:][again].min()]
        raise UserError(f"{nodes.path}, row {row + 1}: this node of this graph stands there a second time")
    return keys, rows[order]


def _check_known(edges: _Rows, ends: Ints, column: str, keys: Ints) -> None:
    place = np.minimum(np.searchsorted(keys, ends), max(len(keys) - 1, 0))
    strange = edges.kept & (keys[place] != ends if len(keys) else True)
    if strange.any():
        raise UserError(f"{edges.path}, row {int(np.argmax(strange)) + 1}: the {column} is no node of {NODES}")


def _empty_graphs(path: Path, listed: _Graphs, filled: NDArray[np.bool_], wishes: Wishes) -> list[Skipped]:
    skipped = [Skipped(listed.rows[g], "it has no nodes", listed.ids[g]) for g in np.flatnonzero(~filled)]
    if skipped and (wishes.strict or not filled.any()):
        row, reason, identity = skipped[0]
        raise UserError(f"{path / GRAPHS}, row {row}: graph {identity!r}: {reason}")
    return skipped


def _columns(rows: _Rows, chosen: Ints, prefix: str) -> dict[str, Any]:
    """The further columns of the chosen rows, by what they hold, as fields of a GraphSet that start with `prefix`."""
    labels: list[NDArray[Any]] = []
    floats: list[NDArray[np.float32]] = []
    fields: dict[str, Any] = {}
    for name, text in zip(rows.further, rows.texts, strict=True):
        if (blank := pc.equal(text, "").to_numpy()).any():
            raise UserError(f"{rows.path}, row {int(np.argmax(blank)) + 1}: column {name!r} is empty")
        is_weight = prefix == "edge_" and name == "weight"
        numbers = None if name == "label" else _numbers(text, any_number=is_weight)
        if is_weight and numbers is None:
            raise UserError(f"{rows.path}: column {name!r} must hold numbers")
        if numbers is None:
            labels.append(text.to_numpy().astype(np.str_)[chosen])
        elif is_weight:
            fields["edge_weight"] = numbers[chosen]
        else:
            floats.append(numbers[chosen])
    if labels:
        codes, names = encode_columns(np.stack(labels, axis=1))
        fields |= {f"{prefix}category": codes, f"{prefix}category_names": names}
    return fields | ({f"{prefix}attributes": np.stack(floats, axis=1)} if floats else {})


def _numbers(text: pa.ChunkedArray, any_number: bool) -> NDArray[np.float32] | None:
    """The column as floats if it holds numbers, and not whole ones alone unless any number will do."""
    try:
        numbers = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    floating = any_number or pc.any(pc.match_substring_regex(text, "[^0-9+-]")).as_py()
    return numbers.to_numpy().astype(np.float32) if floating else None
