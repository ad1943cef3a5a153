"""Statistics over splits: against scipy, against cases worked by hand, and by what they must hold in simulation."""

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cgipool.errors import UserError
from cgipool.study.statistics import (
    binomial_floor,
    gap,
    holm,
    paired,
    probability_of_improvement,
    ranks,
    studentized_range_quantile,
    summary,
    t_quantile,
    t_two_sided,
)

SHARES = st.floats(0.0, 1.0)


def by_split(values: list[float] | np.ndarray) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


def test_t_with_finite_and_infinite_degrees_of_freedom() -> None:
    """The values of a printed table, and the normal distribution."""
    assert t_two_sided(-2.0930, 19) == pytest.approx(0.05, abs=1e-5)
    assert t_two_sided(math.inf, 5) == 0.0
    assert t_quantile(0.975, 19) == pytest.approx(2.0930, abs=1e-4)
    assert t_quantile(0.975, math.inf) == pytest.approx(1.95996, abs=1e-5)


def test_studentized_range_of_the_printed_table() -> None:
    """Table 5(a) of Demšar (2006), two to ten methods at 0.05."""
    printed = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    ours = [studentized_range_quantile(0.95, k) / math.sqrt(2) for k in range(2, 11)]
    assert ours == pytest.approx(printed, abs=1e-3)


def test_summary_of_one_value() -> None:
    assert dataclasses.astuple(summary([0.7])) == (1, 0.7, None, None, None, None)


def test_summary_of_equal_values() -> None:
    assert dataclasses.astuple(summary([0.1, 0.1, 0.1])) == (3, 0.1, 0.0, 0.0, 0.1, 0.1)


@given(st.lists(SHARES, min_size=2, max_size=30), st.sampled_from([0.6, 0.9, 0.95]))
def test_summary_against_scipy(values: list[float], level: float) -> None:
    one = summary(values, level=level)
    assert one == summary(values[::-1], level=level)
    assert one.mean == pytest.approx(np.mean(values))
    assert one.sd == pytest.approx(np.std(values, ddof=1), abs=1e-15)
    assert one.se == pytest.approx(stats.sem(values), abs=1e-15)
    if one.se > 1e-9:
        theirs = stats.t.interval(level, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
        assert (one.low, one.high) == pytest.approx(theirs)


def test_the_interval_of_twenty_values_covers_as_often_as_it_says() -> None:
    """The percentile bootstrap that was used before covers 92.7 % at n = 20."""
    drawn = np.random.default_rng(4).standard_normal((4000, 20))
    found = [summary(values) for values in drawn]
    assert np.mean([one.low <= 0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("values", [[], [0.5, math.nan], [math.inf]])
def test_summary_needs_numbers(values: list[float]) -> None:
    with pytest.raises(UserError):
        summary(values)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_level_is_a_share(level: float) -> None:
    with pytest.raises(UserError, match="level"):
        summary([0.1, 0.2], level=level)
    with pytest.raises(UserError, match="level"):
        paired({0: 0.1, 1: 0.2}, {0: 0.0, 1: 0.3}, test_to_train=0.0, level=level)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=3, max_size=25))
def test_paired_without_correction_is_the_paired_t_test(values: list[tuple[float, float]]) -> None:
    x, y = np.array(values).T
    if np.ptp(x - y) < 1e-6:
        return
    ours, theirs = paired(by_split(x), by_split(y), test_to_train=0.0), stats.ttest_rel(x, y)
    assert ours is not None
    assert (ours.t, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-6, abs=1e-9)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)), rel=1e-6, abs=1e-9)


def test_paired_by_hand() -> None:
    """Differences 1, 2, 3 and 6: mean 3, s² = 14/3; with the ratio 1/4 the variance is 14/3 × (1/4 + 1/4) = 7/3."""
    a, b = {0: 11.0, 1: 22.0, 2: 33.0, 3: 46.0}, {0: 10.0, 1: 20.0, 2: 30.0, 3: 40.0}
    ours = paired(a, b, test_to_train=0.25, level=0.9)
    assert ours is not None
    assert (ours.n, ours.difference, ours.se) == (4, 3.0, pytest.approx(math.sqrt(7 / 3)))
    assert ours.t == pytest.approx(3 / math.sqrt(7 / 3))
    assert ours.p == pytest.approx(2 * stats.t.sf(ours.t, 3))
    reach = 2.3533634 * math.sqrt(7 / 3)
    assert (ours.low, ours.high) == pytest.approx((3 - reach, 3 + reach))


