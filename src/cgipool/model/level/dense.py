"""Levels with a weighted edge between any two nodes of a graph: one dense matrix per graph, without padding.

Shapes: C positions, B graphs, F features, K clusters, D cells (see ops/blocks.py). Gradients flow through the weights.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from cgipool import ops
from cgipool.model.level import Level, Nodes, Origin


class DenseLevel(Level):
    """A level whose adjacency is a matrix of weights for each graph, symmetric and not negative."""

    def __init__(self, nodes: Nodes, origin: Origin, compact: bool, weight: Tensor) -> None:
        super().__init__(nodes, origin, compact)
        self.weight = weight
        """[D] 0 in rows and columns of dead positions."""
        self.edge_features: Tensor | None = None
        """[D, V] what a layer of `cgipool.nn` gives for each edge."""

    @classmethod
    def of_clusters(cls, level: Level, weight: Tensor) -> "DenseLevel":
        """K clusters in place of every graph's nodes; weight is [B, K, K]."""
        graphs, clusters, _ = weight.shape
        every = torch.arange(graphs + 1, device=weight.device)
        slot_ptr, graph = every * clusters, every[:-1].repeat_interleave(clusters, output_size=graphs * clusters)
        there = level.sizes > 0
        alive = there.to(weight.dtype).repeat_interleave(clusters, output_size=graphs * clusters)
        position = torch.arange(graphs * clusters, device=weight.device)
        nodes = Nodes(graph, slot_ptr, alive, there * clusters, position)
        origin = level.origin._replace(slot_ptr=slot_ptr, cells=weight.numel())
        return cls(nodes, origin, level.compact, weight.reshape(-1))

    @classmethod
    def of_kept(
        cls,
        level: Level,
        x: Tensor,
        gate: Tensor,
        keep: Tensor,
        k: Tensor,
        weight: Tensor,
        loops: bool,
        features: Tensor | None = None,
    ) -> tuple[Tensor, "DenseLevel"]:
        """H(idx) ⊙ gate(idx), W(idx, idx): the nodes of a level with keep = 1, joined by new weights [D], of which
        those of nodes to themselves count only if `loops` are wanted. On compact levels the new edges may have features
        [D, V]."""
        gate = level.acting(gate, keep, k)
        if not level.compact:
            nodes = level.nodes._replace(alive=keep, size=k)
            weight = ops.block_scaled(weight, keep, float(loops), 0.0, level.slot_ptr, level.block_ptr)
            return ops.gated(x, gate * keep), cls(nodes, level.origin, False, weight)
        closed = level.closed_up(keep, k)
        cells, back = _cells_kept(level.slot_ptr, closed.held, k, loops)
        weight = ops.pick(weight.unsqueeze(1), cells, back).squeeze(1)
        coarse = cls(closed.nodes, level.origin, True, weight)
        coarse.edge_features = None if features is None else ops.pick(features, cells, back)
        return ops.pick_gated(x, gate, closed.held, closed.back), coarse

    @cached_property
    def _where(self) -> tuple[Tensor, Tensor]:
        return self.slot_ptr, self.block_ptr

    @cached_property
    def degree(self) -> Tensor:
        """[C] the sum of each node's weights."""
        return ops.block_mm(self.weight, self.alive.unsqueeze(1), False, *self._where).squeeze(1)

    @cached_property
    def _normalised(self) -> Tensor:
        return self._looped(self.alive * torch.rsqrt(self.degree + 1.0))

    def propagate(self, x: Tensor) -> Tensor:
        """Â x with Â = D^-½ (A + I) D^-½: a loop of weight 1 beside whatever weight a node has to itself."""
        return ops.block_mm(self._normalised, x, False, *self._where)

    def convolve(self, x: Tensor, bias: Tensor, relu: bool) -> Tensor:
        """Â x + bias in one pass."""
        return ops.block_convolve(self._normalised, x, bias, relu, *self._where)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x."""
        return ops.block_mm(self.weight, x, False, *self._where)

    def neighbor_max(self, x: Tensor) -> Tensor:
        """[C, F] the maximum over each node and those it has an edge of positive weight to."""
        return ops.block_max(self.with_loops(), x, self.graph, *self._where)[0]

    def with_loops(self) -> Tensor:
        """[D] A + I."""
        return self._loops

    @cached_property
    def _loops(self) -> Tensor:
        return self._looped(self.alive)

    def _looped(self, scale: Tensor) -> Tensor:
        """[D] S (A + I) S with S = diag(scale)."""
        return ops.block_scaled(self.weight, scale, 1.0, 1.0, *self._where)

    @property
    def squares(self) -> Tensor:
        """[C] the sum of the squares of each node's weights."""
        return ops.block_mm(self.weight.square(), self.alive.unsqueeze(1), False, *self._where).squeeze(1)

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, Level]:
        """The features and the level of the kept nodes, with the weights among them."""
        return DenseLevel.of_kept(self, x, gate, keep, k, self.weight, loops=True)


def _cells_kept(slot_ptr: Tensor, kept: Tensor, k: Tensor, loops: bool) -> tuple[Tensor, Tensor]:
    """The cells of the kept rows and columns, row by row, and for every cell its new number or −1. Without loops there
    is no cell, −1, on the diagonals."""
    slots, size, count = slot_ptr.cpu().numpy(), np.diff(slot_ptr.cpu().numpy()), k.cpu().numpy()
    start = np.append(0, np.cumsum(size * size))
    first = np.append(0, np.cumsum(count))
    place = kept.cpu().numpy() - np.repeat(slots[:-1], count)
    parts = []
    for b, (a, z) in enumerate(pairwise(first)):
        part = start[b] + place[a:z, None] * size[b] + place[a:z]
        if not loops:
            np.fill_diagonal(part, -1)
        parts.append(part.ravel())
    cells = np.concatenate(parts)
    number, back = np.nonzero(cells >= 0)[0], np.full(start[-1], -1)
    back[cells[number]] = number
    return torch.from_numpy(cells).to(kept.device), torch.from_numpy(back).to(kept.device)
