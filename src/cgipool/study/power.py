"""Equivalence, power, pooled contrasts and variance components: pure functions of numbers, no torch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import nctdtrinc, stdtr

from cgipool.errors import UserError
from cgipool.study.statistics import Values, numbers_of, t_quantile, t_two_sided, tails, welch


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of whether a difference lies within ± a margin (Schuirmann 1987)."""

    margin: float
    p: float
    """The larger of the two p-values; below α the methods are equivalent at level α."""
    low: float
    """The (1 − 2α) interval, which is within ± margin exactly if p is below α."""
    high: float


@dataclass(frozen=True)
class PooledDifference:
    """The mean of differences on several data sets."""

    datasets: int
    difference: float
    se: float
    df: float
    """Degrees of freedom by Welch and Satterthwaite."""
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class Variances:
    """The variance components of a method's results."""

    seeds: int
    """Trainings per split."""
    between_splits: float
    """Standard deviation of a split's mean over all seeds."""
    between_seeds: float
    """Standard deviation over trainings on one split."""
    se: float
    """Standard error of the mean over splits and seeds, for these graphs."""


def equivalence(difference: float, se: float, df: float, margin: float, *, alpha: float = 0.05) -> Equivalence:
    """Test whether a difference with this standard error is within ± margin, by two one-sided t-tests."""
    if not margin > 0:
        raise UserError(f"a margin must be positive, not {margin}")
    if se == 0:
        return Equivalence(margin, 0.0 if abs(difference) < margin else 1.0, difference, difference)
    above, below = (difference + margin) / se, (difference - margin) / se
    reach = t_quantile(1 - alpha, df) * se
    p = max(float(stdtr(df, -above)), float(stdtr(df, below)))
    return Equivalence(margin, p, difference - reach, difference + reach)


def detectable(se: float, df: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The true difference that a two-sided t-test at level α finds with this probability, given its standard error.

    The statistic then has a noncentral t distribution. The tail on the other side, below α / 1000, is neglected.
    """
    return float(nctdtrinc(df, 1 - power, t_quantile(1 - alpha / 2, df))) * se


def pooled(differences: Values, errors: Values, df: Values, *, level: float = 0.95) -> PooledDifference:
    """The mean of differences on several data sets, whose errors are independent.

    The data sets count as they are, with equal weights: nothing is said of other data sets.
    """
    each, se, freedom = (numbers_of(part) for part in (differences, errors, df))
    k = len(each)
    parts = [((s / k) ** 2, f) for s, f in zip(se.tolist(), freedom.tolist(), strict=True)]
    error, together = welch(*parts)
    difference = float(each.mean())
    reach = t_quantile(tails(level)[1], together) * error
    p = t_two_sided(difference / error, together) if error else float(difference == 0)
    return PooledDifference(k, difference, error, together, p, difference - reach, difference + reach)


def variances(members: Mapping[int, Sequence[float]]) -> Variances | None:
    """Split the variance of results [splits, seeds] into that between splits and that between seeds (one-way random
    effects); None with fewer than two splits or seeds, or where splits have different numbers of seeds."""
    counts = {len(found) for found in members.values()}
    if len(members) < 2 or len(counts) != 1 or min(counts) < 2:
        return None
    table = numbers_of([value for split in sorted(members) for value in members[split]]).reshape(len(members), -1)
    n, seeds = table.shape
    within = float(table.var(axis=1, ddof=1).mean())
    of_means = float(table.mean(1).var(ddof=1))
    between = max(0.0, of_means - within / seeds)
    return Variances(seeds, math.sqrt(between), math.sqrt(within), math.sqrt(of_means / n))
