"""Turn decision values of a support vector machine into probabilities, fitted on the validation graphs.

Shapes: n graphs, C classes.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax

from cgipool.classical.base import Examples
from cgipool.task.base import Task

Doubles = NDArray[np.float64]

ABSENT = -1e4
"""The decision value for a class without training graphs."""

WIDEST = 4.0
"""Scales are limited to e^-4 … e^4: without any error on the validation graphs the best scale would be infinite."""


def temperature(decision: Doubles, y: NDArray[np.int64]) -> float:
    """The scale s with which softmax(s · decision [n, C]) has the smallest log loss.

    One number for all classes (Guo et al. 2017): it changes how sure a prediction is, never the predicted class.
    """

    def loss(logarithm: float) -> float:
        return -float(log_softmax(np.exp(logarithm) * decision, axis=1)[np.arange(len(y)), y].clip(-50.0).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-WIDEST, WIDEST), method="bounded").x))


def platt(decision: Doubles, target: Doubles) -> tuple[float, float]:
    """Scale a and shift b of the probabilities sigmoid(a f + b) [n] of a label, with Platt's smoothed targets.

    Graphs with an unknown target (NaN) are ignored. If only one value occurs, a is 1 and b is 0.
    """
    known = ~np.isnan(target)
    f, one = decision[known], target[known] > 0.5
    n1, n0 = int(one.sum()), int((~one).sum())
    if not n1 or not n0:
        return 1.0, 0.0
    aim = np.where(one, (n1 + 1.0) / (n1 + 2.0), 1.0 / (n0 + 2.0))

    def loss(both: Doubles) -> tuple[float, Doubles]:
        z = both[0] * f + both[1]
        error = expit(z) - aim
        return float(np.mean(np.logaddexp(0.0, z) - aim * z)), np.array([np.mean(error * f), np.mean(error)])

    bounds = [(np.exp(-WIDEST), np.exp(WIDEST)), (None, None)]
    a, b = minimize(loss, np.array([1.0, 0.0]), jac=True, bounds=bounds, method="L-BFGS-B").x
    return float(a), float(b)


def outcome(task: Task, decision: Doubles) -> Doubles:
    """[n, O] predictions from decision values."""
    if task.name == "classification":
        return softmax(decision, axis=1)
    return expit(decision) if task.name == "multilabel" else decision


def calibrated(examples: Examples, weight: Doubles, bias: Doubles, decision: Doubles) -> tuple[Doubles, Doubles]:
    """Weights and biases whose decision values are calibrated on the validation graphs; unchanged for regression."""
    targets = examples.task.targets(examples.graphs, examples.val)
    if examples.task.name == "classification":
        scale = temperature(decision, targets)
        return weight * scale, bias * scale
    if examples.task.name == "multilabel":
        scales, shifts = np.transpose([platt(*pair) for pair in zip(decision.T, targets.T, strict=True)])
        return weight * scales, bias * scales + shifts
    return weight, bias
