"""Statistics of results over splits: pure functions of numbers, no torch.

The values of two methods are paired by split. Intervals are two-sided. Values may have any unit, except in
`binomial_floor` and `gap`, which take shares between 0 and 1.

Two estimands occur. "For these graphs": the mean over random splits of one data set; errors are s / √n. "For new graphs
like these": the difference between two methods trained on other samples of the same size; random splits share training
graphs, so errors are corrected as by Nadeau and Bengio (2003).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri, stdtr, stdtrit

from cgipool.errors import UserError

Floats = NDArray[np.float64]
Values = Sequence[float] | NDArray[np.floating]

ROUNDING = 1e-12
"""Values whose difference, relative to the largest value, is smaller count as equal: because of rounding, 0.8 − 0.7 is
not exactly 0.7 − 0.6."""


@dataclass(frozen=True)
class Summary:
    """Values over splits. With one value there is no spread, and all but n and mean are None."""

    n: int
    mean: float
    sd: float | None = None
    se: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Paired:
    """A comparison of two methods, split by split."""

    n: int
    """Number of splits that both have."""
    difference: float
    se: float
    t: float
    """The difference divided by its standard error; 0 if all differences are zero."""
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class AverageRanks:
    """Methods ranked on each data set, and the ranks averaged (Demšar 2006)."""

    methods: list[str]
    datasets: list[str]
    average: list[float]
    """Per method; 1 is best."""
    chi2: float
    """Friedman's statistic, corrected for ties."""
    p: float
    """p-value of the hypothesis that all methods are equal. If it is large, ignore the groups."""
    critical_difference: float
    """Nemenyi's critical difference: average ranks further apart differ significantly."""
    groups: list[list[str]]
    """The largest sets of at least two methods whose average ranks do not differ significantly, best first."""


@dataclass(frozen=True)
class Improvement:
    """How often a run of one method beats a run of another on the same data set."""

    probability: float
    low: float
    high: float
    datasets: list[str]
    """The data sets that both methods have."""


@dataclass(frozen=True)
class Gap:
    """Our mean minus a published one, in shares."""

    difference: float
    se: float
    low: float
    high: float
    floor: float
    """The smallest spread over splits that the published accuracy can have."""


def summary(values: Values, *, level: float = 0.95) -> Summary:
    """Mean, spread, and Student's t interval of the mean; the order of the values does not matter.

    The splits of one data set share graphs, so `se` and the interval are the uncertainty of the mean over such splits
    ("for these graphs"), not that of the result on other graphs.
    """
    known = np.sort(numbers_of(values))
    # Differences to the minimum: equal values then have no spread, not even from rounding.
    n, least, above = len(known), known[0], known - known[0]
    mean = float(least + above.mean())
    if n == 1:
        return Summary(n, mean)
    sd = float(above.std(ddof=1))
    se = sd / math.sqrt(n)
    reach = t_quantile(tails(level)[1], n - 1) * se
    return Summary(n, mean, sd, se, mean - reach, mean + reach)


