"""Which colour scale a score has, and what the score means.

A scale never stretches to the scores at hand: near-equal scores get near-equal colours.
"""

import math

import numpy as np
from matplotlib.ticker import MaxNLocator
from torch import nn

from cgipool.explain.picture import Scale
from cgipool.explain.trace import Trace
from cgipool.pool import ASAP, CGIPool, RandomPool, ReleasedCGIPool, SAGPool, TopKPool, VIPool

Range = tuple[float, float] | None
"""The values that a score can take; None if it has no bounds."""

ONE = 1.0 / (1.0 + math.exp(-1.0))
"""σ(1). The largest y_d, since y_r and y_f lie between 0 and 1."""

NO_DIRECTION = "It ranks the nodes of a level and has no class direction: a high score is not evidence for a class."

ABOUT: dict[type[nn.Module], tuple[Range, str]] = {
    ReleasedCGIPool: (None, "is the difference of two learned scores; kept features are multiplied by its tanh."),
    VIPool: ((0.0, 1.0), "is how well a node fits its neighbourhood, from 0 to 1; kept features are multiplied by it."),
    ASAP: ((0.0, 1.0), "is the fitness of the cluster around a node; kept features are multiplied by it."),
    SAGPool: (None, "is the output of a graph convolution; kept features are multiplied by its tanh."),
    TopKPool: (None, "is the projection on a learned direction; kept features are multiplied by its tanh."),
    RandomPool: ((0.0, 1.0), "is a random number: this method keeps random nodes."),
}
"""Per pool, the range of the score that it ranks nodes by, and what that score is."""


def scale_of(pool: nn.Module, trace: Trace) -> Scale | None:
    """The scale of the score that a pool ranks nodes by; None if it reports no score."""
    name = trace.ranking
    if name is None:
        return None
    bounds, about = _about(pool)
    meaning = f"{name} {about} {NO_DIRECTION}"
    if bounds is not None:
        return Scale(name, *bounds, meaning, f"The scale spans all values that {name} can take.")
    known = np.abs(trace.score[np.isfinite(trace.score)])
    end = float(MaxNLocator(1, steps=[1, 2, 5, 10]).tick_values(0.0, float(known.max(initial=0.0)) or 1.0)[-1])
    return Scale(name, -end, end, meaning, "The scale is symmetric around 0 and covers all levels of this graph.")


def _about(pool: nn.Module) -> tuple[Range, str]:
    if isinstance(pool, CGIPool):
        if pool.negative == "random":
            return (0.0, 1.0), "is a learned gate, from 0 to 1; kept features are multiplied by it."
        return (1.0 - ONE, ONE), "= σ(y_r − y_f) is a learned gate; kept features are multiplied by it."
    return ABOUT.get(type(pool), (None, "is the score that the method ranks nodes by."))
