"""The statistics that README and docs state, written down once more with NumPy and SciPy alone.

Nothing of cgipool is imported: a mistake of its report code cannot repeat itself here.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

LEVEL = 0.05


class Difference(NamedTuple):
    """A paired comparison by the corrected resampled t-test."""

    mean: float
    se: float
    df: int
    p: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's t interval."""
        reach = stats.t.ppf((1 + level) / 2, self.df) * self.se
        return self.mean - reach, self.mean + reach


def se(values: ArrayLike) -> float:
    """Standard error of the mean over splits, for these graphs."""
    return float(stats.sem(np.asarray(values, float)))


def corrected(differences: ArrayLike, test_to_train: float) -> Difference | None:
    """Nadeau and Bengio (2003); None if all differences are the same and not zero."""
    each = np.asarray(differences, float)
    n = len(each)
    if np.ptp(each) < 1e-9:
        return Difference(0.0, 0.0, n - 1, 1.0) if abs(each[0]) < 1e-9 else None
    error = float(np.sqrt(each.var(ddof=1) * (1 / n + test_to_train)))
    mean = float(each.mean())
    return Difference(mean, error, n - 1, float(2 * stats.t.sf(abs(mean) / error, n - 1)))


def holm(p: Mapping[Hashable, float]) -> dict[Hashable, float]:
    """Holm's adjusted p-values: the largest of (m − i) p_(i) so far, at most 1."""
    adjusted, highest = {}, 0.0
    for rank, name in enumerate(sorted(p, key=p.__getitem__)):
        highest = max(highest, (len(p) - rank) * p[name])
        adjusted[name] = min(1.0, highest)
    return adjusted


def pooled(parts: Sequence[Difference]) -> tuple[float, float, float, tuple[float, float]]:
    """Mean of independent differences: mean, SE, p and 95 % interval, by Welch and Satterthwaite."""
    k = len(parts)
    mean, variance = float(np.mean([part.mean for part in parts])), sum(part.se**2 for part in parts) / k**2
    df = variance**2 / sum((part.se**2 / k**2) ** 2 / part.df for part in parts)
    error = float(np.sqrt(variance))
    reach = stats.t.ppf(0.975, df) * error
    return mean, error, float(2 * stats.t.sf(abs(mean) / error, df)), (mean - reach, mean + reach)


def equivalence(one: Difference, margin: float) -> float:
    """The p-value of two one-sided t-tests for a difference within ± margin."""
    return float(max(stats.t.cdf((one.mean + s * margin) / one.se * -s, one.df) for s in (1, -1)))


def detectable(error: float, df: int, alpha: float) -> float:
    """The true difference that a two-sided t-test finds with probability 0.8: its tail on that side reaches 0.8."""
    critical = stats.t.ppf(1 - alpha / 2, df)
    return float(optimize.brentq(lambda d: stats.nct.sf(critical, df, d) - 0.8, 0.1, 30.0) * error)


def floor(percent: float, test_graphs: float) -> float:
    """√(p (1 − p) / n) in points."""
    share = percent / 100
    return 100 * float(np.sqrt(share * (1 - share) / test_graphs))


def gap(values: ArrayLike, published: float, spread: float, test_graphs: float) -> tuple[float, float, float, float]:
    """Ours minus published in points, its SE with both uncertainties, and Welch's interval."""
    ours = np.asarray(values, float)
    least = floor(published, test_graphs)
    other = max(spread, least)
    parts = [(ours.var(ddof=1) / len(ours), len(ours) - 1.0), (other**2 / 20, 19.0 if spread > least else np.inf)]
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    mean, error = float(ours.mean() - published), float(np.sqrt(variance))
    reach = stats.t.ppf(0.975, df) * error
    return mean, error, mean - reach, mean + reach


def ranks(table: ArrayLike) -> tuple[list[float], float, float, float]:
    """[methods, data sets] means → average ranks, Friedman's χ² and p, and Nemenyi's critical difference."""
    means = np.round(np.asarray(table, float), 9)
    k, n = means.shape
    average = stats.rankdata(-means, axis=0).mean(1)
    chi2, p = stats.friedmanchisquare(*means)
    critical = stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    return average.tolist(), float(chi2), float(p), float(critical)


def variances(table: ArrayLike) -> tuple[float, float, float]:
    """[splits, seeds] → SE of the mean, SD between splits and SD between seeds (one-way random effects)."""
    found = np.asarray(table, float)
    within, of_means = found.var(axis=1, ddof=1).mean(), found.mean(1).var(ddof=1)
    between = max(0.0, of_means - within / found.shape[1])
    return float(np.sqrt(of_means / len(found))), float(np.sqrt(between)), float(np.sqrt(within))