def paired(
    a: Mapping[int, float], b: Mapping[int, float], *, test_to_train: float, level: float = 0.95
) -> Paired | None:
    """The corrected resampled t-test of a minus b (Nadeau and Bengio 2003); None if it cannot be
    computed: with fewer than two common splits, or if all differences are equal and not zero.

    Random splits share training graphs, so their differences are not independent, and the plain t-test gives far too
    small p-values. The corrected variance of the mean difference is s² (1/n + test_to_train), where test_to_train is
    the number of test graphs over that of training graphs. There are n − 1 degrees of freedom. If all differences are
    zero, p is 1.
    """
    common = sorted(a.keys() & b.keys())
    n = len(common)
    if n < 2:
        return None
    ours, theirs = (numbers_of([of[split] for split in common]) for of in (a, b))
    rounding = ROUNDING * max(np.abs(ours).max(), np.abs(theirs).max())
    each = ours - theirs
    difference = float(each.mean())
    if np.ptp(each) <= rounding:
        return Paired(n, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0) if abs(difference) <= rounding else None
    se = math.sqrt(each.var(ddof=1) * (1 / n + test_to_train))
    t = difference / se
    reach = t_quantile(tails(level)[1], n - 1) * se
    return Paired(n, difference, se, t, t_two_sided(t, n - 1), difference - reach, difference + reach)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given.

    If those up to α are called significant, the probability of any false positive is at most α.
    """
    if not len(p):
        return []
    given = numbers_of(p)
    order = np.argsort(given, kind="stable")
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()


def ranks(means: Mapping[str, Mapping[str, float]], *, alpha: float = 0.05) -> AverageRanks | None:
    """Rank methods by their means (method → data set → mean, higher is better) on the data sets that all of them have.

    Equal means share their mean rank. None with fewer than two methods or two such data sets.
    """
    methods = list(means)
    datasets = [name for name in next(iter(means.values()), {}) if all(name in of for of in means.values())]
    k, n = len(methods), len(datasets)
    if k < 2 or n < 2:
        return None
    table = numbers_of([means[method][name] for name in datasets for method in methods]).reshape(n, k)
    # Start from the middle rank: every better method adds half a rank, every worse one subtracts half.
    off = sign(table[:, None, :], table[:, :, None]).sum(2) / 2
    total, spread = off.sum(0), float((off**2).sum())
    # This form of Friedman's statistic is already corrected: ties reduce the spread in the denominator.
    chi2 = float((k - 1) * (total @ total) / spread) if spread else 0.0
    average = (total / n + (k + 1) / 2).tolist()
    difference = studentized_range_quantile(1 - alpha, k) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
    groups = _groups(dict(zip(methods, average, strict=True)), difference)
    return AverageRanks(methods, datasets, average, chi2, float(chdtrc(k - 1, chi2)), difference, groups)


def _groups(average: Mapping[str, float], difference: float) -> list[list[str]]:
    """The maximal runs of neighbouring ranks whose ends are within the critical difference."""
    order = sorted(average, key=average.__getitem__)
    groups: list[list[str]] = []
    reached = 0
    for first, best in enumerate(order):
        end = sum(average[method] - average[best] <= difference * (1 + ROUNDING) for method in order)
        if end > max(reached, first + 1):
            groups.append(order[first:end])
            reached = end
    return groups


def probability_of_improvement(
    a: Mapping[str, Values], b: Mapping[str, Values], *, draws: int = 2_000, level: float = 0.95, seed: int = 0
) -> Improvement | None:
    """The mean over data sets of P(X > Y) + ½ P(X = Y), X a run of a and Y one of b (Agarwal et al. 2021).

    All pairs of runs count. The percentile bootstrap resamples the runs of each data set, those of a and those of b
    separately; the data sets are fixed. A single run is always drawn again, so it does not widen the interval. None if
    no data set has runs of both.
    """
    datasets = sorted(name for name in a.keys() & b.keys() if len(a[name]) and len(b[name]))
    if not datasets:
        return None
    generator = np.random.default_rng(seed)
    means, drawn = [], np.zeros(draws)
    for name in datasets:
        x, y = (np.sort(numbers_of(of[name])) for of in (a, b))
        wins = (1 + sign(x[:, None], y[None, :])) / 2
        means.append(wins.mean())
        of_x, of_y = (_resamples(generator, len(of), draws) / len(of) for of in (x, y))
        drawn += ((of_x @ wins) * of_y).sum(1)
    low, high = np.quantile(drawn / len(datasets), tails(level))
    return Improvement(float(np.mean(means)), float(low), float(high), datasets)


def binomial_floor(share: float, test_graphs: int) -> float:
    """√(p (1 − p) / n): the standard deviation over splits, for a classifier of true accuracy p, that comes only from
    the choice of its n test graphs.

    It holds for independent test sets. For test sets that are tenths of one data set it is 5 % smaller.
    """
    if not 0 <= share <= 1:
        raise UserError(f"an accuracy of {share} is not between 0 and 1")
    if test_graphs < 1:
        raise UserError(f"a test set of {test_graphs} graphs has no accuracy")
    return math.sqrt(share * (1 - share) / test_graphs)


def gap(
    values: Values,
    published: float,
    plus_minus: float | None,
    *,
    test_graphs: int | None,
    published_splits: int = 20,
    level: float = 0.95,
) -> Gap | None:
    """Our mean minus a published one, with the uncertainty of both; accuracies in shares between 0 and 1.

    The published ± is used as the standard deviation over splits, but at least the binomial floor at the published
    accuracy: a ± clearly below the floor cannot be a spread over splits. Without a ±, or with a single value of ours,
    the floor is used instead. The variances of the two means add up; the interval is Welch's, which is wider for fewer
    splits.

    Metrics other than accuracy have no such floor: `test_graphs` is None, the floor 0. Without a spread on both sides
    the result is None.
    """
    floor = 0.0 if test_graphs is None else binomial_floor(published, test_graphs)
    known = numbers_of(values)
    if test_graphs is None and (not plus_minus or len(known) < 2):
        return None
    n, m = len(known), published_splits
    ours = (float(known.var(ddof=1)) / n, n - 1.0) if n > 1 else (floor**2, math.inf)
    spread = max(plus_minus or 0.0, floor)
    theirs = (spread**2 / m, max(m - 1.0, 1.0) if spread > floor else math.inf)
    se, df = welch(ours, theirs)
    difference = float(known.mean()) - published
    reach = t_quantile(tails(level)[1], df) * se
    return Gap(difference, se, difference - reach, difference + reach, floor)


def welch(*parts: tuple[float, float]) -> tuple[float, float]:
    """The standard error of a sum, and its degrees of freedom (Welch and Satterthwaite), from those of its parts.

    A part is a variance and its degrees of freedom, which are infinite for a variance that is not estimated.
    """
    variance = sum(part for part, _ in parts)
    doubt = sum(part**2 / df for part, df in parts)
    return math.sqrt(variance), variance**2 / doubt if doubt else math.inf


def numbers_of(values: Values) -> Floats:
    """Return the values as an array. Raise UserError unless all are finite numbers."""
    known = np.asarray(values, dtype=np.float64)
    if not known.size:
        raise UserError("statistics need at least one value")
    if not np.isfinite(known).all():
        raise UserError("statistics need finite numbers")
    return known


def tails(level: float) -> tuple[float, float]:
    """The two quantiles of an interval of this level."""
    if not 0 < level < 1:
        raise UserError(f"the level of an interval must be between 0 and 1, not {level}")
    return (1 - level) / 2, (1 + level) / 2


def sign(x: Floats, y: Floats) -> Floats:
    """1 where x is greater, −1 where y is, 0 where they are equal up to rounding."""
    rounding = ROUNDING * max(np.abs(x).max(), np.abs(y).max())
    return np.where(np.abs(x - y) <= rounding, 0.0, np.sign(x - y))


def _resamples(generator: np.random.Generator, n: int, draws: int) -> Floats:
    """[draws, n] the number of times that each of n values occurs in a bootstrap sample of size n."""
    chosen = generator.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float64)


def t_two_sided(t: float, df: float) -> float:
    """The probability that |T| is at least |t|."""
    return float(2 * stdtr(df, -abs(t)))


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The p-quantile of T, 0 < p < 1; infinite df means the normal distribution."""
    return float(ndtri(p) if math.isinf(df) else stdtrit(df, p))


@lru_cache(maxsize=64)
def studentized_range_quantile(p: float, k: int) -> float:
    """The p-quantile of the range of k standard normal variables."""
    from scipy.stats import studentized_range  # a slow import, only needed for ranks

    return float(studentized_range.ppf(p, k, math.inf))
