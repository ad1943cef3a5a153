"""The loss of a step: L = L_task + weight · the method's own loss (for CGIPool the paper's Eq. 4, L_CLS + α L_MI)."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cgipool.data.batch import Batch, target_columns
from cgipool.data.further import numbers
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.model.network import Output
from cgipool.pool import method_named
from cgipool.task.base import Task, Truth
from cgipool.task.registry import task_of
from cgipool.training.presets import PAPER
from cgipool.training.recipe import Recipe


def objective(
    output: Output,
    batch: Batch,
    task: Task,
    constants: Tensor,
    own_weight: float | Tensor,
    smoothing: float = 0.0,
    sample_weight: Tensor | None = None,
    focal: float = 0.0,
) -> Tensor:
    """Return the loss of one batch, a scalar.

    `constants` are the task's, of the training graphs; empty slots do not count. `smoothing` is the label smoothing,
    `focal` the exponent of the focal loss.
    `sample_weight` [G] holds the weights of all graphs of the data set and applies to the method's own loss only where
    that reads targets (`Output.readings`). An own loss of weight 0 is left out, so that it cannot spoil the sum; a
    weight given as a tensor is always used. The loss of a partial batch is what it adds to that of the whole one.
    """
    there = batch.size > 0
    if sample_weight is not None:
        there = there * sample_weight[batch.id]
    loss = task.loss(output.logits, batch, constants, there, smoothing, focal)
    if batch.share is not None:
        loss = loss * batch.share.weight
    if isinstance(own_weight, float) and own_weight == 0.0:
        return loss
    own = output.own_loss
    if output.readings:  # computed here, where the targets are known
        read = torch.stack([task.loss(logits, batch, constants, there) for logits in output.readings]).sum()
        own = own + read * (1.0 if batch.share is None else batch.share.weight) / output.levels
    return loss + own_weight * own


def own_weight(recipe: Recipe, method: str, dataset: str, epoch: int) -> float:
    """Return the weight of a method's own loss on a data set in an epoch."""
    return method_named(method).weight(recipe.alpha_on(dataset), epoch, recipe.own_loss)


def checked_weights(given: ArrayLike, count: int, splits: Sequence[Split]) -> NDArray[np.float32]:
    """Return sample weights [G] scaled to a mean of 1. Raise UserError if they are invalid, or 0 for all training or
    validation graphs of a split."""
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
                raise UserError(f"sample_weight is zero for all {side} graphs of split {split.index}")
    return (weight / weight.mean()).astype(np.float32)


def weights_of(graphs: GraphSet, given: ArrayLike | str | None, splits: Sequence[Split]) -> NDArray[np.float32] | None:
    """Return `checked_weights` of values [G] or of the column of the data with this name; None for None."""
    if given is None:
        return None
    return checked_weights(numbers(graphs, given) if isinstance(given, str) else given, graphs.n_graphs, splits)


def scores_of(
    task: Task, stop_by: str, output: Tensor, truth: Truth, constants: Tensor, there: Tensor
) -> dict[str, Tensor]:
    """Return the validation metrics of an epoch by name: the primary one, and the one that early stopping watches."""
    names = dict.fromkeys((task.primary, *(() if stop_by == "loss" else (stop_by,))))
    return {f"val_{name}": task.score(output, truth, constants, there, name) for name in names}


Value = TypeVar("Value", float, Tensor)


def watched(task: Task, stop_by: str, scores: Mapping[str, Value]) -> Value:
    """Return what early stopping minimises, from the validation loss and metrics of an epoch by name."""
    value = scores[f"val_{stop_by}"]
    return -value if stop_by != "loss" and task.metrics[stop_by].higher else value


def best_score(task: Task, stop_by: str, best: float) -> float | None:
    """Return the watched metric of the best epoch from its value of `watched`; None if early stopping watches the
    loss."""
    return None if stop_by == "loss" else watched(task, stop_by, {f"val_{stop_by}": best})


def check_task(graphs: GraphSet, recipe: Recipe, splits: Sequence[Split]) -> None:
    """Raise UserError if a changed setting has no meaning for the task of a data set, or if `stop_by` is not defined
    for it. Settings that come from a preset are not checked: some tasks ignore them."""
    task = task_of(graphs)
    for name, value in recipe.changes().items():
        if name in task.ignores and value != getattr(PAPER, name):
            advice = "; use sample_weight" if name == "class_weight" else ""
            raise UserError(f"{name} is for classes and 0/1 columns; the targets of {graphs.name} are numbers{advice}")
    _check_stop_by(task, recipe.stop_by, splits, graphs)


def _check_stop_by(task: Task, stop_by: str, splits: Sequence[Split], graphs: GraphSet) -> None:
    """Raise UserError unless the task has the metric, and it is defined for the validation graphs of every split."""
    if stop_by == "loss":
        return
    if stop_by not in task.metrics:
        raise UserError(
            f"stop_by {stop_by!r} is not a metric of {task.name}; choose one of: {', '.join(['loss', *task.metrics])}"
        )
    for split in splits:
        shape = len(split.val), task.outputs
        output = torch.linspace(-1.0, 1.0, shape[0] * shape[1]).view(shape)  # a metric of these is always defined
        constants = task.constants(graphs, split.train, None)
        score = task.score(output, truth_of(graphs, split.val), constants, torch.ones(len(split.val)), stop_by)
        if score.isnan():
            raise UserError(
                f"stop_by {stop_by!r} is not defined on the validation graphs of split {split.index}: they have too "
                "few different targets"
            )


def truth_of(graphs: GraphSet, ids: NDArray[Any]) -> Truth:
    """Return the targets of some graphs."""
    return Truth(torch.from_numpy(graphs.y[ids]), torch.from_numpy(target_columns(graphs)[ids]))
