"""Adam (Kingma and Ba 2015), by torch's own function. An optimiser of torch's would import its compiler, which takes a
second or two of every start.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

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
