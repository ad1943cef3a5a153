"""What every classical method can do, and what it learns from.

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
    """The graphs of a split that a method may learn from, and the settings that it reads."""

    graphs: GraphSet
    """The whole data set."""
    train: Ints
    """Numbers of the training graphs."""
    val: Ints
    """Numbers of the graphs by which settings are chosen."""
    task: Task
    labels: bool = True
    """Whether nodes start with their labels; otherwise with their degree."""
    edge_labels: bool = True
    """Whether edge labels are used, where there are any."""
    class_weight: str | None = None
    """None or "balanced"."""
    sample_weight: NDArray[Any] | None = None
    """[G] the weight of each graph."""
    seed: int = 0
    """Of all random draws."""

    def weights(self, ids: Ints) -> Doubles | None:
        """[n] the weights of some graphs."""
        return None if self.sample_weight is None else self.sample_weight[ids].astype(np.float64)


@dataclass(frozen=True)
class Fitted:
    """A fitted model: everything that predictions need, as plain arrays."""

    arrays: Arrays
    choice: dict[str, float]
    """The settings chosen by the validation graphs."""


class Classical(Protocol):
    """A classical method. Its objects hold no state: what was learned is in the arrays."""

    def prepare(self, graphs: GraphSet) -> None:
        """Compute the features that processes share through the cache."""

    def fit(self, examples: Examples) -> Fitted:
        """Learn from the training graphs; choose settings by the validation graphs."""

    def predict(self, arrays: Arrays, graphs: GraphSet, task: Task) -> Doubles:
        """[G, O] probabilities, or values in the units of the targets."""

    def check_arrays(self, arrays: Arrays, task: Task) -> None:
        """Raise ValueError unless the arrays are those of a fitted model for this task."""


def score(examples: Examples, predictions: Doubles) -> float:
    """The task's primary metric on the validation graphs, turned so that larger is better.

    Where it is not defined (an area, if all have the same value), the log loss; without a known target −∞.
    """
    task = examples.task
    found = task.evaluate(task.targets(examples.graphs, examples.val), predictions)
    for name in (task.primary, "log_loss"):
        if found.get(name) is not None:
            return float(found[name]) if task.metrics[name].higher else -float(found[name])
    return -np.inf
