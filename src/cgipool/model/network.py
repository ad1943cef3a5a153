"""The shared network: only the pooling differs between methods.

Shapes: C positions, B graphs, d width, L levels.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.data.batch import Batch, Share
from cgipool.data.catalogue import CATALOGUE
from cgipool.data.check import place_of
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.model.level import Level
from cgipool.pool.base import NOTHING, Pooled

HEAD_SITE = 1000
"""The site of the head's dropout draws; levels use 0, 1, 2, …"""


class Output(NamedTuple):
    """The network's output for a batch."""

    logits: Tensor
    """[B, classes]."""
    own_loss: Tensor
    """The method's own losses, summed per level and averaged over levels; a scalar."""
    metrics: dict[str, Tensor]
    """By name, [L]: one value per level. Filled in evaluation mode only."""
    embedding: Tensor
    """[B, …] the vector of each graph that the head reads."""
    buffers: Mapping[str, Tensor] = NOTHING
    """New values of the network's buffers by name, for `Model.update`. Filled in training mode only."""
    readings: tuple[Tensor, ...] = ()
    """[B, O] outputs that pools read from parts of the graphs. Their task losses, summed per level and averaged over
    levels, are added to `own_loss`, which is computed without targets."""
    levels: int = 1
    """L, the number of pools."""


class Head(nn.ModuleList):
    """A perceptron inputs → d → d/2 → outputs with ReLUs, and dropout after its first layer."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__(nn.Linear(a, b) for a, b in pairwise((inputs, width, width // 2, outputs)))

    def forward(self, readout: Tensor, key: Tensor, dropout: float, share: Share | None = None) -> Tensor:
        """[B, inputs] → [B, outputs]. Dropout depends on a graph's position in the whole batch."""
        first, second, last = self
        hidden = F.relu(first(readout))
        if self.training and dropout > 0.0:
            hidden = hidden * self._kept(hidden, key, dropout, share) / (1.0 - dropout)
        return last(F.relu(second(hidden)))

    def _kept(self, hidden: Tensor, key: Tensor, dropout: float, share: Share | None) -> Tensor:
        """[B, d] mask of the values that dropout keeps."""
        if share is None:
            index = torch.arange(hidden.numel(), device=hidden.device)
        else:
            place = torch.from_numpy(share.place).to(hidden.device).unsqueeze(1)
            index = (place * hidden.shape[1] + torch.arange(hidden.shape[1], device=hidden.device)).flatten()
        return ops.draws(index, key, HEAD_SITE).view(hidden.shape) >= dropout


def with_descriptors(readout: Tensor, batch: Batch) -> Tensor:
    """[B, D + V″] the vector that the head reads: the readout, and the descriptors of the graphs, if any."""
    return torch.cat([readout, batch.descriptors], 1) if batch.descriptors.shape[1] else readout


class Model(nn.Module):
    """Maps a batch to an `Output`. The trainer can train any such model."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        """The trainer may set it to 0."""
        self.compact = False
        """Whether levels drop positions (faster on a CPU) or keep shapes static (for `vmap` and captured steps)."""
        self.rows: tuple[int, ...] = ()
        """With static shapes: the maximum number of nodes after each pool, if it is known in advance."""

    def check(self, graphs: GraphSet, trained: bool = False) -> None:
        """Raise UserError if the model cannot read these graphs: negative edge weights, if it divides by sums of
        weights. What to do then depends on whether the model is `trained`."""
        if graphs.edge_weight is None or graphs.n_edges == 0:
            return
        least = int(np.argmin(graphs.edge_weight))
        users = [type(m).__name__ for m in self.modules() if getattr(m, "needs_positive_weights", False)]
        if users and graphs.edge_weight[least] < 0:
            raise UserError(
                f"{graphs.name}: {place_of(graphs, 'edge_weight', least)} has the weight "
                f"{graphs.edge_weight[least]:g}; {users[0]} needs non-negative edge weights"
            )

    @torch.no_grad()
    def update(self, buffers: Mapping[str, Tensor]) -> None:
        """Write the new buffer values from a training step's `Output`."""
        for name, value in buffers.items():
            self.get_buffer(name).copy_(value)