def test_paired_takes_the_common_splits() -> None:
    a = {4: 0.5, 0: 0.7, 1: 0.8, 9: 0.1}
    b = {1: 0.6, 0: 0.6, 4: 0.6, 7: 0.9}
    assert paired(a, b, test_to_train=0.125) == paired(
        {0: 0.7, 1: 0.8, 4: 0.5}, {0: 0.6, 1: 0.6, 4: 0.6}, test_to_train=0.125
    )
    assert paired(a, {9: 0.3, 5: 0.4}, test_to_train=0.125) is None
    assert paired(a, {5: 0.4}, test_to_train=0.125) is None
    assert paired({}, {}, test_to_train=0.125) is None


def test_paired_the_other_way_round() -> None:
    a, b = by_split(np.random.default_rng(0).random((2, 20))[0]), by_split(np.random.default_rng(1).random(20))
    one, other = paired(a, b, test_to_train=0.125), paired(b, a, test_to_train=0.125)
    assert one is not None
    assert other is not None
    assert (one.difference, one.t, one.low, one.high) == (-other.difference, -other.t, -other.high, -other.low)
    assert (one.se, one.p) == (other.se, other.p)


def test_paired_without_variance() -> None:
    """0.8 − 0.7, 0.7 − 0.6 and 0.3 − 0.2 are equal, though not as floats."""
    a, b = {0: 0.8, 1: 0.7, 2: 0.3}, {0: 0.7, 1: 0.6, 2: 0.2}
    assert len({a[split] - b[split] for split in a}) > 1
    same = paired(a, a, test_to_train=0.125)
    assert same is not None
    assert dataclasses.astuple(same) == (3, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    assert paired(a, b, test_to_train=0.125) is None, "a spread of zero says that it is not known, not that it is small"
    assert paired(b, a, test_to_train=0.125) is None


def test_the_correction_keeps_the_level() -> None:
    """Equal methods whose differences on 20 splits correlate by test / (test + train), as Nadeau and Bengio assume."""
    generator, ratio, trials = np.random.default_rng(5), 0.125, 2000
    correlation = ratio / (1 + ratio)
    shared = generator.standard_normal((trials, 1)) * math.sqrt(correlation)
    own = generator.standard_normal((trials, 20)) * math.sqrt(1 - correlation)
    zero = by_split(np.zeros(20))
    rejected = {0.0: 0, ratio: 0}
    for each in shared + own:
        plain, corrected = (paired(by_split(each), zero, test_to_train=r) for r in rejected)
        assert plain is not None
        assert corrected is not None
        assert corrected.high - corrected.low > 1.5 * (plain.high - plain.low)
        rejected[0.0] += plain.p < 0.05
        rejected[ratio] += corrected.p < 0.05
        assert (corrected.p < 0.05) == (not corrected.low <= 0 <= corrected.high)
    assert rejected[0.0] / trials > 0.15
    assert rejected[ratio] / trials == pytest.approx(0.05, abs=0.02)


def test_holm_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.04: times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04, and no later one may be smaller."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(SHARES, min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p: list[float]) -> None:
    """A hypothesis is rejected if Bonferroni rejects every set of hypotheses that it is in."""
    sets = [s for size in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), size)]
    bonferroni = {s: min(1.0, len(s) * min(p[i] for i in s)) for s in sets}
    assert holm(p) == pytest.approx([max(v for s, v in bonferroni.items() if i in s) for i in range(len(p))])


def table_of(rows: np.ndarray) -> dict[str, dict[str, float]]:
    """Method → data set → mean, from [data sets, methods]."""
    return {f"m{j}": {f"d{i}": float(v) for i, v in enumerate(column)} for j, column in enumerate(rows.T)}


@given(st.integers(3, 6), st.integers(2, 9), st.integers(2, 12), st.integers(0, 10_000))
def test_ranks_against_scipy(k: int, n: int, distinct: int, seed: int) -> None:
    """Few distinct values make many ties."""
    rows = np.random.default_rng(seed).integers(distinct, size=(n, k)) / distinct
    ours = ranks(table_of(rows))
    assert ours is not None
    assert ours.average == pytest.approx(stats.rankdata(-rows, axis=1).mean(0))
    if any(len(set(row)) > 1 for row in rows):
        theirs = stats.friedmanchisquare(*rows.T)
        assert (ours.chi2, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), abs=1e-9)


