"""Normalisation of node features between a convolution and its ReLU.

Shapes: C positions, d features. Only the living nodes of a level count. Modules change nothing of themselves: what a
training step moves is given out, as `vmap` needs, and the trainer writes it (see `Model.update`).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool.model.level import Level

EPSILON, MOMENTUM = 1e-5, 0.1
"""What is added to a variance, and the weight of a new running value; torch's."""


class Normed(NamedTuple):
    """Features, normalised."""

    x: Tensor
    """[C, d]."""
    buffers: Mapping[str, Tensor]
    """New values of the module's buffers by name. Filled in training mode only."""


class BatchNorm(nn.Module):
    """(x − mean) / √(variance + ε) · weight + bias, channel by channel.

    Mean and variance are those of the living nodes of the batch in training, running values in evaluation. The numbers
    are those of `torch.nn.BatchNorm1d` on the living nodes alone; a single node, which has no variance, moves the
    running mean only.
    """

    running_mean: Tensor
    running_var: Tensor
    whole: Callable[[Tensor], Tensor] = staticmethod(lambda sums: sums)
    """Makes sums over a whole batch of those over the part of it that this process has."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, x: Tensor, level: Level) -> Normed:
        """X [C, d] → X normalised."""
        if not self.training:
            return Normed(self._scaled(x - self.running_mean, self.running_var), {})
        nodes = self.whole(level.alive.sum())
        mean = self._mean(x, level, nodes)
        centered = x - mean
        variance = self._mean(centered.square(), level, nodes)
        return Normed(self._scaled(centered, variance), self._moved(mean.detach(), variance.detach(), nodes))

    def _mean(self, x: Tensor, level: Level, nodes: Tensor) -> Tensor:
        """[d] the mean over the living nodes, so many."""
        return self.whole(level.sums(x, level.alive.unsqueeze(1)).sum((0, 1))) / nodes.clamp(min=1.0)

    def _scaled(self, centered: Tensor, variance: Tensor) -> Tensor:
        return torch.addcmul(self.bias, centered, self.weight * torch.rsqrt(variance + EPSILON))

    def _moved(self, mean: Tensor, variance: Tensor, nodes: Tensor) -> dict[str, Tensor]:
        """The running values after a batch with so many living nodes."""
        unbiased = variance * nodes / (nodes - 1.0).clamp(min=1.0)
        return {
            "running_mean": torch.where(nodes > 0, torch.lerp(self.running_mean, mean, MOMENTUM), self.running_mean),
            "running_var": torch.where(nodes > 1, torch.lerp(self.running_var, unbiased, MOMENTUM), self.running_var),
        }

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return str(len(self.weight))


class LayerNorm(nn.Module):
    """(x − mean) / √(variance + ε) · weight + bias, node by node: mean and variance are those of a node's features."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor, level: Level) -> Normed:
        """X [C, d] → X normalised."""
        return Normed(F.layer_norm(x, self.weight.shape, self.weight, self.bias, EPSILON), {})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return str(len(self.weight))


NORMS: dict[str, type[BatchNorm] | type[LayerNorm] | None] = {"none": None, "batch": BatchNorm, "layer": LayerNorm}
"""The normalisations by name."""
