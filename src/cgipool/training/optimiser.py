"""Adam (Kingma and Ba 2015) and the exponential moving average of weights, shared by the loop over one split and the
engine that trains all splits at once.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

from cgipool.pool import method_named
from cgipool.pool.cgi import is_critic
from cgipool.training.recipe import Recipe

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""Adam's state of a weight, with torch's names."""

Moments = dict[str, Tensor]


def no_moments(weight: Tensor) -> Moments:
    """Return Adam's state of a weight before the first step."""
    step = torch.zeros((), device=weight.device)
    return dict(zip(MOMENTS, (step, *(torch.zeros_like(weight, requires_grad=False) for _ in range(2))), strict=True))


@torch.no_grad()
def update(weights: Sequence[Tensor], moments: Sequence[Moments], rate: float | Tensor, weight_decay: float) -> None:
    """Make one step on weights that all have a gradient. A captured step reads a tensor rate from the device."""
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


def by_decay(names: Iterable[str], recipe: Recipe, method: str) -> dict[float, list[str]]:
    """The names of weights by their weight decay, in order. Critics may have their own."""
    own = recipe.critic_weight_decay
    if own is None or not method_named(method).reads("critic_weight_decay"):
        return {recipe.weight_decay: list(names)}
    groups: dict[float, list[str]] = {}
    for name in names:
        groups.setdefault(own if is_critic(name) else recipe.weight_decay, []).append(name)
    return groups


class Adam:
    """The optimiser of one network. `weight_decay` is one number, or maps numbers to the weights they apply to."""

    def __init__(
        self, weights: Iterable[Tensor], rate: float, weight_decay: float | Mapping[float, Sequence[Tensor]] = 0.0
    ) -> None:
        self.weights, self.rate = list(weights), rate
        self.groups: Mapping[float, Sequence[Tensor]] = (
            weight_decay if isinstance(weight_decay, Mapping) else {weight_decay: self.weights}
        )
        self.state: defaultdict[Tensor, Moments] = defaultdict(dict)
        """Moments by weight. A weight that never had a gradient has none."""

    def step(self) -> None:
        """Update the weights that have a gradient."""
        for decay, weights in self.groups.items():
            trained = [weight for weight in weights if weight.grad is not None]
            for weight in trained:
                if not self.state[weight]:
                    self.state[weight] = no_moments(weight)
            if trained:
                update(trained, [self.state[weight] for weight in trained], self.rate, decay)


SETTLED = 100
"""Steps until running values have forgotten their initial values: with a momentum of 0.1, a share of 3e-5 remains."""


@torch.no_grad()
def follow(
    averages: Mapping[str, Tensor], now: Mapping[str, Tensor], buffers: Container[str], decay: float, step: Tensor
) -> None:
    """Set average ← decay · average + (1 − decay) · value after a step; after the first step, average ← value.

    Buffers such as running means are copied for the first `SETTLED` steps and averaged from then on, because the
    statistics of the last few steps do not describe a network whose weights are averages over many steps. `step` is a
    tensor, as in Adam, and is never read back from its device.
    """
    weight_share, buffer_share = (torch.where(step <= steps, 1.0, 1.0 - decay) for steps in (1, SETTLED))
    for name, average in averages.items():
        if average.is_floating_point():
            average.lerp_(now[name], buffer_share if name in buffers else weight_share)
        else:
            average.copy_(now[name])
