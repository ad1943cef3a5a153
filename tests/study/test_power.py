"""Equivalence, power, pooled contrasts and variance components: against scipy, known values and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from cgipool.errors import UserError
from cgipool.study.power import detectable, equivalence, pooled, variances
from cgipool.study.statistics import paired


def by_split(values: np.ndarray) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


def test_equivalence_is_two_one_sided_tests_of_scipy() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 20)
    ours = equivalence(values.mean(), stats.sem(values), 19, 1.0)
    lower = stats.ttest_1samp(values, -1.0, alternative="greater").pvalue
    upper = stats.ttest_1samp(values, 1.0, alternative="less").pvalue
    assert ours.p == pytest.approx(max(lower, upper))
    assert (ours.low, ours.high) == pytest.approx(stats.t.interval(0.9, 19, values.mean(), stats.sem(values)))


@pytest.mark.parametrize(("difference", "se"), [(0.5, 0.2), (-0.9, 0.05), (0.0, 0.57), (0.0, 0.59), (1.2, 0.1)])
def test_equivalent_means_that_the_interval_lies_within_the_margin(difference: float, se: float) -> None:
    one = equivalence(difference, se, 19, 1.0)
    assert (one.p < 0.05) == (one.low > -1.0 and one.high < 1.0)
    assert equivalence(-difference, se, 19, 1.0).p == pytest.approx(one.p), "it has no direction"


def test_equivalence_without_spread() -> None:
    assert equivalence(0.0, 0.0, 19, 1.0).p == 0.0
    assert equivalence(1.5, 0.0, 19, 1.0).p == 1.0
    with pytest.raises(UserError, match="a margin must be positive"):
        equivalence(0.0, 1.0, 19, 0.0)


def test_equivalence_keeps_its_level_at_the_margin() -> None:
    """A true difference of exactly the margin is called equivalent in 5 % of trials."""
    drawn = np.random.default_rng(1).normal(1.0, 1.0, (4000, 20))
    called = [equivalence(values.mean(), stats.sem(values), 19, 1.0).p < 0.05 for values in drawn]
    assert np.mean(called) == pytest.approx(0.05, abs=0.01)


def test_detectable_of_a_printed_table() -> None:
    """A one-sample t-test with n = 20 finds d = 0.66 with 80 % power at 5 % (Cohen 1988; G*Power gives 0.6604)."""
    assert detectable(1 / math.sqrt(20), 19) == pytest.approx(0.6604, abs=1e-4)
    assert detectable(2.0, math.inf) == pytest.approx(2 * (1.959964 + 0.841621), rel=1e-4)


@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.5)])
def test_detectable_by_simulation(alpha: float, power: float) -> None:
    """Corrected tests on 20 splits whose differences correlate as the correction assumes."""
    generator, ratio, trials = np.random.default_rng(2), 0.125, 4000
    rho = ratio / (1 + ratio)
    true = detectable(math.sqrt((1 - rho) * (1 / 20 + ratio)), 19, alpha=alpha, power=power)
    shared = generator.standard_normal((trials, 1)) * math.sqrt(rho)
    drawn = true + shared + generator.standard_normal((trials, 20)) * math.sqrt(1 - rho)
    zero = by_split(np.zeros(20))
    found = [paired(by_split(each), zero, test_to_train=ratio) for each in drawn]
    assert np.mean([one is not None and one.p < alpha for one in found]) == pytest.approx(power, abs=0.02)


def test_pooled_is_the_mean_of_independent_differences() -> None:
    ours = pooled([1.0, 2.0, 6.0], [0.3, 0.4, 1.2], [19, 19, 9])
    se = math.sqrt(0.3**2 + 0.4**2 + 1.2**2) / 3
    parts = np.array([0.3**2, 0.4**2, 1.2**2])
    df = parts.sum() ** 2 / (parts**2 / [19, 19, 9]).sum()
    assert (ours.datasets, ours.difference, ours.se, ours.df) == (3, 3.0, pytest.approx(se), pytest.approx(df))
    assert ours.p == pytest.approx(2 * stats.t.sf(3 / se, df))
    assert (ours.low, ours.high) == pytest.approx(stats.t.interval(0.95, df, 3.0, se))


def test_pooled_over_one_data_set_is_its_paired_test() -> None:
    a, b = (by_split(np.random.default_rng(seed).random(20)) for seed in (0, 1))
    one = paired(a, b, test_to_train=0.125)
    assert one is not None
    alone = pooled([one.difference], [one.se], [one.n - 1])
    assert (alone.p, alone.low, alone.high) == pytest.approx((one.p, one.low, one.high))


def test_pooled_without_spread() -> None:
    assert pooled([0.0, 0.0], [0.0, 0.0], [3, 3]).p == 1.0


def test_variances_by_hand_and_by_simulation() -> None:
    """Splits 1 ± 1 and 5 ± 1: s² within is 2, of the means 8, of which 2 / 2 comes from the seeds."""
    one = variances({0: [0.0, 2.0], 1: [4.0, 6.0]})
    assert one is not None
    assert (one.seeds, one.between_seeds, one.between_splits) == (2, math.sqrt(2), pytest.approx(math.sqrt(8 - 1)))
    assert one.se == pytest.approx(math.sqrt(8 / 2))
    generator = np.random.default_rng(3)
    drawn = 3 * generator.standard_normal((4000, 1)) + 2 * generator.standard_normal((4000, 5))
    many = variances({split: row.tolist() for split, row in enumerate(drawn)})
    assert many is not None
    assert (many.between_splits, many.between_seeds) == pytest.approx((3, 2), rel=0.03)


@pytest.mark.parametrize("members", [{}, {0: [1.0, 2.0]}, {0: [1.0], 1: [2.0]}, {0: [1.0, 2.0], 1: [2.0]}])
def test_variances_need_splits_and_seeds(members: dict[int, list[float]]) -> None:
    assert variances(members) is None
