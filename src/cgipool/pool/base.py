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


def coarsen(x: Tensor, level: Level, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, Level]:
    """The kept nodes, their features multiplied by the gate: H(idx) ⊙ y(idx), A(idx, idx)."""
    return x * (gate * keep).unsqueeze(1), level.coarsen(keep, k)


def imposed_or_selected(level: Level, score: Tensor, k: Tensor, keep: Tensor | None) -> Tensor:
    """[C] the k best nodes by score, unless the kept nodes are imposed from outside."""
    return level.select(score.unsqueeze(1), k).squeeze(1) if keep is None else keep
