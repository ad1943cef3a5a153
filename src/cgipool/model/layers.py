"""Graph convolutions, one formula each. They act on a `Level`, so a coarsened graph needs no special case.

Shapes: x is [C, in], or the batch itself for a layer that reads the input features; the result is [C, out]. With
`relu`, the layer applies a ReLU to its result, which some layers fuse. A is the adjacency, weighted if edges have
weights.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.model.level import Level


@dataclass(frozen=True)
class InputSize:
    """The width of the input features."""

    columns: int
    """One-hot columns."""
    floats: int = 0
    """Float columns."""
    silent: tuple[int, ...] = ()
    """One-hot columns for values that do not occur in training."""
    edges: "InputSize | None" = None
    """The width of the edge features; None if there are none or they are not read."""
    descriptors: int = 0
    """The number of graph descriptors, which are concatenated to the readout."""

    @property
    def width(self) -> int:
        """The number of all columns."""
        return self.columns + self.floats


Width = int | InputSize


class _InputWeight(nn.Module):
    """One row of weights for each input column, one-hot columns first.

    The silent rows start at 0 and stay there, because training never looks them up: a category that does not occur in
    training contributes nothing.
    """

    def __init__(self, size: InputSize, out: int) -> None:
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.empty(size.width, out))

    def reset(self, bound: float) -> None:
        """Uniform within ± bound."""
        nn.init.uniform_(self.weight, -bound, bound)
        with torch.no_grad():
            self.weight[list(self.size.silent)] = 0.0

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"{self.size.columns} one-hot + {self.size.floats} float columns, {self.weight.shape[1]}"


class InputLinear(_InputWeight):
    """X W for the input features X of a batch; X itself, mostly one-hot, is never built."""

    def forward(self, batch: Batch) -> Tensor:
        """Look rows up and add them."""
        columns = self.size.columns
        if not self.size.floats:
            return ops.lookup(self.weight, batch.category)
        dense = batch.floats @ self.weight[columns:]
        return dense + ops.lookup(self.weight[:columns], batch.category) if columns else dense


class EdgeTerms(NamedTuple):
    """The embedded features of a level's edges: entry i has table[code[i]]."""

    table: Tensor
    """[T, out]."""
    code: Tensor
    """[E] int32."""
    back: Tensor
    """[E] int32: the rows of the reverse edges."""
    each: bool
    """Whether every entry has its own row."""


class EdgeLinear(_InputWeight):
    """e W for the input features e of the edges, categories and floats.

    Without floats, only the few distinct kinds of edges are embedded, not every edge.
    """

    def __init__(self, size: InputSize, out: int) -> None:
        super().__init__(size, out)
        self.reset(1.0 / math.sqrt(max(size.width, 1)))

    def forward(self, level: Level) -> EdgeTerms:
        """Embed the features of a level's edges."""
        data, number = level.origin.edges, level.edge_numbers
        if data is None or not (len(data.code) or len(data.floats)):  # a batch without a single edge
            nothing = torch.zeros_like(level.lists[1])
            return EdgeTerms(self.weight.new_zeros(1, self.weight.shape[1]), nothing, nothing, False)
        reverse = number if not len(data.reverse) else data.reverse.index_select(0, number)
        columns = self.size.columns
        if not self.size.floats:
            table = ops.lookup(self.weight[:columns], data.kind)
            return EdgeTerms(table, data.code.index_select(0, number), data.code.index_select(0, reverse), False)
        table = data.floats @ self.weight[columns:]
        if columns:
            table = table + ops.lookup(self.weight[:columns], data.kind.index_select(0, data.code))
        return EdgeTerms(table, number, reverse, True)


NARROW = 8
"""Projections to at most this many columns are bound by reading x; they use `ops.project`, not a matrix product."""


class Linear(nn.Linear):
    """x Wᵀ without a bias."""

    def __init__(self, inputs: int, out: int) -> None:
        super().__init__(inputs, out, bias=False)

    def reset(self, bound: float) -> None:
        """Uniform within ± bound."""
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """[C, in] → [C, out]."""
        return ops.project(x, self.weight) if self.out_features <= NARROW else super().forward(x)


def _linear(width: Width, out: int) -> Linear | InputLinear:
    if isinstance(width, InputSize):
        return InputLinear(width, out)
    return Linear(width, out)


