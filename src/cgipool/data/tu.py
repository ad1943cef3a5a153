"""Reader of the TU format (Morris et al., TUDataset, 2020): a zip archive or a folder of text files.

NAME_A.txt lists edges as pairs of node numbers counted from 1 over the whole set, NAME_graph_indicator.txt the graph of
each node, NAME_graph_labels.txt the class of each graph; labels and attributes of nodes and edges are optional.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgipool.data.archive import TextFiles
from cgipool.data.build import CHUNK
from cgipool.data.check import finite
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names, encode, encode_columns
from cgipool.data.table import line_of_row, read_table
from cgipool.errors import UserError


def read_tu(path: str | Path) -> GraphSet:
    """Read a TU data set; every fault in it is a one-line UserError with the file and the line."""
    with TextFiles(Path(path)) as files:
        y, class_names = _classes(files)
        graph = _graph_of_node(files, len(y))
        source, target = _edges(files, graph)
        category, category_names = _labels(files, "node_labels", len(graph), "nodes")
        edge_category, edge_category_names = _labels(files, "edge_labels", len(source), "edges")
        return GraphSet.from_edges(
            files.name,
            np.bincount(graph, minlength=len(y)),
            source,
            target,
            y,
            class_names=class_names,
            category=category,
            category_names=category_names,
            attributes=_attributes(files, "node_attributes", len(graph), "nodes"),
            edge_category=edge_category,
            edge_category_names=edge_category_names,
            edge_attributes=_attributes(files, "edge_attributes", len(source), "edges"),
        )


def _classes(files: TextFiles) -> tuple[NDArray[np.int64], Names]:
    (labels,) = read_table(files, "graph_labels", "int64", 1)
    if len(labels) == 0:
        raise UserError(f"{files.path}: the data set is empty, {files.name}_graph_labels.txt has no line")
    codes, names = encode(labels)
    return codes.astype(np.int64), names


def _graph_of_node(files: TextFiles, n_graphs: int) -> NDArray[np.int32]:
    """[N] graph of each node, from 0; the file must not go back to an earlier graph."""
    (graph,) = read_table(files, "graph_indicator", "int32", 1)
    graph -= 1
    steps_back = graph[1:] < graph[:-1]
    if steps_back.any():
        row = int(np.argmax(steps_back)) + 1
        raise _at_row(files, "graph_indicator", row, f"graph {graph[row] + 1} comes after graph {graph[row - 1] + 1}")
    outside = (graph < 0) | (graph >= n_graphs)
    if outside.any():
        row = int(np.argmax(outside))
        raise _at_row(files, "graph_indicator", row, f"graph {graph[row] + 1} of {n_graphs} labelled graphs")
    return graph


def _edges(files: TextFiles, graph: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The two ends of each row, counted from 0, each pair inside one graph."""
    source, target = read_table(files, "A", "int32", 2)
    for ends in (source, target):
        ends -= 1
        if len(ends) and not (ends.min() >= 0 and ends.max() < len(graph)):
            bad = int(np.argmax((ends < 0) | (ends >= len(graph))))
            raise _at_row(files, "A", bad, f"node {ends[bad] + 1}; nodes go from 1 to {len(graph)}")
    if (row := _first_across(source, target, graph)) is not None:
        nodes = f"nodes {source[row] + 1} and {target[row] + 1}"
        graphs = f"graphs {graph[source[row]] + 1} and {graph[target[row]] + 1}"
        raise _at_row(files, "A", row, f"an edge between {nodes}, which are in {graphs}")
    return source, target


def _first_across(source: NDArray[np.int32], target: NDArray[np.int32], graph: NDArray[np.int32]) -> int | None:
    """The first row whose ends are in different graphs; looked for piece by piece, in the processor's cache."""
    for start in range(0, len(source), CHUNK):
        piece = slice(start, start + CHUNK)
        across = graph[source[piece]] != graph[target[piece]]
        if across.any():
            return start + int(np.argmax(across))
    return None


def _labels(files: TextFiles, part: str, rows: int, things: str) -> tuple[NDArray[np.int32] | None, tuple[Names, ...]]:
    if not files.has(part):
        return None, ()
    columns = read_table(files, part, "int64")
    _check_length(files, part, len(columns[0]), rows, things)
    return encode_columns(np.stack(columns, axis=1))


def _attributes(files: TextFiles, part: str, rows: int, things: str) -> NDArray[np.float32] | None:
    if not files.has(part):
        return None
    columns = read_table(files, part, "float32")
    _check_length(files, part, len(columns[0]), rows, things)
    values = np.stack(columns, axis=1)
    finite(files.where(part), values)
    return values


def _check_length(files: TextFiles, part: str, found: int, wanted: int, things: str) -> None:
    if found > wanted:
        raise _at_row(files, part, wanted, f"there are only {wanted} {things}")
    if found < wanted:
        last = line_of_row(files, part, found - 1) if found else 0
        raise UserError(f"{files.where(part)} ends at line {last}: {found} rows for {wanted} {things}")


def _at_row(files: TextFiles, part: str, row: int, problem: str) -> UserError:
    return UserError(f"{files.where(part)}, line {line_of_row(files, part, row)}: {problem}")
