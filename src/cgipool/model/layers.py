"""Graph convolutions, each told by one formula. They act on a `Level`, so a coarsened graph needs no special case.

Shapes: x is [C, in], or the batch itself for a layer that reads the input features; the result is [C, out]. With
`rectify` a ReLU follows, which some layers compute on the way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

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
    """One-hot columns that stand for what training never shows."""

    @property
    def width(self) -> int:
        """All columns."""
        return self.columns + self.floats


Width = int | InputSize


class InputLinear(nn.Module):
    """X W for the input features X of a batch; X itself, mostly one-hot, is never built.

    Row v of the weight belongs to input column v, one-hot columns first. The silent rows start at 0 and, never being
    looked up in training, stay there: a category that was not seen in training contributes nothing.
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

    def forward(self, batch: Batch) -> Tensor:
        """Looks rows up and adds them."""
        columns = self.size.columns
        if not self.size.floats:
            return ops.lookup(self.weight, batch.category)
        dense = batch.floats @ self.weight[columns:]
        return dense + ops.lookup(self.weight[:columns], batch.category) if columns else dense

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"{self.size.columns} one-hot + {self.size.floats} float columns, {self.weight.shape[1]}"


NARROW = 8
"""A projection to so few columns is a reading of x, not a matrix product."""


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

    def __init__(self, width: Width, out: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = _linear(width, out)
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        self.linear.reset(_glorot(width, out))

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """One step of propagation, with a ReLU behind it if asked for."""
        if self.bias is None:
            return _activated(level.propagate(self.linear(x)), relu)
        return level.convolve(self.linear(x), self.bias, relu)


class RootGCN(nn.Module):
    """Â (x W) + b + x W_s: a GCN, and beside it the node itself through a weight of its own."""

    def __init__(self, width: Width, out: int, bias: bool = True) -> None:
        super().__init__()
        self.gcn = GCN(width, out, bias)
        self.root = _linear(width, out)
        self.root.reset(_glorot(width, out))

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """One step of propagation, with a ReLU behind it if asked for."""
        return _activated(self.gcn(x, level) + self.root(x), relu)


class _RootAndNeighbors(nn.Module):
    """aggregate(x) W_n + b + x W_s: the neighbours through one weight, the node itself through another."""

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
        # Projection and aggregation commute; the narrower side of the projection is the cheaper one to aggregate.
        if self.project_first or isinstance(x, Batch):
            around = aggregate(self.neighbors(x))
        else:
            around = self.neighbors(aggregate(x))
        return (around if self.bias is None else around + self.bias) + self.root(x)


def _activated(x: Tensor, relu: bool) -> Tensor:
    return F.relu(x, inplace=True) if relu else x


class SAGE(_RootAndNeighbors):
    """(D⁻¹ A x) W_n + b + x W_s: GraphSAGE with the mean aggregator (Hamilton et al., 2017)."""

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """The mean over neighbours."""
        return _activated(self._sum(x, level.neighbor_mean), relu)


class GraphConv(_RootAndNeighbors):
    """(A x) W_n + b + x W_s: the first-order form of Morris et al. (2019)."""

    def forward(self, x: Tensor | Batch, level: Level, relu: bool = False) -> Tensor:
        """The sum over neighbours."""
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
        """The sum over the node and its neighbours, through a perceptron."""
        projected = self.linear(x)  # projection and sum commute
        hidden = F.relu(projected + level.neighbor_sum(projected) + self.bias)
        return _activated(self.second(hidden), relu)


CONVOLUTIONS = {"gcn": GCN, "gcn-root": RootGCN, "sage": SAGE, "gin": GIN}
"""The backbone's convolutions by name. Each may be built without the bias that it adds last."""
