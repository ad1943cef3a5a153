"""What every pooling method takes and gives."""

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
    """Who is alive now."""
    losses: Mapping[str, Tensor] = NOTHING
    """The method's own losses of this level by name, each a scalar."""
    metrics: Mapping[str, Tensor] = NOTHING
    """What helps to understand the training, by name, each a scalar. Filled in evaluation mode only."""
    scores: Mapping[str, Tensor] = NOTHING
    """[C] the scores of the nodes by name, as the method's paper calls them."""
    readings: tuple[Tensor, ...] = ()
    """[B, O] outputs read from parts of the graph; their task losses count as own losses of the method."""


class Sizes(NamedTuple):
    """How large the training graphs are, as far as methods with fixed shapes ask."""

    mean: float
    """Mean number of nodes."""
    percentile60: int
    """The least number of nodes that at least 60 % of the graphs do not exceed."""

    @classmethod
    def of(cls, nodes: Sequence[int] | np.ndarray) -> "Sizes":
        """Of graphs with these numbers of nodes."""
        ascending = np.sort(np.asarray(nodes))
        return cls(float(ascending.mean()), int(ascending[-(-3 * len(ascending) // 5) - 1]))


def sizes_for(method: str, sizes: Sizes | None) -> Sizes:
    """The sizes, if they are given."""
    if sizes is None:
        raise UserError(f"{method} has shapes that follow from the training graphs: give their sizes")
    return sizes


def cluster_count(method: str, ratio: float | int, site: int, sizes: Sizes | None) -> int:
    """How many clusters a graph has after the pool of level `site`: ⌈ratio · mean size of the training graphs⌉ after
    the first, ⌈ratio · as many as before⌉ after the next ones. A whole number as ratio is that number."""
    if isinstance(ratio, int):
        return ratio
    clusters = sizes_for(method, sizes).mean
    for _ in range(site + 1):
        # In floating point, unlike `kept_of`: the weights of saved models have shapes by this number.
        clusters = math.ceil(ratio * clusters)
    return int(clusters)
