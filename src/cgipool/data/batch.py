"""From graph ids to the tensors of a batch.

Shapes: C positions, B graphs, E neighbour entries, D cells, K category columns, V float columns, W words. Positions are
the nodes of the batch's graphs one after another, then padding; capacities (C, E, B, D) are exact unless larger ones
are asked for, as several splits stacked for `vmap` or a captured step need.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool.data.features import Inputs
from cgipool.data.graphs import GraphSet


class Batch(NamedTuple):
    """B graphs side by side. Empty columns have width 0, never None, so that batches can be stacked."""

    category: Tensor
    """[C, K] int32: the columns of the one-hot input that are 1."""
    floats: Tensor
    """[C, V] float32 input columns."""
    alive: Tensor
    """[C] float32: 1 for a node, 0 for padding."""
    graph: Tensor
    """[C] int64: the graph of each position; padding bears the last one's number."""
    slot_ptr: Tensor
    """[B + 1] int64: where each graph's positions begin."""
    row_ptr: Tensor
    """[C + 1] int32: where each position's neighbours begin."""
    neighbor: Tensor
    """[E] int32: neighbours as positions."""
    bits: Tensor
    """[C, W] int32: the neighbours once more, as bits (see ops/tiles.py), where they are to be read so; else W is 0."""
    y: Tensor
    """[B] int64: the classes."""
    key: Tensor
    """[] int64: the key of this step's random draws."""
    id: Tensor
    """[B] int64: the graphs' numbers in the data set."""
    room: Tensor
    """[0, D] holds nothing; D is how many cells the matrices over the nodes of each graph have, Σ n². Methods with
    dense matrices need it as a number that is known before the step runs, which only a shape is."""

    @property
    def size(self) -> Tensor:
        """[B] the number of nodes of each graph; an empty slot has 0."""
        return self.slot_ptr[1:] - self.slot_ptr[:-1]


class Capacity(NamedTuple):
    """How many positions, neighbour entries, graphs and pairs of nodes of one graph a batch has room for."""

    positions: int
    entries: int
    graphs: int
    cells: int


class Batcher:
    """Builds batches of one data set with one encoding of its features."""

    def __init__(self, graphs: GraphSet, inputs: Inputs, device: torch.device | str = "cpu") -> None:
        self.graphs = graphs
        self.device = torch.device(device)
        self._category = inputs.category
        self._floats = inputs.floats if inputs.floats is not None else np.zeros((graphs.n_nodes, 0), np.float32)
        # Plain arrays even over files: cutting pieces out of a `memmap` takes several times as long.
        self._edge_ptr, self._edge_disp = np.asarray(graphs.edge_ptr), np.asarray(graphs.edge_disp)
        self._edge_of_graph = self._edge_ptr[graphs.node_ptr]

    def capacity(self, ids: np.ndarray) -> Capacity:
        """The room that the graphs with these ids need."""
        nodes = self.graphs.node_ptr[ids + 1] - self.graphs.node_ptr[ids]
        entries = self._edge_of_graph[ids + 1] - self._edge_of_graph[ids]
        return Capacity(int(nodes.sum()), int(entries.sum()), len(ids), int((nodes * nodes).sum()))

    def batch(self, ids: np.ndarray, key: int = 0, room: Capacity | None = None) -> Batch:
        """The graphs with these ids, in this order, padded to `room`."""
        room = room or self.capacity(ids)
        g = self.graphs
        first, last = g.node_ptr[ids], g.node_ptr[ids + 1]
        size = last - first
        slot_ptr = np.full(room.graphs + 1, size.sum())
        slot_ptr[0] = 0
        np.cumsum(size, out=slot_ptr[1 : len(ids) + 1])
        used = int(slot_ptr[-1])
        node = np.repeat(first - slot_ptr[: len(ids)], size) + np.arange(used)

        row_ptr = np.zeros(room.positions + 1, np.int32)
        first_edge = self._edge_of_graph[ids]
        entries = self._edge_of_graph[ids + 1] - first_edge
        row_ptr[1 : used + 1] = self._edge_ptr[node + 1] + np.repeat(np.cumsum(entries) - entries - first_edge, size)
        row_ptr[used + 1 :] = row_ptr[used]
        neighbor = np.zeros(room.entries, np.int32)
        neighbor[: row_ptr[used]] = self._neighbors(ids, np.diff(row_ptr[: used + 1]))

        y, number = np.zeros((2, room.graphs), np.int64)
        y[: len(ids)], number[: len(ids)] = g.y[ids], ids
        alive = np.zeros(room.positions, np.float32)
        alive[:used] = 1.0
        graph = np.full(room.positions, room.graphs - 1)
        graph[:used] = np.repeat(np.arange(len(ids)), size)
        arrays = (
            _padded(self._category[node], room.positions),
            _padded(self._floats[node], room.positions),
            alive,
            graph,
            slot_ptr,
            row_ptr,
            neighbor,
            np.empty((room.positions, 0), np.int32),
            y,
            np.array(key, np.int64),
            number,
            np.empty((0, room.cells), np.float32),
        )
        return Batch(*(torch.from_numpy(a).to(self.device) for a in arrays))

    def _neighbors(self, ids: np.ndarray, degree: np.ndarray) -> np.ndarray:
        """The neighbours of each position, as positions; a graph's edges lie together and are copied as one piece."""
        first, last = self._edge_of_graph[ids], self._edge_of_graph[ids + 1]
        displacement = [self._edge_disp[a:b] for a, b in zip(first, last, strict=True)]
        return np.concatenate(displacement) + np.repeat(np.arange(len(degree), dtype=np.int32), degree)


def _padded(rows: np.ndarray, positions: int) -> np.ndarray:
    if len(rows) == positions:
        return rows
    return np.concatenate([rows, np.zeros((positions - len(rows), rows.shape[1]), rows.dtype)])


def stack(batches: list[Batch]) -> Batch:
    """Batches of equal capacity with a leading split axis on every tensor."""
    return Batch(*(torch.stack(column) for column in zip(*batches, strict=True)))
