"""Support vector machines on molecules, with a kernel of descriptors and fingerprints.

K = (1 − w) exp(−|z − z'|² / D) + w Σ_b min(c_b, c'_b) / Σ_b max(c_b, c'_b): a Gaussian kernel on D standardised RDKit
descriptors z, and the Tanimoto kernel on ECFP4 counts c (Ralaivola et al.: Graph Kernels for Chemical Informatics.
Neural Networks 2005). Shapes: G graphs, n graphs, S support vectors, D descriptors, O outputs.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from cgipool.classical.base import Arrays, Doubles, Examples, Fitted, Ints, score
from cgipool.classical.calibration import ABSENT, calibrated, outcome
from cgipool.data.descriptors import BITS, check_molecules, ecfp_counts, rdkit_descriptors
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.pool import METHODS
from cgipool.task.base import Task

TITLE = "rdkit-svm"

SHARES = (0.0, 0.3, 0.6)
"""Shares w of the fingerprints in the kernel to choose from."""

COSTS, FIRST_COST = (1.0, 3.0, 10.0, 30.0), 3.0
"""C of the machines to choose from, and the one with which w is chosen."""

EPSILON = 0.05
"""Errors of predicted values up to this many standard deviations are not penalised."""

WIDEST = 5.0
"""Standardised descriptors are clipped to ± this."""

MOST = METHODS[TITLE].most_graphs or 0
"""Maximum number of training graphs: the kernel matrix grows with their square."""

BLOCK = 2048
"""Number of graphs to predict at a time."""

ARRAYS = ("descriptors", "column", "mean", "scale", "start", "bit", "count", "weight", "bias", "share", "width")


class KernelInputs(NamedTuple):
    """The vectors of n graphs that the kernel compares."""

    descriptors: NDArray[np.float32]
    """[n, D] standardised descriptors."""
    counts: sp.csr_matrix
    """[n, BITS] ECFP4 counts."""


class DescriptorMachine:
    """Support vector machines with a common kernel: one for each class against the rest, or for each target column."""

    def prepare(self, graphs: GraphSet) -> None:
        """Compute descriptors and fingerprints."""
        check_molecules(graphs, TITLE)
        rdkit_descriptors(graphs)
        ecfp_counts(graphs)

    def fit(self, examples: Examples) -> Fitted:
        """Choose w, then C, on the validation graphs; ties go to the smaller ones."""
        graphs, task, train = examples.graphs, examples.task, examples.train
        check_molecules(graphs, TITLE)
        if len(train) > MOST:
            raise UserError(f"{TITLE} takes at most {MOST:,} training molecules, not {len(train):,}; use rdkit-et")
        values = _unscaled(graphs)
        mean, scale = values[train].mean(0), values[train].std(0)
        column = np.flatnonzero(scale > 0.0)
        mean, scale = mean[column], scale[column]
        given = _inputs(graphs, column, mean, scale)
        learned_from, watched = _rows(given, train), _rows(given, examples.val)
        own, other = kernels(learned_from, learned_from), kernels(watched, learned_from)
        seen: dict[tuple[float, float], tuple[float, Doubles, Doubles, Doubles]] = {}

        def value(share: float, cost: float) -> float:
            weight, bias = _learned(examples, mixed(own, share), cost)
            decision = mixed(other, share) @ weight + bias
            seen[share, cost] = score(examples, outcome(task, decision)), weight, bias, decision
            return seen[share, cost][0]

        share = max(SHARES, key=lambda each: value(each, FIRST_COST))
        cost = max(COSTS, key=lambda each: seen[share, each][0] if (share, each) in seen else value(share, each))
        _, weight, bias, decision = seen[share, cost]
        weight, bias = calibrated(examples, weight, bias, decision)
        support = np.flatnonzero(np.any(weight != 0.0, axis=1))
        kept = _rows(learned_from, support)
        arrays: dict[str, NDArray[Any]] = {
            "descriptors": kept.descriptors,
            "column": column.astype(np.int32),
            "mean": mean,
            "scale": scale,
            "start": kept.counts.indptr.astype(np.int32),
            "bit": kept.counts.indices.astype(np.int32),
            "count": kept.counts.data.astype(np.uint8),
            "weight": weight[support],
            "bias": bias,
            "share": np.array(share),
            "width": np.array(values.shape[1]),
        }
        return Fitted(arrays, {"share": share, "C": cost})

    def predict(self, arrays: Arrays, graphs: GraphSet, task: Task) -> Doubles:
        """[G, O] probabilities, or values in the units of the targets."""
        check_molecules(graphs, TITLE)
        values = _unscaled(graphs)
        if values.shape[1] != int(arrays["width"]):
            counts = f"{values.shape[1]} descriptors, and the model was trained with {int(arrays['width'])}"
            raise UserError(f"this version of RDKit has {counts}")
        given = _inputs(graphs, arrays["column"], arrays["mean"], arrays["scale"])
        cells = (arrays["count"].astype(np.float64), arrays["bit"], arrays["start"])
        support = KernelInputs(arrays["descriptors"], sp.csr_matrix(cells, shape=(len(arrays["weight"]), BITS)))
        found = np.tile(np.asarray(arrays["bias"], np.float64), (graphs.n_graphs, 1))
        for start in range(0, graphs.n_graphs, BLOCK):
            ids = np.arange(start, min(start + BLOCK, graphs.n_graphs))
            found[ids] += mixed(kernels(_rows(given, ids), support), float(arrays["share"])) @ arrays["weight"]
        return outcome(task, found)

    def check_arrays(self, arrays: Arrays, task: Task) -> None:
        """Raise ValueError unless the arrays are those of a fitted machine for this task."""
        if set(arrays) != set(ARRAYS):
            raise ValueError(f"it should have the arrays {', '.join(ARRAYS)}")
        support, columns, entries = len(arrays["weight"]), len(arrays["column"]), len(arrays["bit"])
        shapes = {"descriptors": (support, columns), "mean": (columns,), "scale": (columns,), "start": (support + 1,)}
        shapes |= {"count": (entries,), "weight": (support, task.outputs), "bias": (task.outputs,)}
        shapes |= dict.fromkeys(("share", "width"), ())
        if any(arrays[name].shape != shape for name, shape in shapes.items()):
            raise ValueError("its support vectors and weights do not match")
        if any(arrays[name].dtype.kind not in "iu" for name in ("column", "start", "bit", "count", "width")):
            raise ValueError("its columns are not whole numbers")
        numbers = ("descriptors", "mean", "scale", "weight", "bias", "share")
        if not all(np.isfinite(arrays[name]).all() for name in numbers) or not (arrays["scale"] > 0.0).all():
            raise ValueError("its weights are not finite")
        start = arrays["start"].astype(np.int64)
        within = all(
            not len(values) or (values.min() >= 0 and values.max() < end)
            for values, end in ((arrays["column"], int(arrays["width"])), (arrays["bit"], BITS))
        )
        if not within or start[0] != 0 or start[-1] != entries or (np.diff(start) < 0).any():
            raise ValueError("its columns are out of range")


def kernels(a: KernelInputs, b: KernelInputs) -> tuple[Doubles, Doubles]:
    """[n, m] the Gaussian kernel, and [n, m] the Tanimoto kernel, which is 1 for two molecules without any bit."""
    za, zb = (each.descriptors.astype(np.float64) for each in (a, b))
    squares = (za**2).sum(1)[:, None] + (zb**2).sum(1) - 2.0 * za @ zb.T
    common = (_unary(a.counts) @ _unary(b.counts).T).toarray()
    either = a.counts.sum(1).A1[:, None] + b.counts.sum(1).A1 - common
    tanimoto = np.divide(common, either, out=np.ones_like(common), where=either > 0.0)
    return np.exp(-np.maximum(squares, 0.0) / max(za.shape[1], 1)), tanimoto


def mixed(pair: tuple[Doubles, Doubles], share: float) -> Doubles:
    """(1 − w) Gaussian + w Tanimoto."""
    return (1.0 - share) * pair[0] + share * pair[1]


def _unary(counts: sp.csr_matrix) -> sp.csr_matrix:
    """A column for each "at least t of bit b", t from 1 to 255: dot products are sums of minima."""
    times = counts.data.astype(np.int64)
    row = np.repeat(np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr)), times)
    number = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    cells = (np.ones(len(row)), (row, np.repeat(counts.indices.astype(np.int64), times) + BITS * number))
    return sp.csr_matrix(cells, shape=(counts.shape[0], 256 * BITS))


def _unscaled(graphs: GraphSet) -> Doubles:
    """[G, D] sign(x) log(1 + |x|) of the descriptors, some of which grow without bounds."""
    values = rdkit_descriptors(graphs).astype(np.float64)
    return np.sign(values) * np.log1p(np.abs(values))


def _inputs(graphs: GraphSet, column: Ints, mean: Doubles, scale: Doubles) -> KernelInputs:
    scaled = ((_unscaled(graphs)[:, column] - mean) / scale).clip(-WIDEST, WIDEST)
    return KernelInputs(
        scaled.astype(np.float32), sp.csr_matrix(ecfp_counts(graphs).clip(0.0, 255.0).astype(np.float64))
    )


def _rows(given: KernelInputs, ids: Ints) -> KernelInputs:
    return KernelInputs(given.descriptors[ids], given.counts[ids])


def _learned(examples: Examples, kernel: Doubles, cost: float) -> tuple[Doubles, Doubles]:
    """Weights [n, O] of the training graphs, and biases [O]."""
    task, outputs = examples.task, examples.task.outputs
    targets = task.targets(examples.graphs, examples.train)
    if task.name == "classification":
        targets = (targets[:, None] == np.arange(outputs)[None]).astype(np.float64)
        targets = targets[:, 1:] if outputs == 2 else targets
    found = [_column(examples, kernel, column, cost) for column in targets.T]
    weight, bias = np.stack([part for part, _ in found], axis=1), np.array([part for _, part in found])
    if task.name == "classification" and outputs == 2:  # softmax of ∓f/2 is sigmoid of f
        return weight * [-0.5, 0.5], bias * [-0.5, 0.5]
    return weight, bias


def _column(examples: Examples, kernel: Doubles, target: Doubles, cost: float) -> tuple[Doubles, float]:
    """Weights [n] and bias of one column, from the graphs whose value is known."""
    known = np.flatnonzero(~np.isnan(target))
    weight, y = np.zeros(len(target)), target[known]
    sample = examples.weights(examples.train[known])
    regression = examples.task.name == "regression"
    if len(known) == 0 or np.ptp(y) == 0.0:
        constant = (y[0] if regression else (1.0 if y[0] > 0.5 else -1.0) * -ABSENT) if len(known) else 0.0
        return weight, float(constant)
    kernel = kernel if len(known) == len(target) else kernel[np.ix_(known, known)]
    if regression:
        centre, spread = y.mean(), y.std()
        machine = SVR(C=cost, kernel="precomputed", epsilon=EPSILON).fit(kernel, (y - centre) / spread, sample)
        weight[known[machine.support_]] = spread * machine.dual_coef_[0]
        return weight, float(spread * machine.intercept_[0] + centre)
    machine = SVC(C=cost, kernel="precomputed", class_weight=examples.class_weight).fit(kernel, y, sample)
    weight[known[machine.support_]] = machine.dual_coef_[0]
    return weight, float(machine.intercept_[0])
