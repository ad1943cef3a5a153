"""Weisfeiler–Lehman kernels as linear models on their explicit features, which are equivalent to kernel machines.

Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt: Weisfeiler-Lehman Graph Kernels. JMLR 2011.
Kriege, Giscard, Wilson: On Valid Optimal Assignment Kernels and Applications to Graph Classification. NIPS 2016.

No kernel matrix is built, so memory grows with the number of nodes rather than with the square of the number of graphs.
Support vector machines predict classes (one machine for each class against the rest) and labels (one for each column);
ridge regression predicts values. Shapes: G graphs, n graphs, D features, O outputs.
"""

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from cgipool.classical.base import Arrays, Doubles, Examples, Fitted, Ints, score
from cgipool.classical.calibration import ABSENT, calibrated, outcome
from cgipool.classical.wl import ColourCounts, Hashes, colours, entries, matrix, squared_norms
from cgipool.data.graphs import GraphSet
from cgipool.data.structure import cached
from cgipool.errors import UserError
from cgipool.task.base import Task

DEPTHS = tuple(range(8))
"""Rounds of refinement to choose from: those of Kriege et al."""

COSTS = (0.01, 0.1, 1.0, 10.0)
"""C of the support vector machines to choose from."""

PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Penalties of ridge regression to choose from."""

ARRAYS = ("feature", "weight", "bias", "depth", "labels", "edge_labels")


class Kernel:
    """The method `wl` or, with `assignment`, `wl-oa`.

    For classes and labels the features of a graph have length 1, so that k(G, G) = 1; for values they are counts,
    because measured values often grow with the size of a graph.
    """

    def __init__(self, *, assignment: bool) -> None:
        self.assignment = assignment

    def prepare(self, graphs: GraphSet) -> None:
        """Do nothing: the features are kept in memory only."""

    def fit(self, examples: Examples) -> Fitted:
        """Choose depth and C (or the penalty) on the validation graphs; ties go to the smaller ones."""
        task, graphs = examples.task, examples.graphs
        blocks, norms, vocabulary = cached(
            graphs,
            (self.assignment, examples.labels, examples.edge_labels),
            lambda: self._features(graphs, max(DEPTHS), examples.labels, examples.edge_labels),
        )
        regression = task.name == "regression"
        best, chosen = -np.inf, None
        for depth, cost in itertools.product(DEPTHS, PENALTIES if regression else COSTS):
            x = _scaled(blocks[: depth + 1], None if regression else norms[: depth + 1])
            weight, bias = _learned(examples, x[examples.train], cost)
            found = score(examples, outcome(task, np.asarray(x[examples.val] @ weight + bias)))
            if chosen is None or found > best:
                best, chosen = found, (depth, cost, weight, bias, x[examples.val])
        assert chosen is not None
        depth, cost, weight, bias, x_val = chosen
        weight, bias = calibrated(examples, weight, bias, np.asarray(x_val @ weight + bias))
        used = np.flatnonzero(np.any(weight != 0.0, axis=1))
        feature = np.concatenate(vocabulary[: depth + 1])[used]
        order = np.argsort(feature)
        arrays: dict[str, NDArray[Any]] = {
            "feature": feature[order].view(np.int64),  # torch has few operations on unsigned numbers
            "weight": weight[used][order].astype(np.float32),
            "bias": bias.astype(np.float64),
            "depth": np.array(depth),
            "labels": np.array(int(examples.labels and graphs.category is not None)),
            "edge_labels": np.array(int(examples.edge_labels and graphs.edge_category is not None)),
        }
        return Fitted(arrays, {"depth": depth, "penalty" if regression else "C": cost})

    def predict(self, arrays: Arrays, graphs: GraphSet, task: Task) -> Doubles:
        """[G, O] probabilities, or values in the units of the targets."""
        depth, labels, edge_labels = (int(arrays[name]) for name in ("depth", "labels", "edge_labels"))
        for needed, held, what in ((labels, graphs.category, "node"), (edge_labels, graphs.edge_category, "edge")):
            if needed and held is None:
                raise UserError(f"{graphs.name} has no {what} labels, which the model was trained with")
        feature = np.ascontiguousarray(arrays["feature"]).view(np.uint64)
        total = np.zeros((graphs.n_graphs, task.outputs))
        norm = np.zeros(graphs.n_graphs)
        for found in self._rounds(graphs, depth, bool(labels), bool(edge_labels)):
            total += matrix(found, graphs.n_graphs, feature) @ arrays["weight"].astype(np.float64)
            norm += squared_norms(found, graphs.n_graphs)
        if task.name != "regression":
            total *= _inverse(norm)[:, None]
        return outcome(task, total + arrays["bias"])

    def check_arrays(self, arrays: Arrays, task: Task) -> None:
        """Raise ValueError unless the arrays are those of a fitted kernel machine for this task."""
        if set(arrays) != set(ARRAYS):
            raise ValueError(f"it should have the arrays {', '.join(ARRAYS)}")
        feature, weight, bias = (arrays[name] for name in ARRAYS[:3])
        if any(arrays[name].shape != () for name in ARRAYS[3:]) or not 0 <= int(arrays["depth"]) <= max(DEPTHS):
            raise ValueError("its depth is out of range")
        sound = feature.ndim == 1 and feature.dtype == np.int64 and weight.shape == (len(feature), task.outputs)
        if not sound or bias.shape != (task.outputs,) or weight.dtype.kind != "f" or bias.dtype.kind != "f":
            raise ValueError("its features and weights do not match")
        ordered = feature.view(np.uint64)
        if not (np.isfinite(weight).all() and np.isfinite(bias).all() and (ordered[1:] > ordered[:-1]).all()):
            raise ValueError("its weights are not finite, or its features are not sorted")

    def _rounds(self, graphs: GraphSet, depth: int, labels: bool, edge_labels: bool) -> Iterator[ColourCounts]:
        for colour in colours(graphs, depth, labels=labels, edge_labels=edge_labels):
            yield entries(graphs, colour, self.assignment)

    def _features(
        self, graphs: GraphSet, depth: int, labels: bool, edge_labels: bool
    ) -> tuple[list[sp.csr_matrix], list[Doubles], list[Hashes]]:
        """By round, the features of all graphs, the squares of their norms, and what the columns mean."""
        blocks, norms, vocabulary = [], [], []
        for found in self._rounds(graphs, depth, labels, edge_labels):
            vocabulary.append(np.unique(found.feature))
            blocks.append(matrix(found, graphs.n_graphs, vocabulary[-1]))
            norms.append(squared_norms(found, graphs.n_graphs))
        return blocks, norms, vocabulary


def _scaled(blocks: list[sp.csr_matrix], norms: list[Doubles] | None) -> sp.csr_matrix:
    """[G, D] the features of several rounds side by side; with norms, scaled to length 1 for each graph."""
    x = sp.hstack(blocks, format="csr")
    return x if norms is None else sp.diags_array(_inverse(np.sum(norms, axis=0))).tocsr() @ x


def _inverse(squared: Doubles) -> Doubles:
    """1 / length; 0 for a graph without nodes."""
    return np.where(squared > 0.0, 1.0 / np.sqrt(np.maximum(squared, 1e-300)), 0.0)


def _learned(examples: Examples, x: sp.csr_matrix, cost: float) -> tuple[Doubles, Doubles]:
    """Weights [D, O] and biases [O] from the features [n, D] of the training graphs."""
    targets, weight = examples.task.targets(examples.graphs, examples.train), examples.weights(examples.train)
    if examples.task.name == "classification":
        return _classifier(examples, x, targets, weight, cost)
    learned = [_column(examples, x, column, weight, cost) for column in targets.T]
    return np.stack([part for part, _ in learned], axis=1), np.array([bias for _, bias in learned])


def _classifier(
    examples: Examples, x: sp.csr_matrix, y: Ints, weight: Doubles | None, cost: float
) -> tuple[Doubles, Doubles]:
    outputs = examples.task.outputs
    coefficients, bias = np.zeros((x.shape[1], outputs)), np.full(outputs, ABSENT)
    present = np.unique(y)
    bias[present] = 0.0
    if len(present) > 1:
        machine = _machine(examples, x, y, weight, cost)
        signs = np.array([[-0.5], [0.5]]) if len(present) == 2 else np.ones((1, 1))  # softmax of ∓f/2 is sigmoid of f
        coefficients[:, present] = (signs * machine.coef_).T
        bias[present] = signs[:, 0] * machine.intercept_
    return coefficients, bias


def _column(
    examples: Examples, x: sp.csr_matrix, target: Doubles, weight: Doubles | None, cost: float
) -> tuple[Doubles, float]:
    """Weights and bias of one target column, from the graphs whose value is known."""
    known = np.flatnonzero(~np.isnan(target))
    x, target, weight = x[known], target[known], None if weight is None else weight[known]
    nothing = np.zeros(x.shape[1])
    if len(known) == 0:
        return nothing, 0.0
    if examples.task.name == "regression":
        if np.ptp(target) == 0.0:
            return nothing, float(target[0])
        ridge = Ridge(cost, solver="sparse_cg", max_iter=1000, tol=1e-4).fit(x, target, weight)
        return ridge.coef_, float(ridge.intercept_)
    if len(np.unique(target)) < 2:
        return nothing, -ABSENT if target[0] > 0.5 else ABSENT
    machine = _machine(examples, x, target, weight, cost)
    return machine.coef_[0], float(machine.intercept_[0])


def _machine(examples: Examples, x: sp.csr_matrix, y: Any, weight: Doubles | None, cost: float) -> LinearSVC:
    machine = LinearSVC(C=cost, class_weight=examples.class_weight, tol=1e-3, random_state=examples.seed)
    with warnings.catch_warnings():
        # At a large C exact convergence takes many more iterations; the validation graphs judge the result.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(x, y, sample_weight=weight)
