"""One or several real-valued columns per graph, gaps allowed: mean squared error of standardised targets.

Shapes: B graphs of a batch, n graphs, T columns.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.task.base import Floats, Truth
from cgipool.task.columns import ColumnTask
from cgipool.task.device import VALUES
from cgipool.task.metrics import value_report


class Regression(ColumnTask):
    """The network predicts (target − mean) / standard deviation, with the training graphs' mean and deviation."""

    name = "regression"
    ignores = ("label_smoothing", "focal", "balanced_batches", "class_weight")
    on_device = VALUES

    def constants(self, graphs: GraphSet, ids: NDArray[Any], class_weight: str | None) -> Tensor:
        """[2, T] mean and standard deviation of the known targets; the deviation of a constant column is 1."""
        columns = [column[~np.isnan(column)] for column in self.targets(graphs, ids).T]
        mean = [column.mean() if len(column) else 0.0 for column in columns]
        deviation = [column.std() if len(column) else 0.0 for column in columns]
        return torch.tensor([mean, [value if value > 0.0 else 1.0 for value in deviation]], dtype=torch.float32)

    def baseline(self, graphs: GraphSet, ids: NDArray[Any], weight: Floats | None = None) -> list[float]:
        """[T] 0, the mean of standardised targets."""
        return [0.0] * self.outputs

    def baseline_output(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def _losses(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, smoothing: float, focal: float
    ) -> Tensor:
        """Squared errors in units of the standard deviation, 0 in gaps."""
        known = ~truth.targets.isnan()
        mean, deviation = constants
        target = torch.where(known, (truth.targets - mean) / deviation, torch.zeros_like(output))
        return torch.where(known, output - target, torch.zeros_like(output)).square()

    def _weights(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """The weights of graphs."""
        return weight.unsqueeze(1) * ~truth.targets.isnan()

    def predictions(self, output: Tensor, constants: Tensor) -> Tensor:
        """Values in the targets' units."""
        mean, deviation = constants.double().unbind(-2)
        return output.double() * deviation.unsqueeze(-2) + mean.unsqueeze(-2)

    def evaluate(self, targets: NDArray[Any], predictions: Floats, thresholds: Floats | None = None) -> dict[str, Any]:
        """The mean of each metric over columns and, for several columns, its value for each."""
        return value_report(targets, predictions)
