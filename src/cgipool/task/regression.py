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
from cgipool.errors import UserError
from cgipool.task.base import Floats, Task, Truth
from cgipool.task.device import VALUES, nan_mean
from cgipool.task.metrics import value_report


class Regression(Task):
    """The network predicts (target − mean) / standard deviation, with the training graphs' mean and deviation."""

    name = "regression"

    def targets(self, graphs: GraphSet, ids: NDArray[Any]) -> NDArray[Any]:
        """[n, T]."""
        assert graphs.targets is not None
        return np.asarray(graphs.targets[ids])

    def constants(self, graphs: GraphSet, ids: NDArray[Any], class_weight: str | None) -> Tensor:
        """[2, T] mean and standard deviation of the known targets; the deviation of a constant column is 1."""
        if class_weight is not None:
            raise UserError("class_weight is for classes, and these targets are numbers; use sample_weight")
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

    def loss(
        self,
        output: Tensor,
        truth: Truth | Batch,
        constants: Tensor,
        weight: Tensor,
        smoothing: float = 0.0,
        focal: float = 0.0,
    ) -> Tensor:
        """Weighted mean squared error over known targets, in units of the standard deviation."""
        error, each = self._errors(output, truth, constants, weight)
        return (error.square() * each).sum() / each.sum().clamp(min=1e-12)

    def mass(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """The weights of all known targets."""
        return (weight.unsqueeze(1) * ~truth.targets.isnan()).sum()

    def score(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, there: Tensor, metric: str | None = None
    ) -> Tensor:
        """The mean of a metric over columns, by default of the RMSE, in the targets' units."""
        return self.measured(metric or self.primary, self.predictions(output, constants), truth, there)

    def measured(
        self, metric: str, predictions: Tensor, truth: Truth | Batch, there: Tensor, positive: int | None = None
    ) -> Tensor:
        """The mean of a metric over the columns where it is defined."""
        known = ~truth.targets.isnan() & (there > 0).unsqueeze(1)
        target = torch.where(known, truth.targets.double(), torch.zeros_like(predictions))
        return nan_mean(VALUES[metric](predictions, target, known.double()))

    def _errors(self, output: Tensor, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T] standardised errors, 0 in gaps, and their weights."""
        known = ~truth.targets.isnan()
        mean, deviation = constants
        target = torch.where(known, (truth.targets - mean) / deviation, torch.zeros_like(output))
        return torch.where(known, output - target, torch.zeros_like(output)), weight.unsqueeze(1) * known

    def predictions(self, output: Tensor, constants: Tensor) -> Tensor:
        """Values in the targets' units."""
        mean, deviation = constants.double().unbind(-2)
        return output.double() * deviation.unsqueeze(-2) + mean.unsqueeze(-2)

    def evaluate(self, targets: NDArray[Any], predictions: Floats) -> dict[str, Any]:
        """The mean of each metric over columns and, for several columns, each column's."""
        return value_report(targets, predictions)
