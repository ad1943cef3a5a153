"""A search for settings by successive halving. Every decision is computed from the validation results in the store."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError
from cgipool.study.cell import Cell, plain
from cgipool.study.records import validation_score
from cgipool.study.search_file import BASE, Rung, Search, Trial
from cgipool.study.sets import origin_of
from cgipool.study.store import Store
from cgipool.study.stored import write_stored
from cgipool.task.metrics import primary_of
from cgipool.training.recipe import Recipe

Floats = NDArray[np.float64]

DIGITS = 12
"""Differences equal to this many decimals are a tie, so that rounding does not decide."""


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error over splits; with one split there is no error."""

    value: float
    se: float | None


@dataclass(frozen=True)
class Score:
    """The scores of a trial."""

    accuracy: Mean
    """Mean over methods and data sets; for tasks other than classification, of the search's metric."""
    difference: Mean
    """Difference to the base, split by split; trials are ranked by it."""
    datasets: dict[str, Mean]
    """The difference on each data set, over methods."""
    methods: dict[str, Mean]
    """The difference of each method, over data sets."""


def score(trial: Floats, base: Floats, methods: Sequence[str], datasets: Sequence[str]) -> Score:
    """Compute the scores from the [M, D, S] accuracies of a trial and of the base."""
    difference = trial - base
    return Score(
        mean_over(trial.mean(0)),
        mean_over(difference.mean(0)),
        {name: mean_over(difference[:, [d]].mean(0)) for d, name in enumerate(datasets)},
        {name: mean_over(difference[m]) for m, name in enumerate(methods)},
    )


def mean_over(values: Floats) -> Mean:
    """The mean of [D, S] values; each data set has the same weight.

    The error is that of the splits within each data set, because differences between data sets are not random.
    """
    sets, splits = values.shape
    if splits == 1:
        return Mean(float(values.mean()), None)
    variance = values.var(axis=1, ddof=1) / splits
    return Mean(float(values.mean()), math.sqrt(float(variance.sum())) / sets)


def ranked(scores: Mapping[str, Score | None], sign: float = 1.0) -> list[str]:
    """The trials that have a score, best first; ties keep input order. `sign` is −1 if lower is better."""
    known = {name: sign * score.difference.value for name, score in scores.items() if score is not None}
    return sorted(known, key=lambda name: -round(known[name], DIGITS))


def kept(scores: Mapping[str, Score | None], count: int, base: str, sign: float = 1.0) -> list[str]:
    """The base and the best of the others, `count` in total, in input order."""
    best = [name for name in ranked(scores, sign) if name != base][: count - 1]
    return [name for name in scores if name == base or name in best]


@dataclass(frozen=True)
class Round:
    """A rung, its trials, and their results in the store."""

    rung: Rung
    trials: dict[str, Trial]
    cells: dict[str, list[Cell]]
    """By trial, in the order of `Rung.places`."""
    accuracies: dict[str, list[list[float | None] | None]]
    """By trial and cell, the values of the splits; None for a cell that is not finished."""
    waiting: list[Cell]
    """Neither finished nor failed."""
    scores: dict[str, Score | None]
    """By trial, when no cell is waiting; None if a cell failed."""
    sign: float = 1.0
    """−1 if lower is better."""

    @property
    def names(self) -> list[str]:
        """The trials that have a score, best first."""
        return ranked(self.scores, self.sign)

    @property
    def best(self) -> Trial:
        """The best trial, when there are scores."""
        return self.trials[self.names[0]]


class Results:
    """The validation results in a store. Finished cells do not change, so each is read once."""

    def __init__(self, store: Store | None, retry_before: str = "", metric: str | None = None) -> None:
        self.store = store
        self.metric = metric
        """The search's metric; None: the task's primary one."""
        self.retry_before = retry_before
        """Failures before this time (in the format of `now`) will be tried again."""
        self._read: dict[str, list[float | None]] = {}

    def accuracies(self, cell: Cell) -> list[float | None] | None:
        """One for each split, in order; None where the cell is not finished."""
        if cell.key not in self._read:
            if self.store is None or not self.store.has(cell.key):
                return None
            rows = self.store.told(cell.key)["splits"]
            found = {row["split"]: validation_score(row, self._metric(cell)) for row in rows}
            first, splits = cell.protocol.first, cell.protocol.splits
            self._read[cell.key] = [found.get(split) for split in range(first, first + splits)]
        return self._read[cell.key]

    def tests(self, cell: Cell) -> list[float | None] | None:
        """The metric on the test graphs, one for each split; None where the cell is not finished."""
        if self.store is None or not self.store.has(cell.key):
            return None
        rows = {row["split"]: row["test"].get(self._metric(cell)) for row in self.store.told(cell.key)["splits"]}
        first, splits = cell.protocol.first, cell.protocol.splits
        return [_rounded(rows.get(split)) for split in range(first, first + splits)]

    def _metric(self, cell: Cell) -> str:
        return self.metric or primary_of(cell.task)

    def waits(self, cell: Cell) -> bool:
        """Whether a cell is still to be trained."""
        if self.accuracies(cell) is not None:
            return False
        failure = None if self.store is None else self.store.failure(cell.key)
        return failure is None or failure[1] < self.retry_before


