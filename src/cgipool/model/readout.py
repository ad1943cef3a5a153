"""Readouts: from the nodes of all levels to one vector per graph.

Shapes: C positions, B graphs, d width, L levels.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cgipool.errors import unknown
from cgipool.model.level import Level

Levels = Sequence[tuple[Tensor, Level]]
"""Features [C, d] and level after each pool, the first one first."""

READOUTS: dict[str, tuple[int, Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "max-mean": (2, lambda top, total, count: torch.cat([top, total / count], 1)),
    "mean": (1, lambda top, total, count: total / count),
    "max": (1, lambda top, total, count: top),
    "sum": (1, lambda top, total, count: total),
}
"""By name: the width in multiples of d, and a function of the maximum, the sum and the number of each graph's nodes."""

JUMPINGS: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "sum": lambda each: torch.stack(each).sum(0),
    "concat": lambda each: torch.cat(each, 1),
}
"""By name: how the readouts of all levels, [B, width] each, are combined into one vector per graph."""


def jumping_named(jumping: str) -> str:
    """Return the name. Raise UserError if there is no such way to combine readouts."""
    if jumping not in JUMPINGS:
        raise unknown("jumping", jumping, JUMPINGS)
    return jumping


class SumOfReadouts(nn.Module):
    """Σ_l readout_l: the readouts of all levels, added up."""

    def __init__(self, dim: int, kind: str = "max-mean") -> None:
        super().__init__()
        if kind not in READOUTS:
            raise unknown("readout", kind, READOUTS)
        self.kind = kind
        self.width = READOUTS[kind][0] * dim

    def forward(self, levels: Levels) -> Tensor:
        """[B, width]."""
        return JUMPINGS["sum"](self.each(levels))

    def each(self, levels: Levels) -> list[Tensor]:
        """The readout of each level."""
        _, of_level = READOUTS[self.kind]  # looked up here, because a module with a lambda cannot be pickled
        return [of_level(*level.readout(x), level.sizes.clamp(min=1).unsqueeze(1)) for x, level in levels]

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return self.kind


class ReadoutsSideBySide(SumOfReadouts):
    """[readout_1 ‖ … ‖ readout_L]: the concatenated readouts of all levels."""

    def __init__(self, dim: int, kind: str = "max-mean", levels: int = 3) -> None:
        super().__init__(dim, kind)
        self.width *= levels

    def forward(self, levels: Levels) -> Tensor:
        """[B, width]."""
        return JUMPINGS["concat"](self.each(levels))
