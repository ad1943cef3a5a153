"""Reader of the TU format (Morris et al., TUDataset, 2020): a zip archive or a folder of text files.

NAME_A.txt lists edges as pairs of node numbers counted from 1 over the whole set, NAME_graph_indicator.txt the graph of
each node, NAME_graph_labels.txt the class of each graph; labels and attributes of nodes and edges are optional. Graphs
whose classes are not known have no NAME_graph_labels.txt; these are read where they are asked for.

The set is made part by part, so that of a set larger than memory only a part is held, and a few numbers per graph.
Shapes: G graphs, N nodes, R lines of NAME_A.txt.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.archive import TextFiles
from cgipool.data.build import pointer
from cgipool.data.graphs import GraphSet
from cgipool.data.join import merge
from cgipool.data.names import Names, encode, encode_columns
from cgipool.data.spill import IN_MEMORY, Work
from cgipool.data.table import Rows, at_row, read_blocks
from cgipool.data.tu_edges import EdgeLines
from cgipool.errors import UserError

Ints = NDArray[np.int64]

PART = 1 << 21
"""Nodes and lines of edges that a part has, as far as whole graphs allow."""


GAPS, LEAST = 10, 1000
"""Of a set without classes, the number of the last graph may be this many times the number of nodes, and some more: one
line could ask for memory for billions of graphs."""

CLASSES = 1 << 16
"""Classes that a set may have. Measurements in the place of classes would give one for each graph."""

MOST = 2**31 - 1
"""Numbers of nodes and graphs are read as 32 bits."""


def read_tu(path: str | Path, *, unlabelled: bool = False) -> GraphSet:
    """Read a TU data set; every fault in it is a one-line UserError with the file and the line. With `unlabelled` no
    classes are read."""
    return merge(list(tu_parts(path, unlabelled=unlabelled)))


def has_classes(path: Path, max_size: int | None = None) -> bool:
    """Whether a TU data set says of which classes its graphs are."""
    with TextFiles(path, max_size) as files:
        return files.has("graph_labels")


def class_counts(path: Path) -> tuple[int, int]:
    """How many graphs and how many classes a TU data set has."""
    with TextFiles(path) as files:
        y, names = _classes(files)
        return len(y), len(names)


def text_size(path: Path) -> int:
    """The bytes of all text of a TU data set."""
    with TextFiles(path) as files:
        return files.size


def tu_parts(
    path: str | Path, work: Work = IN_MEMORY, unlabelled: bool = False, max_size: int | None = None
) -> Iterator[GraphSet]:
    """The graphs of a TU data set in order, some at a time; each part names the labels that occur in it.

    `max_size` limits the bytes of text in an archive (see `limits`).
    """
    with TextFiles(Path(path), max_size) as files:
        y, class_names = _no_classes(files) if unlabelled else _classes(files)
        _check_count(files, len(y), "graphs")
        node_ptr = pointer(_sizes(files, len(y), work))
        _check_count(files, int(node_ptr[-1]), "nodes")
        edges = EdgeLines(files, node_ptr, work)
        cuts = _cuts(node_ptr[1:] + np.cumsum(edges.count))
        edges.bring_in_order(cuts)
        nodes = _NodeColumns(files, int(node_ptr[-1]))
        for first, last in pairwise(cuts.tolist()):
            start, stop = node_ptr[[first, last]]
            source, target, columns = edges.take(int(edges.count[first:last].sum()))
            yield GraphSet.from_edges(
                files.title,
                np.diff(node_ptr[first : last + 1]),
                source - start,
                target - start,
                y[first:last],
                class_names=class_names,
                **columns,
                **nodes.take(int(stop - start)),
            )


def _check_count(files: TextFiles, count: int, things: str) -> None:
    """Told before a number of so many is met, as the line of it would take hours to find."""
    if count > MOST:
        raise UserError(f"{files.path} has {count:,} {things}, and a TU set may have {MOST:,}: import parts of it")


def _classes(files: TextFiles) -> tuple[Ints, Names]:
    """[G] the class of each graph and the names of the classes; block by block, as there may be millions of graphs."""
    found: dict[int, int] = {}
    codes = []
    for block in read_blocks(files, "graph_labels", "int64", 1):
        labels, inverse = np.unique(block, return_inverse=True)
        places = [found.setdefault(label, len(found)) for label in labels.tolist()]
        codes.append(np.array(places, np.int32)[inverse.reshape(-1)])
        if len(found) > CLASSES:
            raise UserError(f"{files.where('graph_labels')} has more than {CLASSES:,} classes")
    if not found:
        raise UserError(f"{files.path}: the data set is empty, {files.title}_graph_labels.txt has no line")
    order, names = encode(np.array(list(found)))
    return order.astype(np.int64)[np.concatenate(codes)], names


def _no_classes(files: TextFiles) -> tuple[Ints, Names]:
    """Of as many graphs as the nodes tell of."""
    highest = row = 0
    for block in read_blocks(files, "graph_indicator", "int32", 1):
        if (low := block[:, 0] < 1).any():
            raise at_row(files, "graph_indicator", row + int(np.argmax(low)), "graphs are numbered from 1")
        highest, row = max(highest, int(block.max(initial=0))), row + len(block)
    if not highest:
        raise UserError(f"{files.path}: the data set is empty, {files.title}_graph_indicator.txt has no line")
    if highest > GAPS * row + LEAST:
        raise UserError(f"{files.path} has {row:,} nodes, and numbers graphs up to {highest:,}: too many without nodes")
    return np.full(highest, -1), ()


def _sizes(files: TextFiles, n_graphs: int, work: Work) -> Ints:
    """[G] nodes of each graph; the file must not go back to an earlier graph."""
    sizes = np.zeros(n_graphs, np.int64)
    row, last = 0, 1
    for block in read_blocks(files, "graph_indicator", "int32", 1):
        graph = np.concatenate([[last], block[:, 0]])
        if (outside := (graph < 1) | (graph > n_graphs)).any():
            bad = int(np.argmax(outside))
            raise at_row(files, "graph_indicator", row + bad - 1, f"graph {graph[bad]} of {n_graphs} labelled graphs")
        if (back := graph[1:] < graph[:-1]).any():
            bad = int(np.argmax(back))
            story = f"graph {graph[bad + 1]} comes after graph {graph[bad]}"
            raise at_row(files, "graph_indicator", row + bad, story)
        counts = np.bincount(graph[1:] - last)
        sizes[last - 1 : last - 1 + len(counts)] += counts
        row, last = row + len(block), int(graph[-1])
        work.tell("nodes", row)
    return sizes


def _cuts(load: Ints) -> Ints:
    """The graphs at which parts begin, and G; `load` [G] adds up the nodes and lines up to and with each graph."""
    marks = np.searchsorted(load, np.arange(PART, load[-1], PART))
    return np.unique(np.concatenate([[0], marks, [len(load)]]))


class _NodeColumns:
    """Labels and attributes of the nodes, in their order."""

    def __init__(self, files: TextFiles, nodes: int) -> None:
        self._labels = Rows(files, "node_labels", "int64", nodes, "nodes") if files.has("node_labels") else None
        has_floats = files.has("node_attributes")
        self._floats = Rows(files, "node_attributes", "float32", nodes, "nodes") if has_floats else None

    def take(self, count: int) -> dict[str, Any]:
        """The columns of the next nodes, as fields of a GraphSet."""
        fields: dict[str, Any] = {}
        if self._labels is not None:
            fields["category"], fields["category_names"] = encode_columns(self._labels.take(count))
        if self._floats is not None:
            fields["attributes"] = self._floats.take(count)
        return fields
