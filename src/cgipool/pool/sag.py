"""SAGPool: "Self-Attention Graph Pooling" (Lee, Lee, Kang; ICML 2019).

    scores       s = GCN(X, A), to one channel
    selection    i = top-k(s)
    coarsening   X' = X(i) ⊙ tanh(s(i)),  A' = A(i, i)

Shapes: C positions, d features. k = ⌈ratio · n⌉ per graph.
"""

import torch
from torch import Tensor, nn

from cgipool.model.layers import GCN
from cgipool.model.level import Level, check_ratio
from cgipool.pool.base import Pooled


class SAGPool(nn.Module):
    """Keeps the nodes with the largest score by a graph convolution.

    PyG's `SAGPooling` multiplies the score by another random weight before ranking (its issue 9862): if that weight is
    negative, the nodes with the SMALLEST scores stay. Neither the paper nor this class has this weight.
    """

    def __init__(self, dim: int, ratio: float | int = 0.8) -> None:
        super().__init__()
        self.ratio = check_ratio(ratio)
        self.gnn = GCN(dim, 1)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Coarsen the graph; x is [C, d]."""
        k = level.kept(self.ratio)
        s = self.gnn(x, level).squeeze(1)
        keep = level.select(s.unsqueeze(1), k).squeeze(1)
        pooled, coarse = level.coarsen(x, torch.tanh(s), keep, k)
        return Pooled(pooled, coarse, scores={"s": s})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}"
