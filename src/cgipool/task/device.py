"""The metrics of metrics.py on a device: static shapes, so that they run under `vmap` and in captured steps.

Shapes: n graphs, C classes, T columns. `known` [n, T] is 1 where a target is known and 0 in gaps and empty slots. A
metric that is not defined is NaN.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from cgipool.task.metrics import BINS


def nan_mean(values: Tensor) -> Tensor:
    """The mean of the values that are not NaN, a scalar; NaN if all are."""
    known = ~values.isnan()
    return torch.where(known, values, torch.zeros_like(values)).sum() / known.sum()


def mean_known(values: Tensor, known: Tensor) -> Tensor:
    """[T] the mean of the known values of each column."""
    return (values * known).sum(0) / known.sum(0)


def device_auc(score: Tensor, target: Tensor, known: Tensor) -> Tensor:
    """[T] the area under the ROC curve of each column, ties counting one half; NaN without both values."""
    key, positive, negative = _sorted(score, target, known)
    below = negative.cumsum(0)
    first, last = _ties(key, key)
    before = torch.where(first > 0, below.gather(0, (first - 1).clamp(min=0)), torch.zeros_like(below))
    wins = 0.5 * (before + below.gather(0, last))
    return (positive * wins).sum(0) / (positive.sum(0) * negative.sum(0))


def device_average_precision(score: Tensor, target: Tensor, known: Tensor) -> Tensor:
    """[T] the average precision of each column, Σ (R_i − R_{i−1}) P_i over distinct scores; NaN without both values."""
    key, positive, negative = _sorted(-score, target, known)
    _, last = _ties(key, key)
    found, missed = (each.cumsum(0).gather(0, last) for each in (positive, negative))
    precision = found / (found + missed).clamp(min=1.0)
    area = (positive * precision).sum(0) / positive.sum(0)
    return torch.where(negative.sum(0) > 0, area, torch.full_like(area, torch.nan))


def _sorted(key: Tensor, target: Tensor, known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Key, positives and negatives in ascending order of the key; unknown entries come last and have no weight."""
    known = known.to(key.dtype)
    key = torch.where(known > 0, key, torch.full_like(key, torch.inf))
    order = key.argsort(0)
    return key.gather(0, order), (target * known).gather(0, order), ((1.0 - target) * known).gather(0, order)


def _ties(values: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last place of each value in the ascending `key`."""
    columns, wanted = key.T.contiguous(), values.T.contiguous()
    first = torch.searchsorted(columns, wanted).T
    return first, torch.searchsorted(columns, wanted, right=True).T - 1


def _ranks(values: Tensor, known: Tensor) -> Tensor:
    """[n, T] the rank of each known value among the known ones, ties sharing their mean rank."""
    key = torch.where(known > 0, values, torch.full_like(values, torch.inf))
    first, last = _ties(values, key.sort(0).values)
    return 0.5 * (first + last).to(values.dtype)


def _recalls(target: Tensor, right: Tensor, known: Tensor) -> Tensor:
    """[T] the share of the graphs of each column's value 1 that are predicted right."""
    return mean_known(right, target * known)


def _log_loss(p: Tensor) -> Tensor:
    """−log p, clipped as scikit-learn clips it."""
    tiny = torch.finfo(p.dtype).eps
    return -p.clamp(tiny, 1.0 - tiny).log()


def _calibration_error(confidence: Tensor, right: Tensor, known: Tensor) -> Tensor:
    """[T] the expected calibration error of each column."""
    place = (confidence * BINS).long().clamp(max=BINS - 1).unsqueeze(0)
    bins = place == torch.arange(BINS, device=place.device).view(-1, *[1] * confidence.ndim)
    return (bins * ((confidence - right) * known)).sum(1).abs().sum(0) / known.sum(0)


def _balanced_accuracy(p: Tensor, target: Tensor, known: Tensor) -> Tensor:
    """[T] the mean recall of the two values; NaN without both."""
    right = ((p > 0.5) == (target > 0.5)).to(p.dtype)
    return 0.5 * (_recalls(target, right, known) + _recalls(1.0 - target, right, known))


LABELS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "roc_auc": device_auc,
    "pr_auc": device_average_precision,
    "accuracy": lambda p, target, known: mean_known(((p > 0.5) == (target > 0.5)).to(p.dtype), known),
    "balanced_accuracy": _balanced_accuracy,
    "log_loss": lambda p, target, known: mean_known(_log_loss(torch.where(target > 0.5, p, 1.0 - p)), known),
    "brier": lambda p, target, known: mean_known((p - target).square(), known),
    "ece": _calibration_error,
}
"""Metrics of probabilities and 0/1 targets [n, T], by name; each is [T]."""


def _r2(predicted: Tensor, target: Tensor, known: Tensor) -> Tensor:
    spread = ((target - mean_known(target, known)).square() * known).sum(0)
    share = 1.0 - ((predicted - target).square() * known).sum(0) / spread
    return torch.where(spread > 0, share, torch.full_like(share, torch.nan))


def _spearman(predicted: Tensor, target: Tensor, known: Tensor) -> Tensor:
    one, other = (_ranks(values, known) for values in (predicted, target))
    one, other = ((ranks - mean_known(ranks, known)) * known for ranks in (one, other))
    return (one * other).sum(0) / (one.square().sum(0) * other.square().sum(0)).sqrt()


VALUES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "rmse": lambda predicted, target, known: mean_known((predicted - target).square(), known).sqrt(),
    "mae": lambda predicted, target, known: mean_known((predicted - target).abs(), known),
    "r2": _r2,
    "spearman": _spearman,
}
"""Metrics of predicted and measured values [n, T], by name; each is [T]."""


def class_score(metric: str, p: Tensor, y: Tensor, there: Tensor) -> Tensor:
    """A metric of probabilities [n, C] and classes [n], over the graphs that are `there` [n]."""
    classes = p.shape[1]
    there = there.to(p.dtype).unsqueeze(1)
    one_hot = (y.unsqueeze(1) == torch.arange(classes, device=y.device)).to(p.dtype)
    if metric in ("roc_auc", "pr_auc"):
        areas = LABELS[metric](p, one_hot, there.expand_as(p))
        return areas[1] if classes == 2 else nan_mean(areas)
    guess = (p.argmax(1, keepdim=True) == torch.arange(classes, device=y.device)).to(p.dtype)
    right = (guess * one_hot).sum(1, keepdim=True)
    if metric == "accuracy":
        return mean_known(right, there).squeeze(0)
    if metric == "balanced_accuracy":
        return nan_mean(_recalls(one_hot, right, there))
    if metric == "mcc":
        return _mcc(mean_known(one_hot, there), mean_known(guess, there), mean_known(right, there).squeeze(0))
    if metric == "log_loss":
        return mean_known(_log_loss(p.gather(1, y.unsqueeze(1))), there).squeeze(0)
    if metric == "brier":
        error = mean_known((p - one_hot).square().sum(1, keepdim=True), there).squeeze(0)
        return error / 2 if classes == 2 else error
    return _calibration_error(p.max(1, keepdim=True).values, right, there).squeeze(0)


def _mcc(truth: Tensor, guess: Tensor, right: Tensor) -> Tensor:
    """The Matthews correlation coefficient (Gorodkin 2004) from shares of classes [C]; 0 if it is not defined."""
    covariance = right - (truth * guess).sum()
    spread = ((1.0 - guess.square().sum()) * (1.0 - truth.square().sum())).clamp(min=0.0).sqrt()
    return torch.where(spread > 1e-9, covariance / spread.clamp(min=1e-9), torch.zeros_like(spread))
