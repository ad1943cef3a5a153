"""What the layers have in common: PyG's arguments in, PyG's six results out, and a pool in between.

Shapes: N nodes, E directed edges, F features, K kept nodes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cgipool.errors import UserError
from cgipool.level import check_ratio
from cgipool.nn.edges import Edges, KeptLevel, PyGLevel, numbering
from cgipool.nn.output import PoolingOutput, Six, output_of
from cgipool.pool import Pooled


class PoolingLayer(nn.Module):
    """A pool as a layer of PyG's conventions."""

    weighted = False
    """Whether edge_attr is a weight [E] that counts; else it is only carried along."""

    def __init__(self, in_channels: int, build: Callable[[], nn.Module], attends: bool = True) -> None:
        super().__init__()
        self.in_channels = in_channels
        self._build = build
        self._attends = attends
        self.pool = build()

    @property
    def ratio(self) -> float | int:
        """The share of nodes that it keeps, or their number."""
        return self.pool.ratio  # type: ignore[return-value]

    @ratio.setter
    def ratio(self, value: float | int) -> None:
        self.pool.ratio = check_ratio(value)  # type: ignore[assignment]

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.pool.load_state_dict(self._build().state_dict())

    # A compiled model calls the layer as it is: traced, it would fall apart at every shape that follows from the data.
    @torch.compiler.disable(reason="how many nodes and edges stay follows from the data")
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
    ) -> PoolingOutput:
        """X [N, F] and edge_index [2, E] → the coarsened graph. Without a batch [N] all nodes are of one graph. A given
        attn [N, in_channels] is what the scores are computed from, in place of x."""
        if attn is not None and not self._attends:
            raise UserError(f"{self} takes no attn: its scores and the features it gives come from one layer")
        batch = edge_index.new_zeros(len(x)) if batch is None else batch
        x, attn = _columns(x), attn if attn is None else _columns(attn)
        if bool((batch[1:] < batch[:-1]).any()):
            order = torch.argsort(batch, stable=True)
            place = numbering(order, len(order))
            attn = attn if attn is None else attn[order]
            six, pooled = self._run(x[order], Edges(place[edge_index], edge_attr), batch[order], attn)
            return _output(six._replace(perm=order[six.perm]), pooled, {n: s[place] for n, s in pooled.scores.items()})
        six, pooled = self._run(x, Edges(edge_index, edge_attr), batch, attn)
        return _output(six, pooled, pooled.scores)

    def _run(self, x: Tensor, edges: Edges, batch: Tensor, attn: Tensor | None) -> tuple[Six, Pooled]:
        """What is kept of nodes that come graph by graph. Under autocast too in the precision of the weights: scores
        are there to be told apart."""
        given, device = x.dtype, x.device.type
        if torch.is_autocast_enabled(device):
            full = next(self.parameters()).dtype
            x, attn = x.to(full), attn if attn is None else attn.to(full)
        with torch.autocast(device, enabled=False):
            level = PyGLevel.of(batch, edges, x.dtype, self.weighted, None if attn is None else x)
            pooled = self.pool(x if attn is None else attn, level)
            six = self._six(pooled, batch)
        return six._replace(x=six.x.to(given)), pooled

    def _six(self, pooled: Pooled, batch: Tensor) -> Six:
        """PyG's results out of ours."""
        kept = pooled.level
        assert isinstance(kept, KeptLevel)
        return Six(pooled.x, *kept.edges, batch[kept.position], kept.position, kept.gate)


def _columns(x: Tensor) -> Tensor:
    """[N] is read as [N, 1]."""
    return x.unsqueeze(1) if x.ndim == 1 else x


def _output(six: Six, pooled: Pooled, scores: Mapping[str, Tensor]) -> PoolingOutput:
    x, aux_loss = six.x, sum(pooled.losses.values(), start=pooled.x.new_zeros(()))
    if aux_loss.requires_grad and torch.distributed.is_available() and torch.distributed.is_initialized():
        x, aux_loss = _Joined.apply(x, aux_loss)
    return output_of(six._replace(x=x), aux_loss, dict(scores), dict(pooled.metrics))


class _Joined(torch.autograd.Function):
    """The features and the loss as they are, in one node of the autograd graph.

    DistributedDataParallel looks for unused weights from the six parts of an output: from x it then finds those that
    only the loss uses.
    """

    @staticmethod
    def forward(x: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
        return x.view_as(x), loss.view_as(loss)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, by_x: Tensor | None, by_loss: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        return by_x, by_loss
