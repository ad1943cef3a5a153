"""Comparisons of methods: split by split with a baseline, over data sets, within a margin."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cgipool.study import power, statistics
from cgipool.study.measured import Measured
from cgipool.study.power import Equivalence, PooledDifference
from cgipool.study.statistics import AverageRanks, Improvement, Paired
from cgipool.task.metrics import Metric

LEVEL = 0.05
"""Significance level for adjusted p-values."""

Cells = Mapping[tuple[str, str], Measured]
"""Finished cells by method and context."""


@dataclass(frozen=True)
class Comparison:
    """A paired comparison: the baseline minus a method on each split, or an ensemble's members minus the ensemble."""

    paired: Paired
    adjusted: float
    """p after Holm's adjustment over all comparisons of this kind in the study."""
    metric: Metric
    keys: tuple[str, str]
    """The keys of the two cells."""

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is below `LEVEL`."""
        return self.adjusted < LEVEL

    @property
    def mark(self) -> str:
        """▲ if the method is significantly better than the baseline, ▼ if it is significantly worse, else empty."""
        return mark_of(self.adjusted, self.metric.sign * self.paired.difference)


def mark_of(adjusted: float, lead: float) -> str:
    """▲ or ▼ for a significant lead of the method or the baseline, whose lead is positive; else empty."""
    if adjusted >= LEVEL:
        return ""
    return "▲" if lead < 0 else "▼"


@dataclass(frozen=True)
class Contrast:
    """The mean difference between the baseline and a method over a family of data sets."""

    family: str
    setting: str
    """The values of the axes other than method and data set; empty if there are none."""
    method: str
    pooled: PooledDifference
    adjusted: float
    """p after Holm's adjustment over all contrasts of the study."""
    metric: Metric

    @property
    def mark(self) -> str:
        """▲ if the method is significantly better than the baseline, ▼ if it is significantly worse, else empty."""
        return mark_of(self.adjusted, self.metric.sign * self.pooled.difference)


def contrasts(
    found: Mapping[str, Mapping[tuple[str, str], Comparison]],
    families: Mapping[str, Sequence[str]],
    methods: Sequence[str],
) -> list[Contrast]:
    """The contrasts of comparisons (by setting, then by method and data set) over families; those with missing cells or
    several metrics are left out. A contrast of the same cells in several settings is listed once."""
    raw: dict[tuple[object, ...], Contrast] = {}
    for family, datasets in families.items():
        for (setting, those), method in itertools.product(found.items(), methods):
            each = [those[method, name] for name in datasets if (method, name) in those]
            if len(each) == len(datasets) and len({one.metric for one in each}) == 1:
                pairs = [one.paired for one in each]
                together = power.pooled([p.difference for p in pairs], [p.se for p in pairs], [p.n - 1 for p in pairs])
                contrast = Contrast(family, setting, method, together, together.p, each[0].metric)
                raw.setdefault((family, *(one.keys for one in each)), contrast)
    adjusted = statistics.holm([one.pooled.p for one in raw.values()])
    return [replace(one, adjusted=p) for one, p in zip(raw.values(), adjusted, strict=True)]


def equivalences(
    found: Mapping[tuple[str, str], Comparison], margin: float
) -> dict[tuple[str, str], tuple[Equivalence, float]]:
    """By place, the test for equivalence within ± margin, and its p after Holm's adjustment over all comparisons."""
    tests = {
        place: power.equivalence(one.paired.difference, one.paired.se, one.paired.n - 1, margin)
        for place, one in found.items()
    }
    adjusted = statistics.holm([test.p for test in tests.values()])
    return {place: (test, p) for (place, test), p in zip(tests.items(), adjusted, strict=True)}


def against_baseline(cells: Cells, baseline: str | None) -> dict[tuple[str, str], Comparison]:
    """Compare the baseline with every other method, in each context where both were run on the same splits."""
    found = {}
    for (method, context), cell in cells.items():
        base = cells.get((baseline, context)) if baseline is not None else None
        if method != baseline and base is not None and _comparable(base, cell):
            one = statistics.paired(base.values, cell.values, test_to_train=base.record.test_to_train)
            if one is not None:
                found[method, context] = one, (base.record.key, cell.record.key), cell.metric
    return _adjusted(found)


def against_members(cells: Cells) -> dict[tuple[str, str], Comparison]:
    """Compare each ensemble with the mean of its members."""
    found = {}
    for place, cell in cells.items():
        record = cell.record
        one = statistics.paired(cell.member_means, cell.whole, test_to_train=record.test_to_train)
        if one is not None:
            found[place] = one, (record.key, record.key), cell.metric
    return _adjusted(found)


def _adjusted(
    found: dict[tuple[str, str], tuple[Paired, tuple[str, str], Metric]],
) -> dict[tuple[str, str], Comparison]:
    """Apply Holm's adjustment over all comparisons. A pair of cells that occurs in several places counts once."""
    once = {keys: one.p for one, keys, _ in found.values()}
    adjusted = dict(zip(once, statistics.holm(list(once.values())), strict=True))
    return {place: Comparison(one, adjusted[keys], metric, keys) for place, (one, keys, metric) in found.items()}


def mean_ranks(cells: Cells, methods: Sequence[str]) -> AverageRanks | None:
    """Average ranks of the methods over contexts."""
    means: dict[str, dict[str, float]] = {method: {} for method in methods}
    for (method, context), cell in cells.items():
        if method in means:
            means[method][context] = cell.metric.sign * float(cell.array.mean())
    return statistics.ranks({method: found for method, found in means.items() if found})


def improvements(cells: Cells, baseline: str | None, methods: Sequence[str]) -> dict[str, Improvement]:
    """By method, the probability that a run of the baseline is better than a run of the method."""
    values: dict[str, dict[str, list[float]]] = {}
    for (method, context), cell in cells.items():
        values.setdefault(method, {})[context] = (cell.metric.sign * cell.array).tolist()
    found = {}
    for method in methods:
        if baseline in values and method in values and method != baseline:
            one = statistics.probability_of_improvement(values[baseline], values[method])
            if one is not None:
                found[method] = one
    return found


def ranks_among(means: Sequence[float]) -> list[float]:
    """The rank of each mean, 1 for the highest; means equal up to rounding get the mean of their ranks."""
    array = np.asarray(means, dtype=np.float64)
    # Start from the middle rank: every higher mean adds half a rank, every lower mean subtracts half.
    return ((len(array) + 1) / 2 + statistics.sign(array, array[:, None]).sum(1) / 2).tolist() if len(array) else []


def _comparable(a: Measured, b: Measured) -> bool:
    """Whether both are read by one metric and splits with the same index contain the same graphs in both."""
    one, other = a.record, b.record
    parts = [(r.cell.get("seed"), r.cell.get("split_kind"), r.provenance.get("data")) for r in (one, other)]
    drawn = [r.provenance.get("splits") for r in (one, other)]
    same_numbers = {row["split"] for row in one.splits} == {row["split"] for row in other.splits}
    return a.name == b.name and parts[0] == parts[1] and (drawn[0] == drawn[1] or not same_numbers or None in drawn)
