"""Build the tensors of a batch from graph ids.

Shapes: C positions, B graphs, E neighbour entries, D cells, K category columns, V float columns, W words, U kinds of
edges. Positions are the nodes of the batch's graphs, concatenated, then padding. The capacities (C, E, B, D) are exact
unless larger ones are given, which splits stacked for `vmap` and captured steps need.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool.data.encoded import EdgeColumns, Inputs
from cgipool.data.graphs import GraphSet


class Share(NamedTuple):
    """The part of a larger batch that one of several processes computes.

    All processes take part in every step, so a process without graphs of its own gets a graph that does not count.
    """

    ids: np.ndarray
    """[b] the graphs."""
    place: np.ndarray
    """[b] their positions in the whole batch."""
    graphs: int
    """Number of graphs in the whole batch."""
    weight: float
    """Their share of the loss weights of the whole batch."""
    own: tuple[float, ...]
    """For each level, their share of the graphs or nodes that the method's own loss is a mean over."""
    idle: bool
    """Whether the process has no graphs of its own, so its graph does not count."""
    total: Callable[[Tensor], Tensor] = lambda sums: sums
    """Adds up sums over all processes, with a gradient."""


class Batch(NamedTuple):
    """B graphs. Empty columns have width 0, never None, so batches can be stacked."""

    category: Tensor
    """[C, K] int32: the columns of the one-hot input that are 1."""
    floats: Tensor
    """[C, V] float32 input columns."""
    alive: Tensor
    """[C] float32: 1 for a node, 0 for padding."""
    graph: Tensor
    """[C] int64: the graph of each position; padding has the number of the last graph."""
    slot_ptr: Tensor
    """[B + 1] int64: the first position of each graph."""
    row_ptr: Tensor
    """[C + 1] int32: the first neighbour entry of each position."""
    neighbor: Tensor
    """[E] int32: neighbours as positions."""
    bits: Tensor
    """[C, W] int32: the neighbours as bits (see ops/bits.py), for kernels that read them; otherwise W is 0."""
    edge_kind: Tensor
    """[U, K'] int32: the one-hot columns of each kind of edge. This and the next four are empty if edges are not
    read."""
    edge_code: Tensor
    """[E] int32: the kind of each entry's edge, which leads from the neighbour to the position."""
    edge_floats: Tensor
    """[E, V'] float32 columns of these edges."""
    edge_weight: Tensor
    """[E] float32: their weights."""
    edge_reverse: Tensor
    """[E] int32: the entry of the reverse edge; empty if both directions of all edges have equal data."""
    y: Tensor
    """[B] int64: the classes."""
    key: Tensor
    """[] int64: the key of this step's random numbers."""
    id: Tensor
    """[B] int64: the numbers of the graphs in the data set."""
    targets: Tensor
    """[B, T] float32 targets of a regression or multi-label task, NaN where missing; T is 0 for classification."""
    descriptors: Tensor
    """[B, V″] float32 standardised descriptors of the graphs."""
    room: Tensor
    """[0, D] is empty; D = Σ n² is the number of cells of matrices over the nodes of each graph. Methods with dense
    matrices need it before the step runs, and only shapes are known then."""
    truth: Tensor
    """[C, 1] 1 for the nodes that decide the class, for the control `oracle`; width 0 if that is not known."""

    @property
    def size(self) -> Tensor:
        """[B] the number of nodes of each graph; an empty slot has 0."""
        return self.slot_ptr[1:] - self.slot_ptr[:-1]

    @property
    def share(self) -> Share | None:
        """Which part of a larger batch this is; None for a whole batch."""
        return None


class PartialBatch(Batch):
    """A batch that is one process's part of a larger one."""

    _share: Share

    @classmethod
    def of(cls, batch: Batch, share: Share) -> "PartialBatch":
        """The batch of a share's graphs."""
        part = cls(*batch)
        part._share = share
        return part

    @property
    def share(self) -> Share:
        """Which part of a larger batch this is."""
        return self._share


class Capacity(NamedTuple):
    """The capacity of a batch: positions, neighbour entries, graphs, and pairs of nodes of one graph."""

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
        # Plain arrays, also for memory-mapped files: slicing a `memmap` takes several times as long.
        self._edge_ptr, self._edge_disp = np.asarray(graphs.edge_ptr), np.asarray(graphs.edge_disp)
        self._edge_of_graph = self._edge_ptr[graphs.node_ptr]
        self._edges = EdgeColumns.of(graphs, inputs.edges)
        self._targets = target_columns(graphs)
        self._descriptors = descriptor_columns(graphs, inputs)
        self._truth = truth_column(graphs)

    def capacity(self, ids: np.ndarray) -> Capacity:
        """The capacity that the graphs with these ids need."""
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
            *self._edge_data(ids, room.entries),
            y,
            np.array(key, np.int64),
            number,
            _padded(self._targets[ids], room.graphs),
            _padded(self._descriptors[ids], room.graphs),
            np.empty((0, room.cells), np.float32),
            _padded(self._truth[node], room.positions),
        )
        return Batch(*(torch.from_numpy(a).to(self.device) for a in arrays))

    def _edge_data(self, ids: np.ndarray, entries: int) -> tuple[np.ndarray, ...]:
        """Kinds, codes, floats, weights and reverse entries."""
        pieces = list(zip(self._edge_of_graph[ids], self._edge_of_graph[ids + 1], strict=True))
        code, floats, weight, reverse = (
            _padded(np.concatenate([c[a:b] for a, b in pieces]), entries) if len(c) else c for c in self._edges.columns
        )
        if len(reverse):
            reverse = reverse + np.arange(len(reverse), dtype=np.int32)
        return self._edges.kind, code, floats, weight, reverse

    def _neighbors(self, ids: np.ndarray, degree: np.ndarray) -> np.ndarray:
        """The neighbours of each position, as positions. A graph's edges are contiguous and are copied at once."""
        first, last = self._edge_of_graph[ids], self._edge_of_graph[ids + 1]
        displacement = [self._edge_disp[a:b] for a, b in zip(first, last, strict=True)]
        return np.concatenate(displacement) + np.repeat(np.arange(len(degree), dtype=np.int32), degree)


def target_columns(graphs: GraphSet) -> np.ndarray:
    """[G, T] the targets for batches; T is 0 for classification."""
    return np.zeros((graphs.n_graphs, 0), np.float32) if graphs.targets is None else graphs.targets.astype(np.float32)


def truth_column(graphs: GraphSet) -> np.ndarray:
    """[N, 1] which nodes decide the class, for batches; width 0 if that is not known."""
    truth = graphs.node_truth
    return np.zeros((graphs.n_nodes, 0), np.float32) if truth is None else truth[:, None].astype(np.float32)


def descriptor_columns(graphs: GraphSet, inputs: Inputs) -> np.ndarray:
    """[G, V″] the descriptors for batches."""
    return np.zeros((graphs.n_graphs, 0), np.float32) if inputs.descriptors is None else inputs.descriptors


def _padded(rows: np.ndarray, positions: int) -> np.ndarray:
    if len(rows) == positions:
        return rows
    return np.concatenate([rows, np.zeros((positions - len(rows), *rows.shape[1:]), rows.dtype)])


def stack(batches: list[Batch]) -> Batch:
    """Batches of equal capacity with a leading split axis on every tensor."""
    return Batch(*(torch.stack(column) for column in zip(*batches, strict=True)))
