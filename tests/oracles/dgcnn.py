"""DGCNN's SortPooling readout in float64 NumPy: one graph, dense matrices, written from the mathematics alone.

    key  = tanh(Â x3 w + b)
    z    = [x1 || x2 || x3 || key], its rows sorted by key, largest first, cut or zero-padded to K rows
    y1   = relu(z W1ᵀ + b1), one row at a time: a convolution as wide as a row, and as far between
    y2   = relu(conv of width 5 over the maxima of y1's rows two by two)
    out  = relu(W_out vec(y2) + b_out)

Nothing is pooled before it: x1, x2 and x3 are the three layers' outputs (after ReLU) on the same n nodes.

Shapes: n nodes, d width, K rows, L = K // 2 - 4 positions after the second convolution.

Choices: equal keys go to the lower index; a padding row is zero before the first convolution, so relu(b1) after it; an
odd last row leaves before the second; vec runs over channels first, channel c at position l being entry c L + l.
"""

from typing import NamedTuple

import numpy as np

from oracles.paper import Array, gcn, relu

LEAST_ROWS = 10
"""The second convolution then sees 5 rows, as many as it is wide."""


class DGCNNWeights(NamedTuple):
    """Matrices are [out, in], as torch's Linear keeps them."""

    key_weight: Array
    """[1, d]"""
    key_bias: Array
    """[1]"""
    conv1_weight: Array
    """[16, 3d + 1]"""
    conv1_bias: Array
    """[16]"""
    conv2_weight: Array
    """[32, 16, 5], torch's Conv1d: out, in, width."""
    conv2_bias: Array
    """[32]"""
    out_weight: Array
    """[out, 32 L], out being 2d in the network."""
    out_bias: Array
    """[out]"""


class Readout(NamedTuple):
    """What one graph gives, with the steps on the way."""

    key: Array
    """[n], in the graph's own order."""
    order: Array
    """[min(n, K)], the nodes of the rows, largest key first."""
    rows: Array
    """[K, 3d + 1]"""
    y1: Array
    """[K, 16]"""
    y2: Array
    """[L, 32]"""
    out: Array
    """[out]"""


def rows_kept(sizes: list[int]) -> int:
    """K: the smallest size that at least 60 % of the training graphs do not exceed, and never below LEAST_ROWS."""
    enough = -(-3 * len(sizes) // 5)  # ⌈0.6 m⌉ in integers
    return max(LEAST_ROWS, int(sorted(sizes)[enough - 1]))


def convolve(y: Array, weight: Array, bias: Array) -> Array:
    """[rows, in] to [rows - width + 1, out]: what torch calls a convolution, unflipped and without padding."""
    width = weight.shape[2]
    return np.stack([np.einsum("oiw,wi->o", weight, y[at : at + width]) for at in range(len(y) - width + 1)]) + bias


def readout(weights: DGCNNWeights, xs: list[Array], A: Array, K: int) -> Readout:
    """One graph: xs the three layers' outputs, each [n, d], A [n, n] symmetric 0/1 without loops."""
    weights = DGCNNWeights(*(np.asarray(value, dtype=np.float64) for value in weights))
    xs, A = [np.asarray(x, dtype=np.float64) for x in xs], np.asarray(A, dtype=np.float64)

    key = np.tanh(gcn(A, xs[-1] @ weights.key_weight.T, weights.key_bias))
    z = np.concatenate([*xs, key], axis=1)

    order = np.argsort(-key[:, 0], kind="stable")[:K]
    rows = np.zeros((K, z.shape[1]))
    rows[: len(order)] = z[order]

    y1 = relu(rows @ weights.conv1_weight.T + weights.conv1_bias)
    halved = np.stack([y1[2 * pair : 2 * pair + 2].max(axis=0) for pair in range(K // 2)])
    y2 = relu(convolve(halved, weights.conv2_weight, weights.conv2_bias))

    out = relu(weights.out_weight @ y2.T.reshape(-1) + weights.out_bias)
    return Readout(key[:, 0], order, rows, y1, y2, out)
