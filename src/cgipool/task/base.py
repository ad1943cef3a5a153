"""The interface of a task.

Shapes: B graphs of a batch, n graphs, O outputs of the network, T target columns, C classes.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.task.decisions import OF_DECISIONS, decided
from cgipool.task.metrics import METRICS, Metric

Floats = NDArray[np.float64]


class Truth(NamedTuple):
    """The targets of some graphs. A `Batch` has them too."""

    y: Tensor
    """[B] int64 classes."""
    targets: Tensor
    """[B, T] float32, NaN where missing; T is 0 for classification."""


class Task(ABC):
    """One kind of target: its loss, its metrics and its predictions."""

    name: ClassVar[str]
    ignores: ClassVar[tuple[str, ...]] = ()
    """Settings of a recipe that its loss does not read."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        """Names of the classes, or of the target columns."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by name."""
        return METRICS[self.name]

    @property
    def primary(self) -> str:
        """The metric by which models are compared."""
        return next(iter(self.metrics))

    @property
    def outputs(self) -> int:
        """O, the number of outputs of the network."""
        return len(self.columns)

    @abstractmethod
    def targets(self, graphs: GraphSet, ids: NDArray[Any]) -> NDArray[Any]:
        """The true values for the metrics: classes [n], or columns [n, T] with NaN where missing."""

    @abstractmethod
    def constants(self, graphs: GraphSet, ids: NDArray[Any], class_weight: str | None) -> Tensor:
        """Constants of the loss from the training graphs, as one float32 tensor that can be stacked over splits."""

    @abstractmethod
    def baseline(self, graphs: GraphSet, ids: NDArray[Any], weight: Floats | None = None) -> list[float]:
        """[O] the best constant prediction for these graphs."""

    @abstractmethod
    def baseline_output(self, values: Tensor) -> Tensor:
        """[O] the network's outputs for a constant prediction; targets of regression have mean 0."""

    @abstractmethod
    def loss(
        self,
        output: Tensor,
        truth: Truth | Batch,
        constants: Tensor,
        weight: Tensor,
        smoothing: float = 0.0,
        focal: float = 0.0,
    ) -> Tensor:
        """The mean loss of a batch, a scalar. `weight` [B] weighs graphs, 0 for an empty slot; gaps do not count.

        With `focal` = γ each term is multiplied by (1 − p)^γ, where p is the predicted probability of the true value
        (Lin et al., Focal Loss for Dense Object Detection, ICCV 2017).
        """

    @abstractmethod
    def mass(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """The sum of the weights in the mean `loss`, a scalar, by which the losses of batches are combined."""

    @abstractmethod
    def score(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, there: Tensor, metric: str | None = None
    ) -> Tensor:
        """A metric on the device, by default the primary one: a scalar, NaN if it is not defined.

        `there` [B] is 1 for a graph and 0 for an empty slot.
        """

    @abstractmethod
    def measured(
        self, metric: str, predictions: Tensor, truth: Truth | Batch, there: Tensor, positive: int | None = None
    ) -> Tensor:
        """A metric of predictions [B, O], a scalar, NaN if it is not defined. `positive` is the class for ROC-AUC and
        PR-AUC."""

    def value(
        self,
        metric: str,
        targets: NDArray[Any],
        predictions: Floats,
        positive: int | None = None,
        thresholds: NDArray[np.float64] | None = None,
    ) -> float:
        """One metric of `evaluate`, which is much faster than computing all; NaN if it is not defined."""
        if thresholds is not None and metric in OF_DECISIONS:
            predictions = decided(predictions, thresholds, classes=targets.ndim == 1)
        given, nothing = torch.from_numpy(targets), torch.empty(len(targets), 0)
        truth = Truth(given, nothing) if targets.ndim == 1 else Truth(nothing, given)
        answers = torch.from_numpy(np.asarray(predictions, dtype=np.float64))
        return float(self.measured(metric, answers, truth, torch.ones(len(targets)), positive))

    @abstractmethod
    def predictions(self, output: Tensor, constants: Tensor) -> Tensor:
        """[…, B, O] predictions in double precision: probabilities, or values in the units of the targets."""

    @abstractmethod
    def evaluate(self, targets: NDArray[Any], predictions: Floats, thresholds: Floats | None = None) -> dict[str, Any]:
        """All metrics by name; None for a metric that is not defined. `thresholds`: see decisions.py."""
