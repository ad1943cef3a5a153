"""A data set in device memory, and batches of several splits built there from graph ids.

Shapes: S splits, B graphs, C positions, E neighbour entries, D cells, N nodes of the data set, K category columns, W
words of bits. Edge data that is not read has 0 entries.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from cgipool.data.batch import Batch, Capacity, descriptor_columns, target_columns, truth_column
from cgipool.data.encoded import EdgeColumns, Inputs
from cgipool.data.graphs import GraphSet
from cgipool.model.level import kept_of
from cgipool.ops.bits import adjacency_bits, words_for

NEAR_DENSE, LARGE = 8, 64
"""Dense tiles are faster than lists of neighbours with at most NEAR_DENSE pairs of nodes per neighbour entry, if the
graph of an average node has at least LARGE nodes (measured: COLLAB 2.8 times faster; IMDB-MULTI, with 19, not)."""

MOST_BITS = 2**28
"""Maximum size of a data set's adjacency bits, in bytes."""


def near_dense(graphs: GraphSet) -> bool:
    """Whether the adjacency of these graphs is stored more efficiently as bits than as lists."""
    sizes = graphs.sizes.astype(np.int64)
    pairs = int((sizes * sizes).sum())
    fits = 4 * graphs.n_nodes * words_for(int(sizes.max(initial=0))) <= MOST_BITS
    return fits and LARGE * graphs.n_nodes <= pairs <= NEAR_DENSE * len(graphs.edge_disp)


class Made(NamedTuple):
    """The content of a batch's positions; data/batch.py explains the fields."""

    category: Tensor
    alive: Tensor
    graph: Tensor
    slot_ptr: Tensor
    row_ptr: Tensor
    y: Tensor
    node: Tensor
    """[S, C] the index in the data set of the node at each position, 0 in the padding."""


class EdgeTensors(NamedTuple):
    """The edges of a batch; data/batch.py explains the fields."""

    neighbor: Tensor
    code: Tensor
    floats: Tensor
    weight: Tensor
    reverse: Tensor


