"""Read a folder of edge lists: graphs.csv (graph, label), edges.csv (graph, source, target) and optionally nodes.csv.

Graphs and nodes can have any names, which are kept. Nodes are numbered in the order of their names within each graph;
digits in names count as numbers (roi2 is before roi10). Further columns of nodes.csv (graph, node, …) and edges.csv are
attributes if all values are numbers and at least one has a point or an exponent; other columns are labels. `label` is
always a label, and `weight` of edges is always the weight.

Shapes: G graphs, N nodes, R rows of edges.csv.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cgipool.data.further import TableBuilder, kept, rows_of, with_table
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.divided import Bucket, Divided
from cgipool.data.importers.imported import Imported, ImportOptions, Skipped
from cgipool.data.importers.labels import UNLABELLED, LabelledRows, Labels, read_labels, side_column, side_of
from cgipool.data.importers.table import Table, open_table
from cgipool.data.names import Names, Texts, natural_key, printable, sort_key
from cgipool.data.spill import Work
from cgipool.errors import UserError, excerpt

Ints = NDArray[np.int64]

GRAPHS, EDGES, NODES = "graphs.csv", "edges.csv", "nodes.csv"

PIECE, MOST = 1 << 25, 1024
"""Bytes of text in a piece, and the maximum number of pieces."""


def read_edges(path: Path, name: str, options: ImportOptions, work: Work) -> Iterator[Imported]:
    """Read a folder in pieces of consecutive graphs. Graphs without nodes are skipped and listed."""
    listed = _Graphs(path / GRAPHS, options)
    files = [path / name for name in (EDGES, NODES) if (path / name).is_file()]
    cuts = _cuts(len(listed.ids), 0 if work.folder is None else sum(file.stat().st_size for file in files))
    first, found = None, 0
    with ExitStack() as stack:
        size = options.max_size
        edges = stack.enter_context(Divided(path / EDGES, ("source", "target"), listed.number, cuts, work, size))
        nodes = None
        if (path / NODES).exists():
            nodes = stack.enter_context(Divided(path / NODES, ("node",), listed.number, cuts, work, size))
        for number in range(len(cuts) - 1):
            piece = _piece(name, listed, edges, nodes, number, options.directed)
            first = first or next(iter(piece.skipped), None)
            if first is not None and options.strict:
                break
            found += piece.graphs.n_graphs
            if number == 0 and listed.unlabelled:
                piece.graphs.dropped["graphs without a label"] = listed.unlabelled
            yield piece
    if first is not None and (options.strict or not found):
        raise UserError(f"{path / GRAPHS}, row {first.row}: graph {excerpt(first.text)!r}: {first.reason}")


def _cuts(graphs: int, size: int) -> Ints:
    """The first graph of each piece, and the number of graphs; `size` is the bytes of text."""
    pieces = min(max(1, size // PIECE), MOST, graphs)
    return np.arange(pieces + 1) * graphs // pieces


def _piece(
    name: str, listed: "_Graphs", edges: Divided, nodes: Divided | None, number: int, directed: bool
) -> Imported:
    """The graphs of one piece."""
    first, last = edges.cuts[number : number + 2]
    ends = edges.bucket(number)
    given = None if nodes is None else nodes.bucket(number)
    names: dict[str, int] = {}
    codes = [_codes(column, names) for column in ends.named]
    own = None if given is None else _codes(given.named[0], names)
    rank = _rank(names)
    source, target = ((ends.graph - first) * len(rank) + rank[code] for code in codes)
    if given is None or own is None:
        keys, order = np.unique(np.concatenate([source, target])), np.empty(0, np.int64)
    else:
        keys, order = _given_nodes(given, (given.graph - first) * len(rank) + rank[own])
        _check_known(ends, source, "source", keys)
        _check_known(ends, target, "target", keys)
    sizes = np.bincount(keys // max(len(rank), 1), minlength=last - first)
    filled = sizes > 0
    column_names: dict[str, Names] = {}
    edge_columns = _columns(edges, ends, np.arange(len(source)), "edge_", column_names)
    node_columns = {} if nodes is None or given is None else _columns(nodes, given, order, "", column_names)
    graphs = GraphSet.from_edges(
        name,
        sizes[filled],
        np.searchsorted(keys, source),
        np.searchsorted(keys, target),
        np.full(np.count_nonzero(filled), -1),
        class_names=(),
        graph_ids=[listed.ids[first + g] for g in np.flatnonzero(filled)],
        node_names=_names_of(keys, names, rank),
        column_names=column_names,
        directed=directed,
        **edge_columns,
        **node_columns,
    )
    chosen, empty = first + np.flatnonzero(filled), first + np.flatnonzero(~filled)
    graphs = listed.labelled.of(graphs, chosen)
    columns = listed.table.names
    graphs = with_table(graphs, columns, rows_of(listed.texts, len(columns), chosen))
    skipped = [Skipped(listed.rows[g], "it has no nodes", listed.ids[g]) for g in empty]
    if skipped:
        graphs.dropped["graphs without nodes"] = len(skipped)
    ids: dict[str, list[Any]] = {"row": [listed.rows[g] for g in chosen], "id": [listed.ids[g] for g in chosen]}
    if listed.sides is not None:
        ids["split"] = [listed.sides[g] for g in chosen]
    return Imported(graphs, ids, skipped, notes=listed.notes)


class _Graphs:
    """The graphs of graphs.csv, in order; graphs without a label are skipped."""

    def __init__(self, path: Path, options: ImportOptions) -> None:
        if not path.exists():
            raise UserError(f"{path.parent} needs {GRAPHS} with the columns graph and label, one row per graph")
        table = open_table(path, options.max_size)
        graph = table.column("graph")
        side, self.notes = side_column(table, (graph,), options.patterns)
        labels = UNLABELLED if options.unlabelled else _labels(table, options, side)
        self.notes = (*self.notes, *labels.notes)
        self.labelled = LabelledRows(labels)
        self.ids: list[str] = []
        self.rows = array("q")
        self.number: dict[str, int] = {}
        """The number of each graph by id; −1 without a label."""
        self.sides: list[str] | None = None if side is None else []
        """The side of each graph (train, val or test), if there is a column for it."""
        taken = ("graph", *labels.columns, *(() if side is None else (table.columns[side],)))
        self.table = TableBuilder(kept(table.readable, taken))
        wanted = [graph, *(() if side is None else (side,))]
        wanted += map(table.column, (*labels.columns, *self.table.names))
        for row, (identity, *texts) in table.rows(*wanted):
            if identity in self.number:
                raise UserError(f"{path}, row {row}: graph {excerpt(identity)!r} appears twice")
            split = None if side is None else side_of(texts.pop(0))
            has_label = self.labelled.add(texts[: len(labels.columns)])
            self.number[identity] = len(self.ids) if has_label else -1
            if has_label:
                self.ids.append(printable(identity))
                self.rows.append(row)
                self.table.add(texts[len(labels.columns) :])
                if self.sides is not None and split is not None:
                    self.sides.append(split)
        self.texts = self.table.texts
        if not self.number:
            raise UserError(f"{path} has no rows")
        self.unlabelled = len(self.number) - len(self.ids)


def _labels(table: Table, options: ImportOptions, side: int | None) -> Labels:
    """Read the label columns of graphs.csv."""
    others = [column for j, column in enumerate(table.columns) if column != "graph" and j != side]

    def rows(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return (fields for _, fields in table.rows(*map(table.column, names)))

    return read_labels(table.path, others, rows, options)


def _codes(column: pa.ChunkedArray, table: dict[str, int]) -> Ints:
    """[rows] the number of each name; a new name gets the next number."""
    codes = [np.empty(0, np.int64)]
    for chunk in column.chunks:
        coded = chunk.dictionary_encode()
        number = [table.setdefault(name, len(table)) for name in coded.dictionary.to_pylist()]
        codes.append(np.array(number, dtype=np.int64)[coded.indices.to_numpy()])
    return np.concatenate(codes)


def _rank(names: dict[str, int]) -> Ints:
    """[names] the position of each name in natural order (roi2 is before roi10)."""
    rank = np.empty(len(names), dtype=np.int64)
    rank[[names[name] for name in sorted(names, key=natural_key)]] = np.arange(len(names))
    return rank


def _names_of(keys: Ints, names: dict[str, int], rank: Ints) -> Texts:
    """The names of nodes with the keys graph · number of names + rank."""
    by_number = Texts.of(map(printable, names))
    if not len(rank):
        return by_number
    of_rank = np.empty(len(rank), np.int64)
    of_rank[rank] = np.arange(len(rank))
    return by_number.take(of_rank[keys % len(rank)])


def _given_nodes(nodes: Bucket, keys: Ints) -> tuple[Ints, Ints]:
    """The sorted keys (graph · number of names + rank) of the nodes, and the row of each."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (again := keys[1:] == keys[:-1]).any():
        row = nodes.row[order[1:][again].min()]
        raise UserError(f"{nodes.path}, row {row}: this node of this graph appears twice")
    return keys, order


