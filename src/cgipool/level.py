"""A level of the hierarchy: which nodes are alive, and how features travel among them.

Shapes: C positions, B graphs, F features, M columns. There are two ways from a level to the next, with the same
numbers. With static shapes a dropped node keeps its position and is no longer alive: with D^-½ = 0 there, the
normalised adjacency of the coarsened graph is the same formula as that of the whole graph, and every shape is known
before the step runs, as `vmap` and captured steps need. A compact level drops positions for good: on a CPU, fewer
rows are less work. Features at dead positions are never read.
"""

from collections.abc import Callable
from functools import cached_property, partial
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.errors import UserError
from cgipool.ops.draws import uniform


class Edges(NamedTuple):
    """Neighbours of position p: neighbor[row_ptr[p] .. row_ptr[p + 1]]."""

    row_ptr: Tensor
    neighbor: Tensor


class Level:
    """The living part of a batch of graphs."""

    def __init__(
        self,
        graph: Tensor,
        slot_ptr: Tensor,
        key: Tensor,
        edges: Callable[[], Edges],
        alive: Tensor,
        size: Tensor,
        position: Tensor,
        compact: bool,
    ) -> None:
        self.graph = graph
        """[C] the graph of each position."""
        self.slot_ptr = slot_ptr
        """[B + 1] where each graph's positions begin."""
        self.key = key
        """[] the key of this step's random draws."""
        self.alive = alive
        """[C] 1 or 0."""
        self.size = size
        """[B] living nodes per graph; 0 for an empty slot."""
        self.position = position
        """[C] which position of the first level each one was."""
        self.compact = compact
        """Whether coarsening drops positions."""
        self._edges = edges

    @classmethod
    def whole(cls, batch: Batch, compact: bool = False) -> "Level":
        """The level before any pooling."""
        position = torch.arange(len(batch.alive), device=batch.alive.device)
        edges = partial(Edges, batch.row_ptr, batch.neighbor)
        return cls(batch.graph, batch.slot_ptr, batch.key, edges, batch.alive, batch.size, position, compact)

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

    @cached_property
    def _inverse_root(self) -> Tensor:
        return self.alive * torch.rsqrt(self.degree + 1.0)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x with Â = D^-½ (A + I) D^-½ of the living graph."""
        return ops.propagate(x, self._inverse_root, 1.0, *self.edges)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the sum over living neighbours."""
        return ops.propagate(x, self.alive, 0.0, *self.edges)

    def neighbor_mean(self, x: Tensor) -> Tensor:
        """D⁻¹ A x: the mean over living neighbours, 0 where there are none."""
        # Divided, not multiplied by the reciprocal: rounded once, as PyG does, which trained weights notice.
        return self.neighbor_sum(x) / self.degree.clamp(min=1.0).unsqueeze(1)

    def kept(self, ratio: float | int) -> Tensor:
        """[B] how many nodes of each graph a ratio keeps: ⌈ratio · n⌉ for a share, at most n for a count."""
        if isinstance(ratio, int):
            return self.size.clamp(max=ratio)
        # In float32 ⌈0.6 n⌉ comes out one too large for 81 of the n up to 1000.
        return torch.ceil(self.size.double() * ratio).long()

    def select(self, score: Tensor, k: Tensor) -> Tensor:
        """[C, M] 1 at the k best living nodes of each graph by each column of score, ties to the lower position."""
        return ops.keep_top_k(score.detach(), self.alive, k, self.graph)

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, "Level"]:
        """H(idx) ⊙ gate(idx), A(idx, idx): the features, and the level on which only the nodes with keep = 1 are alive,
        k[b] of them in graph b."""
        if not self.compact:
            same = (self.graph, self.slot_ptr, self.key, self._edges)
            return x * (gate * keep).unsqueeze(1), Level(*same, keep, k, self.position, False)
        kept = keep.nonzero().squeeze(1)
        before = torch.nn.functional.pad(torch.cumsum(keep > 0, 0), (1, 0))
        coarse = Level(
            self.graph[kept],
            before[self.slot_ptr],
            self.key,
            lambda: _induced(self.edges, keep, before),
            self.alive[kept],
            k,
            self.position[kept],
            True,
        )
        return ops.take(x, gate, kept, before), coarse

    def sums(self, x: Tensor, weight: Tensor) -> Tensor:
        """[B, M, F] weighted sums over each graph; weight [C, M] must be 0 at dead positions."""
        return ops.sums(x, weight, self.graph, self.slot_ptr)

    def readout(self, x: Tensor) -> Tensor:
        """[B, 2F] the maximum and the mean over each graph's living nodes."""
        top, total = ops.readout(x, self.alive, self.graph, self.slot_ptr)
        return torch.cat([top, total / self.size.clamp(min=1).unsqueeze(1)], 1)

    def over_graphs(self, value: Tensor) -> Tensor:
        """The mean of value [B] over the graphs that are there (empty slots do not count)."""
        there = (self.size > 0).to(value.dtype)
        return (value * there).sum() / there.sum().clamp(min=1.0)

    def uniform(self, site: int) -> Tensor:
        """[C] a random number in [0, 1) for every position, drawn for this step and this site."""
        return uniform(self.key, site, self.position)


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


def check_ratio(ratio: float | int) -> float | int:
    """The ratio, if it is a share in (0, 1] or a count of at least 1."""
    if isinstance(ratio, Integral) and not isinstance(ratio, bool) and ratio >= 1:
        return int(ratio)
    if isinstance(ratio, Real) and not isinstance(ratio, Integral) and 0.0 < ratio <= 1.0:
        return float(ratio)
    raise UserError(f"ratio must be a share in (0, 1] or a whole number of nodes from 1, not {ratio!r}")
