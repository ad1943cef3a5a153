"""Adam (Kingma and Ba 2015) and the exponential moving average of weights, each one rule for the plain loop and for all
splits at once.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam remembers of a weight, by torch's names."""

Moments = dict[str, Tensor]


def no_moments(weight: Tensor) -> Moments:
    """Adam's memory of a weight before the first step."""
    step = torch.zeros((), device=weight.device)
    return dict(zip(MOMENTS, (step, *(torch.zeros_like(weight, requires_grad=False) for _ in range(2))), strict=True))


@torch.no_grad()
def update(weights: Sequence[Tensor], moments: Sequence[Moments], rate: float | Tensor, weight_decay: float) -> None:
    """One step of weights that all have a gradient. A rate that is a tensor is read from the device by a captured
    step."""
    adam(
        list(weights),
        [weight.grad for weight in weights if weight.grad is not None],
        [each["exp_avg"] for each in moments],
        [each["exp_avg_sq"] for each in moments],
        [],
        [each["step"] for each in moments],
        fused=True,
        capturable=weights[0].device.type == "cuda",
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=rate,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )


class Adam:
    """The optimiser of one network."""

    def __init__(self, weights: Iterable[Tensor], rate: float, weight_decay: float = 0.0) -> None:
        self.weights, self.rate, self.weight_decay = list(weights), rate, weight_decay
        self.state: defaultdict[Tensor, Moments] = defaultdict(dict)
        """By weight. There is nothing of one that no gradient has reached."""

    def step(self) -> None:
        """Update the weights that have a gradient."""
        trained = [weight for weight in self.weights if weight.grad is not None]
        for weight in trained:
            if not self.state[weight]:
                self.state[weight] = no_moments(weight)
        update(trained, [self.state[weight] for weight in trained], self.rate, self.weight_decay)


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
