"""What a search of `fit --auto` knows of a candidate, and what it finds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgipool.auto.candidates import Candidate
from cgipool.training.recipe import Recipe


@dataclass
class Attempt:
    """A candidate and its scores so far."""

    candidate: Candidate
    recipe: Recipe | None = None
    """Its settings with the epochs that fit into the budget, once it was trained in full."""
    answers: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    """By fold, [n, O] predictions for the graphs of the fold, from a full training."""
    homes: dict[int, Path] = field(default_factory=dict)
    """By fold, the folder of the trained model."""
    scores: list[float] = field(default_factory=list)
    """The metric after each rung that it was part of."""
    seconds: float = 0.0
    """Of all its trainings and what they needed."""
    cost: float = 0.0
    """Seconds of its latest full training alone."""
    slow: bool = False
    """Whether it was left out because of the budget."""
    reason: str = ""
    """Why it was not trained to the end: an error, or the budget."""


def common_folds(trials: Iterable[Attempt]) -> list[int]:
    """The folds that all of these finished."""
    return sorted(set.intersection(*(set(trial.answers) for trial in trials)))


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    finalists: list[Attempt]
    """The trials that were scored on all of `folds`, the best first."""
    rest: list[Attempt]
    """The others, those that were not trained to the end last."""
    folds: list[int]
    """The folds that all finalists finished."""
    dev: NDArray[np.int64]
    held: NDArray[np.int64]
    """The graphs that were searched on, and those held out."""
    metric: str
