"""The shared network: only the pooling differs between methods.

Shapes: C positions, B graphs, d width, L levels.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool.data.batch import Batch
from cgipool.errors import unknown
from cgipool.layers import GCN, SAGE, InputSize, Width
from cgipool.level import Level
from cgipool.ops.draws import uniform
from cgipool.pool import method_named

CONVOLUTIONS = {"gcn": GCN, "sage": SAGE}

HEAD_SITE = 1000
"""The site of the head's dropout draws; levels use 0, 1, 2, …"""


class Output(NamedTuple):
    """What the network says of a batch."""

    logits: Tensor
    """[B, classes]."""
    own_loss: Tensor
    """The method's own losses, added up by level and averaged over levels; a scalar."""
    metrics: dict[str, Tensor]
    """By name, [L]: one value per level. Filled in evaluation mode only."""


class Network(nn.Module):
    """head(Σ_l readout(pool_l(relu(conv_l(…))))), with readout = [max ‖ mean] over the nodes of the coarsened graph.

    The head is a perceptron 2d → d → d/2 → classes with ReLUs, and dropout after its first layer.
    """

    def __init__(
        self,
        inputs: InputSize,
        classes: int,
        *,
        method: str = "cgi",
        form: str = "paper",
        conv: str = "gcn",
        width: int = 128,
        levels: int = 3,
        ratio: float | int = 0.8,
        dropout: float = 0.5,
        mi: str = "gan",
    ) -> None:
        super().__init__()
        if conv not in CONVOLUTIONS:
            raise unknown("convolution", conv, CONVOLUTIONS)
        pool = method_named(method).pool
        widths: list[Width] = [inputs] + [width] * (levels - 1)
        self.convs = nn.ModuleList(CONVOLUTIONS[conv](w, width) for w in widths)
        self.pools = nn.ModuleList(pool(form, dim=width, ratio=ratio, site=site, mi=mi) for site in range(levels))
        sizes = (2 * width, width, width // 2, classes)
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = dropout
        self.compact = False
        """Whether levels drop positions (faster on a CPU) or keep shapes static (for `vmap` and captured steps)."""

    def forward(self, batch: Batch, keep: list[Tensor] | None = None) -> Output:
        """Logits of the batch's graphs. A given `keep` imposes the kept nodes, for each level [C] over the batch."""
        level = Level.whole(batch, self.compact)
        x: Tensor | Batch = batch
        readouts, losses, metrics = [], [], []
        for site, (conv, pool) in enumerate(zip(self.convs, self.pools, strict=True)):
            pooled = pool(F.relu(conv(x, level), inplace=True), level, keep[site] if keep else None)
            x, level = pooled.x, pooled.level
            readouts.append(level.readout(x))
            losses += pooled.losses.values()
            metrics.append(pooled.metrics)
        readout = torch.stack(readouts).sum(0)
        own = torch.stack(losses).sum() / len(self.pools) if losses else readout.new_zeros(())
        by_level = {name: torch.stack([m[name] for m in metrics]) for name in metrics[0]}
        return Output(self.classify(readout, batch), own, by_level)

    def classify(self, readout: Tensor, batch: Batch) -> Tensor:
        """The head: [B, 2d] → logits."""
        first, second, last = self.head
        hidden = F.relu(first(readout))
        if self.training and self.dropout > 0.0:
            index = torch.arange(hidden.numel(), device=hidden.device).view(hidden.shape)
            keep = uniform(batch.key, HEAD_SITE, index) >= self.dropout
            hidden = hidden * keep / (1.0 - self.dropout)
        return last(F.relu(second(hidden)))
