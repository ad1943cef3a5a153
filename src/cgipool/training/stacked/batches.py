"""A data set that lives on the device, and batches of several splits made there from graph ids alone.

Shapes: S splits, B graphs, C positions, E neighbour entries, D cells, N nodes of the data set, K category columns, W
words of bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from cgipool.data.batch import Batch, Capacity
from cgipool.data.features import Inputs
from cgipool.data.graphs import GraphSet
from cgipool.model.level import kept_of
from cgipool.ops.bits import adjacency_bits, words_for

NEAR_DENSE, LARGE = 8, 64
"""Up to so many pairs of nodes per neighbour entry, and in graphs in which a node has so many companions on average,
products of dense tiles beat lists of neighbours (measured: COLLAB 2.8 times; IMDB-MULTI, with 19 companions, not)."""

MOST_BITS = 2**28
"""Bytes that the bits of a data set may take."""


def near_dense(graphs: GraphSet) -> bool:
    """Whether the adjacency of these graphs had better be bits than lists."""
    sizes = graphs.sizes.astype(np.int64)
    pairs = int((sizes * sizes).sum())
    fits = 4 * graphs.n_nodes * words_for(int(sizes.max(initial=0))) <= MOST_BITS
    return fits and LARGE * graphs.n_nodes <= pairs <= NEAR_DENSE * len(graphs.edge_disp)


class Made(NamedTuple):
    """What stands at the positions of a batch; data/batch.py says what these are."""

    category: Tensor
    alive: Tensor
    graph: Tensor
    slot_ptr: Tensor
    row_ptr: Tensor
    y: Tensor
    node: Tensor
    """[S, C] the node of the data set at each position, 0 in the padding."""


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
        words = words_for(int(graphs.sizes.max(initial=0))) if tiled else 0
        self.bits = put(adjacency_bits(graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp, words))
        """[N, W] the adjacency once more, as bits, if it is to be read so; else W is 0."""
        self.y = put(graphs.y)
        self.category = put(np.stack([i.category for i in inputs]))
        nothing = np.zeros((graphs.n_nodes, 0), np.float32)
        self.floats = put(np.stack([nothing if i.floats is None else i.floats for i in inputs]))

    def keep(self, splits: Tensor) -> None:
        """Go on with these splits alone."""
        self.category, self.floats = self.category[splits], self.floats[splits]

    def capacity(self, ids: Tensor) -> Capacity:
        """The room that the largest of many batches needs; ids are [..., B], −1 for none."""
        there, ids = ids >= 0, ids.clamp(min=0)
        size = torch.where(there, self.size[ids], 0)
        entries = torch.where(there, self.edges[ids], 0)
        needed = torch.stack([v.sum(-1).max() for v in (size, entries, size.square())])
        positions, neighbors, cells = needed.tolist()
        return Capacity(max(positions, 1), max(neighbors, 1), ids.shape[-1], max(cells, 1))

    def rows(self, ids: Tensor, ratio: float | int, levels: int) -> tuple[int, ...]:
        """How many nodes the largest of many batches has left after each of the pools, if each keeps a ratio."""
        size = torch.where(ids >= 0, self.size[ids.clamp(min=0)], 0)
        left = []
        for _ in range(levels):
            size = kept_of(size, ratio)
            left.append(max(1, int(size.sum(-1).max())))
        return tuple(left)

    def batch(self, ids: Tensor, key: Tensor, room: Capacity) -> Batch:
        """The graphs ids [S, B] (−1: an empty slot; those come last) with keys [S], padded to `room`. Nothing is read
        back from the device."""
        made = self._positions(ids, room.positions)
        return Batch(
            category=made.category,
            floats=self._rows(self.floats, made.node),
            alive=made.alive,
            graph=made.graph,
            slot_ptr=made.slot_ptr,
            row_ptr=made.row_ptr,
            neighbor=self._neighbors(made.node, made.row_ptr, room.entries),
            bits=self._bits(made.node),
            y=made.y,
            key=key,
            id=ids.clamp(min=0),
            room=torch.empty(len(ids), 0, room.cells, device=self.device),
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

    def _neighbors(self, node: Tensor, row_ptr: Tensor, entries: int) -> Tensor:
        if node.is_cuda:
            from cgipool.ops.gpu.batches import neighbors

            return neighbors(node, row_ptr, self.edge_ptr, self.displacement, entries)
        entry = torch.arange(entries).expand(len(node), -1).contiguous()
        ends = row_ptr[:, 1:].long().contiguous()
        position = torch.searchsorted(ends, entry, right=True).clamp(max=node.shape[1] - 1)
        edge = self.edge_ptr[node].gather(1, position) + entry - row_ptr.long().gather(1, position)
        there = entry < ends[:, -1:]
        value = position + self.displacement[torch.where(there, edge, 0)]
        return torch.where(there, value, 0).int()
