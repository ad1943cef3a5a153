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
from cgipool.dense import DenseLevel, without_diagonal
from cgipool.layers import GCN
from cgipool.level import Level, block_ptr_of, check_ratio
from cgipool.pool.base import Pooled

LEAK = 0.2
"""Slope of the attention's leaky ReLU; the paper's."""


class ASAP(nn.Module):
    """Keeps the k fittest of the clusters around each node, joined by weighted edges.

    PyG's `ASAPooling` ranks by the fitness times a weight of random sign, as its `SAGPooling` does; here the fittest
    stay. Its LEConv takes all edges to weigh 1; here the weights of the level count, as in the paper. The dropout that
    PyG's layer offers on α is 0 there by default, and not here.
    """

    def __init__(self, dim: int, ratio: float | int = 0.8) -> None:
        super().__init__()
        self.ratio = check_ratio(ratio)
        self.gnn = GCN(dim, dim)
        self.query = nn.Linear(dim, dim)  # W
        self.attend_query = nn.Linear(dim, 1)  # w's half for W m_i
        self.attend_node = nn.Linear(dim, 1, bias=False)  # w's half for X̃_j
        self.fitness = nn.Linear(dim, 3)  # W₁, W₂, W₃

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """X [C, d] → the coarsened graph, weighted."""
        k = level.kept(self.ratio)
        where = (level.slot_ptr, block_ptr_of(level.slot_ptr))
        a = level.with_loops()

        xt = self.gnn(x, level)
        query = self.attend_query(self.query(level.neighbor_max(xt)))
        alpha = attention(level, a, query, self.attend_node(xt))
        xc = ops.block_mm(alpha, x, False, *where)

        one, two, three = self.fitness(xc).split(1, 1)
        around = ops.block_mm(a, torch.cat([level.alive.unsqueeze(1), three], 1), False, *where)
        phi = torch.sigmoid(one + around[:, :1] * two - around[:, 1:]).squeeze(1)

        keep = level.select(phi.unsqueeze(1), k).squeeze(1)
        joined = ops.block_product(ops.block_product(alpha, a, False, False, *where), alpha, False, True, *where)
        pooled, coarse = DenseLevel.of_kept(level, xc, phi, keep, k, without_diagonal(level, joined))
        return Pooled(pooled, coarse, scores={"phi": phi})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}"


def attention(level: Level, a: Tensor, query: Tensor, node: Tensor) -> Tensor:
    """[D] α_ij = softmax over the j with a_ij > 0 of LeakyReLU(query_i + node_j); query and node are [C, 1]."""
    where = (level.slot_ptr, block_ptr_of(level.slot_ptr))
    one = torch.ones_like(query)
    score = ops.block_outer(torch.cat([query, one], 1), torch.cat([one, node], 1), *where, len(a))
    # The largest score of each row, against overflow: the leaky ReLU is monotone, so it is that of the largest node_j.
    top = F.leaky_relu(query.detach() + level.neighbor_max(node.detach()), LEAK)
    shifted = F.leaky_relu(score, LEAK) - ops.block_outer(top, one, *where, len(a))
    power = torch.where(a > 0, shifted, -torch.inf).exp()
    total = ops.block_mm(power, one, False, *where)
    return power * ops.block_outer(1.0 / torch.where(total > 0, total, 1.0), one, *where, len(a))
