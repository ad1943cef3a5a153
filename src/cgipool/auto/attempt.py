"""The state of a candidate in a search of `fit --auto`, and the result of a search."""

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
    """Its settings, with the number of epochs that fits into the budget; None before its first full training."""
    answers: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    """By fold, [n, O] the predictions of a fully trained model for the graphs of the fold."""
    homes: dict[int, Path] = field(default_factory=dict)
    """By fold, the folder of the trained model."""
    scores: list[float] = field(default_factory=list)
    """The metric after each rung that it reached."""
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
    """The trials that were scored on all of `folds`, best first."""
    rest: list[Attempt]
    """The other trials; those whose training was not completed come last."""
    folds: list[int]
    """The folds that all finalists finished."""
    dev: NDArray[np.int64]
    held: NDArray[np.int64]
    """The graphs that were searched on, and those held out."""
    metric: str
