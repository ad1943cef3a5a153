"""Controls: what is left of a network when its pooling learns nothing.

Shapes: C positions, d features.
"""

import torch
from torch import Tensor, nn

from cgipool.model.level import Level, check_ratio
from cgipool.pool.base import Pooled


class NoPool(nn.Module):
    """Keeps every node: X' = X, A' = A. Also the pool of the methods that are global readouts."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """X [C, d], unchanged."""
        return Pooled(x, level)


class RandomPool(nn.Module):
    """Keeps k = ⌈ratio · n⌉ nodes of each graph, drawn uniformly without replacement: X' = X(i), A' = A(i, i).

    They are drawn afresh at each training step. In evaluation a graph's draw is fixed by the seed, the split and the
    graph's number, so that it does not depend on the other graphs of the batch.
    """

    def __init__(self, dim: int, ratio: float | int = 0.8, site: int = 0) -> None:
        super().__init__()
        self.ratio, self.site = check_ratio(ratio), site

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """X [C, d] → the coarsened graph."""
        k = level.kept(self.ratio)
        u = level.uniform(self.site)
        keep = level.select(u.unsqueeze(1), k).squeeze(1)
        pooled, coarse = level.coarsen(x, torch.ones_like(level.alive), keep, k)
        return Pooled(pooled, coarse, scores={"u": u})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}"
