"""Scores of trials beside the base, and who goes on: pure functions of numbers, no torch.

Shapes: M methods, D data sets, S splits. Values are validation accuracies as shares. All trials of a rung have the same
splits, so that a trial and the base belong together split by split.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DIGITS = 12
"""Differences that agree in so many decimals are a tie: rounding must not decide."""


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error over splits; of one split there is no error."""

    value: float
    se: float | None


@dataclass(frozen=True)
class Score:
    """What a trial is worth."""

    accuracy: Mean
    """Over methods and data sets."""
    difference: Mean
    """To the base, split by split; by this trials are ranked."""
    datasets: dict[str, Mean]
    """The difference on each data set, over methods."""
    methods: dict[str, Mean]
    """The difference of each method, over data sets."""


def score(trial: Floats, base: Floats, methods: Sequence[str], datasets: Sequence[str]) -> Score:
    """Of [M, D, S] accuracies of a trial and of the base."""
    difference = trial - base
    return Score(
        mean_over(trial.mean(0)),
        mean_over(difference.mean(0)),
        {name: mean_over(difference[:, [d]].mean(0)) for d, name in enumerate(datasets)},
        {name: mean_over(difference[m]) for m, name in enumerate(methods)},
    )


def mean_over(values: Floats) -> Mean:
    """The mean of [D, S] values, each data set with the same weight.

    The error is that of the splits within each data set: what one data set has more than another is no chance.
    """
    sets, splits = values.shape
    if splits == 1:
        return Mean(float(values.mean()), None)
    variance = values.var(axis=1, ddof=1) / splits
    return Mean(float(values.mean()), math.sqrt(float(variance.sum())) / sets)


def ranked(scores: Mapping[str, Score | None]) -> list[str]:
    """The trials that have a score, best first; of equals the one that was named first."""
    known = {name: score.difference.value for name, score in scores.items() if score is not None}
    return sorted(known, key=lambda name: -round(known[name], DIGITS))


def kept(scores: Mapping[str, Score | None], count: int, base: str) -> list[str]:
    """The base and the best of the others, `count` in all, in the order in which they were named."""
    best = [name for name in ranked(scores) if name != base][: count - 1]
    return [name for name in scores if name == base or name in best]
