"""VIPool in float64 NumPy: one graph at a time, dense matrices, written from the mathematics alone.

    h  = PReLU(x Wᵀ + b)
    c  = σ(1/R Σ_{r=1..R} Â^r (h' W_rᵀ) + b_hop),  h' = h after dropout
    t⁺_v = h_vᵀ B c_v + b_B,  t⁻_v = h_{π(v)}ᵀ B c_v + b_B
    own loss = mean over the 2N logits of the batch of the binary cross-entropy, target 1 for t⁺ and 0 for t⁻
    kept = the k = ⌈ratio · n⌉ best of σ(t⁺) in each graph, x' = x_kept ⊙ σ(t⁺_kept), A' = A on the kept nodes

What is random is given: the dropout masks and the permutation π. Both logits read h itself; dropout reaches c alone.

Shapes: n nodes of a graph, N nodes of the batch, d width, R hops, k kept nodes.
"""

import math
from typing import NamedTuple

import numpy as np

from oracles.paper import Array, sigmoid, top_k

Node = tuple[int, int]
"""(graph, node within that graph), both counted from 0."""


class VIPWeights(NamedTuple):
    """Matrices are [out, in], as torch's Linear keeps them."""

    embed_weight: Array
    """[d, d]"""
    embed_bias: Array
    """[d]"""
    slope: float
    """Of the PReLU below 0."""
    hop_weight: Array
    """[R, d, d], entry r - 1 for r hops."""
    hop_bias: Array
    """[d], added once, after the mean over hops."""
    bilinear: Array
    """[d, d], h on its left, c on its right."""
    bilinear_bias: float


class Vertices(NamedTuple):
    """What the vertices of one graph are scored from."""

    h: Array
    """[n, d], without dropout."""
    c: Array
    """[n, d], the neighbourhoods."""
    t_plus: Array
    """[n]"""


class Pooled(NamedTuple):
    """What one graph gives."""

    t_plus: Array
    """[n]"""
    t_minus: Array
    """[n]"""
    scores: Array
    """[n], σ(t⁺)."""
    kept: Array
    """[k], ascending."""
    x: Array
    """[k, d]"""
    A: Array
    """[k, k]"""


def float64(weights: VIPWeights) -> VIPWeights:
    return VIPWeights(*(np.asarray(value, dtype=np.float64) for value in weights))


def normalised(A: Array) -> Array:
    """Â = D^-1/2 (A + I) D^-1/2, D being the degrees of A + I."""
    A_loops = A + np.eye(len(A))
    d = A_loops.sum(axis=1)
    return A_loops / np.sqrt(np.outer(d, d))


def affinity(weights: VIPWeights, h: Array, c: Array) -> Array:
    """[n], h_vᵀ B c_v + b_B, row by row."""
    return np.array([h_v @ weights.bilinear @ c_v for h_v, c_v in zip(h, c, strict=True)]) + weights.bilinear_bias


def vertices(weights: VIPWeights, x: Array, A: Array, mask: Array | None = None) -> Vertices:
    """One graph up to t⁺: x [n, d], A [n, n] symmetric 0/1 without loops, mask [n, d] already over the keep rate."""
    weights = float64(weights)
    x, A = np.asarray(x, dtype=np.float64), np.asarray(A, dtype=np.float64)

    z = x @ weights.embed_weight.T + weights.embed_bias
    h = np.where(z >= 0.0, z, weights.slope * z)

    h_dropped = h if mask is None else h * np.asarray(mask, dtype=np.float64)
    A_hat, R = normalised(A), len(weights.hop_weight)
    hops = [np.linalg.matrix_power(A_hat, r) @ (h_dropped @ weights.hop_weight[r - 1].T) for r in range(1, R + 1)]
    c = sigmoid(np.sum(hops, axis=0) / R + weights.hop_bias)

    return Vertices(h, c, affinity(weights, h, c))


def negatives(weights: VIPWeights, h_negative: Array, c: Array) -> Array:
    """t⁻ [n] of one graph, row v of h_negative being h_{π(v)}: h[π], or the h of another graph's node when n is 1."""
    return affinity(float64(weights), np.atleast_2d(np.asarray(h_negative, dtype=np.float64)), c)


def pool(x: Array, A: Array, t_plus: Array, t_minus: Array, ratio: float) -> Pooled:
    """The choice within one graph. It ranks σ(t⁺), not t⁺: saturated scores tie, the lower index wins."""
    x, A = np.asarray(x, dtype=np.float64), np.asarray(A, dtype=np.float64)
    scores = sigmoid(t_plus)
    kept = top_k(scores, math.ceil(ratio * len(A)))
    return Pooled(t_plus, t_minus, scores, kept, x[kept] * scores[kept, None], A[np.ix_(kept, kept)])


def batch(
    weights: VIPWeights,
    xs: list[Array],
    As: list[Array],
    pi: list[list[Node]],
    ratio: float,
    masks: list[Array] | None = None,
) -> tuple[float, list[Pooled]]:
    """The own loss of a batch of graphs and what each gives; pi[g][v] names the node whose h is v's negative."""
    given = [None] * len(xs) if masks is None else masks
    seen = [vertices(weights, x, A, mask) for x, A, mask in zip(xs, As, given, strict=True)]

    pooled = []
    for x, A, own, pi_g in zip(xs, As, seen, pi, strict=True):
        h_negative = np.stack([seen[graph].h[node] for graph, node in pi_g])
        pooled.append(pool(x, A, own.t_plus, negatives(weights, h_negative, own.c), ratio))

    # -log σ(t) = log(1 + e^-t) and -log(1 - σ(t)) = log(1 + e^t).
    costs = [np.logaddexp(0.0, -out.t_plus) for out in pooled] + [np.logaddexp(0.0, out.t_minus) for out in pooled]
    return float(np.concatenate(costs).mean()), pooled