def test_ranks_by_hand() -> None:
    """Ranks 1 2 3; 1.5 1.5 3; 2 1 3; 1 2.5 2.5. The data set that c lacks does not count."""
    means = {
        "a": {"w": 0.9, "x": 0.8, "extra": 0.1, "y": 0.6, "z": 0.7},
        "b": {"w": 0.8, "x": 0.8, "extra": 0.9, "y": 0.7, "z": 0.5},
        "c": {"w": 0.7, "x": 0.5, "y": 0.5, "z": 0.5},
    }
    ours = ranks(means)
    assert ours is not None
    assert (ours.methods, ours.datasets) == (["a", "b", "c"], ["w", "x", "y", "z"])
    assert ours.average == [1.375, 1.75, 2.875]
    # Squared distances of the rank sums 5.5, 7, 11.5 from 8 make 19.5, those of the ranks from 2 make 2 + 1.5 + 2 + 1.5
    assert ours.chi2 == pytest.approx(2 * 19.5 / 7)
    assert ours.p == pytest.approx(math.exp(-19.5 / 7))
    assert ours.critical_difference == pytest.approx(2.343 * math.sqrt(3 * 4 / (6 * 4)), abs=1e-3)
    assert ours.groups == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("datasets", "groups"),
    [
        (2, ["abcde"]),
        (5, ["abc", "bcd", "cde"]),  # the critical difference is 2.728 × √(30 / 30)
        (20, ["ab", "bc", "cd", "de"]),
        (40, []),
    ],
)
def test_groups(datasets: int, groups: list[str]) -> None:
    """Average ranks 1 to 5; the methods are not given in that order."""
    means = {
        method: {str(d): value + d for d in range(datasets)}
        for method, value in zip("dbeac", (2, 4, 1, 5, 3), strict=True)
    }
    ours = ranks(means)
    assert ours is not None
    assert ours.methods == list("dbeac")
    assert ours.average == [4, 2, 5, 1, 3]
    assert ours.groups == [list(group) for group in groups]


def test_ranks_of_equal_methods() -> None:
    """0.1 + 0.2 is 0.3 but for rounding."""
    ours = ranks({"a": {"x": 0.1 + 0.2, "y": 0.5}, "b": {"x": 0.3, "y": 0.5}})
    assert ours is not None
    assert (ours.average, ours.chi2, ours.p, ours.groups) == ([1.5, 1.5], 0.0, 1.0, [["a", "b"]])


def test_ranks_need_two_of_each() -> None:
    row = {"x": 0.5, "y": 0.6}
    assert ranks({}) is None
    assert ranks({"a": row}) is None
    assert ranks({"a": row, "b": {"x": 0.5, "z": 0.6}}) is None
    assert ranks({"a": row, "b": {}}) is None


def test_a_stricter_level_needs_a_larger_difference() -> None:
    means = table_of(np.random.default_rng(0).random((7, 9)))
    strict, lax = ranks(means, alpha=0.01), ranks(means, alpha=0.1)
    assert strict is not None
    assert lax is not None
    assert strict.critical_difference > lax.critical_difference


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 10), st.integers(0, 10_000))
def test_improvement_is_mann_whitney(n: int, m: int, distinct: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, y = (generator.integers(distinct, size=size) / distinct for size in (n, m))
    ours = probability_of_improvement({"d": x}, {"d": y}, draws=50)
    assert ours is not None
    assert ours.probability == pytest.approx(stats.mannwhitneyu(x, y).statistic / (n * m))


def test_improvement_by_hand() -> None:
    """On p: 3 beats 1 and 2, 2 beats 1 and ties with 2, which is 3.5 of 4. On q: 1 of 2. On r and s, b has no run."""
    a = {"q": [1.0, 3.0], "p": [2.0, 3.0], "r": [9.0], "s": [9.0]}
    b = {"p": [1.0, 2.0], "q": [2.0], "s": []}
    ours = probability_of_improvement(a, b)
    assert ours is not None
    assert (ours.probability, ours.datasets) == ((3.5 / 4 + 1 / 2) / 2, ["p", "q"])
    assert ours == probability_of_improvement({name: a[name] for name in "srqp"}, {name: b[name] for name in "sqp"})
    assert probability_of_improvement(a, {"t": [1.0]}) is None
    assert probability_of_improvement({}, {}) is None


def test_improvement_interval_of_all_samples() -> None:
    """x is drawn as (1, 1), (1, 3), (3, 1) or (3, 3), which beat 2 in none, half or all of the pairs."""
    wide, narrow = (probability_of_improvement({"d": [1, 3]}, {"d": [2]}, level=level) for level in (0.95, 0.4))
    assert wide is not None
    assert narrow is not None
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_improvement_interval_spreads_as_the_estimate_does() -> None:
    """Over fresh runs, the estimate lies in an interval about 1/2 as often as the intervals say."""
    generator, inside, widths = np.random.default_rng(8), 0, []
    for _ in range(200):
        a, b = ({name: generator.standard_normal(20) for name in "uvw"} for _ in range(2))
        ours = probability_of_improvement(a, b, draws=400)
        assert ours is not None
        inside += ours.low <= 0.5 <= ours.high
        widths.append(ours.high - ours.low)
    assert inside / 200 == pytest.approx(0.95, abs=0.05)
    one_alone = math.sqrt(41 / (12 * 20 * 20))  # of the Mann-Whitney estimate of 20 and 20 equal runs
    assert np.mean(widths) == pytest.approx(2 * 1.96 * one_alone / math.sqrt(3), rel=0.1)


def test_improvement_the_other_way_round() -> None:
    generator = np.random.default_rng(2)
    a, b = ({name: generator.random(20) + more for name in "uv"} for more in (0.1, 0.0))
    one, other = probability_of_improvement(a, b), probability_of_improvement(b, a)
    assert one is not None
    assert other is not None
    assert one.probability == pytest.approx(1 - other.probability)
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=0.03)
    assert one == probability_of_improvement(a, b)


