"""The shared network: only the pooling differs between methods.

Shapes: C positions, B graphs, d width, L levels.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.errors import UserError, unknown
from cgipool.model.layers import CONVOLUTIONS, InputSize, Width
from cgipool.model.level import GATES, Level
from cgipool.model.norm import NORMS
from cgipool.model.readout import ReadoutsSideBySide, SumOfReadouts, jumping_named
from cgipool.pool import Sizes, method_named
from cgipool.pool.base import NOTHING, Pooled

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
    embedding: Tensor
    """[B, …] the vector of each graph that the head reads."""
    buffers: Mapping[str, Tensor] = NOTHING
    """New values of the network's buffers by name, for `Model.update`. Filled in training mode only."""


class Head(nn.ModuleList):
    """A perceptron 2d → d → d/2 → classes with ReLUs, and dropout after its first layer."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__(nn.Linear(a, b) for a, b in pairwise((inputs, width, width // 2, classes)))

    def forward(self, readout: Tensor, key: Tensor, dropout: float) -> Tensor:
        """[B, inputs] → logits [B, classes]."""
        first, second, last = self
        hidden = F.relu(first(readout))
        if self.training and dropout > 0.0:
            index = torch.arange(hidden.numel(), device=hidden.device)
            keep = ops.draws(index, key, HEAD_SITE).view(hidden.shape) >= dropout
            hidden = hidden * keep / (1.0 - dropout)
        return last(F.relu(second(hidden)))


class Model(nn.Module):
    """Takes a batch to an `Output`. What the trainer can train."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        """The trainer may switch it off."""
        self.compact = False
        """Whether levels drop positions (faster on a CPU) or keep shapes static (for `vmap` and captured steps)."""
        self.rows: tuple[int, ...] = ()
        """With static shapes: how many nodes are left after each pool at most, where that is known beforehand."""

    @torch.no_grad()
    def update(self, buffers: Mapping[str, Tensor]) -> None:
        """Write the buffers that a training step's `Output` gives."""
        for name, value in buffers.items():
            self.get_buffer(name).copy_(value)


class Network(Model):
    """head(Σ_l readout(pool_l(relu(conv_l(…))))), with readout = [max ‖ mean] over the nodes of the coarsened graph.

    A method that is a global readout (Set2Set, DGCNN) brings its own in place of the sum. With a `norm` it is
    relu(norm_l(conv_l(…))); batch norm has a shift of its own in place of the convolution's bias. With
    jumping="concat" the readouts stand side by side.
    """

    def __init__(
        self,
        inputs: InputSize,
        classes: int,
        *,
        method: str = "cgi",
        form: str = "paper",
        conv: str = "gcn",
        norm: str = "none",
        gate: str = "plain",
        width: int = 128,
        levels: int = 3,
        readout: str = "max-mean",
        jumping: str = "sum",
        ratio: float | int = 0.8,
        dropout: float = 0.5,
        mi: str = "gan",
        sizes: Sizes | None = None,
    ) -> None:
        super().__init__(dropout)
        if conv not in CONVOLUTIONS:
            raise unknown("convolution", conv, CONVOLUTIONS)
        if norm not in NORMS:
            raise unknown("normalisation", norm, NORMS)
        if gate not in GATES:
            raise unknown("gate", gate, GATES)
        chosen = method_named(method)
        offered = {"dim": width, "ratio": ratio, "levels": levels, "mi": mi, "sizes": sizes}
        widths: list[Width] = [inputs] + [width] * (levels - 1)
        self.gate = gate
        self.convs = nn.ModuleList(CONVOLUTIONS[conv](w, width, bias=norm != "batch") for w in widths)
        self.pools = nn.ModuleList(chosen.pool(form, site=site, **offered) for site in range(levels))
        own: Any = chosen.readout(**offered, jumping=jumping_named(jumping))
        side_by_side = jumping == "concat"
        self.readout = own or (
            ReadoutsSideBySide(width, readout, levels) if side_by_side else SumOfReadouts(width, readout)
        )
        normalise = NORMS[norm]
        self.norms = nn.ModuleList(normalise(width) for _ in range(levels) if normalise is not None)
        self.head = Head(self.readout.width, width, classes)

    def forward(self, batch: Batch, keep: list[Tensor] | None = None) -> Output:
        """A given `keep` imposes the kept nodes, for each level [C] over the batch."""
        level: Level = Level.whole(batch, self.compact, self.rows, self.gate)
        x: Tensor | Batch = batch
        levels, metrics = [], []
        losses: list[Tensor] = []
        buffers: dict[str, Tensor] = {}
        for site, pool in enumerate(self.pools):
            imposed = (keep[site],) if keep else ()
            pooled = pool(self._convolved(site, x, level, buffers), level, *imposed)
            if not isinstance(pooled, Pooled):
                raise UserError(f"a pool must return Pooled(x, level), not a {type(pooled).__name__}")
            x, level = pooled.x, pooled.level
            levels.append((x, level))
            losses += pooled.losses.values()
            metrics.append(pooled.metrics)
        readout = self.readout(levels)
        own = torch.stack(losses).sum() / len(self.pools) if losses else readout.new_zeros(())
        by_level = {name: torch.stack([m[name] for m in metrics]) for name in metrics[0]}
        return Output(self.head(readout, batch.key, self.dropout), own, by_level, readout, buffers)

    def _convolved(self, site: int, x: Tensor | Batch, level: Level, buffers: dict[str, Tensor]) -> Tensor:
        """relu(norm(conv(x))) of a level; new values of the norm's buffers are added to `buffers`."""
        if not self.norms:
            return self.convs[site](x, level, relu=True)
        normed = self.norms[site](self.convs[site](x, level), level)
        buffers |= {f"norms.{site}.{name}": value for name, value in normed.buffers.items()}
        return F.relu(normed.x)
