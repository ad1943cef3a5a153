"""A level of the hierarchy: which nodes are alive, and how features travel among them.

Shapes: C positions, B graphs, F features, M columns. There are two ways from a level to the next, with the same
numbers. With static shapes a dropped node keeps its position and is no longer alive: with D^-½ = 0 there, the
normalised adjacency of the coarsened graph is the same formula as that of the whole graph, and every shape is known
before the step runs, as `vmap` and captured steps need. A compact level drops positions for good: on a CPU, fewer
rows are less work. Features at dead positions are never read.
"""

from functools import cached_property

import torch
from torch import Tensor

from cgipool import ops
from cgipool.data.batch import Batch, restrict
from cgipool.errors import UserError
from cgipool.ops.draws import uniform


class Level:
    """The living part of a batch of graphs."""

    def __init__(self, batch: Batch, alive: Tensor, size: Tensor, position: Tensor, compact: bool) -> None:
        self.batch = batch
        """The graphs, as far as they still have positions."""
        self.alive = alive
        """[C] 1 or 0."""
        self.size = size
        """[B] living nodes per graph; 0 for an empty slot."""
        self.position = position
        """[C] which position of the first level each one was."""
        self.compact = compact

    @classmethod
    def whole(cls, batch: Batch, compact: bool = False) -> "Level":
        """The level before any pooling."""
        return cls(batch, batch.alive, batch.size, torch.arange(len(batch.alive), device=batch.alive.device), compact)

    @cached_property
    def degree(self) -> Tensor:
        """[C] living neighbours of each position."""
        if self.compact:
            return torch.diff(self.batch.row_ptr).to(self.alive.dtype)
        return ops.degree(self.alive, self.batch.row_ptr, self.batch.neighbor)

    @cached_property
    def _inverse_root(self) -> Tensor:
        return self.alive * torch.rsqrt(self.degree + 1.0)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x with Â = D^-½ (A + I) D^-½ of the living graph."""
        return ops.propagate(x, self._inverse_root, 1.0, self.batch.row_ptr, self.batch.neighbor)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the sum over living neighbours."""
        return ops.propagate(x, self.alive, 0.0, self.batch.row_ptr, self.batch.neighbor)

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
        return ops.keep_top_k(score.detach(), self.alive, k, self.batch.graph)

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, "Level"]:
        """H(idx) ⊙ gate(idx), A(idx, idx): the features, and the level on which only the nodes with keep = 1 are alive,
        k[b] of them in graph b."""
        if not self.compact:
            return x * (gate * keep).unsqueeze(1), Level(self.batch, keep, k, self.position, False)
        batch, kept, before = restrict(self.batch, keep)
        return ops.take(x, gate, kept, before), Level(batch, batch.alive, k, self.position[kept], True)

    def sums(self, x: Tensor, weight: Tensor) -> Tensor:
        """[B, M, F] weighted sums over each graph; weight [C, M] must be 0 at dead positions."""
        return ops.sums(x, weight, self.batch.graph, self.batch.slot_ptr)

    def readout(self, x: Tensor) -> Tensor:
        """[B, 2F] the maximum and the mean over each graph's living nodes."""
        top, total = ops.readout(x, self.alive, self.batch.graph, self.batch.slot_ptr)
        return torch.cat([top, total / self.size.clamp(min=1).unsqueeze(1)], 1)

    def over_graphs(self, value: Tensor) -> Tensor:
        """The mean of value [B] over the graphs that are there (empty slots do not count)."""
        there = (self.size > 0).to(value.dtype)
        return (value * there).sum() / there.sum().clamp(min=1.0)

    def uniform(self, site: int) -> Tensor:
        """[C] a random number in [0, 1) for every position, drawn for this step and this site."""
        return uniform(self.batch.key, site, self.position)


def check_ratio(ratio: float | int) -> float | int:
    """The ratio, if it is a share in (0, 1] or a count of at least 1."""
    share = isinstance(ratio, float) and 0.0 < ratio <= 1.0
    count = isinstance(ratio, int) and not isinstance(ratio, bool) and ratio >= 1
    if not (share or count):
        raise UserError(f"ratio must be a share in (0, 1] or a whole number of nodes from 1, not {ratio!r}")
    return ratio