def test_binomial_floor() -> None:
    assert binomial_floor(0.5, 100) == pytest.approx(0.05)
    assert binomial_floor(1.0, 10) == 0.0
    drawn = np.random.default_rng(0).binomial(111, 0.74, size=20_000) / 111
    assert binomial_floor(0.74, 111) == pytest.approx(drawn.std(), rel=0.03)


@pytest.mark.parametrize(("share", "graphs"), [(74.0, 111), (-0.1, 111), (math.nan, 111), (0.74, 0)])
def test_binomial_floor_of_nonsense(share: float, graphs: int) -> None:
    with pytest.raises(UserError):
        binomial_floor(share, graphs)


def test_gap_is_welch_where_the_published_spread_is_possible() -> None:
    values = np.random.default_rng(1).normal(0.75, 0.04, size=20)
    ours = gap(values, 0.72, 0.06, test_graphs=111, published_splits=10)
    fresh = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    published = 0.72 + 0.06 * fresh / fresh.std(ddof=1)
    theirs = stats.ttest_ind(values, published, equal_var=False).confidence_interval(0.95)
    assert ours.difference == pytest.approx(values.mean() - 0.72)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ours.se == pytest.approx(math.hypot(stats.sem(values), 0.06 / math.sqrt(10)))
    assert ours.floor == pytest.approx(math.sqrt(0.72 * 0.28 / 111))


@pytest.mark.parametrize("plus_minus", [None, 0.0, 0.004])
def test_gap_where_the_published_spread_is_impossible(plus_minus: float | None) -> None:
    """The floor at 0.8 with 100 graphs is 0.04 and known; ours, 0.7 and 0.8, have s² = 0.005, one degree of freedom."""
    ours = gap([0.7, 0.8], 0.8, plus_minus, test_graphs=100, published_splits=16)
    variances = 0.005 / 2, 0.04**2 / 16
    assert ours.floor == pytest.approx(0.04)
    assert ours.difference == pytest.approx(-0.05)
    assert ours.se == pytest.approx(math.sqrt(sum(variances)))
    reach = stats.t.ppf(0.975, sum(variances) ** 2 / variances[0] ** 2) * ours.se
    assert (ours.low, ours.high) == pytest.approx((-0.05 - reach, -0.05 + reach))


def test_gap_of_one_value() -> None:
    """Both spreads are the floor, 0.04: nothing is estimated, and the normal distribution holds."""
    ours = gap([0.83], 0.8, None, test_graphs=100, published_splits=16, level=0.9)
    assert ours.se == pytest.approx(math.hypot(0.04, 0.01))
    assert ours.high - ours.difference == pytest.approx(stats.norm.ppf(0.95) * ours.se)
    assert gap([0.83], 0.8, 0.03, test_graphs=100) == gap([0.83], 0.8, None, test_graphs=100)
    assert gap([1.0], 1.0, None, test_graphs=100).se == 0.0


def test_gap_to_one_published_split() -> None:
    """A spread with it is nearly unknown: one degree of freedom at the most."""
    ours = gap([0.83], 0.8, 0.1, test_graphs=100, published_splits=1)
    variances = 0.04**2, 0.1**2
    reach = stats.t.ppf(0.975, sum(variances) ** 2 / variances[1] ** 2) * math.sqrt(sum(variances))
    assert ours.high - ours.difference == pytest.approx(reach)


@pytest.mark.parametrize("call", [lambda: gap([], 0.8, None, test_graphs=9), lambda: gap([0.8], 80, 1, test_graphs=9)])
def test_gap_of_nonsense(call: Callable[[], object]) -> None:
    with pytest.raises(UserError):
        call()
