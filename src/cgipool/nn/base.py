"""What the layers have in common: PyG's arguments in, PyG's six results out, and a pool in between.

Shapes: N nodes, E directed edges, F features, K kept nodes.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cgipool.errors import UserError
from cgipool.level import check_ratio
from cgipool.nn.edges import Edges, KeptLevel, PyGLevel, numbering
from cgipool.pool import Pooled


class Six(NamedTuple):
    """What PyG's layers give, in its order."""

    x: Tensor
    """[K, F] the features of the kept nodes, gated."""
    edge_index: Tensor
    """[2, E'] the edges among them, renumbered."""
    edge_attr: Tensor | None
    """[E', …] what is known of these edges."""
    batch: Tensor
    """[K] the graph of each."""
    perm: Tensor
    """[K] which node each one was: graph by graph, in each by descending score."""
    score: Tensor
    """[K] what the features of each were multiplied by."""


class PoolingOutput(Six):
    """A coarsened graph: unpacks as PyG's six, and has three attributes more."""

    aux_loss: Tensor
    """The method's own loss, a scalar; 0 for a method without one."""
    scores: Mapping[str, Tensor]
    """[N] the scores of all nodes by name, as the method's paper calls them."""
    metrics: Mapping[str, Tensor]
    """Scalars that help to understand the training, by name. Filled in evaluation mode only."""

    def _replace(self, **parts: Any) -> "PoolingOutput":
        """The same with other parts; what the base class makes would lack the attributes."""
        output = PoolingOutput(*super()._replace(**parts))
        output.__dict__.update(self.__dict__)
        return output


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
    output = PoolingOutput(*six)
    output.aux_loss = sum(pooled.losses.values(), start=pooled.x.new_zeros(()))
    output.scores, output.metrics = dict(scores), dict(pooled.metrics)
    return output
