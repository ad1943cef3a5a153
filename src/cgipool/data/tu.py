"""Read the TU format (Morris et al., TUDataset, 2020): a zip archive or a folder of text files."""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cgipool.data.archive import TuFiles
from cgipool.data.build import pointer
from cgipool.data.graphs import GraphSet
from cgipool.data.join import merge
from cgipool.data.names import Names, encode, encode_columns
from cgipool.data.spill import IN_MEMORY, Pile, Work
from cgipool.data.targets import replaced_targets, task_of_values
from cgipool.data.tu_table import RowReader, at_row, read_blocks
from cgipool.errors import UserError

Ints = NDArray[np.int64]

STRETCH = 1 << 18
"""Lines to sort at a time."""


class Stream(Protocol):
    """Rows to read in order."""

    def take(self, count: int) -> NDArray[Any]:
        """The next rows."""


class EdgeLines:
    """All lines of the edge list, read once. Each edge must be within one graph."""

    def __init__(self, files: TuFiles, node_ptr: Ints, work: Work) -> None:
        self._files, self._node_ptr, self._work = files, node_ptr, work
        self.count = np.zeros(len(node_ptr) - 1, np.int64)
        """[G] the number of lines of each graph."""
        self._in_order = True
        rows = last = 0
        with Pile(work) as pile:
            for ends in read_blocks(files, "A", "int32", 2):
                ends -= 1
                graph = self._graphs(ends, rows)
                self._in_order = self._in_order and bool(np.all(np.diff(graph, prepend=last) >= 0))
                np.add.at(self.count, graph, 1)
                pile.append(ends)
                rows, last = rows + len(ends), int(graph[-1]) if len(graph) else last
                work.tell("edges", rows)
            self._streams: list[Stream] = [_Blocks(pile.blocks())]
        kinds = {"edge_labels": "int64", "edge_attributes": "float32"}
        self._names = [part for part in kinds if files.has(part)]
        self._streams += [RowReader(files, part, kinds[part], rows, "edges") for part in self._names]

    def bring_in_order(self, cuts: Ints) -> None:
        """Sort the lines by part, in file order within a part. `cuts` [P + 1] are the first graphs of the parts."""
        if self._in_order:
            return
        first_line = pointer(self.count)
        fill, starts, lines = first_line[cuts][:-1], self._node_ptr[cuts], int(first_line[-1])
        moved: list[NDArray[Any]] = []
        for begin in range(0, lines, STRETCH):
            count = min(STRETCH, lines - begin)
            rows = [stream.take(count) for stream in self._streams]
            if not moved:
                moved = [self._work.array((lines, *values.shape[1:]), values.dtype) for values in rows]
            part = np.searchsorted(starts, rows[0][:, 0], side="right") - 1
            order = np.argsort(part, kind="stable")
            here = np.bincount(part, minlength=len(fill))
            place = np.arange(count) + np.repeat(fill - pointer(here)[:-1], here)
            for whole, values in zip(moved, rows, strict=True):
                whole[place] = values[order]
            fill += here
        self._streams = [_Blocks([whole]) for whole in moved]

    def take(self, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32], dict[str, Any]]:
        """The two ends of the next lines, counted from 0, and their columns as fields of a GraphSet."""
        ends, *columns = [stream.take(count) for stream in self._streams]
        fields: dict[str, Any] = {}
        for name, values in zip(self._names, columns, strict=True):
            if name == "edge_labels":
                fields["edge_category"], fields["edge_category_names"] = encode_columns(values)
            else:
                fields["edge_attributes"] = values
        return ends[:, 0], ends[:, 1], fields

    def _graphs(self, ends: NDArray[np.int32], row: int) -> Ints:
        """The graph of each line; the first line is row `row` of the file."""
        ptr, nodes = self._node_ptr, int(self._node_ptr[-1])
        if len(ends) and not (ends.min() >= 0 and ends.max() < nodes):
            bad, side = np.argwhere((ends < 0) | (ends >= nodes))[0]
            story = f"node {ends[bad, side] + 1}; nodes go from 1 to {nodes}"
            raise at_row(self._files, "A", row + int(bad), story)
        source, target = ends.T
        graph = np.searchsorted(ptr, source, side="right") - 1
        across = (target < ptr[graph]) | (target >= ptr[graph + 1])
        if across.any():
            bad = int(np.argmax(across))
            other = np.searchsorted(ptr, target[bad], side="right")
            pair = f"nodes {source[bad] + 1} and {target[bad] + 1}"
            story = f"an edge between {pair}, which are in graphs {graph[bad] + 1} and {other}"
            raise at_row(self._files, "A", row + bad, story)
        return graph


class _Blocks:
    """Rows of blocks, which are freed once they are taken."""

    def __init__(self, blocks: list[NDArray[Any]]) -> None:
        self._blocks, self._none = deque(blocks), blocks[0][:0]

    def take(self, count: int) -> NDArray[Any]:
        found = [self._none]
        while count:
            block = self._blocks.popleft()
            found.append(np.asarray(block[:count]))
            if len(block) > count:
                self._blocks.appendleft(block[count:])
            count -= len(found[-1])
        return np.concatenate(found) if len(found) > 2 else found[-1]


PART = 1 << 21
"""Approximate number of nodes and edge lines in a part, which contains whole graphs."""


GAPS, LEAST = 10, 1000
"""The number of graphs in a set without classes is at most GAPS · nodes + LEAST; otherwise a single line could request
memory for billions of graphs."""

