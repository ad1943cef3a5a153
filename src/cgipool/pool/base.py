"""What every pooling method takes and gives."""

from typing import NamedTuple

from torch import Tensor

from cgipool.level import Level


class Pooled(NamedTuple):
    """A coarsened graph."""

    x: Tensor
    """[C, F] features; 0 where a node was dropped."""
    level: Level
    """Who is alive now."""
    losses: dict[str, Tensor]
    """The method's own losses of this level by name, each a scalar."""
    metrics: dict[str, Tensor]
    """What helps to understand the training, by name, each a scalar. Filled in evaluation mode only."""
    scores: dict[str, Tensor]
    """[C] the scores of the nodes by name, as the method's paper calls them."""
