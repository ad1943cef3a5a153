"""Normalisation of node features between a convolution and its ReLU.

Shapes: C positions, d features. Statistics are over the living nodes of a level. Modules do not change their buffers:
they return new values, as `vmap` requires, and the trainer writes them (see `Model.update`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool.data.batch import Share
from cgipool.model.level import Level

EPSILON, MOMENTUM = 1e-5, 0.1
"""Added to a variance; weight of the new value in a running mean. Both are torch's defaults."""


class Normed(NamedTuple):
    """Normalised features."""

    x: Tensor
    """[C, d]."""
    buffers: Mapping[str, Tensor]
    """New values of the module's buffers by name. Filled in training mode only."""


class BatchNorm(nn.Module):
    """(x − mean) / √(variance + ε) · weight + bias, channel by channel.

    In training, mean and variance are computed over the living nodes of the batch; in evaluation, running values are
    used. This equals `torch.nn.BatchNorm1d` on the living nodes, except that a single node, which has no variance,
    updates only the running mean.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, x: Tensor, level: Level, share: Share | None = None) -> Normed:
        """Normalise x [C, d]. A partial batch uses the statistics of the whole batch."""
        if not self.training:
            return Normed(self._scaled(x - self.running_mean, self.running_var), {})
        if level.compact and share is None and len(x) > 1:
            return self._native(x)
        nodes = _whole(level.alive.sum(), share)
        mean = self._mean(x, level, nodes, share)
        centered = x - mean
        variance = self._mean(centered.square(), level, nodes, share)
        return Normed(self._scaled(centered, variance), self._moved(mean.detach(), variance.detach(), nodes))

    def _native(self, x: Tensor) -> Normed:
        """Use torch's kernel if all nodes are alive: two passes instead of ten. It changes its buffers in place, so it
        gets copies."""
        mean, variance = self.running_mean.clone(), self.running_var.clone()
        out = F.batch_norm(x, mean, variance, self.weight, self.bias, True, MOMENTUM, EPSILON)
        return Normed(out, {"running_mean": mean, "running_var": variance})

    def _mean(self, x: Tensor, level: Level, nodes: Tensor, share: Share | None) -> Tensor:
        """[d] the mean over the living nodes; `nodes` is their number."""
        return _whole(level.sums(x, level.alive.unsqueeze(1)).sum((0, 1)), share) / nodes.clamp(min=1.0)

    def _scaled(self, centered: Tensor, variance: Tensor) -> Tensor:
        return torch.addcmul(self.bias, centered, self.weight * torch.rsqrt(variance + EPSILON))

    def _moved(self, mean: Tensor, variance: Tensor, nodes: Tensor) -> dict[str, Tensor]:
        """Return the running values after a batch with this many living nodes."""
        unbiased = variance * nodes / (nodes - 1.0).clamp(min=1.0)
        return {
            "running_mean": torch.where(nodes > 0, torch.lerp(self.running_mean, mean, MOMENTUM), self.running_mean),
            "running_var": torch.where(nodes > 1, torch.lerp(self.running_var, unbiased, MOMENTUM), self.running_var),
        }

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return str(len(self.weight))


class LayerNorm(nn.Module):
    """(x − mean) / √(variance + ε) · weight + bias, node by node, with mean and variance over the node's features."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor, level: Level, share: Share | None = None) -> Normed:
        """Normalise x [C, d]. Nodes do not depend on each other, so `share` has no effect."""
        return Normed(F.layer_norm(x, self.weight.shape, self.weight, self.bias, EPSILON), {})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return str(len(self.weight))


def _whole(sums: Tensor, share: Share | None) -> Tensor:
    """Return sums over the whole batch from sums over this process's part."""
    if share is None:
        return sums
    return share.total(0.0 * sums if share.idle else sums)


NORMS: dict[str, type[BatchNorm] | type[LayerNorm] | None] = {"none": None, "batch": BatchNorm, "layer": LayerNorm}
"""The normalisations by name."""
