"""Our variants of CGIPool's mutual-information loss in float64 NumPy: one level, one graph at a time, dense matrices.

They share no code with the library. H is the feature matrix that enters a pool. Shapes: N nodes, k kept, d width.
"""

import math
from dataclasses import dataclass

import numpy as np

from oracles.paper import Array, Params, gcn, relu, sigmoid, top_k


@dataclass(frozen=True)
class Level:
    """One graph at one level, with the encodings that the critics read."""

    A: Array
    H: Array
    y: Array
    """[N] y_r."""
    kept: Array
    dropped: Array
    e: Array
    e_r: Array
    e_f: Array
    """Of the dropped nodes with gate 1 − y_r; 0 if there are none."""


def encoding(x: Array, unit: bool) -> Array:
    return x / np.sqrt((x * x).mean() + 1e-6) if unit else x


def level(params: Params, A: Array, H: Array, ratio: float, unit: bool) -> Level:
    y = sigmoid(gcn(A, H @ params["gnn.linear.weight"][0], params["gnn.bias"][0]))
    kept = top_k(y, math.ceil(ratio * len(A)))
    dropped = np.setdiff1d(np.arange(len(A)), kept)
    e_f = (H[dropped] * (1.0 - y[dropped, None])).mean(0) if len(dropped) else np.zeros(H.shape[1])
    means = (H.mean(0), (H[kept] * y[kept, None]).mean(0), e_f)
    return Level(A, H, y, kept, dropped, *(encoding(mean, unit) for mean in means))


def T(params: Params, a: Array, b: Array) -> float:
    hidden = relu(params["discriminator.0.weight"] @ np.concatenate([a, b]) + params["discriminator.0.bias"])
    return (params["discriminator.2.weight"] @ hidden).item() + float(
        params.get("discriminator.2.bias", np.zeros(1))[0]
    )


def complement(params: Params, graphs: list[Level]) -> float:
    """Eq. 2 with the dropped nodes as the fake graph; 0 for a graph of which nothing is dropped."""
    terms = [
        np.logaddexp(0.0, -T(params, g.e, g.e_r)) + np.logaddexp(0.0, T(params, g.e, g.e_f)) if len(g.dropped) else 0.0
        for g in graphs
    ]
    return float(np.mean(terms))


def batch(params: Params, graphs: list[Level]) -> tuple[float, float]:
    """InfoNCE, and how often the pair of one graph has the higher T."""
    W, size = params["critic.linear.weight"], math.sqrt(len(graphs[0].e))
    scores = np.array([[other.e_r @ W @ one.e / size for other in graphs] for one in graphs])
    own = np.diag(scores)
    right = (own[:, None] > scores) + 0.5 * (own[:, None] == scores)
    others = ~np.eye(len(graphs), dtype=bool)
    log_of_sums = np.log(np.exp(scores - scores.max()).sum(1)) + scores.max()
    return float((log_of_sums - own).mean()), float(right[others].mean())


def predict(params: Params, graphs: list[Level], unit: bool) -> float:
    """The squared error of the dropped nodes' features beside their size."""
    errors = []
    for g in graphs:
        scale = 1.0 / np.sqrt((g.H * g.H).mean())
        H, kept = g.H * scale, np.zeros(len(g.H))
        kept[g.kept] = g.y[g.kept]
        around = gcn(g.A, H * kept[:, None], np.zeros(H.shape[1]))
        e_r = g.e_r if unit else g.e_r * scale
        of_graph = params["predictor.graph.weight"] @ e_r + params["predictor.graph.bias"]
        hidden = relu(around @ params["predictor.node.weight"].T + of_graph)
        wrong = hidden @ params["predictor.last.weight"].T + params["predictor.last.bias"] - H
        size = np.square(H[g.dropped]).sum()
        errors.append(np.square(wrong[g.dropped]).sum() / size if len(g.dropped) and size > 0 else 0.0)
    return float(np.mean(errors))


def read(params: Params, reader: int, e: Array) -> Array:
    """[O] what C (0) or C' (1) of `sufficient` reads."""
    return params[f"readers.{reader}.weight"] @ e + params[f"readers.{reader}.bias"]


def swapped(params: Params, graphs: list[Level], unit: bool) -> float:
    """How often T is right by the gates when real and fake graph exchange their nodes and keep their gates."""
    right = []
    for g in graphs:
        if not len(g.dropped):
            right.append(0.5)
            continue
        real = encoding((g.H[g.dropped] * g.y[g.dropped, None]).mean(0), unit)
        fake = encoding((g.H[g.kept] * (1.0 - g.y[g.kept, None])).mean(0), unit)
        right.append(((T(params, g.e, real) > 0) + (T(params, g.e, fake) < 0)) / 2)
    return float(np.mean(right))
