"""CGIPool's paper form in float64 NumPy: one graph at a time, dense matrices, equation by equation.

Pang, Zhao, Li, "Graph Pooling via Coarsened Graph Infomax" (SIGIR 2021), section 3. It shares no code with the library:
whatever both compute alike, two readings of the paper agree on. Symbols are the paper's, levels counted from 0. Here
H is the feature matrix that enters a pool, that is, after the level's GCN and ReLU.

Shapes: N nodes of the level, k kept of them, F input features, d width, C classes.

Where the paper leaves a choice or its released code departs from it:
- one discriminator T_theta per level, as in the code (the paper prints one for all levels);
- L_CLS is the mean over graphs, as in the code (Eq. 5 prints a sum);
- the encoder of Eq. 10 is the mean over nodes;
- Eq. 12 gives the features of the coarsened graph only; its adjacency follows Eq. 8 with idx_d;
- nodes keep their order, so that at every level a tie goes to the lower original index.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

Array = np.ndarray
Params = dict[str, Array]
LEVELS = 3


@dataclass(frozen=True)
class Oracle:
    """What one graph gives; node ids are the original graph's, sorted."""

    logits: Array
    """[C], before the softmax."""
    mi: Array
    """[LEVELS], the bracket of Eq. 3 (or of Eq. 1) with its sign turned: this graph's loss at each level."""
    kept: list[Array]
    """Per level, the nodes of the coarsened graph: idx_d."""
    kept_r: list[Array]
    """Per level, the nodes of the real coarsened graph: idx_r."""
    kept_f: list[Array]
    """Per level, the nodes of the fake coarsened graph: idx_f."""


def sigmoid(z: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -z))


def relu(z: Array) -> Array:
    return np.maximum(z, 0.0)


def gcn(A: Array, XW: Array, b: Array) -> Array:
    """D^-1/2 (A + I) D^-1/2 (X W) + b, D being the degrees of A + I."""
    A_loops = A + np.eye(len(A))
    d = 1.0 / np.sqrt(A_loops.sum(axis=1))
    return (d[:, None] * A_loops * d[None, :]) @ XW + b


def top_k(y: Array, k: int) -> Array:
    """Eq. 7: the indices of the k largest values, ties to the lower index, in ascending order."""
    return np.sort(np.argsort(-y, kind="stable")[:k])


def encoder(H: Array) -> Array:
    """Eq. 10, one and the same for the input, the real and the fake graph."""
    return H.mean(axis=0)


def readout(H: Array) -> Array:
    return np.concatenate([H.max(axis=0), H.mean(axis=0)])


def T_theta(params: Params, level: int, e: Array, e_coarse: Array) -> float:
    """The discriminator of Eq. 1 and 2 before its sigmoid: a two-layer MLP on [e || e_coarse]."""
    name = f"pools.{level}.discriminator"
    hidden = relu(params[f"{name}.0.weight"] @ np.concatenate([e, e_coarse]) + params[f"{name}.0.bias"])
    return (params[f"{name}.2.weight"] @ hidden + params[f"{name}.2.bias"]).item()


def mi_loss(t_r: float, t_f: float, mi: Literal["gan", "kl"]) -> float:
    """Minus the bound on the mutual information, from T(e, e_r) and T(e, e_f)."""
    if mi == "gan":  # Eq. 2: log σ(t) = -log(1 + e^-t), log(1 - σ(t)) = -log(1 + e^t)
        return float(np.logaddexp(0.0, -t_r) + np.logaddexp(0.0, t_f))
    if mi == "kl":  # Eq. 1
        return float(-(t_r - np.exp(t_f - 1.0)))
    raise ValueError(f"mi must be 'gan' or 'kl', not {mi!r}")


def forward(params: Params, A: Array, X: Array, ratio: float, mi: Literal["gan", "kl"] = "gan") -> Oracle:
    """The network on one graph, dropout off: A [N, N] symmetric 0/1 without loops, X [N, F]."""
    params = {name: np.asarray(value, dtype=np.float64) for name, value in params.items()}
    A, H = np.asarray(A, dtype=np.float64), np.asarray(X, dtype=np.float64)
    ids = np.arange(len(A))
    kept, kept_r, kept_f, losses, summed = [], [], [], [], 0.0

    for level in range(LEVELS):
        W = params[f"convs.{level}.linear.weight"]
        H = relu(gcn(A, H @ (W if level == 0 else W.T), params[f"convs.{level}.bias"]))

        # Eq. 6: GNN_r is row 0 of the scorer's weight, GNN_f row 1.
        w_r, w_f = params[f"pools.{level}.gnn.linear.weight"]
        b_r, b_f = params[f"pools.{level}.gnn.bias"]
        y_r = sigmoid(gcn(A, H @ w_r, b_r))
        y_f = sigmoid(gcn(A, H @ w_f, b_f))

        # Eq. 7 and 9. A_r and A_f of Eq. 8 are read by nothing: the encoder looks at features alone.
        k = math.ceil(ratio * len(A))
        idx_r, idx_f = top_k(y_r, k), top_k(y_f, k)
        H_r = H[idx_r] * y_r[idx_r, None]
        H_f = H[idx_f] * y_f[idx_f, None]

        # Eq. 10, then the bracket of Eq. 3.
        e, e_r, e_f = encoder(H), encoder(H_r), encoder(H_f)
        losses.append(mi_loss(T_theta(params, level, e, e_r), T_theta(params, level, e, e_f), mi))

        # Eq. 11 and 12.
        y_d = sigmoid(y_r - y_f)
        idx_d = top_k(y_d, k)
        H, A = H[idx_d] * y_d[idx_d, None], A[np.ix_(idx_d, idx_d)]

        kept_r.append(ids[idx_r])
        kept_f.append(ids[idx_f])
        ids = ids[idx_d]
        kept.append(ids)
        summed = summed + readout(H)

    hidden = relu(params["head.0.weight"] @ summed + params["head.0.bias"])
    hidden = relu(params["head.1.weight"] @ hidden + params["head.1.bias"])
    logits = params["head.2.weight"] @ hidden + params["head.2.bias"]
    return Oracle(logits, np.array(losses), kept, kept_r, kept_f)


def loss(
    params: Params,
    graphs: list[tuple[Array, Array, int]],
    ratio: float,
    alpha: float,
    mi: Literal["gan", "kl"] = "gan",
) -> float:
    """Eq. 4, L_CLS + alpha L_MI, over graphs (A, X, y): the mean cross-entropy and the mean of Eq. 3."""
    outputs = [forward(params, A, X, ratio, mi) for A, X, _ in graphs]
    cls = [np.logaddexp.reduce(out.logits) - out.logits[y] for out, (_, _, y) in zip(outputs, graphs, strict=True)]
    return float(np.mean(cls) + alpha * np.mean([out.mi for out in outputs]))
