"""Levels whose edges are lists of neighbours, or bits where graphs are near-dense.

Shapes: C positions, F features, D cells, W words.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from cgipool import ops
from cgipool.model.level.base import Closed, EdgeData, Level, Nodes, Origin, cells_of


class Edges(NamedTuple):
    """Neighbours of position p: neighbor[row_ptr[p] .. row_ptr[p + 1]]."""

    row_ptr: Tensor
    neighbor: Tensor


class Entries(NamedTuple):
    """Edges, and where their data stands."""

    row_ptr: Tensor
    neighbor: Tensor
    number: Tensor
    """[E] which entry of the batch each entry is; [0] where the batch has no edge data."""


class SparseLevel(Level):
    """A level whose edges all weigh 1, as lists of neighbours."""

    def __init__(self, nodes: Nodes, origin: Origin, compact: bool, entries: Callable[[], Entries]) -> None:
        super().__init__(nodes, origin, compact)
        self._make_entries = entries

    @cached_property
    def _entries(self) -> Entries:
        return self._make_entries()

    @property
    def edges(self) -> Edges:
        """The edges; on a compact level they are cut out when first asked for, which after the last pool is never."""
        return Edges(*self._entries[:2])

    @property
    def lists(self) -> Edges:
        """The edges as neighbour lists."""
        return self.edges

    @property
    def edge_numbers(self) -> Tensor:
        """[E] which entry of the batch's neighbour lists each entry is; [0] where the batch has no edge data."""
        return self._entries.number

    @cached_property
    def reversed(self) -> "SparseLevel":
        """The level of Aᵀ, with the features of the edges that were turned around."""
        data = self.origin.edges
        if data is None or not len(data.reverse):
            return self
        return type(self)(self.nodes, self.origin._replace(edges=data.turned()), self.compact, lambda: self._entries)

    @cached_property
    def degree(self) -> Tensor:
        """[C] living neighbours of each position."""
        if self.compact:
            return torch.diff(self.edges.row_ptr).to(self.alive.dtype)
        return ops.degree(self.alive, *self.edges)

    @property
    def squares(self) -> Tensor:
        """[C] the degree, as all weights are 1."""
        return self.degree * self.alive

    @cached_property
    def _inverse_root(self) -> Tensor:
        return self.alive * torch.rsqrt(self.degree + 1.0)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x with Â = D^-½ (A + I) D^-½ of the living graph."""
        return ops.propagate(x, self._inverse_root, 1.0, *self.edges)

    def convolve(self, x: Tensor, bias: Tensor, relu: bool) -> Tensor:
        """Â x + bias in one pass."""
        return ops.convolve(x, bias, self._inverse_root, 1.0, *self.edges, relu)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the sum over living neighbours."""
        return ops.propagate(x, self._alive_if_not_all, 0.0, *self.edges)

    def sum_with_neighbors(self, x: Tensor, bias: Tensor) -> Tensor:
        """relu((A + I) x + bias), in one pass where all nodes are alive."""
        if not self.compact:
            return super().sum_with_neighbors(x, bias)
        return ops.convolve(x, bias, self._alive_if_not_all, 1.0, *self.edges, True)

    @property
    def _alive_if_not_all(self) -> Tensor:
        """`alive`, or [0] where all nodes are alive and the kernels, those of a CPU, take that for ones."""
        return self.alive[:0] if self.compact and self.alive.device.type == "cpu" else self.alive

    def neighbor_max(self, x: Tensor) -> Tensor:
        """[C, F] the maximum over each node and its living neighbours."""
        return ops.neighbor_max(x, self.alive, *self.edges)[0]

    def with_loops(self) -> Tensor:
        """[D] A + I as one matrix per graph."""
        return self._matrix(self.alive[:0])

    def _matrix(self, weight: Tensor) -> Tensor:
        where = (self.graph, self.slot_ptr, self.block_ptr)
        return ops.block_adjacency(self.alive, 1.0, *self.edges, weight, *where, cells_of(self))

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, Level]:
        """The features and the level of the kept nodes, with the edges among them."""
        gate = self.acting(gate, keep, k)
        if self.closes_up:
            closed = self.closed_up(keep, k)
            return ops.pick_gated(x, gate, closed.held, closed.back), self._of(closed)
        nodes = self.nodes._replace(alive=keep, size=k)
        return ops.gated(x, gate * keep), self._masked(nodes)

    def sum_and_coarsen(
        self, x: Tensor, weight: Tensor, gate: Tensor, keep: Tensor, k: Tensor
    ) -> tuple[Tensor, Tensor, Level]:
        """`sums` and `coarsen`."""
        if not self.closes_up:
            return super().sum_and_coarsen(x, weight, gate, keep, k)
        closed = self.closed_up(keep, k)
        where = (closed.held, closed.back, closed.nodes.slot_ptr, self.graph, self.slot_ptr)
        return *ops.sums_and_pick(x, weight, self.acting(gate, keep, k), *where), self._of(closed)

    def _masked(self, nodes: Nodes) -> "SparseLevel":
        """The level on which fewer nodes are alive."""
        return type(self)(nodes, self.origin, False, lambda: self._entries)

    def _of(self, closed: Closed) -> "SparseLevel":
        """The level of the nodes that moved together."""
        return type(self)(closed.nodes, closed.origin, self.compact, lambda: self._induced(closed))

    def _induced(self, closed: Closed) -> Entries:
        """A(idx, idx): the edges among the kept nodes, renumbered."""
        entries = Entries(*ops.induce(*self._entries, closed.held, closed.back))
        if not self.compact:
            return entries
        used = int(entries.row_ptr[-1])
        return Entries(entries.row_ptr, entries.neighbor[:used], entries.number[:used])


