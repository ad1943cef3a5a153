"""The lines of a TU data set's NAME_A.txt and the columns that go with them, brought into the order of the graphs.

Shapes: G graphs, R lines, P parts of the set.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cgipool.data.archive import TextFiles
from cgipool.data.build import pointer
from cgipool.data.names import encode_columns
from cgipool.data.spill import Pile, Work
from cgipool.data.table import Rows, at_row, read_blocks

Ints = NDArray[np.int64]

STRETCH = 1 << 18
"""Lines that are moved at a time."""


class Stream(Protocol):
    """Rows that can be had in order."""

    def take(self, count: int) -> NDArray[Any]:
        """The next rows."""


class EdgeLines:
    """All lines, read once and checked: each pair inside one graph."""

    def __init__(self, files: TextFiles, node_ptr: Ints, work: Work) -> None:
        self._files, self._node_ptr, self._work = files, node_ptr, work
        self.count = np.zeros(len(node_ptr) - 1, np.int64)
        """[G] lines of each graph."""
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
            self._streams: list[Stream] = [_Held(pile.whole())]
        kinds = {"edge_labels": "int64", "edge_attributes": "float32"}
        self._names = [part for part in kinds if files.has(part)]
        self._streams += [Rows(files, part, kinds[part], rows, "edges") for part in self._names]

    def bring_in_order(self, cuts: Ints) -> None:
        """Put the lines of one part together, in the order of the file; the parts begin at the graphs cuts [P + 1]."""
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
        self._streams = [_Held(whole) for whole in moved]

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
        """The graph of each of some lines, of which the first is this row of the file."""
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


class _Held:
    """Rows of an array."""

    def __init__(self, whole: NDArray[Any]) -> None:
        self._whole = whole
        self._taken = 0

    def take(self, count: int) -> NDArray[Any]:
        rows = np.asarray(self._whole[self._taken : self._taken + count])
        self._taken += count
        return rows
