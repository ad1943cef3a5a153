"""The loss of a step: L = L_CLS + weight · the method's own loss (for CGIPool the paper's Eq. 4, L_CLS + α L_MI)."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cgipool.data.batch import Batch
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.model.network import Output


def classification_loss(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Eq. 5 as a weighted mean of cross-entropies, weight [B]. The paper prints a sum over graphs, its code takes the
    mean: with Adam the two differ only in how strongly weight decay and L_MI count beside them."""
    # Not `F.cross_entropy`: under `vmap` it is a decomposition that imports torch's symbolic shapes, a second's work.
    right = F.log_softmax(logits, 1).gather(1, y.unsqueeze(1)).squeeze(1)
    return -(right * weight).sum() / weight.sum().clamp(min=1e-12)


def smoothed_loss(logits: Tensor, y: Tensor, class_weight: Tensor, there: Tensor, smoothing: float) -> Tensor:
    """`classification_loss` with smoothed labels, over the graphs that are `there` [B]: a share `smoothing` of each
    label is spread evenly over all classes. A class counts by its weight wherever its probability does, as in torch's
    cross-entropy, and the sum is divided by the weights of the true classes."""
    weight = class_weight[y] * there
    spread = (F.log_softmax(logits, 1) * class_weight).mean(1) * there
    even = -spread.sum() / weight.sum().clamp(min=1e-12)
    return (1.0 - smoothing) * classification_loss(logits, y, weight) + smoothing * even


def objective(
    output: Output,
    batch: Batch,
    class_weight: Tensor,
    own_weight: float | Tensor,
    share: float = 1.0,
    smoothing: float = 0.0,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """The loss of one batch, a scalar; class_weight is [classes], and empty slots count nothing. An own loss of weight
    0 is left out, so that it cannot spoil the sum; a weight given as a tensor is never looked at. If the batch is a
    part of a larger one, `share` is how much of that one's class weights it holds. `smoothing` is of the labels.
    `sample_weight` is [G], of all graphs of the data set; it does not weigh the own loss."""
    there = batch.size > 0
    if sample_weight is not None:
        there = there * sample_weight[batch.id]
    if smoothing == 0.0:
        loss = classification_loss(output.logits, batch.y, class_weight[batch.y] * there)
    else:
        loss = smoothed_loss(output.logits, batch.y, class_weight, there, smoothing)
    if share != 1.0:
        loss = loss * share
    if isinstance(own_weight, float) and own_weight == 0.0:
        return loss
    return loss + own_weight * output.own_loss


def checked_weights(given: ArrayLike, count: int, splits: Sequence[Split]) -> NDArray[np.float32]:
    """[G] the weights of graphs with a mean of 1; an error unless they are such, and some graph counts on each side."""
    try:
        weight = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError("sample_weight must have one number for each graph") from None
    if weight.shape != (count,):
        raise UserError(f"sample_weight must have {count} numbers, one for each graph; its shape is {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise UserError("sample_weight must be finite and non-negative")
    for split in splits:
        for side, ids in (("training", split.train), ("validation", split.val)):
            if not weight[ids].any():
                raise UserError(f"sample_weight is 0 for all {side} graphs of split {split.index}")
    return (weight / weight.mean()).astype(np.float32)


def sample_weights(given: np.ndarray | None, device: torch.device | str) -> Tensor | None:
    """[G] the weights of a task's graphs where the losses are computed."""
    return None if given is None else torch.from_numpy(given).to(device)


def class_weights(y: np.ndarray, classes: int, kind: str | None) -> Tensor:
    """[classes] ones, or n / (classes · n_c) for "balanced", as in scikit-learn; a class without graphs has 0."""
    if kind is None:
        return torch.ones(classes)
    count = np.bincount(y, minlength=classes)
    present = np.count_nonzero(count)
    return torch.tensor(np.where(count > 0, len(y) / (present * np.maximum(count, 1)), 0.0), dtype=torch.float32)
