"""The layers, one for each method that selects nodes, and `unpool`, which undoes pooling as in a graph U-Net.

The attribute `pool` of a layer is a module of `cgipool.pool`, whose docstring has the equations. A ratio is a share of
each graph's nodes (1.0: all nodes) or, as an int, their number.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool.errors import UserError, unknown
from cgipool.model.level.dense import DenseLevel
from cgipool.nn.base import PoolingLayer, PoolingOutput, PyGOutput
from cgipool.nn.edges import PyGLevel, edges_of, numbering, ranking
from cgipool.pool import ASAP, CGIPool, Pooled, ReleasedCGIPool, SAGPool, TopKPool, VIPool

FORMS = {"paper": CGIPool, "released": ReleasedCGIPool}

UNSUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "min_score": ((None,), "the ratio determines the number of kept nodes"),
    "multiplier": ((1,), "multiply the returned features instead"),
    "nonlinearity": (("tanh", torch.tanh, F.tanh), "the gate is fixed"),
}
"""Arguments of PyG's layers by name: the accepted values, which have no effect, and why others are not supported."""


class CGIPooling(PoolingLayer):
    """Top-k by the difference of a real and a fake score, trained by coarsened graph infomax (SIGIR 2021).

    The scores come from one GNN with two channels (one channel with random negatives): our GCN, or GNN(in_channels,
    channels, **kwargs) of any class with PyG's interface. Add `aux_loss`, the mutual-information loss, to the loss of
    the task with a weight: 0.001 in the paper, 1 on PROTEINS.
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
        _check_usual(self, **{name: kwargs.pop(name) for name in UNSUPPORTED if name in kwargs})
        if form not in FORMS:
            raise unknown("form", form, FORMS)
        if form == "released" and GNN is not None:
            raise UserError("the released form of CGIPooling has its own scorers; use form='paper' with a GNN class")
        pool = partial(FORMS[form], in_channels, ratio, mi=mi, negative=negative)
        channels = 2 if negative == "learned" else 1
        super().__init__(in_channels, _with_gnn(pool, GNN, in_channels, channels, kwargs), attends=form == "paper")
        self.form = form

    def __repr__(self) -> str:
        gnn = _gnn_name(self.pool) if self.form == "paper" else "GraphConv"
        plain = {"mi": (self.pool.mi, "gan"), "negative": (self.pool.negative, "learned"), "form": (self.form, "paper")}
        return _repr(self, gnn, **{name: value for name, (value, usual) in plain.items() if value != usual})


class VIPooling(PoolingLayer):
    """Top-k by the mutual information of a vertex and its neighbourhood, within `hops` hops (VIPool, NeurIPS 2020).

    `aux_loss` is the vertex-infomax loss. The authors weight it by 2 − epoch / number of epochs.
    """

    def __init__(self, in_channels: int, ratio: float | int = 0.8, hops: int = 1) -> None:
        super().__init__(in_channels, partial(VIPool, in_channels, ratio, hops=hops))
        self.hops = hops

    def __repr__(self) -> str:
        return _repr(self, **{"hops": self.hops} if self.hops > 1 else {})


class SAGPooling(PoolingLayer):
    """Top-k by the score of a graph convolution (ICML 2019): our GCN, or GNN(in_channels, 1, **kwargs).

    PyG's layer of this name multiplies the score by a weight of random sign; this one does not. Only PyG's defaults of
    `min_score`, `multiplier` and `nonlinearity` are supported.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
        **kwargs: Any,
    ) -> None:
        _check_usual(self, min_score=min_score, multiplier=multiplier, nonlinearity=nonlinearity)
        super().__init__(in_channels, _with_gnn(partial(SAGPool, in_channels, ratio), GNN, in_channels, 1, kwargs))

    def __repr__(self) -> str:
        return _repr(self, _gnn_name(self.pool))


