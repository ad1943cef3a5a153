"""The layers, one for each method that keeps nodes.

Each one holds as `pool` the module of `cgipool.pool` that does the work; there are the equations. A ratio is a share of
each graph's nodes, 1.0 being all of them, or, as an int, their number.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from cgipool.dense import DenseLevel
from cgipool.errors import UserError, unknown
from cgipool.nn.base import PoolingLayer, Six
from cgipool.nn.edges import PyGLevel, edges_of, numbering, ranking
from cgipool.pool import ASAP, CGIPool, Pooled, ReleasedCGIPool, SAGPool, TopKPool, VIPool

FORMS = {"paper": CGIPool, "released": ReleasedCGIPool}


class CGIPooling(PoolingLayer):
    """Top-k by the difference of a real and a fake score, trained by coarsened graph infomax (SIGIR 2021).

    The scores are those of one GNN with two channels (one with random negatives): our GCN, or GNN(in_channels,
    channels, **kwargs) of any class of PyG's conventions. `aux_loss` is the mutual-information loss, to be added to
    that of the task with a weight: 0.001 in the paper, on PROTEINS 1.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.8,
        GNN: Callable[..., nn.Module] | None = None,
        mi: str = "gan",
        negative: str = "learned",
        form: str = "paper",
        **kwargs: Any,
    ) -> None:
        if form not in FORMS:
            raise unknown("form", form, FORMS)
        if form == "released" and GNN is not None:
            raise UserError("CGIPooling's released form has scorers of its own: a GNN class goes with form='paper'")
        pool = partial(FORMS[form], in_channels, ratio, mi=mi, negative=negative)
        channels = 2 if negative == "learned" else 1
        super().__init__(in_channels, _with_gnn(pool, GNN, in_channels, channels, kwargs), attends=form == "paper")
        self.form = form

    def __repr__(self) -> str:
        gnn = _gnn_name(self.pool) if self.form == "paper" else "GraphConv"
        plain = {"mi": (self.pool.mi, "gan"), "negative": (self.pool.negative, "learned"), "form": (self.form, "paper")}
        return _repr(self, gnn, **{name: value for name, (value, usual) in plain.items() if value != usual})


class VIPooling(PoolingLayer):
    """Top-k by the mutual information of a vertex and its neighbourhood, of so many hops (VIPool, NeurIPS 2020).

    `aux_loss` is the vertex-infomax loss; the authors weigh it by 2 at first, by 1 from epoch 1000 on.
    """

    def __init__(self, in_channels: int, ratio: float | int = 0.8, hops: int = 1) -> None:
        super().__init__(in_channels, partial(VIPool, in_channels, ratio, hops=hops))
        self.hops = hops

    def __repr__(self) -> str:
        return _repr(self, **{"hops": self.hops} if self.hops > 1 else {})


class SAGPooling(PoolingLayer):
    """Top-k by the score of a graph convolution (ICML 2019): our GCN, or GNN(in_channels, 1, **kwargs).

    Without the weight of random sign that PyG's layer of this name multiplies the score by.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, _with_gnn(partial(SAGPool, in_channels, ratio), GNN, in_channels, 1, kwargs))

    def __repr__(self) -> str:
        return _repr(self, _gnn_name(self.pool))


class TopKPooling(PoolingLayer):
    """Top-k by the projection on a learned direction (Graph U-Nets, ICML 2019)."""

    def __init__(self, in_channels: int, ratio: float | int = 0.5) -> None:
        super().__init__(in_channels, partial(TopKPool, in_channels, ratio))

    def __repr__(self) -> str:
        return _repr(self)


class ASAPooling(PoolingLayer):
    """Top-k of attentive one-hop clusters by their fitness, joined by weighted edges (ASAP, AAAI 2020).

    A given edge_attr [E] is the weight of the edges, and so is what is given back; parallel edges are one with the sum
    of their weights. The features that the clusters attend to come from our GCN, or from
    GNN(in_channels, in_channels, **kwargs), which is called with edge_weight where there are weights.
    """

    weighted = True

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        **kwargs: Any,
    ) -> None:
        pool = partial(ASAP, in_channels, ratio)
        super().__init__(in_channels, _with_gnn(pool, GNN, in_channels, in_channels, kwargs), attends=False)

    def _six(self, pooled: Pooled, batch: Tensor) -> Six:
        level = pooled.level
        assert isinstance(level, DenseLevel)
        fitness = pooled.scores["phi"][level.position]
        order = ranking(level.graph, fitness)
        edges, perm = edges_of(level), level.position[order]
        return Six(
            pooled.x[order], numbering(order, len(order))[edges.pairs], edges.attr, batch[perm], perm, fitness[order]
        )

    def __repr__(self) -> str:
        return _repr(self)


class ForeignGNN(nn.Module):
    """A GNN of PyG's conventions in the place of our GCN."""

    def __init__(self, layer: nn.Module, channels: int) -> None:
        super().__init__()
        self.layer, self.channels = layer, channels

    def forward(self, x: Tensor, level: PyGLevel) -> Tensor:
        """[C, channels]"""
        pairs, attr = level.edges
        out = self.layer(x, pairs, edge_weight=attr) if level.weighted else self.layer(x, pairs)
        if out.shape[1:] != (self.channels,):
            name, shape = type(self.layer).__name__, " × ".join(map(str, out.shape[1:]))
            raise UserError(f"{name} gives {shape} numbers for each node, where {self.channels} are needed")
        return out


def _with_gnn(
    pool: Callable[[], nn.Module], GNN: Callable[..., nn.Module] | None, inputs: int, channels: int, options: Any
) -> Callable[[], nn.Module]:
    """What builds the pool, with a GNN of that class if one is named."""
    if GNN is not None:
        return partial(_exchanged, pool, partial(GNN, inputs, channels, **options), channels)
    if options:
        raise UserError(f"unknown arguments {', '.join(options)}: without a GNN class there is nothing to pass them to")
    return pool


def _exchanged(pool: Callable[[], nn.Module], gnn: Callable[[], nn.Module], channels: int) -> nn.Module:
    built = pool()
    built.gnn = ForeignGNN(gnn(), channels)
    return built


def _gnn_name(pool: nn.Module) -> str:
    return type(pool.gnn.layer if isinstance(pool.gnn, ForeignGNN) else pool.gnn).__name__


def _repr(layer: PoolingLayer, *first: str, **options: Any) -> str:
    """In the style of PyG's layers."""
    named = {"ratio": layer.ratio, **options}
    told = [*first, str(layer.in_channels), *(f"{name}={value!r}" for name, value in named.items())]
    return f"{type(layer).__name__}({', '.join(told)})"
