"""Levels whose edges are lists of neighbours, or bits where graphs are near-dense.

Shapes: C positions, F features, D cells, W words.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool import ops
from cgipool.model.level.base import Level, Nodes, Origin, cells_of, compacted, positions_kept


class Edges(NamedTuple):
    """Neighbours of position p: neighbor[row_ptr[p] .. row_ptr[p + 1]]."""

    row_ptr: Tensor
    neighbor: Tensor


class SparseLevel(Level):
    """A level whose edges all weigh 1, as lists of neighbours."""

    def __init__(self, nodes: Nodes, origin: Origin, compact: bool, edges: Callable[[], Edges]) -> None:
        super().__init__(nodes, origin, compact)
        self._edges = edges

    @cached_property
    def edges(self) -> Edges:
        """The edges; on a compact level they are cut out when first asked for, which after the last pool is never."""
        return self._edges()

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
        return ops.propagate(x, self.alive, 0.0, *self.edges)

    def neighbor_max(self, x: Tensor) -> Tensor:
        """[C, F] the maximum over each node and its living neighbours."""
        return ops.neighbor_max(x, self.alive, *self.edges)[0]

    def with_loops(self) -> Tensor:
        """[D] A + I as one matrix per graph."""
        where = (self.graph, self.slot_ptr, self.block_ptr)
        return ops.block_adjacency(self.alive, 1.0, *self.edges, *where, cells_of(self))

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, Level]:
        """The features and the level of the kept nodes, with the edges among them."""
        gate = self.acting(gate, keep, k)
        if self._closes_up:
            closed = self._closed_up(keep, k)
            return ops.pick_gated(x, gate, closed.held, closed.back), closed.level
        if not self.compact:
            return ops.gated(x, gate * keep), self._masked(self.nodes._replace(alive=keep, size=k))
        kept, before = positions_kept(keep)
        nodes = compacted(self.nodes, kept, before, k)
        coarse = SparseLevel(nodes, self.origin, True, lambda: _induced(self.edges, keep, before))
        return ops.take(x, gate, kept, before), coarse

    def sum_and_coarsen(
        self, x: Tensor, weight: Tensor, gate: Tensor, keep: Tensor, k: Tensor
    ) -> tuple[Tensor, Tensor, Level]:
        """`sums` and `coarsen`."""
        if not self._closes_up:
            return super().sum_and_coarsen(x, weight, gate, keep, k)
        index, back, level = self._closed_up(keep, k)
        where = (index, back, level.slot_ptr, self.graph, self.slot_ptr)
        return *ops.sums_and_pick(x, weight, self.acting(gate, keep, k), *where), level

    @property
    def _closes_up(self) -> bool:
        return not self.compact and bool(self.origin.rows)

    def _masked(self, nodes: Nodes) -> "SparseLevel":
        """The level on which fewer nodes are alive."""
        return SparseLevel(nodes, self.origin, False, self._edges)

    def _closed_up(self, keep: Tensor, k: Tensor) -> "Closed":
        """The kept nodes in as many positions as the largest step needs: fewer, and still a shape known beforehand."""
        places, *later = self.origin.rows
        index, back, alive, graph, position, ends = ops.close_up(keep, k, self.slot_ptr, self.position, places)
        nodes, origin = Nodes(graph, ends, alive, k, position), self.origin._replace(rows=tuple(later))
        return Closed(index, back, self._induced(nodes, origin, index, back))

    def _induced(self, nodes: Nodes, origin: Origin, index: Tensor, back: Tensor) -> "SparseLevel":
        """The level of these nodes, which stood at positions `index` of this one."""
        return SparseLevel(nodes, origin, False, lambda: Edges(*ops.induce(*self.edges, index, back)))


class Closed(NamedTuple):
    """A level that was closed up."""

    held: Tensor
    """[places] the former position of each place, or −1."""
    back: Tensor
    """[C] the place of each former position, or −1."""
    level: SparseLevel


def _induced(edges: Edges, keep: Tensor, before: Tensor) -> Edges:
    """A(idx, idx): the edges among the positions with keep = 1, renumbered; before [C + 1] counts the kept ones."""
    device = keep.device
    keeps, row_ptr = keep.cpu().numpy() > 0, edges.row_ptr.cpu().numpy()
    number = torch.where(keep > 0, before[:-1], -1).int()
    target = number.index_select(0, edges.neighbor[: row_ptr[-1]]).cpu().numpy()
    stays = np.repeat(keeps, np.diff(row_ptr))
    stays &= target >= 0
    living = ops.degree(keep, *edges)[keep > 0].cumsum(0, dtype=torch.int32)
    return Edges(torch.nn.functional.pad(living, (1, 0)), torch.from_numpy(np.compress(stays, target)).to(device))


class TiledLevel(SparseLevel):
    """A level of near-dense graphs with static shapes: sums over neighbours are products of dense tiles (see
    ops/tiles.py). Lists of neighbours are made for who asks for them."""

    def __init__(self, nodes: Nodes, origin: Origin, edges: Callable[[], Edges], bits: Callable[[], Tensor]) -> None:
        super().__init__(nodes, origin, False, edges)
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
        return TiledLevel(nodes, self.origin, self._edges, self._bits)

    def _induced(self, nodes: Nodes, origin: Origin, index: Tensor, back: Tensor) -> SparseLevel:
        return TiledLevel(
            nodes,
            origin,
            lambda: Edges(*ops.induce(*self.edges, index, back)),
            lambda: ops.tile_induce(self.bits, index, self.slot_ptr, nodes.slot_ptr),
        )