class TopKPooling(PoolingLayer):
    """Top-k by the projection on a learned direction (Graph U-Nets, ICML 2019).

    Only PyG's defaults of `min_score`, `multiplier` and `nonlinearity` are supported.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
    ) -> None:
        _check_usual(self, min_score=min_score, multiplier=multiplier, nonlinearity=nonlinearity)
        super().__init__(in_channels, partial(TopKPool, in_channels, ratio))

    def __repr__(self) -> str:
        return _repr(self)


class ASAPooling(PoolingLayer):
    """Top-k of attentive one-hop clusters by their fitness, joined by weighted edges (ASAP, AAAI 2020).

    edge_weight [E] are the weights of the edges; the result has weights too. Parallel edges are merged and their
    weights added. The features that the clusters attend to come from our GCN, or from
    GNN(in_channels, in_channels, **kwargs), which is called with a self-loop at every node, and with edge_weight if
    there are weights. As in PyG, `dropout` acts on the attention coefficients in training, `negative_slope` is the
    slope of the leaky ReLU before their softmax, and `add_self_loops` keeps the diagonal of the new adjacency.
    """

    weighted = True

    def __init__(
        self,
        in_channels: int,
        ratio: float | int = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        dropout: float = 0.0,
        negative_slope: float = 0.2,
        add_self_loops: bool = False,
        **kwargs: Any,
    ) -> None:
        if not 0.0 <= dropout <= 1.0:
            raise UserError(f"ASAPooling: dropout must be a probability, not {dropout!r}")
        pool = partial(ASAP, in_channels, ratio, slope=negative_slope, dropout=dropout, loops=add_self_loops)
        build = _with_gnn(pool, GNN, in_channels, in_channels, kwargs, loops=True)
        super().__init__(in_channels, build, attends=False)
        self.dropout, self.negative_slope, self.add_self_loops = dropout, negative_slope, add_self_loops

    @torch.compiler.disable(reason="the number of nodes and edges that are kept depends on the data")
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        *,
        edge_attr: Tensor | None = None,
    ) -> PoolingOutput:
        """Coarsen the graphs with features x [N, F] and edges edge_index [2, E].

        The weights of the edges are `edge_weight`, as in PyG's layer, or `edge_attr` [E], as in the other layers here.
        An edge_attr [E, D, …] are features of edges with weight 1; each new edge then has the mean features of the
        edges that it merges instead of a weight.
        """
        if edge_weight is not None and edge_attr is not None:
            raise UserError("ASAPooling: edge_weight and edge_attr are both given; give only one of them")
        given = edge_weight if edge_attr is None else edge_attr
        out = super().forward(x, edge_index, given, batch, attn)
        if given is None or given.ndim < 3:
            return out
        return out._replace(edge_attr=out[2].view(len(out[2]), *given.shape[1:]))

    def _six(self, pooled: Pooled, batch: Tensor) -> PyGOutput:
        level = pooled.level
        assert isinstance(level, DenseLevel)
        fitness = pooled.scores["phi"][level.position]
        order = ranking(level.graph, fitness)
        edges, perm = edges_of(level, self.add_self_loops), level.position[order]
        return PyGOutput(
            pooled.x[order], numbering(order, len(order))[edges.pairs], edges.attr, batch[perm], perm, fitness[order]
        )

    def __repr__(self) -> str:
        usual = {"dropout": 0.0, "negative_slope": 0.2, "add_self_loops": False}
        return _repr(self, **{name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]})


class ForeignGNN(nn.Module):
    """A GNN with PyG's interface instead of our GCN. It receives all edges unchanged or, with `loops`, those of
    A + I."""

    def __init__(self, layer: nn.Module, channels: int, loops: bool) -> None:
        super().__init__()
        self.layer, self.channels, self.loops = layer, channels, loops

    def forward(self, x: Tensor, level: PyGLevel) -> Tensor:
        """Return [C, channels]."""
        pairs, attr = level.looped() if self.loops else level.edges
        out = self.layer(x, pairs, edge_weight=attr) if level.weighted else self.layer(x, pairs)
        if out.shape[1:] != (self.channels,):
            name, shape = type(self.layer).__name__, " × ".join(map(str, out.shape[1:]))
            raise UserError(f"{name} returns {shape} numbers for each node instead of {self.channels}")
        return out


def _check_usual(layer: PoolingLayer, **given: Any) -> None:
    """Raise UserError for values of PyG's arguments that our layers do not support."""
    for name, value in given.items():
        usual, reason = UNSUPPORTED[name]
        if value not in usual:
            raise UserError(f"{type(layer).__name__} does not support {name}={value!r}: {reason}")


def _with_gnn(
    pool: Callable[[], nn.Module],
    GNN: Callable[..., nn.Module] | None,
    inputs: int,
    channels: int,
    options: Any,
    loops: bool = False,
) -> Callable[[], nn.Module]:
    """Return a function that builds the pool, with a GNN of the given class if there is one."""
    if GNN is not None:
        return partial(_exchanged, pool, partial(GNN, inputs, channels, **options), channels, loops)
    if options:
        raise UserError(f"unknown arguments {', '.join(options)}: they are for a GNN class, but GNN is not given")
    return pool


def _exchanged(pool: Callable[[], nn.Module], gnn: Callable[[], nn.Module], channels: int, loops: bool) -> nn.Module:
    built = pool()
    built.gnn = ForeignGNN(gnn(), channels, loops)
    return built


def _gnn_name(pool: nn.Module) -> str:
    return type(pool.gnn.layer if isinstance(pool.gnn, ForeignGNN) else pool.gnn).__name__


def _repr(layer: PoolingLayer, *first: str, **options: Any) -> str:
    """Return the repr in the style of PyG's layers."""
    named = {"ratio": layer.ratio, **options}
    shown = [*first, str(layer.in_channels), *(f"{name}={value!r}" for name, value in named.items())]
    return f"{type(layer).__name__}({', '.join(shown)})"


def unpool(x_coarse: Tensor, perm: Tensor | Sequence[Tensor], num_nodes: int) -> Tensor:
    """Return [N, F]: the features of the kept nodes at their original nodes, zeros elsewhere.

    `perm` is the `perm` of a layer; for several layers in a row, a list with the `perm` of each, in order.
    `num_nodes` is the number of input nodes of the (first) layer.
    """
    first, *later = [perm] if isinstance(perm, Tensor) else perm
    for kept in later:
        first = first[kept]
    if len(first) != len(x_coarse):
        raise UserError(f"unpool: perm has {len(first)} nodes, but x_coarse has {len(x_coarse)}")
    return x_coarse.new_zeros(num_nodes, *x_coarse.shape[1:]).index_copy(0, first, x_coarse)
