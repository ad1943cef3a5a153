"""TopKPool: "Graph U-Nets" (Gao and Ji; ICML 2019), the gPool layer.

    scores       s = X p / ‖p‖
    selection    i = top-k(s)
    coarsening   X' = X(i) ⊙ tanh(s(i)),  A' = A(i, i)

Shapes: C positions, d features. k = ⌈ratio · n⌉ per graph.
"""

import math

import torch
from torch import Tensor, nn

from cgipool import ops
from cgipool.model.level import Level, check_ratio
from cgipool.pool.base import Pooled

LEAST_NORM = 1e-12
"""Lower bound of ‖p‖. If all features of a level become 0, only weight decay changes p, until its norm is 0 in
float32."""


class TopKPool(nn.Module):
    """Keeps the nodes with the largest projection on a learned direction p.

    The gate is tanh, as in PyG's layer and the benchmarks after it; Graph U-Nets prints a sigmoid.
    """

    def __init__(self, dim: int, ratio: float | int = 0.8) -> None:
        super().__init__()
        self.ratio = check_ratio(ratio)
        bound = 1.0 / math.sqrt(dim)
        self.p = nn.Parameter(torch.empty(dim).uniform_(-bound, bound))

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Coarsen the graph; x is [C, d]."""
        k = level.kept(self.ratio)
        s = ops.project(x, self.p.unsqueeze(0)).squeeze(1) / self.p.norm().clamp(min=LEAST_NORM)
        keep = level.select(s.unsqueeze(1), k).squeeze(1)
        pooled, coarse = level.coarsen(x, torch.tanh(s), keep, k)
        return Pooled(pooled, coarse, scores={"s": s})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}"
