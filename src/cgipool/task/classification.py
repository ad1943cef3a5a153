"""One class per graph: cross-entropy (the paper's Eq. 5).

Shapes: B graphs of a batch, n graphs, C classes.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.task.base import Floats, Task, Truth
from cgipool.task.device import LABELS, class_score
from cgipool.task.metrics import report


class Classification(Task):
    """A softmax over C classes."""

    name = "classification"

    def targets(self, graphs: GraphSet, ids: NDArray[Any]) -> NDArray[Any]:
        """[n] the classes."""
        return graphs.y[ids]

    def constants(self, graphs: GraphSet, ids: NDArray[Any], class_weight: str | None) -> Tensor:
        """[C] class weights: ones, or n / (C · n_c) for "balanced", as in scikit-learn; 0 for an absent class."""
        return class_weights(graphs.y[ids], self.outputs, class_weight)

    def baseline(self, graphs: GraphSet, ids: NDArray[Any], weight: Floats | None = None) -> list[float]:
        """[C] the share of each class."""
        if weight is None:
            return (np.bincount(graphs.y[ids], minlength=self.outputs) / len(ids)).tolist()
        mass = weight[ids].astype(np.float64)
        return (np.bincount(graphs.y[ids], mass, minlength=self.outputs) / mass.sum()).tolist()

    def baseline_output(self, values: Tensor) -> Tensor:
        """The logarithms of the shares."""
        return values.clamp(min=torch.finfo(torch.float32).tiny).log()  # a class without training graphs

    def loss(
        self,
        output: Tensor,
        truth: Truth | Batch,
        constants: Tensor,
        weight: Tensor,
        smoothing: float = 0.0,
        focal: float = 0.0,
    ) -> Tensor:
        """Weighted mean of cross-entropies; with label smoothing, class weights act as in torch."""
        if focal > 0.0:
            return focal_loss(output, truth.y, constants, weight, smoothing, focal)
        if smoothing == 0.0:
            return classification_loss(output, truth.y, constants[truth.y] * weight)
        return smoothed_loss(output, truth.y, constants, weight, smoothing)

    def mass(self, truth: Truth | Batch, constants: Tensor, weight: Tensor) -> Tensor:
        """The sum of class weights times sample weights."""
        return (constants[truth.y] * weight).sum()

    def score(
        self, output: Tensor, truth: Truth | Batch, constants: Tensor, there: Tensor, metric: str | None = None
    ) -> Tensor:
        """By default the accuracy. ROC-AUC and PR-AUC are those of class 1, or the mean over more than two classes."""
        if metric is None or metric == self.primary:
            return ((output.argmax(1) == truth.y) * there).sum() / there.sum()
        return self.measured(metric, self.predictions(output, constants), truth, there)

    def measured(
        self, metric: str, predictions: Tensor, truth: Truth | Batch, there: Tensor, positive: int | None = None
    ) -> Tensor:
        """ROC-AUC and PR-AUC are those of `positive`, by default class 1, or the mean over more than two classes."""
        if positive is not None and metric in ("roc_auc", "pr_auc"):
            is_it = (truth.y == positive).to(predictions.dtype).unsqueeze(1)
            return LABELS[metric](predictions[:, [positive]], is_it, there.unsqueeze(1)).squeeze(0)
        return class_score(metric, predictions, truth.y, there)

    def predictions(self, output: Tensor, constants: Tensor) -> Tensor:
        """Probabilities."""
        return torch.softmax(output.double(), -1)

    def evaluate(self, targets: NDArray[Any], predictions: Floats, thresholds: Floats | None = None) -> dict[str, Any]:
        """All metrics by name; ROC-AUC and PR-AUC also for each class."""
        return report(targets, predictions, thresholds)


def classification_loss(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Eq. 5 as a weighted mean of cross-entropies, weight [B]. The paper prints a sum over graphs, its code takes the
    mean; with Adam the two differ only in the relative weights of weight decay and L_MI."""
    # Not `F.cross_entropy`: under `vmap` it imports torch's symbolic shapes, which takes a second.
    right = F.log_softmax(logits, 1).gather(1, y.unsqueeze(1)).squeeze(1)
    return -(right * weight).sum() / weight.sum().clamp(min=1e-12)


def smoothed_loss(logits: Tensor, y: Tensor, class_weight: Tensor, there: Tensor, smoothing: float) -> Tensor:
    """`classification_loss` with label smoothing, over the graphs that are `there` [B]. Class weights act as in torch's
    cross-entropy: each class's term has its weight, and the sum is divided by the weights of the true classes."""
    weight = class_weight[y] * there
    spread = (F.log_softmax(logits, 1) * class_weight).mean(1) * there
    even = -spread.sum() / weight.sum().clamp(min=1e-12)
    return (1.0 - smoothing) * classification_loss(logits, y, weight) + smoothing * even


def focal_loss(
    logits: Tensor, y: Tensor, class_weight: Tensor, there: Tensor, smoothing: float, focal: float
) -> Tensor:
    """`smoothed_loss` whose terms are multiplied by (1 − p)^γ; p is the predicted probability of the true class."""
    log_p = F.log_softmax(logits, 1)
    right = log_p.gather(1, y.unsqueeze(1)).squeeze(1)
    weight = class_weight[y] * there
    each = (1.0 - smoothing) * right * weight + smoothing * (log_p * class_weight).mean(1) * there
    missed = -torch.expm1(right)
    return -(each * missed.clamp(min=1e-12) ** focal).sum() / weight.sum().clamp(min=1e-12)


def class_weights(y: NDArray[Any], classes: int, kind: str | None) -> Tensor:
    """[classes] ones, or n / (classes · n_c) for "balanced", as in scikit-learn; 0 for a class without graphs."""
    if kind is None:
        return torch.ones(classes)
    count = np.bincount(y, minlength=classes)
    present = np.count_nonzero(count)
    return torch.tensor(np.where(count > 0, len(y) / (present * np.maximum(count, 1)), 0.0), dtype=torch.float32)
