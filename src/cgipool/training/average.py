"""The exponential moving average of weights, by one rule for the plain loop and for all splits at once."""

from collections.abc import Container, Mapping

import torch
from torch import Tensor

SETTLED = 100
"""Steps until running values have forgotten what they began as: with a momentum of 0.1, 3e-5 of it is left."""


@torch.no_grad()
def follow(
    averages: Mapping[str, Tensor], now: Mapping[str, Tensor], buffers: Container[str], decay: float, step: Tensor
) -> None:
    """After a step, average ← decay · average + (1 − decay) · value, by name; after the first, average ← value.

    Those that are buffers, such as running means, are taken as they are for `SETTLED` steps, and averaged from then on:
    the statistics of the last few steps are not those of a network whose weights are averages over many. The number of
    the step is a tensor, as Adam has it, and is never read back from its device.
    """
    weight_share, buffer_share = (torch.where(step <= steps, 1.0, 1.0 - decay) for steps in (1, SETTLED))
    for name, average in averages.items():
        if average.is_floating_point():
            average.lerp_(now[name], buffer_share if name in buffers else weight_share)
        else:
            average.copy_(now[name])