def cells_of(search: Search, rung: Rung, trial: Trial) -> list[Cell]:
    """The cells that are trained to evaluate a trial."""
    recipe = search.space.recipe(trial).but(**rung.budget)
    return [
        Cell(
            method,
            dataset,
            recipe,
            rung.protocol,
            {"setting": trial.name, "method": method, "dataset": dataset},
            **origin_of(search.sets, dataset, recipe, rung.protocol.columns),
        )
        for method, dataset in rung.places
    ]


def rounds(search: Search, results: Results) -> list[Round]:
    """The rounds that the store determines so far; only the last one can have waiting cells."""
    trials = search.space.drawn(search.rungs[0].count, search.seed)
    found: list[Round] = []
    for place, rung in enumerate(search.rungs):
        found.append(_round(search, rung, trials, results))
        if found[-1].waiting:
            return found
        if place + 1 < len(search.rungs):
            names = kept(found[-1].scores, search.rungs[place + 1].count, BASE, search.metric.sign)
            trials = [found[-1].trials[name] for name in names]
    winner = found[-1].best
    if search.apart is not None and winner.changes:
        found.append(_round(search, search.apart, search.space.apart(winner), results))
    return found


def _round(search: Search, rung: Rung, trials: Sequence[Trial], results: Results) -> Round:
    cells = {trial.name: cells_of(search, rung, trial) for trial in trials}
    waiting = [cell for group in cells.values() for cell in group if results.waits(cell)]
    by_name = {trial.name: trial for trial in trials}
    known = {name: [results.accuracies(cell) for cell in group] for name, group in cells.items()}
    scores = {} if waiting else _scores(rung, known)
    return Round(rung, by_name, cells, known, waiting, scores, search.metric.sign)


def _scores(rung: Rung, known: dict[str, list[list[float | None] | None]]) -> dict[str, Score | None]:
    values = {name: _values(rung, rows) for name, rows in known.items()}
    base = values[BASE]
    if base is None:
        raise UserError(
            f"{rung.name}: the base itself could not be trained, so nothing can be compared with it (`cgipool study "
            "status STORE` says why; --retry-failed tries again)"
        )
    return {
        name: None if own is None else score(own, base, rung.methods, rung.datasets) for name, own in values.items()
    }


def _values(rung: Rung, rows: Sequence[list[float | None] | None]) -> Floats | None:
    """[methods, data sets, splits] accuracies of a trial; None where any is missing."""
    if any(value is None or not math.isfinite(value) for row in rows for value in row or [None]):
        return None
    return np.array(rows, dtype=np.float64).reshape(len(rung.methods), len(rung.datasets), -1)


def winner_of(search: Search, found: Sequence[Round]) -> Trial | None:
    """The best trial of the last rung, which may be the base; None before that rung has ended."""
    last = found[len(search.rungs) - 1 : len(search.rungs)]
    return last[0].best if last and last[0].scores else None


def options_of(recipe: Recipe) -> str:
    """The command-line options of a recipe."""
    words = ["--recipe", recipe.name]
    for name, value in recipe.settings().items():
        words += ["--set", f"{name}={plain(value)}"]
    return shlex.join(words)


def summary(search: Search, found: Sequence[Round], results: Results | None = None) -> dict[str, Any]:
    """The whole search as plain values: its settings, every trial with its score, and the winner.

    After the search, also the test results of every trial; nothing reads them before.
    """
    winner = winner_of(search, found)
    over = results is not None and winner is not None and not found[-1].waiting
    tests = results.tests if results is not None and over else None
    return {
        **{name: getattr(search, name) for name in ("name", "title", "about", "methods", "datasets", "seed")},
        "metric": search.metric_name,
        "base": search.space.base.to_json(),
        "space": search.space.choices,
        "rungs": [_rung_json(rung, found, tests) for rung in search.all_rungs],
        "winner": None if winner is None else _winner_json(winner, search.space.recipe(winner)),
    }


def _winner_json(winner: Trial, recipe: Recipe) -> dict[str, Any]:
    told = {"name": winner.name, "changes": winner.changes}
    return told | {"options": options_of(recipe), "recipe": recipe.to_json()}


def _rung_json(
    rung: Rung, found: Sequence[Round], tests: Callable[[Cell], list[float | None] | None] | None
) -> dict[str, Any]:
    trials = []
    for one in (one for one in found if one.rung is rung):
        for name, trial in one.trials.items():
            given = one.scores.get(name)
            state = "waiting" if one.waiting else "failed" if given is None else "judged"
            keys = [cell.key for cell in one.cells[name]]
            told: dict[str, Any] = {"name": name, "changes": trial.changes, "state": state, "cells": keys}
            told |= {"val_accuracy": [row and list(map(_rounded, row)) for row in one.accuracies[name]]}
            told |= {} if tests is None else {"test": [tests(cell) for cell in one.cells[name]]}
            trials.append(told | {"score": None if given is None else asdict(given)})
    return asdict(rung) | {"trials": trials}


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)


def write_summary(folder: Path, search: Search, found: Sequence[Round], results: Results | None = None) -> Path:
    """Store the summary as searches/NAME.json."""
    path = folder / "searches" / f"{search.name}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    write_stored(path, summary(search, found, results))
    return path