def _check_known(edges: Bucket, ends: Ints, column: str, keys: Ints) -> None:
    place = np.minimum(np.searchsorted(keys, ends), max(len(keys) - 1, 0))
    missing = keys[place] != ends if len(keys) else np.ones(len(ends), bool)
    if missing.any():
        raise UserError(f"{edges.path}, row {edges.row[np.argmax(missing)]}: the {column} is not a node of {NODES}")


def _columns(table: Divided, rows: Bucket, chosen: Ints, prefix: str, column_names: dict[str, Names]) -> dict[str, Any]:
    """The further columns of the chosen rows as fields of a GraphSet: weight, labels or attributes of nodes or, with
    the prefix "edge_", of edges. Adds the names of the columns to `column_names`."""
    labels: dict[str, tuple[NDArray[np.int32], Names]] = {}
    floats: dict[str, NDArray[np.float32]] = {}
    fields: dict[str, Any] = {}
    for name, text in zip(table.further, rows.further, strict=True):
        is_weight = prefix == "edge_" and name == "weight"
        if not table.is_float(name, any_number=is_weight):
            codes, names = _coded(text)
            labels[name] = codes[chosen], names
            continue
        numbers = text.cast(pa.float64()).to_numpy().astype(np.float32)[chosen]
        if is_weight:
            fields["edge_weight"] = numbers
        else:
            floats[name] = numbers
    if labels:
        codes = np.stack([column for column, _ in labels.values()], axis=1)
        fields |= {f"{prefix}category": codes, f"{prefix}category_names": tuple(names for _, names in labels.values())}
        column_names[f"{prefix}category"] = tuple(labels)
    if floats:
        fields[f"{prefix}attributes"] = np.stack(list(floats.values()), axis=1)
        column_names[f"{prefix}attributes"] = tuple(floats)
    return fields


def _coded(text: pa.ChunkedArray) -> tuple[NDArray[np.int32], Names]:
    """[rows] codes of a column, and the sorted names. A NumPy array of strings would pad them all to the longest."""
    found: dict[str, int] = {}
    codes = _codes(text, found)
    shown = {name: printable(name) for name in found}
    names = sorted(set(shown.values()), key=sort_key)
    place = {name: code for code, name in enumerate(names)}
    rank = np.array([place[shown[name]] for name in found], np.int32)
    return rank[codes] if len(codes) else np.empty(0, np.int32), tuple(names)
