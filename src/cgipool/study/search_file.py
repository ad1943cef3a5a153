"""A search file: which settings are drawn, and the rungs on which they are compared."""

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cgipool.errors import UserError, counted, unknown
from cgipool.pool import method_named
from cgipool.study.cell import Protocol, protocol_of
from cgipool.study.plan import check_keys, check_name, check_settings, read_toml, recipe_of
from cgipool.study.sets import Sets, family_in, own_sets, task_in
from cgipool.study.space import Space, space_of
from cgipool.task.metrics import KNOWN, Metric, check_metric, primary_of
from cgipool.training.presets import STRONG
from cgipool.training.recipe import Recipe

TEXTS = ("name", "title", "about", "metric")
TABLES = ("protocol", "data", "base", "space", "one_at_a_time")
OTHERS = ("methods", "datasets", "seed", "rung")
APART = "one at a time"
BUDGET = ("epochs", "patience")

FIRST = 1000
"""The number of the first split, unless the file gives it."""
REPORTED, REPORTED_SEED = 20, 0
"""Results are reported on the splits 0 to 19 of this seed; settings must not be chosen on them."""


@dataclass(frozen=True)
class Rung:
    """One round of trials. Each has its own splits, so that a lucky result of one round does not carry over."""

    name: str
    count: int
    """Number of settings including the base; in the ablation, at most this many."""
    methods: list[str]
    datasets: list[str]
    protocol: Protocol
    budget: dict[str, Any]
    """Epochs and patience that replace those of the settings."""

    @property
    def places(self) -> list[tuple[str, str]]:
        """Method and data set of each cell of a trial."""
        return [(method, dataset) for method in self.methods for dataset in self.datasets]


@dataclass(frozen=True)
class Search:
    """The content of a search file."""

    name: str
    title: str
    about: str
    methods: list[str]
    datasets: list[str]
    seed: int
    space: Space
    rungs: list[Rung]
    apart: Rung | None
    """The ablation of the winner."""
    sets: Sets = field(default_factory=dict)
    """The user's own data sets."""
    metric_name: str = "accuracy"
    """The metric on validation graphs by which settings are ranked."""

    @property
    def task(self) -> str:
        """The task of all data sets."""
        return task_in(self.sets, self.datasets[0])

    @property
    def metric(self) -> Metric:
        """How that metric is shown and compared."""
        return KNOWN[self.metric_name]

    @property
    def all_rungs(self) -> list[Rung]:
        """Including the ablation."""
        return [*self.rungs, *([] if self.apart is None else [self.apart])]


def read_search(path: Path, family: str | None = None, metric: str | None = None) -> Search:
    """Read a search from a file, or the part of it with the data sets of one family, or by another metric than the
    file names. Meaningless entries are errors."""
    return read_toml(path, functools.partial(search_of, family=family, folder=path.parent, metric=metric))


def search_of(
    given: dict[str, Any],
    default_name: str = "search",
    family: str | None = None,
    folder: Path = Path(),
    metric: str | None = None,
) -> Search:
    """Build a search from plain values; paths are relative to a folder."""
    if "axes" in given:
        raise UserError("this is a study file: run it with `cgipool study run`")
    _check_keys(given)
    columns = _protocol(given.get("protocol", {})).columns
    sets = own_sets(given.get("data", {}), folder, _names(given, "datasets", "the file"), columns=columns)
    if family is not None:
        given = _on_family(given, family, sets)
    methods, datasets = (_names(given, key, "the file") for key in ("methods", "datasets"))
    for method in methods:
        method_named(method)
    families = sorted({family_in(sets, name) for name in datasets})
    tasks = sorted({task_in(sets, name) for name in datasets})
    if len(tasks) > 1:
        raise UserError(
            f"a search needs data sets of one task, as it averages their metric; these are {', '.join(tasks)}"
        )
    by = check_metric(tasks[0], metric or given.get("metric"))
    space = space_of(_watching(_base(given.get("base", {}), families), by, tasks[0], given["space"]), given["space"])
    rungs = _rungs(given, space, methods, datasets)
    apart = rungs.pop() if "one_at_a_time" in given else None
    name = check_name(given.get("name", default_name))
    title = given.get("title", name)
    if family is not None:
        name, title = f"{name}-{family}", f"{title}: {family}"
    if metric is not None:
        name = f"{name}-{metric}"
    texts = (name, title, given.get("about", ""))
    search = Search(*texts, methods, datasets, _whole(given, "seed", 0, "the file", 0), space, rungs, apart, sets, by)
    space.drawn(rungs[0].count, search.seed)  # raises if the space is too small
    return search


def _check_keys(given: dict[str, Any]) -> None:
    check_keys(given, TEXTS, TABLES, OTHERS)
    for key in ("methods", "datasets", "space", "rung"):
        if key not in given:
            raise UserError(f"a search needs {key}" if key[-1] == "s" else f"a search needs [{key}]")
    rungs = given["rung"]
    if not isinstance(rungs, list) or not rungs or not all(isinstance(rung, dict) for rung in rungs):
        raise UserError("rungs must be tables, [[rung]]")


