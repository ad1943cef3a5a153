"""Several 0/1 columns per graph, gaps allowed: binary cross-entropy of each column.

Shapes: B graphs of a batch, n graphs, T columns.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.task.base import Floats, Truth
from cgipool.task.columns import ColumnTask, known_targets
from cgipool.task.device import LABELS
from cgipool.task.metrics import label_report


class MultiLabel(ColumnTask):
    """A sigmoid for each column."""

    name = "multilabel"
    on_device = LABELS

    def constants(self, graphs: GraphSet, ids: NDArray[Any], class_weight: str | None) -> Tensor:
        """[2, T] the weights of 0 and of 1 in each column: ones, or n / (2 · count) for "balanced"."""
        weights = np.ones((2, self.outputs), np.float32)
        if class_weight is not None:
            values = self.targets(graphs, ids)
            count = np.stack([(values == 0).sum(0), (values == 1).sum(0)])
            both = (count > 0).all(0)
            weights = np.where(both, count.sum(0) / (2.0 * np.maximum(count, 1)), 1.0).astype(np.float32)
        return torch.from_numpy(weights)

    def baseline(self, graphs: GraphSet, ids: NDArray[Any], weight: Floats | None = None) -> list[float]:
        """[T] the rate of 1 in each column, over known values; one half without any."""
        values = self.targets(graphs, ids)
        known = ~np.isnan(values) * (1.0 if weight is None else weight[ids][:, None])
        total = known.sum(0)
        return np.where(total > 0, (np.nan_to_num(values) * known).sum(0) / np.maximum(total, 1e-12), 0.5).tolist()

    def baseline_output(self, values: Tensor) -> Tensor:
        """The log-odds of the rates, within ± 16."""
        return torch.logit(values, eps=1e-7)

    def _losses(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, smoothing: float, focal: float
    ) -> Tensor:
        """Binary cross-entropies; a smoothed label is y (1 − ε) + ε / 2."""
        target = known_targets(truth) * (1.0 - smoothing) + 0.5 * smoothing
        loss = F.softplus(output) - output * target
        if focal > 0.0:
            # 1 − p = σ(−s), where s is the output for a true 1 and its negative for a true 0.
            sign = torch.where(truth.targets > 0.5, -torch.ones_like(output), torch.ones_like(output))
            loss = loss * torch.exp(focal * F.logsigmoid(sign * output))
        return loss

    def _weights(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """The weights of graphs times those of their values 0 and 1."""
        target = known_targets(truth)
        of_value = constants[0] * (1.0 - target) + constants[1] * target
        return weight.unsqueeze(1) * ~truth.targets.isnan() * of_value

    def predictions(self, output: Tensor, constants: Tensor) -> Tensor:
        """The probability of 1 in each column."""
        return torch.sigmoid(output.double())

    def evaluate(self, targets: NDArray[Any], predictions: Floats, thresholds: Floats | None = None) -> dict[str, Any]:
        """The mean of each metric over the columns where it is defined, and its value for each column."""
        return label_report(targets, predictions, thresholds)