class WeightedLevel(SparseLevel):
    """A level whose edges have weights, as lists of neighbours. An entry weighs what the edge from the neighbour to the
    position weighs; weights are data and have no gradient."""

    @cached_property
    def weight(self) -> Tensor:
        """[E] the weight of each entry."""
        return self._data.weight.index_select(0, self.edge_numbers)

    @cached_property
    def _back(self) -> Tensor:
        """[E] the weight of each entry's reverse."""
        if not len(self._data.reverse):
            return self.weight
        return self._data.weight.index_select(0, self._data.reverse.index_select(0, self.edge_numbers))

    @property
    def entry_weights(self) -> tuple[Tensor, Tensor]:
        """[E] the weights of the entries and of their reverses."""
        return self.weight, self._back

    @property
    def _data(self) -> EdgeData:
        assert self.origin.edges is not None
        return self.origin.edges

    @cached_property
    def degree(self) -> Tensor:
        """[C] the sum of the weights of each living position's living neighbours."""
        return self.neighbor_sum(self.alive.unsqueeze(1)).squeeze(1)

    @property
    def squares(self) -> Tensor:
        """[C] the sum of their squares."""
        square = self.weight.square()
        return ops.weighted_propagate(self.alive.unsqueeze(1), self.alive, 0.0, *self.edges, square, square).squeeze(1)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x."""
        return ops.weighted_propagate(x, self._inverse_root, 1.0, *self.edges, self.weight, self._back)

    def convolve(self, x: Tensor, bias: Tensor, relu: bool) -> Tensor:
        """Â x + bias."""
        return Level.convolve(self, x, bias, relu)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the weighted sum over living neighbours."""
        return ops.weighted_propagate(x, self.alive, 0.0, *self.edges, self.weight, self._back)

    def sum_with_neighbors(self, x: Tensor, bias: Tensor) -> Tensor:
        """relu((A + I) x + bias)."""
        return Level.sum_with_neighbors(self, x, bias)

    def with_loops(self) -> Tensor:
        """[D] A + I as one matrix per graph."""
        return self._matrix(self.weight)


class TiledLevel(SparseLevel):
    """A level of near-dense graphs with static shapes: sums over neighbours are products of dense tiles (see
    ops/tiles.py). Lists of neighbours are made for who asks for them."""

    def __init__(
        self, nodes: Nodes, origin: Origin, entries: Callable[[], Entries], bits: Callable[[], Tensor]
    ) -> None:
        super().__init__(nodes, origin, False, entries)
        self._bits = bits

    @cached_property
    def bits(self) -> Tensor:
        """[C, W] the adjacency, made when first asked for."""
        return self._bits()

    @cached_property
    def degree(self) -> Tensor:
        """[C] living neighbours of each living position."""
        return self.neighbor_sum(self.alive.unsqueeze(1)).squeeze(1)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x."""
        return ops.tile_propagate(x, self._inverse_root, 1.0, self.bits, self.slot_ptr)

    def convolve(self, x: Tensor, bias: Tensor, relu: bool) -> Tensor:
        """Â x + bias in one pass."""
        return ops.tile_convolve(x, bias, self._inverse_root, 1.0, self.bits, self.slot_ptr, relu)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the sum over living neighbours."""
        return ops.tile_propagate(x, self.alive, 0.0, self.bits, self.slot_ptr)

    def _masked(self, nodes: Nodes) -> SparseLevel:
        return TiledLevel(nodes, self.origin, lambda: self._entries, self._bits)

    def _of(self, closed: Closed) -> SparseLevel:
        return TiledLevel(
            closed.nodes,
            closed.origin,
            lambda: self._induced(closed),
            lambda: ops.tile_induce(self.bits, closed.held, self.slot_ptr, closed.nodes.slot_ptr),
        )
