"""The interface of a classical method, and the data that it is fitted on.

Shapes: G graphs of a data set, n graphs, O outputs of the task (classes or target columns).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.task.base import Task

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Examples:
    """The graphs of a split that a method is fitted on, and the settings that it reads."""

    graphs: GraphSet
    """The whole data set."""
    train: Ints
    """Numbers of the training graphs."""
    val: Ints
    """Numbers of the validation graphs, by which settings are chosen."""
    task: Task
    labels: bool = True
    """Whether nodes start with their labels (otherwise with their degrees)."""
    edge_labels: bool = True
    """Whether edge labels are used if there are any."""
    class_weight: str | None = None
    """None or "balanced"."""
    sample_weight: NDArray[Any] | None = None
    """[G] the weight of each graph."""
    seed: int = 0
    """Seed of all random draws."""

    def weights(self, ids: Ints) -> Doubles | None:
        """[n] the weights of some graphs."""
        return None if self.sample_weight is None else self.sample_weight[ids].astype(np.float64)


@dataclass(frozen=True)
class Fitted:
    """A fitted model: everything that is needed for predictions, as plain arrays."""

    arrays: Arrays
    choice: dict[str, float]
    """The settings chosen by the validation graphs."""


class Classical(Protocol):
    """A classical method. Its objects are stateless: a fitted model is a set of arrays."""

    def prepare(self, graphs: GraphSet) -> None:
        """Compute the features in advance, so that processes find them in the cache."""

    def fit(self, examples: Examples) -> Fitted:
        """Fit on the training graphs; choose settings on the validation graphs."""

    def predict(self, arrays: Arrays, graphs: GraphSet, task: Task) -> Doubles:
        """[G, O] probabilities, or values in the units of the targets."""

    def check_arrays(self, arrays: Arrays, task: Task) -> None:
        """Raise ValueError unless the arrays are those of a fitted model for this task."""


def score(examples: Examples, predictions: Doubles) -> float:
    """The task's primary metric on the validation graphs, with its sign changed if lower is better.

    If it is not defined (such as ROC-AUC with one class only), minus the log loss; without known targets −∞.
    """
    task = examples.task
    found = task.evaluate(task.targets(examples.graphs, examples.val), predictions)
    for name in (task.primary, "log_loss"):
        if found.get(name) is not None:
            return float(found[name]) if task.metrics[name].higher else -float(found[name])
    return -np.inf
