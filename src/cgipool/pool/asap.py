"""ASAP: "Adaptive Structure Aware Pooling for Learning Hierarchical Graph Representations" (Ranjan, Sanyal, Talukdar;
AAAI 2020).

Every node i is the medoid of a cluster, N(i) ∪ {i}:

    features     X̃ = GCN(X, A)
    query        m_i = max over j ∈ N(i) ∪ {i} of X̃_j
    attention    α_ij = softmax over j ∈ N(i) ∪ {i} of LeakyReLU(w · [W m_i ‖ X̃_j])
    clusters     X^c_i = Σ_j α_ij X_j
    fitness      φ = σ(LEConv(X^c)),  LEConv_i = W₁ x_i + Σ_j a_ij (W₂ x_i − W₃ x_j)
    selection    i = top-k(φ),  X' = φ(i) ⊙ X^c(i)
    edges        A' = S(i)ᵀ (A + I) S(i) without its diagonal, S = αᵀ

Shapes: C positions, d features, D cells (see ops/blocks.py). k = ⌈ratio · n⌉ per graph; a_ij are the entries of A + I.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.model.layers import GCN
from cgipool.model.level import Level, check_ratio
from cgipool.model.level.dense import DenseLevel
from cgipool.pool.base import Pooled

LEAK = 0.2
"""Slope of the attention's leaky ReLU, as in the paper."""


class ASAP(nn.Module):
    """Keeps the k clusters with the largest fitness, joined by weighted edges.

    PyG's `ASAPooling` ranks by the fitness times a weight of random sign, as its `SAGPooling` does; here the clusters
    with the largest fitness stay. In the authors' code and in PyG's, the LEConv uses 1 for all edge weights and no
    gradient flows through A'; here, as in the paper's equations, the weights of the level are used and gradients flow.
    The other arguments are for `cgipool.nn`: the slope of the leaky ReLU, dropout on α (drawn from torch's generator),
    and self-loops in the new graph, weighted by the diagonal of A'.
    """

    needs_undirected_edges = True

    def __init__(
        self, dim: int, ratio: float | int = 0.8, *, slope: float = LEAK, dropout: float = 0.0, loops: bool = False
    ) -> None:
        super().__init__()
        self.ratio = check_ratio(ratio)
        self.slope, self.dropout, self.loops = slope, dropout, loops
        self.gnn = GCN(dim, dim)
        self.query = nn.Linear(dim, dim)  # W
        self.attend_query = nn.Linear(dim, 1)  # w's half for W m_i
        self.attend_node = nn.Linear(dim, 1, bias=False)  # w's half for X̃_j
        self.fitness = nn.Linear(dim, 3)  # W₁, W₂, W₃

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Coarsen the graph, with weighted edges; x is [C, d]."""
        k = level.kept(self.ratio)
        where = (level.slot_ptr, level.block_ptr)
        a = level.with_loops()

        xt = self.gnn(x, level)
        query, node = self._query(level.neighbor_max(xt)), ops.project(xt, self.attend_node.weight)
        alpha = ops.block_attention(a, query.squeeze(1), node.squeeze(1), self.slope, *where)
        if self.dropout > 0.0 and self.training:
            alpha = F.dropout(alpha, self.dropout)
        xc = ops.block_mm(alpha, x, False, *where)

        one, two, three = (ops.project(xc, self.fitness.weight) + self.fitness.bias).split(1, 1)
        around = ops.block_mm(a, torch.cat([level.alive.unsqueeze(1), three], 1), False, *where)
        phi = torch.sigmoid(one + around[:, :1] * two - around[:, 1:]).squeeze(1)

        keep = level.select(phi.unsqueeze(1), k).squeeze(1)
        joined = ops.block_product(ops.block_product(alpha, a, False, False, *where), alpha, False, True, *where)
        features = level.averaged_features(alpha)
        pooled, coarse = DenseLevel.of_kept(level, xc, phi, keep, k, joined, self.loops, features)
        return Pooled(pooled, coarse, scores={"phi": phi})

    def _query(self, m: Tensor) -> Tensor:
        """[C, 1] w · (W m + b), computed as (w W) · m + w · b, without W m_i."""
        w = self.attend_query.weight
        return ops.project(m, w @ self.query.weight) + (w @ self.query.bias + self.attend_query.bias)

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}"
