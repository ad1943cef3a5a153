"""The types that all pooling methods share."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from torch import Tensor

from cgipool.errors import UserError
from cgipool.model.level import Level

NOTHING: Mapping[str, Tensor] = MappingProxyType({})


class Pooled(NamedTuple):
    """A coarsened graph."""

    x: Tensor
    """[C, F] features; 0 where a node was dropped."""
    level: Level
    """The level after pooling: its living nodes and edges."""
    losses: Mapping[str, Tensor] = NOTHING
    """The method's own losses of this level by name, each a scalar."""
    metrics: Mapping[str, Tensor] = NOTHING
    """Diagnostics of the training by name, each a scalar. Filled in evaluation mode only."""
    scores: Mapping[str, Tensor] = NOTHING
    """[C] the scores of the nodes, by their names in the method's paper."""
    readings: tuple[Tensor, ...] = ()
    """[B, O] outputs read from parts of the graph. Their task losses are added to the method's own losses."""


class Sizes(NamedTuple):
    """Sizes of the training graphs, for methods with fixed shapes."""

    mean: float
    """Mean number of nodes."""
    percentile60: int
    """The smallest number of nodes that at least 60 % of the graphs do not exceed."""

    @classmethod
    def of(cls, nodes: Sequence[int] | np.ndarray) -> "Sizes":
        """The sizes for graphs with these numbers of nodes."""
        ascending = np.sort(np.asarray(nodes))
        return cls(float(ascending.mean()), int(ascending[-(-3 * len(ascending) // 5) - 1]))


def sizes_for(method: str, sizes: Sizes | None) -> Sizes:
    """Return the sizes. Raise UserError if they are None."""
    if sizes is None:
        raise UserError(f"{method} has shapes that depend on the training graphs; it needs their sizes")
    return sizes


def cluster_count(method: str, ratio: float | int, site: int, sizes: Sizes | None) -> int:
    """The number of clusters of a graph after the pool of level `site`: ⌈ratio · mean size of the training graphs⌉
    after the first pool, ⌈ratio · previous number⌉ after each further one. An int ratio is the number itself."""
    if isinstance(ratio, int):
        return ratio
    clusters = sizes_for(method, sizes).mean
    for _ in range(site + 1):
        # In floating point, unlike `kept_of`, because this number determines the shapes of saved weights.
        clusters = math.ceil(ratio * clusters)
    return int(clusters)
