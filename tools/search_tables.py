"""Tables for pages, made from a search, as Markdown. All show validation accuracy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cgipool.data.catalogue import family_of
from cgipool.report.blocks import Block, number
from cgipool.report.tables import markdown_block
from cgipool.study.search import Floats, Mean, mean_over
from cgipool.study.search_file import APART
from cgipool.study.space import BASE

Search = dict[str, Any]
"""The content of searches/NAME.json."""


def choices(search: Search) -> str:
    """The gain of each choice of the winner alone, and the loss without it."""
    rung = next(rung for rung in search["rungs"] if rung["name"] == APART)
    values = {_key(trial["changes"]): _values(rung, trial) for trial in rung["trials"] if trial["state"] == "judged"}
    changes = search["winner"]["changes"]
    base, winner = values[_key({})], values[_key(changes)]
    rows = []
    for name, value in changes.items():
        alone = values.get(_key({name: value}))
        without = values.get(_key({other: kept for other, kept in changes.items() if other != name}))
        differences = [_difference(alone, base), _difference(winner, without)]
        rows.append([name, f"{search['base'][name]}", f"{value}", *differences])
    rows.append(["all of them", "", "", _difference(winner, base), ""])
    words = [
        f"Validation accuracy in percentage points, ± the standard error over splits; {_judges(rung)}.",
        "Alone: the base with this choice, minus the base. Together: the winner, minus the winner without this choice.",
    ]
    return markdown_block(Block("", words, ["setting", "base", "winner", "alone", "together"], rows))


def finalists(search: Search) -> str:
    """The settings of the last rung, best first."""
    rung = [rung for rung in search["rungs"] if rung["name"] != APART][-1]
    judged = [trial for trial in rung["trials"] if trial["state"] == "judged"]
    rows, words = [], []
    for trial in sorted(judged, key=lambda trial: -trial["score"]["difference"]["value"]):
        score = trial["score"]
        means = [score["difference"], *(score["datasets"][name] for name in rung["datasets"])]
        points = [_points(Mean(**mean)) if trial["name"] != BASE else "" for mean in means]
        rows.append([trial["name"], number(100 * score["accuracy"]["value"]), *points])
        if trial["changes"]:
            words.append(
                f"{trial['name']}: {', '.join(f'{name} {value}' for name, value in trial['changes'].items())}."
            )
    words.append(
        f"Validation accuracy in percent, and differences to the base in points ± the standard error over splits; "
        f"{_judges(rung)}."
    )
    head = ["setting", "accuracy", "difference", *(f"on {name}" for name in rung["datasets"])]
    return markdown_block(Block("", words, head, rows))


def families(search: Search) -> str:
    """The settings of the last rung on each family of data sets, best first; the best of a family is bold."""
    rung = [rung for rung in search["rungs"] if rung["name"] != APART][-1]
    judged = [trial for trial in rung["trials"] if trial["state"] == "judged"]
    judged.sort(key=lambda trial: -trial["score"]["difference"]["value"])
    (base,) = [_values(rung, trial) for trial in judged if trial["name"] == BASE]
    kinds = [family_of(name) for name in rung["datasets"]]
    gains = {trial["name"]: (_values(rung, trial) - base).mean(0) for trial in judged}
    rows: list[list[str]] = [[trial["name"]] for trial in judged]
    strong = set()
    for column, family in enumerate(dict.fromkeys(kinds), start=1):
        means = [mean_over(gains[name][[kind == family for kind in kinds]]) for (name, *_) in rows]
        for row, mean in zip(rows, means, strict=True):
            row.append("0" if row[0] == BASE else _points(mean))
        strong.add((max(range(len(rows)), key=lambda row: means[row].value), column))
    words = [f"Validation accuracy minus the base's, in points ± the standard error over splits; {_judges(rung)}."]
    return markdown_block(Block("", words, ["setting", *dict.fromkeys(kinds)], rows, strong=strong))


def values_tried(search: Search) -> str:
    """The mean result of the first rung's settings with each value of each setting."""
    rung = search["rungs"][0]
    trials = [trial for trial in rung["trials"] if trial["state"] == "judged" and trial["name"] != BASE]
    rows = []
    for name, tried in search["space"].items():
        for value in tried:
            having = [trial["score"] for trial in trials if trial["changes"].get(name, search["base"][name]) == value]
            differences = [[score["difference"]["value"] for score in having]]
            differences += [[score["datasets"][data]["value"] for score in having] for data in rung["datasets"]]
            rows.append([name, f"{value}", str(len(having)), *map(_over_trials, differences)])
    words = [
        f"Mean difference to the base of all settings that have a value, in points of validation accuracy, ± the "
        f"standard error over these settings; {_judges(rung)}. Settings differ in everything else as well."
    ]
    head = ["setting", "value", "settings", "difference", *(f"on {name}" for name in rung["datasets"])]
    return markdown_block(Block("", words, head, rows))


def _key(changes: dict[str, Any]) -> str:
    return repr(sorted(changes.items()))


def _values(rung: dict[str, Any], trial: dict[str, Any]) -> Floats:
    """[methods, data sets, splits] accuracies."""
    shape = (len(rung["methods"]), len(rung["datasets"]), -1)
    return np.array(trial["val_accuracy"], dtype=np.float64).reshape(shape)


def _difference(one: Floats | None, other: Floats | None) -> str:
    return "–" if one is None or other is None else _points(mean_over((one - other).mean(0)))


def _points(mean: Mean) -> str:
    return f"{number(100 * mean.value, sign=True)} ± {number(None if mean.se is None else 100 * mean.se)}"


def _over_trials(values: list[float]) -> str:
    if not values:
        return number(None)
    se = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return _points(Mean(float(np.mean(values)), se))


def _judges(rung: dict[str, Any]) -> str:
    first = rung["protocol"]["first"]
    epochs = f", {rung['budget']['epochs']} epochs" if "epochs" in rung["budget"] else ""
    sets, methods = ", ".join(rung["datasets"]), ", ".join(rung["methods"])
    return f"{methods} on {sets}, splits {first} to {first + rung['protocol']['splits'] - 1}{epochs}"


SEARCH_TABLES: dict[str, Callable[[Search], str]] = {
    "choices": choices,
    "finalists": finalists,
    "families": families,
    "values-tried": values_tried,
}
"""Search tables by the name that pages use."""
