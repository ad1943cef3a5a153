"""What tasks with target columns share: gaps are allowed, and a metric is the mean over columns.

Shapes: B graphs of a batch, n graphs, T columns.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.task.base import Task, Truth
from cgipool.task.device import nan_mean


class ColumnTask(Task):
    """A task that predicts T columns."""

    on_device: ClassVar[Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]]]
    """The metrics of each column, by name."""

    @abstractmethod
    def _losses(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, smoothing: float, focal: float
    ) -> Tensor:
        """[B, T] the loss of each value; any finite number in gaps."""

    @abstractmethod
    def _weights(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """[B, T] the weight of each value, 0 in gaps."""

    def targets(self, graphs: GraphSet, ids: NDArray[Any]) -> NDArray[Any]:
        """[n, T]."""
        assert graphs.targets is not None
        return np.asarray(graphs.targets[ids])

    def loss(
        self,
        output: Tensor,
        truth: Truth | Batch,
        constants: Tensor,
        weight: Tensor,
        smoothing: float = 0.0,
        focal: float = 0.0,
    ) -> Tensor:
        """The weighted mean over known values."""
        each = self._weights(truth, constants, weight)
        return (self._losses(output, truth, constants, smoothing, focal) * each).sum() / each.sum().clamp(min=1e-12)

    def mass(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """The sum of the weights of known values."""
        return self._weights(truth, constants, weight).sum()

    def score(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, there: Tensor, metric: str | None = None
    ) -> Tensor:
        """The mean of a metric over columns, by default of the primary one."""
        return self.measured(metric or self.primary, self.predictions(output, constants), truth, there)

    def measured(
        self, metric: str, predictions: Tensor, truth: Truth | Batch, there: Tensor, positive: int | None = None
    ) -> Tensor:
        """The mean of a metric over the columns where it is defined."""
        known = ~truth.targets.isnan() & (there > 0).unsqueeze(1)
        target = torch.where(known, truth.targets.double(), torch.zeros_like(predictions))
        return nan_mean(self.on_device[metric](predictions, target, known.double()))


def known_targets(truth: Truth | Batch) -> Tensor:
    """[B, T] the targets, 0 in gaps."""
    return torch.where(truth.targets.isnan(), torch.zeros_like(truth.targets), truth.targets)
