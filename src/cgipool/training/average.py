"""The exponential moving average of weights, by one rule for the plain loop and for all splits at once."""

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def follow(averages: Iterable[Tensor], weights: Iterable[Tensor], decay: float, step: Tensor) -> None:
    """After a step, average ← decay · average + (1 − decay) · weight; after the first, average ← weight. The number of
    the step is a tensor, as Adam has it, and is never read back from its device."""
    share = torch.where(step == 1, 1.0, 1.0 - decay)
    for average, weight in zip(averages, weights, strict=True):
        average.lerp_(weight, share)
