"""Levels with a weighted edge between any two nodes of a graph: one dense matrix per graph, without padding.

Shapes: C positions, B graphs, F features, K clusters, D cells (see ops/blocks.py). Gradients flow through the weights.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from cgipool import ops
from cgipool.level import Level, Nodes, Origin, block_ptr_of, cells_of, compacted, positions_kept


class DenseLevel(Level):
    """A level whose adjacency is a matrix of weights for each graph, symmetric and not negative."""

    def __init__(self, nodes: Nodes, origin: Origin, compact: bool, weight: Tensor) -> None:
        super().__init__(nodes, origin, compact)
        self.weight = weight
        """[D] 0 in rows and columns of dead positions."""

    @classmethod
    def of_clusters(cls, level: Level, weight: Tensor) -> "DenseLevel":
        """K clusters in place of every graph's nodes; weight is [B, K, K]."""
        graphs, clusters, _ = weight.shape
        every = torch.arange(graphs + 1, device=weight.device)
        slot_ptr, graph = every * clusters, every[:-1].repeat_interleave(clusters, output_size=graphs * clusters)
        there = level.size > 0
        alive = there.to(weight.dtype).repeat_interleave(clusters, output_size=graphs * clusters)
        position = torch.arange(graphs * clusters, device=weight.device)
        nodes = Nodes(graph, slot_ptr, alive, there * clusters, position)
        origin = level.origin._replace(slot_ptr=slot_ptr, cells=weight.numel())
        return cls(nodes, origin, level.compact, weight.reshape(-1))

    @classmethod
    def of_kept(
        cls, level: Level, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor, weight: Tensor
    ) -> tuple[Tensor, "DenseLevel"]:
        """H(idx) ⊙ gate(idx), W(idx, idx): the nodes of a level with keep = 1, joined by new weights [D]."""
        where = (level.slot_ptr, block_ptr_of(level.slot_ptr))
        gate = level.acting(gate, keep, k)
        if not level.compact:
            column = keep.unsqueeze(1)
            both = ops.block_outer(column, column, *where, len(weight))
            nodes = level.nodes._replace(alive=keep, size=k)
            return ops.gated(x, gate * keep), cls(nodes, level.origin, False, weight * both)
        kept, before = positions_kept(keep)
        nodes = compacted(level.nodes, kept, before, k)
        cells, back = _cells_kept(level.slot_ptr, kept, k)
        weight = ops.pick(weight.unsqueeze(1), cells, back).squeeze(1)
        return ops.take(x, gate, kept, before), cls(nodes, level.origin, True, weight)

    @cached_property
    def _where(self) -> tuple[Tensor, Tensor]:
        return self.slot_ptr, block_ptr_of(self.slot_ptr)

    @cached_property
    def degree(self) -> Tensor:
        """[C] the sum of each node's weights."""
        return ops.block_mm(self.weight, self.alive.unsqueeze(1), False, *self._where).squeeze(1)

    @cached_property
    def _inverse_root(self) -> Tensor:
        return (self.alive * torch.rsqrt(self.degree + 1.0)).unsqueeze(1)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x with Â = D^-½ (A + I) D^-½: a loop of weight 1 beside whatever weight a node has to itself."""
        scaled = x * self._inverse_root
        return (self.neighbor_sum(scaled) + scaled) * self._inverse_root

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x."""
        return ops.block_mm(self.weight, x, False, *self._where)

    def neighbor_max(self, x: Tensor) -> Tensor:
        """[C, F] the maximum over each node and those it has an edge of positive weight to."""
        return ops.block_max(self.with_loops(), x, self.graph, *self._where)[0]

    def with_loops(self) -> Tensor:
        """[D] A + I."""
        return self.weight + self._loops

    @cached_property
    def _loops(self) -> Tensor:
        return _diagonal(self, self.alive)

    @property
    def squares(self) -> Tensor:
        """[C] the sum of the squares of each node's weights."""
        return ops.block_mm(self.weight.square(), self.alive.unsqueeze(1), False, *self._where).squeeze(1)

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, Level]:
        """The features and the level of the kept nodes, with the weights among them."""
        return DenseLevel.of_kept(self, x, gate, keep, k, self.weight)


def without_diagonal(level: Level, weight: Tensor) -> Tensor:
    """[D] the matrices over a level's positions with zeros on their diagonals."""
    return weight * (1.0 - _diagonal(level, torch.ones_like(level.alive)))


def _diagonal(level: Level, value: Tensor) -> Tensor:
    """[D] matrices with value [C] on their diagonals and no edges."""
    row_ptr, neighbor = level.slot_ptr.new_zeros(len(value) + 1), level.slot_ptr.new_zeros(0)
    where = (level.graph, level.slot_ptr, block_ptr_of(level.slot_ptr))
    return ops.block_adjacency(value, 1.0, row_ptr, neighbor, *where, cells_of(level))


def _cells_kept(slot_ptr: Tensor, kept: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """The cells of the kept rows and columns, row by row, and for every cell its new number or −1."""
    slots, size, count = slot_ptr.cpu().numpy(), np.diff(slot_ptr.cpu().numpy()), k.cpu().numpy()
    start = np.append(0, np.cumsum(size * size))
    first = np.append(0, np.cumsum(count))
    place = kept.cpu().numpy() - np.repeat(slots[:-1], count)
    parts = [(start[b] + place[a:z, None] * size[b] + place[a:z]).ravel() for b, (a, z) in enumerate(pairwise(first))]
    cells = np.concatenate(parts)
    back = np.full(start[-1], -1)
    back[cells] = np.arange(len(cells))
    return torch.from_numpy(cells).to(kept.device), torch.from_numpy(back).to(kept.device)