def _width(width: Width) -> int:
    return width.width if isinstance(width, InputSize) else width


def _glorot(width: Width, out: int) -> float:
    """The bound of uniform initial weights in the GCN paper, after Glorot and Bengio (2010)."""
    return math.sqrt(6.0 / (_width(width) + out))


class GCN(nn.Module):
    """Â (x W) + b, with Â = D^-½ (A + I) D^-½ (Kipf and Welling, 2017)."""

    needs_positive_weights = True

    def __init__(self, width: Width, out: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = _linear(width, out)
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        self.linear.reset(_glorot(width, out))

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """One step of propagation, and a ReLU if `relu`."""
        if self.bias is None:
            return _activated(level.propagate(self.linear(x)), relu)
        return level.convolve(self.linear(x), self.bias, relu)


class RootGCN(nn.Module):
    """Â (x W) + b + x W_s: a GCN plus a linear layer of the node itself."""

    def __init__(self, width: Width, out: int, bias: bool = True) -> None:
        super().__init__()
        self.gcn = GCN(width, out, bias)
        self.root = _linear(width, out)
        self.root.reset(_glorot(width, out))

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """One step of propagation, and a ReLU if `relu`."""
        return _activated(self.gcn(x, level) + self.root(x), relu)


class _RootAndNeighbors(nn.Module):
    """aggregate(x) W_n + b + x W_s: one weight for the neighbours, another one for the node itself."""

    def __init__(self, width: Width, out: int, bias: bool = True) -> None:
        super().__init__()
        self.neighbors = _linear(width, out)
        self.root = _linear(width, out)
        bound = 1.0 / math.sqrt(_width(width))
        self.bias = nn.Parameter(torch.empty(out).uniform_(-bound, bound)) if bias else None
        self.neighbors.reset(bound)
        self.root.reset(bound)
        self.project_first = out < _width(width)

    def _sum(self, x: Tensor | Batch, aggregate: Callable[[Tensor], Tensor]) -> Tensor:
        # Projection and aggregation commute; aggregating on the narrower side is cheaper.
        if self.project_first or isinstance(x, Batch):
            around = aggregate(self.neighbors(x))
        else:
            around = self.neighbors(aggregate(x))
        return (around if self.bias is None else around + self.bias) + self.root(x)


def _activated(x: Tensor, relu: bool) -> Tensor:
    return F.relu(x, inplace=True) if relu else x


class SAGE(_RootAndNeighbors):
    """(D⁻¹ A x) W_n + b + x W_s: GraphSAGE with the mean aggregator (Hamilton et al., 2017)."""

    needs_positive_weights = True

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """Aggregate by the mean over neighbours."""
        return _activated(self._sum(x, level.neighbor_mean), relu)


class GraphConv(_RootAndNeighbors):
    """(A x) W_n + b + x W_s: the first-order form of Morris et al. (2019)."""

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """Aggregate by the sum over neighbours."""
        return _activated(self._sum(x, level.neighbor_sum), relu)


class GIN(nn.Module):
    """relu((x + A x) W_1 + b_1) W_2 + b_2: the isomorphism network with ε = 0 (Xu et al., 2019)."""

    def __init__(self, width: Width, out: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = _linear(width, out)
        bound = 1.0 / math.sqrt(_width(width))
        self.linear.reset(bound)
        self.bias = nn.Parameter(torch.empty(out).uniform_(-bound, bound))
        self.second = nn.Linear(out, out, bias=bias)

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """Apply a perceptron to the sum over the node and its neighbours."""
        projected = self.linear(x)  # projection and sum commute
        hidden = level.sum_with_neighbors(projected, self.bias)
        return _activated(self.second(hidden), relu)


class GINE(nn.Module):
    """relu((x + Σ_j a_ij relu(x_j + e_ij W_e)) W_1 + b_1) W_2 + b_2: GIN with edge features, ε = 0 (Hu et al., 2020:
    Strategies for Pre-training Graph Neural Networks).

    Messages need node and edge features of the same width, so the first layer embeds its input. Without edge features e
    is 0.
    """

    reads_edges = True

    def __init__(self, width: Width, out: int, bias: bool = True, edges: InputSize | None = None) -> None:
        super().__init__()
        self.embed = InputLinear(width, out) if isinstance(width, InputSize) else None
        inputs = out if isinstance(width, InputSize) else width
        if self.embed is not None:
            self.embed.reset(_glorot(width, out))
        bound = 1.0 / math.sqrt(inputs)
        self.linear = Linear(inputs, out)
        self.linear.reset(bound)
        self.bias = nn.Parameter(torch.empty(out).uniform_(-bound, bound))
        self.second = nn.Linear(out, out, bias=bias)
        self.edges = None if edges is None else EdgeLinear(edges, inputs)

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """Apply a perceptron to the node plus the sum of its messages."""
        h: Tensor = x if self.embed is None else self.embed(x)  # type: ignore[assignment]
        if self.edges is None:
            around = level.neighbor_sum(F.relu(h))
        else:
            table, code, back, each = self.edges(level)
            around = ops.gine(h, table, level.alive, *level.lists, code, back, *level.entry_weights, each)
        hidden = F.relu(self.linear(h + around) + self.bias)
        return _activated(self.second(hidden), relu)


HEADS = 4
"""Number of attention heads, if it divides the width; Shi et al. use 2 to 4 per layer."""


class TransformerConv(nn.Module):
    """Σ_j α_ij (x_j W_v + e_ij W_e) + x W_s + b with α_ij = softmax_j (x_i W_q + b_q) · (x_j W_k + e_ij W_e) / √d, for
    each head (Shi et al., 2021: Masked Label Prediction). An edge of weight a counts as a parallel edges.

    Keys and values have no bias: a bias of the keys cancels in the softmax, and b does the work of a bias of the
    values for every node that has neighbours.
    """

    reads_edges = True
    needs_positive_weights = True

    def __init__(self, width: Width, out: int, bias: bool = True, edges: InputSize | None = None) -> None:
        super().__init__()
        self.heads = math.gcd(HEADS, out)
        self.query, self.key, self.value, self.root = (_linear(width, out) for _ in range(4))
        bound = 1.0 / math.sqrt(_width(width))
        for linear in (self.query, self.key, self.value, self.root):
            linear.reset(bound)
        self.query_bias = nn.Parameter(torch.zeros(out))
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        self.edges = None if edges is None else EdgeLinear(edges, out)

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """Attend to the neighbours."""
        query, key, value = self.query(x) + self.query_bias, self.key(x), self.value(x)
        row_ptr, neighbor = level.lists
        if self.edges is None:
            table, code, each = value.new_zeros(1, value.shape[1]), torch.zeros_like(neighbor), False
            back = code
        else:
            table, code, back, each = self.edges(level)
        lists = (level.alive, row_ptr, neighbor, code, back, *level.entry_weights)
        out = ops.attend(query, key, value, table, *lists, self.heads, each)[0] + self.root(x)
        return _activated(out if self.bias is None else out + self.bias, relu)


class BothWays(nn.Module):
    """½ (conv_in(x, A) + conv_out(x, Aᵀ)): one convolution along the edges and one against them (after Rossi et al.,
    2023: Edge Directionality Improves Learning on Heterophilic Graphs, with α = ½)."""

    def __init__(self, along: nn.Module, against: nn.Module) -> None:
        super().__init__()
        self.along, self.against = along, against

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """The mean of both."""
        return _activated(0.5 * (self.along(x, level) + self.against(x, level.reversed)), relu)


CONVOLUTIONS = {"gcn": GCN, "gcn-root": RootGCN, "sage": SAGE, "gin": GIN, "gine": GINE, "transformer": TransformerConv}
"""The backbone's convolutions by name. Each can be built without its last bias."""


def convolution(
    name: str, width: Width, out: int, bias: bool, edges: InputSize | None, directed: bool = False
) -> nn.Module:
    """Build a convolution by name. `edges` is the width of the edge features, for convolutions that read them. With
    `directed`, there is one convolution for each direction."""
    if directed:
        return BothWays(*(convolution(name, width, out, bias, edges) for _ in range(2)))
    built: Callable[..., nn.Module] = CONVOLUTIONS[name]
    return built(width, out, bias, edges) if hasattr(built, "reads_edges") else built(width, out, bias)
