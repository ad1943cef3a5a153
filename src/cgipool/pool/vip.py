"""VIPool: "Graph Cross Networks with Vertex Infomax Pooling" (Li, Chen, Zhang, Tsang; NeurIPS 2020).

A vertex is kept if it has much information about its neighbourhood. T(v, u) is the logit that vertex v and
neighbourhood u belong together, trained on pairs that do and pairs that do not:

    vertex          h = PReLU(x W + b)
    neighbourhood   c = σ(1/R Σ_r Â^r dropout(h) W_r + b'),  r = 1 … R hops
    logits          t⁺_v = h_v · B c_v + b'',  t⁻_v = h_{π(v)} · B c_v + b''
    loss            binary cross-entropy over the 2 N logits, t⁺ as 1 and t⁻ as 0
    selection       i = top-k(σ(t⁺)),  X' = X(i) ⊙ σ(t⁺(i)),  A' = A(i, i)

Shapes: C positions, B graphs, d features. k = ⌈ratio · n⌉ per graph.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.model.layers import Linear
from cgipool.model.level import Level, check_ratio
from cgipool.pool.base import Pooled

DROPOUT = 0.3
"""As in the authors' code."""

NEGATIVE_SITE = 100
"""Random numbers of level l: dropout uses site l, negatives use site 100 + l."""


def loss_weight(epoch: int) -> float:
    """Return the weight of the loss: 2 at first, 1 from epoch 1000 on.

    The authors' code has 2 − epoch / num_epochs, where num_epochs is 1000 by default and 100 to 500 in its run script.
    """
    return max(1.0, 2.0 - epoch / 1000.0)


class VIPool(nn.Module):
    """Keeps the vertices that are easiest to identify from their neighbourhoods.

    Differences from the authors' code: It selects from the whole batch, so a graph can lose all its vertices and its
    output depends on the other graphs; here k vertices of each graph stay. Its Â is D^-½ A D^-½, without self-loops;
    here it is the backbone's. Its π permutes the batch; here π is a random cycle through each graph's vertices, so no
    vertex is its own negative. A graph with one vertex takes its negative from the next graph of the batch.
    """

    needs_positive_weights = True

    def __init__(self, dim: int, ratio: float | int = 0.8, site: int = 0, hops: int = 1) -> None:
        super().__init__()
        self.ratio, self.site, self.hops = check_ratio(ratio), site, hops
        self.embed = nn.Linear(dim, dim)
        self.prelu = nn.PReLU()
        self.hop = Linear(dim, hops * dim)  # W_1 … W_R
        self.hop_bias = nn.Parameter(torch.zeros(dim))
        self.bilinear = Linear(dim, dim)  # B
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.bilinear.weight)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Coarsen the graph; x is [C, d]."""
        k = level.kept(self.ratio)
        h = self.prelu(self.embed(x))
        c = torch.sigmoid(self._neighborhood(self._dropped(h, level), level))
        context = self.bilinear(c)
        positive = (h * context).sum(1) + self.bias
        negative = (another_vertex(h, level, NEGATIVE_SITE + self.site) * context).sum(1) + self.bias
        loss = level.over_nodes(F.softplus(-positive) + F.softplus(negative)) / 2.0

        score = torch.sigmoid(positive)
        keep = level.select(score.unsqueeze(1), k).squeeze(1)
        pooled, coarse = level.coarsen(x, score, keep, k)
        metrics = {}
        if not self.training:
            right = ((positive > 0).to(x.dtype) + (negative < 0).to(x.dtype)) / 2.0
            metrics = {"vertex_infomax": loss, "told_apart": level.over_nodes(right)}
        return Pooled(pooled, coarse, {"vertex_infomax": loss}, metrics, {"t": score})

    def _dropped(self, h: Tensor, level: Level) -> Tensor:
        if not self.training:
            return h
        return h * (level.uniform(self.site, h.shape[1]) >= DROPOUT) / (1.0 - DROPOUT)

    def _neighborhood(self, h: Tensor, level: Level) -> Tensor:
        """1/R Σ_r Â^r h W_r + b', from the farthest hop inwards: Â(h W_1 + Â(h W_2 + …))."""
        *nearer, total = self.hop(h).chunk(self.hops, 1)
        total = level.propagate(total)
        for term in reversed(nearer):
            total = level.propagate(term + total)
        return total / self.hops + self.hop_bias

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}, hops={self.hops}"


def another_vertex(h: Tensor, level: Level, site: int) -> Tensor:
    """[C, d] for each vertex, h of the next vertex of its graph in a random cyclic order, so each is used once. A graph
    with one vertex gets h of the first vertex of the next graph. Dead positions get 0."""
    order, place = level.order(level.uniform(site))
    start, n = level.slot_ptr[level.graph], level.sizes[level.graph]
    rank, living = place - start, level.alive > 0
    inside = living & (n > 1)
    following = torch.where(inside, order[start + torch.where(rank + 1 < n, rank + 1, 0)], -1)
    preceding = torch.where(inside, order[start + torch.where(rank > 0, rank - 1, (n - 1).clamp(min=0))], -1)

    graphs = (level.sizes > 0).sum().clamp(min=1)  # empty slots come last
    after, before = (level.graph + 1) % graphs, (level.graph - 1) % graphs
    borrowed = torch.where(living & (n == 1), order[level.slot_ptr[after]], -1)
    lender = living & (rank == 0) & (level.sizes[before] == 1)
    lent = torch.where(lender, order[level.slot_ptr[before]], -1)
    return ops.pick(h, following, preceding) + ops.pick(h, borrowed, lent)
