"""What a level is made of: its positions, what it knows of its batch, and which nodes a ratio keeps.

Shapes: C positions, B graphs.
"""

from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import NamedTuple

import torch
from torch import Tensor

from cgipool.errors import UserError

GATES = ("plain", "unit")
"""How a pool's gate acts: as it is, or divided by its mean size over the kept nodes of each graph."""


class Nodes(NamedTuple):
    """The positions of a level."""

    graph: Tensor
    """[C] the graph of each position."""
    slot_ptr: Tensor
    """[B + 1] where each graph's positions begin."""
    alive: Tensor
    """[C] 1 or 0."""
    size: Tensor
    """[B] living nodes per graph; 0 for an empty slot."""
    position: Tensor
    """[C] which position of the first level each one was."""


class Origin(NamedTuple):
    """What a level keeps of its batch."""

    key: Tensor
    """[] the key of this step's random draws."""
    id: Tensor
    """[B] the number of each graph in its data set."""
    slot_ptr: Tensor
    """[B + 1] where each graph's positions began."""
    cells: int
    """How many cells there is room for, if every graph has a matrix over its positions."""
    rows: tuple[int, ...] = ()
    """How many positions the levels after the next pools need, where that is known: such levels are closed up."""
    gate: str = "plain"
    """One of `GATES`."""


def check_ratio(ratio: float | int) -> float | int:
    """The ratio, if it is a share in (0, 1] or a count of at least 1 that torch can hold."""
    if isinstance(ratio, Integral) and not isinstance(ratio, bool) and 1 <= ratio < 2**63:
        return int(ratio)
    if isinstance(ratio, Real) and not isinstance(ratio, Integral) and 0.0 < ratio <= 1.0:
        return float(ratio)
    raise UserError(f"ratio must be a share in (0, 1] or a whole number of nodes from 1, not {ratio!r}")


def kept_of(size: Tensor, ratio: float | int) -> Tensor:
    """How many of so many nodes a ratio keeps."""
    if isinstance(ratio, int):
        return size.clamp(max=ratio)
    share = decimal(ratio)
    if share is None:
        return torch.ceil(size.double() * ratio).long()
    return (size.long() * share.numerator + (share.denominator - 1)) // share.denominator


@lru_cache
def decimal(ratio: float) -> Fraction | None:
    """The ratio as it is written in decimals, for exact arithmetic: in floating point ⌈0.55 · 20⌉ is 12. None where it
    has more than nine decimals, such as 5/6, which stands for another number than its 16 digits say."""
    share = Fraction(str(ratio))
    return share if 10**9 % share.denominator == 0 else None


def positions_kept(keep: Tensor) -> tuple[Tensor, Tensor]:
    """The positions with keep = 1, and how many of them stand before each position, [C + 1]."""
    return keep.nonzero().squeeze(1), torch.nn.functional.pad(torch.cumsum(keep > 0, 0), (1, 0))


def compacted(nodes: Nodes, kept: Tensor, before: Tensor, k: Tensor) -> Nodes:
    """The kept positions alone, k[b] of them in graph b."""
    return Nodes(nodes.graph[kept], before[nodes.slot_ptr], nodes.alive[kept], k, nodes.position[kept])
