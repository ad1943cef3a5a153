"""Comparisons of methods within a study: each with the baseline on the same splits, and all of them over data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgipool.study.records import Record
from cgipool.study.statistics import Improvement, Paired, Ranks, holm, paired, probability_of_improvement, ranks, sign

LEVEL = 0.05
"""Adjusted p-values below it are called significant."""

Records = Mapping[tuple[str, str], Record]
"""By method and context."""


@dataclass(frozen=True)
class Against:
    """The baseline minus a method, split by split; or the members of an ensemble minus the ensemble."""

    paired: Paired
    adjusted: float
    """p after Holm's adjustment over all such comparisons of the study."""

    @property
    def significant(self) -> bool:
        """Whether the difference is larger than chance explains."""
        return self.adjusted < LEVEL

    @property
    def mark(self) -> str:
        """▲ for a method significantly better than the baseline, ▼ for a worse one, else nothing."""
        if not self.significant:
            return ""
        return "▲" if self.paired.difference < 0 else "▼"


def against_baseline(records: Records, baseline: str | None) -> dict[tuple[str, str], Against]:
    """The baseline against every other method, in each context where both were run on the same splits."""
    found = {}
    for (method, context), record in records.items():
        base = records.get((baseline, context)) if baseline is not None else None
        if method != baseline and base is not None and _same_splits(base, record):
            one = paired(_points(base.accuracies()), _points(record.accuracies()), test_to_train=base.test_to_train)
            if one is not None:
                found[method, context] = one, (base.key, record.key)
    return _adjusted(found)


def against_members(records: Records) -> dict[tuple[str, str], Against]:
    """The mean of an ensemble's members against the ensemble, in each place that has one."""
    found = {}
    for place, record in records.items():
        members, together = _points(record.members()), _points(record.accuracies())
        one = paired(members, together, test_to_train=record.test_to_train)
        if one is not None:
            found[place] = one, (record.key, record.key)
    return _adjusted(found)


def _adjusted(found: dict[tuple[str, str], tuple[Paired, tuple[str, str]]]) -> dict[tuple[str, str], Against]:
    """Holm's adjustment over all comparisons. Two cells that stand at several places are compared once."""
    once = {keys: one.p for one, keys in found.values()}
    adjusted = dict(zip(once, holm(list(once.values())), strict=True))
    return {place: Against(one, adjusted[keys]) for place, (one, keys) in found.items()}


def mean_ranks(records: Records, methods: Sequence[str]) -> Ranks | None:
    """Average ranks of the methods over contexts."""
    means: dict[str, dict[str, float]] = {method: {} for method in methods}
    for (method, context), record in records.items():
        means[method][context] = float(record.percent().mean())
    return ranks({method: found for method, found in means.items() if found})


def improvements(records: Records, baseline: str | None, methods: Sequence[str]) -> dict[str, Improvement]:
    """By method, how probably a run of the baseline is better than one of the method."""
    values: dict[str, dict[str, list[float]]] = {}
    for (method, context), record in records.items():
        values.setdefault(method, {})[context] = record.percent().tolist()
    found = {}
    for method in methods:
        if baseline in values and method in values and method != baseline:
            one = probability_of_improvement(values[baseline], values[method])
            if one is not None:
                found[method] = one
    return found


def ranks_among(means: Sequence[float]) -> list[float]:
    """The rank of each mean, 1 for the highest; those equal but for rounding share the mean of their places."""
    array = np.asarray(means, dtype=np.float64)
    # From the middle rank: each mean above pushes half a rank down, each below half a rank up.
    return ((len(array) + 1) / 2 + sign(array, array[:, None]).sum(1) / 2).tolist() if len(array) else []


def _same_splits(one: Record, other: Record) -> bool:
    """Whether a split's number means the same graphs in both."""
    parts = [(r.cell.get("seed"), r.cell.get("split_kind"), r.provenance.get("data")) for r in (one, other)]
    drawn = [r.provenance.get("splits") for r in (one, other)]
    same_numbers = one.accuracies().keys() == other.accuracies().keys()
    return parts[0] == parts[1] and (drawn[0] == drawn[1] or not same_numbers or None in drawn)


def _points(shares: Mapping[int, float]) -> dict[int, float]:
    return {split: 100.0 * share for split, share in shares.items()}
