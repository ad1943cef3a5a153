"""Controls: networks whose pooling learns nothing.

Shapes: C positions, d features.
"""

import torch
from torch import Tensor, nn

from cgipool.errors import UserError
from cgipool.model.level import Level, check_ratio
from cgipool.pool.base import Pooled


class NoPool(nn.Module):
    """Keeps every node: X' = X, A' = A. Methods that are global readouts use it too."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Return x [C, d] unchanged."""
        return Pooled(x, level)


class RandomPool(nn.Module):
    """Keeps k = ⌈ratio · n⌉ nodes of each graph, drawn uniformly without replacement: X' = X(i), A' = A(i, i).

    They are drawn anew at each training step. In evaluation, the seed, the split and the graph's number determine the
    nodes, so they do not depend on the other graphs of the batch.
    """

    def __init__(self, dim: int, ratio: float | int = 0.8, site: int = 0) -> None:
        super().__init__()
        self.ratio, self.site = check_ratio(ratio), site

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Coarsen the graph; x is [C, d]."""
        k = level.kept(self.ratio)
        u = level.uniform(self.site)
        keep = level.select(u.unsqueeze(1), k).squeeze(1)
        pooled, coarse = level.coarsen(x, torch.ones_like(level.alive), keep, k)
        return Pooled(pooled, coarse, scores={"u": u})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}"


class OraclePool(nn.Module):
    """Keeps the nodes that decide the class, whatever their number: an upper bound for methods that select nodes.

    X' = X(i), A' = A(i, i), with i the nodes of `node_truth`, which generated data sets have.
    """

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Coarsen the graph; x is [C, d]."""
        truth = level.origin.truth
        if truth is None or truth.shape[1] == 0:
            raise UserError("oracle needs a data set with known deciding nodes, such as motifs or needle-60")
        keep = truth[level.position, 0].to(x.dtype) * level.alive
        k = level.sums(keep.unsqueeze(1), level.alive.unsqueeze(1)).view(-1).round().to(level.sizes.dtype)
        pooled, coarse = level.coarsen(x, torch.ones_like(level.alive), keep, k)
        return Pooled(pooled, coarse, scores={"truth": keep})
