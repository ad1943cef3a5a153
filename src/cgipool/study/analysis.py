"""How the results of a study are analysed: said in its file before it runs, and kept in its store. No torch.

metric = "roc_auc"             compare by this metric, where the task of a data set has it
margin = 1.0                   methods that differ by less than this count as equivalent, in the metric's unit
[contrasts]                    NAME = ["DATASET", …]: average each difference over these data sets
[ceiling]                      DATASET = value, or one value for each value of `curves`: the best possible result
[[choices]]                    settings; with select = "nested" in [protocol], each split chooses one of them
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any

from cgipool.errors import UserError, unknown
from cgipool.study.stored import check_number, parts_of
from cgipool.task.metrics import KNOWN, METRICS, check_metric, primary_of

VALUES = ("metric", "margin")
TABLES = ("contrasts", "ceiling")
"""The keys of a study file that concern the analysis: values and tables."""


@dataclass(frozen=True)
class Analysis:
    """How the results of a study are summarised and compared."""

    metric: str | None = None
    """The metric to show, where a task has it; None: the primary metric of each task."""
    seeds: int = 1
    """Trainings per split whose metrics are averaged; 1: no averaging."""
    margin: float | None = None
    """Methods that differ by less than this, in the unit of the metric, count as equivalent."""
    contrasts: dict[str, list[str]] = field(default_factory=dict)
    """Groups of data sets over which differences are averaged, by name."""
    trivial: list[str] = field(default_factory=list)
    """Methods that do not use the structure of a graph; they are left out of average ranks."""
    ceiling: dict[str, list[float]] = field(default_factory=dict)
    """By data set, the best possible result at each value of `curves`, in the unit of the metric."""
    tasks: dict[str, str] = field(default_factory=dict)
    """Task by data set, for those that are not classification."""

    def metric_on(self, dataset: str) -> str:
        """The metric shown for a data set."""
        task = self.tasks.get(dataset, "classification")
        return self.metric if self.metric in METRICS[task] and self.metric is not None else primary_of(task)

    def to_json(self) -> dict[str, Any]:
        """The entries that differ from the defaults."""
        usual = Analysis()
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(usual, name)}

    @classmethod
    def from_json(cls, value: Any) -> "Analysis":
        """Read the output of `to_json`; an error of some kind where it is odd."""
        usual = {part.name: getattr(cls(), part.name) for part in fields(cls)}
        given = usual | {name: value[name] for name in usual if name in value}
        parts_of(given, metric=(str, NoneType), seeds=int, margin=(int, float, NoneType), tasks=dict)
        for values in (*given["contrasts"].values(), given["trivial"]):
            if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
                raise ValueError("its contrasts or trivial methods are not lists of names")
        for number in (given["margin"] or 0.0, *(bound for values in given["ceiling"].values() for bound in values)):
            check_number("margin or ceiling", number)
        if not all(task in METRICS for task in given["tasks"].values()):
            raise ValueError("the task of a data set is unknown")
        return cls(**given)


def analysis_of(given: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], **known: Any) -> Analysis:
    """Read and check the entries of a study file; `known` are its other fields."""
    datasets = list(axes["dataset"])
    tasks = {known["tasks"].get(name, "classification") for name in datasets}
    metric, margin = given.get("metric"), given.get("margin")
    names = dict.fromkeys(name for task in sorted(tasks) for name in METRICS[task])
    if metric is not None and metric not in names:
        raise unknown("metric", metric, names)
    if margin is not None:
        check_margin(margin)
    contrasts = given.get("contrasts", {})
    for name, family in contrasts.items():
        if not isinstance(family, list) or not family or not all(isinstance(one, str) for one in family):
            raise UserError(f"{name} of [contrasts] must be a list of data sets")
        for one in family:
            if one not in datasets:
                raise unknown(f"data set in {name} of [contrasts]", one, datasets)
    ceiling = {
        name: _ceiling(name, value, given.get("curves"), axes) for name, value in given.get("ceiling", {}).items()
    }
    found = Analysis(metric, margin=margin, contrasts=contrasts, ceiling=ceiling, **known)
    for name, family in contrasts.items():
        check_one_metric({found.metric_on(one) for one in family}, f"{name} of [contrasts]")
    if margin is not None:
        check_one_metric({found.metric_on(one) for one in datasets}, "a margin")
    return found


def check_margin(margin: Any) -> None:
    """Raise UserError unless a margin is a positive number."""
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 < margin < 1e9:
        raise UserError("margin must be a positive number, in the unit of the metric")


def searched_metric(given: Mapping[str, Any], task: str) -> tuple[str, Any]:
    """The metric of a search, and the values of its [base]: early stopping watches a metric that is not the task's
    primary one, so that every cell has it."""
    metric, base = given.get("metric", primary_of(task)), given.get("base", {})
    if not isinstance(metric, str):
        raise UserError(f"metric must be a name, such as {primary_of(task)!r}")
    if check_metric(task, metric) == primary_of(task) or not isinstance(base, dict):
        return metric, base
    if "stop_by" in given["space"] or base.get("stop_by", metric) != metric:
        raise UserError(f"a search by {metric!r} also stops by it: leave stop_by out of [base] and [space]")
    return metric, base | {"stop_by": metric}


def check_one_metric(metrics: set[str], what: str) -> None:
    """Raise UserError for several metrics, whose differences cannot be averaged or share a margin."""
    if len(metrics) > 1:
        titles = " and ".join(sorted(KNOWN[name].title for name in metrics))
        raise UserError(f"{what} needs data sets with one metric; these have {titles}")


def _ceiling(name: str, value: Any, curves: str | None, axes: Mapping[str, Sequence[Any]]) -> list[float]:
    if curves is None or curves not in axes:
        raise UserError("[ceiling] needs curves")
    if name not in axes["dataset"]:
        raise unknown("data set in [ceiling]", name, list(axes["dataset"]))
    count = len(axes[curves])
    values = value if isinstance(value, list) else [value] * count
    if len(values) != count or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        raise UserError(f"{name} of [ceiling] must be a number, or a list with one for each of the {count} {curves}")
    return [float(v) for v in values]