CLASSES = 1 << 16
"""Maximum classes of a set; measurements in place of classes would give one class per graph."""

MOST = 2**31 - 1
"""Maximum number of nodes and of graphs; their numbers are read as 32-bit integers."""


def read_tu(path: str | Path, *, unlabelled: bool = False) -> GraphSet:
    """Read a TU data set. Errors name the file and the line. With `unlabelled`, no classes are read."""
    return merge(list(tu_parts(path, unlabelled=unlabelled)))


def has_classes(path: Path, max_size: int | None = None) -> bool:
    """Whether a TU data set has classes."""
    with TuFiles(path, max_size) as files:
        return files.has("graph_labels")


def has_targets(path: Path, max_size: int | None = None) -> bool:
    """Whether a TU data set has attributes of the graphs, which are targets."""
    with TuFiles(path, max_size) as files:
        return files.has("graph_attributes")


def target_values(path: Path, max_size: int | None = None) -> NDArray[np.float64]:
    """[G, T] the attributes of the graphs; NaN where missing."""
    with TuFiles(path, max_size) as files:
        return _targets(files)


def class_counts(path: Path) -> tuple[int, int]:
    """The numbers of graphs and of classes of a TU data set."""
    with TuFiles(path) as files:
        y, names = _classes(files)
        return len(y), len(names)


def text_size(path: Path) -> int:
    """The size of all text of a TU data set in bytes."""
    with TuFiles(path) as files:
        return files.size


def tu_parts(
    path: str | Path,
    work: Work = IN_MEMORY,
    unlabelled: bool = False,
    max_size: int | None = None,
    targets: bool | None = None,
) -> Iterator[GraphSet]:
    """Yield the graphs of a TU data set in order, some at a time. Each part has the names of its own labels.

    `max_size` limits the bytes of text in an archive (see `archive.allowed`). With `targets`, attributes of graphs are
    read as targets instead of classes, which is the default if there are no classes.
    """
    with TuFiles(Path(path), max_size) as files:
        if targets is None:
            targets = files.has("graph_attributes") and not files.has("graph_labels")
        values = _targets(files) if targets and not unlabelled else None
        task = None if values is None or values.shape[1] == 1 else task_of_values(values)
        names: Names = ()
        if values is not None:
            y = np.full(len(values), -1)
        else:
            y, names = _no_classes(files) if unlabelled else _classes(files)
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
            part = GraphSet.from_edges(
                files.title,
                np.diff(node_ptr[first : last + 1]),
                source - start,
                target - start,
                y[first:last],
                class_names=names,
                **columns,
                **nodes.take(int(stop - start)),
            )
            yield part if values is None else replaced_targets(part, values[first:last], None, task or "regression")


def _targets(files: TuFiles) -> NDArray[np.float64]:
    """[G, T] the attributes of the graphs."""
    values = np.concatenate(list(read_blocks(files, "graph_attributes", "float64")))
    if not len(values):
        raise UserError(f"{files.path}: the data set is empty, {files.title}_graph_attributes.txt has no line")
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values).any(1))[0])
        raise at_row(files, "graph_attributes", row, "a target is infinite")
    return values


def _check_count(files: TuFiles, count: int, things: str) -> None:
    """Raise UserError for too many graphs or nodes, before a number that does not fit 32 bits is read."""
    if count > MOST:
        raise UserError(f"{files.path} has {count:,} {things}, and a TU set may have {MOST:,}: import parts of it")


def _classes(files: TuFiles) -> tuple[Ints, Names]:
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


def _no_classes(files: TuFiles) -> tuple[Ints, Names]:
    """The same for a set without classes; the number of graphs follows from the nodes."""
    highest = row = 0
    for block in read_blocks(files, "graph_indicator", "int32", 1):
        if (low := block[:, 0] < 1).any():
            raise at_row(files, "graph_indicator", row + int(np.argmax(low)), "graphs are numbered from 1")
        highest, row = max(highest, int(block.max(initial=0))), row + len(block)
    if not highest:
        raise UserError(f"{files.path}: the data set is empty, {files.title}_graph_indicator.txt has no line")
    if highest > GAPS * row + LEAST:
        raise UserError(
            f"{files.path} has {row:,} nodes but graph numbers up to {highest:,}, so too many graphs have no nodes"
        )
    return np.full(highest, -1), ()


def _sizes(files: TuFiles, n_graphs: int, work: Work) -> Ints:
    """[G] the number of nodes of each graph. The nodes in the file must be sorted by graph."""
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
    """The first graph of each part, and G. `load` [G] is the cumulative number of nodes and lines."""
    marks = np.searchsorted(load, np.arange(PART, load[-1], PART))
    return np.unique(np.concatenate([[0], marks, [len(load)]]))


class _NodeColumns:
    """Labels and attributes of the nodes, in file order."""

    def __init__(self, files: TuFiles, nodes: int) -> None:
        self._labels = RowReader(files, "node_labels", "int64", nodes, "nodes") if files.has("node_labels") else None
        has_floats = files.has("node_attributes")
        self._floats = RowReader(files, "node_attributes", "float32", nodes, "nodes") if has_floats else None

    def take(self, count: int) -> dict[str, Any]:
        """The columns of the next nodes, as fields of a GraphSet."""
        fields: dict[str, Any] = {}
        if self._labels is not None:
            fields["category"], fields["category_names"] = encode_columns(self._labels.take(count))
        if self._floats is not None:
            fields["attributes"] = self._floats.take(count)
        return fields