class Network(Model):
    """head(readout(pool_1(relu(norm_1(conv_1(…)))), …, pool_L(relu(norm_L(conv_L(…)))))).

    It takes built parts: one pool per level, and the same number of convolutions for each level. `build_network` makes
    them from settings. Without `norms`, a level is pool(relu(conv(x))). With `residual`, the input of a convolution is
    added to its output if both have the same width. `directed` says that the convolutions read the direction of edges.
    The paper's readout is Σ_l [max ‖ mean] over the nodes of level l.
    """

    def __init__(
        self,
        convs: Sequence[nn.Module],
        pools: Sequence[nn.Module],
        readout: nn.Module,
        head: Head,
        norms: Sequence[nn.Module] = (),
        *,
        residual: bool = False,
        directed: bool = False,
        gate: str = "plain",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(dropout)
        self.residual, self.directed, self.gate = residual, directed, gate
        self.convs, self.pools, self.readout = nn.ModuleList(convs), nn.ModuleList(pools), readout
        self.norms, self.head = nn.ModuleList(norms), head

    def check(self, graphs: GraphSet, trained: bool = False) -> None:
        """Raise UserError if the model cannot read these graphs, or reads the direction of edges and they have none, or
        the reverse."""
        super().check(graphs, trained)
        if graphs.directed and not self.directed:
            how = ", and the model was trained on undirected graphs:" if trained else ": use directed=true, or"
            raise UserError(f"{graphs.name} is directed{how} import it without --directed")
        if self.directed and not graphs.directed:
            how = "" if graphs.name in CATALOGUE else ": import it with --directed"
            raise UserError(f"{graphs.name} is undirected, and the model reads directions{how}")
        blind = [type(pool).__name__ for pool in self.pools if getattr(pool, "needs_undirected_edges", False)]
        if self.directed and blind:
            what = f"{blind[0]} makes new edges or reads them without direction"
            raise UserError(f"{graphs.name} is directed, and {what}: use a pool that selects nodes")

    def forward(self, batch: Batch, keep: list[Tensor] | None = None) -> Output:
        """Return the output for a batch. `keep` sets the kept nodes of each level, [C] over the batch."""
        level: Level = Level.whole(batch, self.compact, self.rows, self.gate)
        x: Tensor | Batch = batch
        levels, metrics = [], []
        losses: list[Tensor] = []
        readings: tuple[Tensor, ...] = ()
        buffers: dict[str, Tensor] = {}
        share = batch.share
        for site, pool in enumerate(self.pools):
            imposed = (keep[site],) if keep else ()
            pooled = pool(self._convolved(site, x, level, share, buffers), level, *imposed)
            if not isinstance(pooled, Pooled):
                raise UserError(f"a pool must return Pooled(x, level), not a {type(pooled).__name__}")
            x, level = pooled.x, pooled.level
            levels.append((x, level))
            readings += pooled.readings
            losses += _scaled(pooled.losses, share, site).values()
            metrics.append(_scaled(pooled.metrics, share, site))
        readout = with_descriptors(self.readout(levels), batch)
        own = torch.stack(losses).sum() / len(self.pools) if losses else readout.new_zeros(())
        by_level = {name: torch.stack([m[name] for m in metrics]) for name in metrics[0]}
        logits = self.head(readout, batch.key, self.dropout, share)
        return Output(logits, own, by_level, readout, buffers, readings, len(self.pools))

    def _convolved(
        self, site: int, x: Tensor | Batch, level: Level, share: Share | None, buffers: dict[str, Tensor]
    ) -> Tensor:
        """relu(norm(conv(x))) for each convolution of a level. Adds new values of the norms' buffers to `buffers`."""
        depth = len(self.convs) // len(self.pools)
        for number in range(site * depth, (site + 1) * depth):
            if self.norms:
                normed = self.norms[number](self.convs[number](x, level), level, share)
                buffers |= {f"norms.{number}.{name}": value for name, value in normed.buffers.items()}
                out = F.relu(normed.x)
            else:
                out = self.convs[number](x, level, relu=True)
            x = out + x if self.residual and isinstance(x, Tensor) and x.shape == out.shape else out
        assert isinstance(x, Tensor)
        return x


def _scaled(values: Mapping[str, Tensor], share: Share | None, site: int) -> Mapping[str, Tensor]:
    """Return the contribution of a partial batch to the losses or metrics of the whole batch."""
    return values if share is None else {name: share.own[site] * value for name, value in values.items()}