def _on_family(given: dict[str, Any], family: str, sets: Sets) -> dict[str, Any]:
    """The content of a file, with only the data sets of one family. The drawn settings are the same."""
    families = sorted({family_in(sets, name) for name in _names(given, "datasets", "the file")})
    if family not in families:
        raise unknown("family of these data sets", family, families)

    def within(table: dict[str, Any], where: str) -> dict[str, Any]:
        if "datasets" not in table:
            return table
        names = [name for name in _names(table, "datasets", where) if family_in(sets, name) == family]
        if not names:
            raise UserError(f"{where} has no data set of the family {family}")
        return table | {"datasets": names}

    rungs = [within(rung, f"rung {number}") for number, rung in enumerate(given["rung"], start=1)]
    whole = within(given, "the file") | {"rung": rungs}
    return whole | ({"one_at_a_time": within(given["one_at_a_time"], APART)} if "one_at_a_time" in given else {})


def _names(given: dict[str, Any], key: str, where: str) -> list[str]:
    names = given[key]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UserError(f"{key} of {where} must be a list of names")
    if len(set(names)) < len(names):
        raise UserError(f"{key} of {where} lists a name twice")
    return names


def _whole(given: dict[str, Any], key: str, least: int, where: str, usual: int | None = None) -> int:
    value = given.get(key, usual)
    if type(value) is not int or value < least:
        raise UserError(f"{where} needs {key}, an integer of at least {least}")
    return value


def _base(given: dict[str, Any], families: list[str]) -> Recipe:
    check_settings(given, "base")
    if given.get("recipe") == "strong" and len(families) > 1:
        names = ", ".join(recipe.name for recipe in STRONG.values())
        raise UserError(
            f"strong is a different recipe on each of {', '.join(families)}: use --family, or one of {names} in [base]"
        )
    return recipe_of(given, families[0])


def _watching(base: Recipe, metric: str, task: str, space: dict[str, Any]) -> Recipe:
    """The base, with early stopping by the metric: only what early stopping watches is known of validation graphs."""
    if metric == primary_of(task):
        return base
    if base.stop_by not in ("loss", metric) or "stop_by" in space:
        raise UserError(f"a search by {metric!r} also stops by it: leave stop_by out of [base] and [space]")
    return base.but(stop_by=metric)


def _protocol(given: dict[str, Any]) -> Protocol:
    if "splits" in given:
        raise UserError("splits belong in the rungs, not in [protocol]")
    overlap = given.get("overlap", False)
    if not isinstance(overlap, bool):
        raise UserError("overlap of [protocol] must be true or false")
    protocol = protocol_of({"first": FIRST} | {key: value for key, value in given.items() if key != "overlap"})
    if protocol.seed == REPORTED_SEED and protocol.first < REPORTED and not overlap:
        raise UserError(
            f"splits from {protocol.first} of seed {protocol.seed} overlap with those of reported results (0 to "
            f"{REPORTED - 1}): start later, such as first = {FIRST}, or set overlap = true in [protocol]"
        )
    return protocol


def _rungs(given: dict[str, Any], space: Space, methods: list[str], datasets: list[str]) -> list[Rung]:
    """The rungs, followed by the ablation if there is one."""
    tables = {f"rung {number}": table for number, table in enumerate(given["rung"], start=1)}
    tables |= {APART: given["one_at_a_time"]} if "one_at_a_time" in given else {}
    protocol = _protocol(given.get("protocol", {}))
    rungs: list[Rung] = []
    for name, table in tables.items():
        count = _count(table, name, space, rungs)
        protocol = replace(protocol, splits=_whole(table, "splits", 1, name))
        judges = (_among(table, "methods", methods, name), _among(table, "datasets", datasets, name))
        rungs.append(Rung(name, count, *judges, protocol, _budget(table, space, name)))
        protocol = replace(protocol, first=protocol.first + protocol.splits)
    return rungs


def _count(table: dict[str, Any], name: str, space: Space, before: list[Rung]) -> int:
    """The number of settings in a rung. Meaningless entries are errors."""
    key = None if name == APART else "keep" if before else "settings"
    known = [word for word in (key, "splits", "methods", "datasets", *BUDGET) if word is not None]
    for word in table:
        if word not in known:
            raise unknown(f"key of {name}", word, known)
    if key is None:
        return 2 + 2 * len(space.choices)
    count = _whole(table, key, 2, name)
    if before and count >= before[-1].count:
        raise UserError(f"{name} must keep fewer than the {counted(before[-1].count, 'setting')} before it")
    return count


def _among(table: dict[str, Any], key: str, all_names: list[str], where: str) -> list[str]:
    """The names that a rung gives, or all."""
    names = _names(table, key, where) if key in table else all_names
    for name in names:
        if name not in all_names:
            raise unknown(f"name in {key} of {where}", name, all_names)
    return names


def _budget(table: dict[str, Any], space: Space, where: str) -> dict[str, Any]:
    budget = {key: table[key] for key in BUDGET if key in table}
    for key in budget:
        if key in space.choices:
            raise UserError(f"{key} appears in both [space] and {where}")
    space.base.but(**budget)
    return budget
