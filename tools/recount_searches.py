"""What the tables of searches should say, from the validation accuracies of every trial."""

from collections.abc import Callable
from typing import Any

import numpy as np

FAMILIES = {"IMDB-BINARY": "social", "IMDB-MULTI": "social", "COLLAB": "social", "PROTEINS": "proteins"}

Expected = list[tuple[Any, ...] | None]


def _last(search: dict[str, Any]) -> dict[str, Any]:
    """The last rung that settings advance to; after it, choices are tried one at a time."""
    return [rung for rung in search["rungs"] if rung["name"] != "one at a time"][-1]


def _values(rung: dict[str, Any]) -> dict[str, np.ndarray]:
    """By trial, [data sets, splits] in percent, averaged over methods."""
    shape = len(rung["methods"]), len(rung["datasets"]), -1
    judged = [trial for trial in rung["trials"] if trial["state"] == "judged"]
    return {t["name"]: 100 * np.array(t["val_accuracy"], float).reshape(shape).mean(0) for t in judged}


def _mean(values: np.ndarray) -> tuple[float, float]:
    """Mean of [data sets, splits], and its error from the splits of each data set."""
    sets, splits = values.shape
    return float(values.mean()), float(np.sqrt((values.var(axis=1, ddof=1) / splits).sum()) / sets)


def finalists(search: dict[str, Any], head: list[str], rows: list[list[str]]) -> list[Expected]:
    """Accuracy, and differences to the base."""
    rung = _last(search)
    values, expected = _values(rung), []
    for name, *_ in rows:
        apart = values[name] - values["base"]
        sets = [_mean(apart[[place]]) for place in range(len(apart))]
        base = name == "base"
        expected.append([(values[name].mean(),), *([None] * (len(sets) + 1) if base else [_mean(apart), *sets])])
    return expected


def families(search: dict[str, Any], head: list[str], rows: list[list[str]]) -> list[Expected]:
    """Differences to the base, averaged over families."""
    rung = _last(search)
    values, kinds = _values(rung), [FAMILIES.get(name, "molecules") for name in rung["datasets"]]
    expected: list[Expected] = []
    for name, *_ in rows:
        apart = values[name] - values["base"]
        found = [_mean(apart[[kind == column for kind in kinds]]) for column in head[1:]]
        expected.append([(0.0,)] * len(found) if name == "base" else list(found))
    return expected


def values_tried(search: dict[str, Any], head: list[str], rows: list[list[str]]) -> list[Expected]:
    """Means over the settings of the first rung that have a value."""
    rung = search["rungs"][0]
    values = _values(rung)
    changes = {trial["name"]: trial["changes"] for trial in rung["trials"]}
    expected: list[Expected] = []
    for setting, value, *_ in rows:
        having = [
            values[name] - values["base"]
            for name in values
            if name != "base" and str(changes[name].get(setting, search["base"][setting])) == value
        ]
        if not having:  # the search did not try this value
            expected.append([None] * (len(head) - 1))
            continue
        table = np.array([[apart.mean(), *apart.mean(1)] for apart in having])
        errors = table.std(axis=0, ddof=1) / np.sqrt(len(table))
        numbers = list(zip(table.mean(0).tolist(), errors.tolist(), strict=True))
        expected.append([(value,), (len(having),), *numbers])
    return expected


def choices(search: dict[str, Any], head: list[str], rows: list[list[str]]) -> list[Expected]:
    """Each choice of the winner, alone and left out."""
    rung = search["rungs"][-1]
    values, wanted = _values(rung), search["winner"]["changes"]
    by_changes = {str(sorted(t["changes"].items())): values.get(t["name"]) for t in rung["trials"]}

    def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
        a, b = (by_changes[str(sorted(changes.items()))] for changes in (one, other))
        assert a is not None
        assert b is not None
        return _mean(a - b)

    expected: list[Expected] = []
    for name, *_ in rows:
        if name == "all of them":
            expected.append([None, None, difference(wanted, {}), None])
            continue
        without = {other: value for other, value in wanted.items() if other != name}
        both = difference({name: wanted[name]}, {}), difference(wanted, without)
        expected.append([(str(search["base"][name]),), (str(wanted[name]),), *both])
    return expected


TABLES: dict[str, Callable[..., list[Expected]]] = {
    "finalists": finalists,
    "families": families,
    "values-tried": values_tried,
    "choices": choices,
}
"""By the name that pages use."""