class Resident:
    """A data set on a device. Only the input columns differ between splits: each has its own vocabulary."""

    def __init__(self, graphs: GraphSet, inputs: Sequence[Inputs], device: torch.device, tiled: bool = False) -> None:
        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        self.device = device
        self.first = put(graphs.node_ptr[:-1])
        self.size = put(graphs.sizes.astype(np.int64))
        self.edges = put(np.diff(graphs.edge_ptr[graphs.node_ptr]))
        self.edge_ptr = put(graphs.edge_ptr)
        self.degree = put(graphs.degree.astype(np.int32))
        self.displacement = put(graphs.edge_disp)
        of_first = EdgeColumns.of(graphs, inputs[0].edges)
        edges = [of_first, *(of_first.encoded_by(i.edges) for i in inputs[1:])]
        self.edge_kind, self.edge_floats = (put(np.stack([getattr(e, n) for e in edges])) for n in ("kind", "floats"))
        self.edge_code, self.edge_weight, self.edge_reverse = map(
            put, (of_first.code, of_first.weight, of_first.reverse)
        )
        tiled = tiled and not len(of_first.weight)
        words = words_for(int(graphs.sizes.max(initial=0))) if tiled else 0
        self.bits = put(adjacency_bits(graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp, words))
        """[N, W] the adjacency as bits if `tiled`; otherwise W is 0."""
        self.y = put(graphs.y)
        self.targets = put(target_columns(graphs))
        self.descriptors = put(np.stack([descriptor_columns(graphs, i) for i in inputs]))
        self.truth = put(truth_column(graphs))
        self.category = put(np.stack([i.category for i in inputs]))
        nothing = np.zeros((graphs.n_nodes, 0), np.float32)
        self.floats = put(np.stack([nothing if i.floats is None else i.floats for i in inputs]))

    def keep(self, splits: Tensor) -> None:
        """Keep only these splits."""
        self.category, self.floats = self.category[splits], self.floats[splits]
        self.descriptors = self.descriptors[splits]
        self.edge_kind, self.edge_floats = self.edge_kind[splits], self.edge_floats[splits]

    def capacity(self, ids: Tensor) -> Capacity:
        """Return the capacity that the largest of many batches needs; ids are [..., B], −1 for an empty slot."""
        there, ids = ids >= 0, ids.clamp(min=0)
        size = torch.where(there, self.size[ids], 0)
        entries = torch.where(there, self.edges[ids], 0)
        needed = torch.stack([v.sum(-1).max() for v in (size, entries, size.square())])
        positions, neighbors, cells = needed.tolist()
        return Capacity(max(positions, 1), max(neighbors, 1), ids.shape[-1], max(cells, 1))

    def rows(self, ids: Tensor, ratio: float | int, levels: int) -> tuple[int, ...]:
        """Return how many nodes the largest of many batches has after each pool, if every pool keeps a ratio."""
        size = torch.where(ids >= 0, self.size[ids.clamp(min=0)], 0)
        remaining = []
        for _ in range(levels):
            size = kept_of(size, ratio)
            remaining.append(max(1, int(size.sum(-1).max())))
        return tuple(remaining)

    def batch(self, ids: Tensor, key: Tensor, room: Capacity) -> Batch:
        """Return the batch of graphs ids [S, B] (−1: an empty slot; these come last) with keys [S], padded to `room`.
        Does not wait for the device."""
        made = self._positions(ids, room.positions)
        edges = self._edges(made, room.entries)
        return Batch(
            category=made.category,
            floats=self._rows(self.floats, made.node),
            alive=made.alive,
            graph=made.graph,
            slot_ptr=made.slot_ptr,
            row_ptr=made.row_ptr,
            neighbor=edges.neighbor,
            bits=self._bits(made.node),
            edge_kind=self.edge_kind,
            edge_code=edges.code,
            edge_floats=edges.floats,
            edge_weight=edges.weight,
            edge_reverse=edges.reverse,
            y=made.y,
            key=key,
            id=ids.clamp(min=0),
            targets=self.targets[ids.clamp(min=0)],
            descriptors=self._rows(self.descriptors, ids.clamp(min=0)),
            room=torch.empty(len(ids), 0, room.cells, device=self.device),
            truth=self.truth[made.node],
        )

    def _positions(self, ids: Tensor, places: int) -> Made:
        if ids.is_cuda:
            from cgipool.ops.gpu.batches import positions

            tables = (self.size, self.edges, self.y, self.first, self.edge_ptr, self.category)
            return Made(*positions(ids, places, *tables))
        there, ids = ids >= 0, ids.clamp(min=0)
        size = torch.where(there, self.size[ids], 0)
        slot_ptr = pad(size.cumsum(1), (1, 0))
        place = torch.arange(places, device=self.device).expand(len(ids), -1)
        graph = torch.searchsorted(slot_ptr[:, 1:].contiguous(), place.contiguous(), right=True)
        graph = graph.clamp(max=ids.shape[1] - 1)
        alive = place < slot_ptr[:, -1:]
        node = self.first[ids].gather(1, graph) + place - slot_ptr.gather(1, graph)
        node = torch.where(alive, node, 0)
        row_ptr = pad(torch.where(alive, self.degree[node], 0).cumsum(1, dtype=torch.int32), (1, 0))
        y = torch.where(there, self.y[ids], 0)
        return Made(self._rows(self.category, node), alive.float(), graph, slot_ptr, row_ptr, y, node)

    def _rows(self, table: Tensor, node: Tensor) -> Tensor:
        """[S, C, K] the rows of each split's table [S, N, K]."""
        return table.gather(1, node.unsqueeze(2).expand(-1, -1, table.shape[2]))

    def _bits(self, node: Tensor) -> Tensor:
        if node.is_cuda:
            from cgipool.ops.gpu.batches import bits

            return bits(node, self.bits)
        return self.bits[node]

    def _edges(self, made: Made, entries: int) -> EdgeTensors:
        """The neighbours of each position, and what is read of the edges from them; zeros after the last entry."""
        read = any(map(len, (self.edge_code, self.edge_weight))) or self.edge_floats.shape[1] > 0
        neighbor, edge = self._neighbors(made.node, made.row_ptr, entries, read)

        def of(table: Tensor) -> Tensor:
            return table[edge] if len(table) else table.expand(len(edge), 0)

        floats = self._rows(self.edge_floats, edge) if self.edge_floats.shape[1] else self.edge_floats
        reverse = of(self.edge_reverse)
        if len(self.edge_reverse):
            # The padding, which has the number 0, must not point past the last entry.
            reverse = (reverse + torch.arange(entries, dtype=torch.int32, device=self.device)).clamp(max=entries - 1)
        return EdgeTensors(neighbor, of(self.edge_code), floats, of(self.edge_weight), reverse)

    def _neighbors(self, node: Tensor, row_ptr: Tensor, entries: int, read: bool) -> tuple[Tensor, Tensor]:
        """[S, E] the neighbours of each position as positions, and, if read, the number of each entry in the data set
        (0 in the padding)."""
        if node.is_cuda:
            from cgipool.ops.gpu.batches import neighbors

            return neighbors(node, row_ptr, self.edge_ptr, self.displacement, entries, read)
        entry = torch.arange(entries).expand(len(node), -1).contiguous()
        ends = row_ptr[:, 1:].long().contiguous()
        position = torch.searchsorted(ends, entry, right=True).clamp(max=node.shape[1] - 1)
        edge = self.edge_ptr[node].gather(1, position) + entry - row_ptr.long().gather(1, position)
        there = entry < ends[:, -1:]
        edge = torch.where(there, edge, 0)
        return torch.where(there, position + self.displacement[edge], 0).int(), edge
