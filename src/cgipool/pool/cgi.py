"""CGIPool: "Graph Pooling via Coarsened Graph Infomax" (Pang, Zhao, Li; SIGIR 2021), section 3.

A level with features H and adjacency A (the paper's superscripts l and l+1 are left out) is pooled in four steps. The
numbers are those of the paper's equations, counted from the first of its section 3:

    scores       y_r = σ(GNN_r(H, A)),  y_f = σ(GNN_f(H, A))                                                      (6)
    coarsening   idx_r = top-k(y_r),  H_r = H(idx_r) ⊙ y_r(idx_r);  the same with f: the real and the fake graph  (7, 9)
    infomax      e, e_r, e_f = encoder(H), encoder(H_r), encoder(H_f)                                             (10)
                 L_MI = −mean over graphs of [log σ(T(e, e_r)) + log(1 − σ(T(e, e_f)))]                           (2, 3)
    fusion       y_d = σ(y_r − y_f)                                                                               (11)
                 idx_d = top-k(y_d),  H' = H(idx_d) ⊙ y_d(idx_d),  A' = A(idx_d, idx_d)                           (12)

The adjacencies A_r and A_f of Eq. 8 are never formed: the encoder reads features alone. Eq. 4 and 5, the whole loss,
are in training/objective.py; Eq. 1 is the option mi="kl". Shapes: C positions, B graphs, d features. σ is the sigmoid,
k = ⌈ratio · n⌉ per graph.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool.errors import unknown
from cgipool.model.layers import GCN, GraphConv
from cgipool.model.level import Level, check_ratio
from cgipool.pool.base import Pooled

LEAK = 0.2
"""Slope of the leaky ReLUs of the released code."""


def infomax_gan(real: Tensor, fake: Tensor) -> Tensor:
    """[B] the GAN-like bound of Eq. 2, negated: −log σ(real) − log(1 − σ(fake)), from logits, without overflow."""
    return F.softplus(-real) + F.softplus(fake)


def infomax_kl(real: Tensor, fake: Tensor) -> Tensor:
    """[B] the bound on the KL divergence of the paper's Eq. 1, negated: −T(real) + exp(T(fake) − 1)."""
    return -real + torch.exp(fake - 1.0)


BOUNDS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], float]] = {
    "gan": (infomax_gan, 0.0),
    "kl": (infomax_kl, 1.0),
}
"""By name, the loss of a bound, and the T above which a pair is more likely real than fake: with densities p and q the
best T is log(p / q) for the first and 1 + log(p / q) for the second."""


def bound_named(mi: str) -> str:
    """The name itself, if there is such a bound."""
    if mi not in BOUNDS:
        raise unknown("mutual-information bound", mi, BOUNDS)
    return mi


def kind_named(negative: str) -> str:
    """The name itself, if there is such a kind of negatives."""
    if negative not in ("learned", "random"):
        raise unknown("kind of negatives", negative, ("learned", "random"))
    return negative


class Discriminator(nn.Sequential):
    """T(a, b): a two-layer perceptron on the pair [a ‖ b], which gives a logit. One per level, as in the released code;
    the paper's formula has one for all levels."""

    def __init__(self, dim: int, activation: nn.Module) -> None:
        super().__init__(nn.Linear(2 * dim, dim), activation, nn.Linear(dim, 1))

    def pairs(self, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """[B] logits of two pairs of [B, d] vectors in one pass."""
        logits = self(torch.stack([torch.cat(first, 1), torch.cat(second, 1)])).squeeze(2)
        return logits[0], logits[1]


class CGIPool(nn.Module):
    """The paper's form.

    Choices that the paper leaves open: the encoder is the mean over the nodes (its "e.g., a readout function", and the
    released code's); the discriminator's hidden activation is the ReLU.

    With `negative="random"` it is the ablation CGIPool-RS: the fake graph is k nodes drawn uniformly without
    replacement, fresh at each step. The paper does not say how these are gated nor what then replaces the fusion; here
    their gate is 1, as they have no score, and the output is chosen and gated by y_r alone.
    """

    def __init__(
        self, dim: int, ratio: float | int = 0.8, site: int = 0, mi: str = "gan", negative: str = "learned"
    ) -> None:
        super().__init__()
        self.ratio, self.site, self.mi, self.negative = check_ratio(ratio), site, bound_named(mi), kind_named(negative)
        # GNN_r and GNN_f, two GCNs d → 1, side by side: they propagate together.
        self.gnn = GCN(dim, 2 if negative == "learned" else 1)
        self.discriminator = Discriminator(dim, nn.ReLU())

    def forward(self, h: Tensor, level: Level, keep: Tensor | None = None) -> Pooled:
        """H [C, d] → the coarsened graph. A given `keep` imposes idx_d, by first-level position."""
        k = level.kept(self.ratio)
        y = torch.sigmoid(self.gnn(h, level))
        y_r = y[:, 0]
        if self.negative == "learned":
            y_f = y[:, 1]
            y_d = torch.sigmoid(y_r - y_f)
            keep_r, keep_f, keep_d = level.select(torch.stack([y_r, y_f, y_d], 1), k).unbind(1)
            gate_f = y_f
        else:
            y_f = level.uniform(self.site)
            y_d = y_r
            keep_r, keep_f = level.select(torch.stack([y_r, y_f], 1), k).unbind(1)
            keep_d, gate_f = keep_r, torch.ones_like(y_r)
        keep_d = keep_d if keep is None else keep[level.position]

        weight = torch.stack([level.alive, y_r * keep_r, gate_f * keep_f], 1)
        total, x, coarse = level.sum_and_coarsen(h, weight, y_d, keep_d, k)
        count = torch.stack([level.sizes, k, k], 1).clamp(min=1)
        e, e_r, e_f = (total / count.unsqueeze(2)).unbind(1)
        real, fake = self.discriminator.pairs((e, e_r), (e, e_f))
        bound, even = BOUNDS[self.mi]
        loss = level.over_graphs(bound(real, fake))
        metrics = {} if self.training else _diagnose(level, loss, real - even, fake - even, keep_r, keep_f)
        return Pooled(x, coarse, {"mi": loss}, metrics, {"y_r": y_r, "y_f": y_f, "y_d": y_d})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}, mi={self.mi!r}, negative={self.negative!r}"


class ReleasedCGIPool(nn.Module):
    """The form of the authors' released code, which differs from the paper in every step:

        transform    X' = leaky(GraphConv(X)) feeds the output and the encoders
        scores       s_r, s_f = GraphConv(leaky(GraphConv(X))), raw: no sigmoid
        coarsening   e_r, e_f = means over ALL nodes of X' ⊙ tanh(s_r), X' ⊙ tanh(s_f): nothing is selected here
        infomax      T(e_coarse, e), the coarse graph first; L_MI is the mean of the two terms, not their sum
        fusion       top-k of s_r − s_f, gate tanh(s_r − s_f)

    `negative="random"` is CGIPool-RS in this form: e_f is the mean of X' over k random nodes, and s_r alone chooses and
    gates the output.
    """

    def __init__(
        self, dim: int, ratio: float | int = 0.8, site: int = 0, mi: str = "gan", negative: str = "learned"
    ) -> None:
        super().__init__()
        self.ratio, self.site, self.mi, self.negative = check_ratio(ratio), site, bound_named(mi), kind_named(negative)
        scorers = 2 if negative == "learned" else 1
        # The transform and the first layers of the scorers, side by side: they read the same X and aggregate it once.
        self.hidden = GraphConv(dim, (1 + scorers) * dim)
        self.score_r = GraphConv(dim, 1)
        self.score_f = GraphConv(dim, 1) if negative == "learned" else None
        self.discriminator = Discriminator(dim, nn.LeakyReLU(LEAK))

    def forward(self, x: Tensor, level: Level, keep: Tensor | None = None) -> Pooled:
        """X [C, d] → the coarsened graph. A given `keep` imposes the kept nodes, by first-level position."""
        k = level.kept(self.ratio)
        h, h_r, *h_f = F.leaky_relu(self.hidden(x, level), LEAK).split(x.shape[1], 1)
        s_r = self.score_r(h_r, level).squeeze(1)
        if self.score_f is not None:
            s_f = self.score_f(h_f[0], level).squeeze(1)
            s_d, gate_f, count_f = s_r - s_f, torch.tanh(s_f) * level.alive, level.sizes
        else:
            s_f = level.uniform(self.site)
            s_d, gate_f, count_f = s_r, level.select(s_f.unsqueeze(1), k).squeeze(1), k

        total = level.sums(h, torch.stack([level.alive, torch.tanh(s_r) * level.alive, gate_f], 1))
        count = torch.stack([level.sizes, level.sizes, count_f], 1).clamp(min=1)
        e, e_r, e_f = (total / count.unsqueeze(2)).unbind(1)
        real, fake = self.discriminator.pairs((e_r, e), (e_f, e))
        bound, even = BOUNDS[self.mi]
        loss = level.over_graphs(bound(real, fake)) / 2.0

        keep_d = level.select(s_d.unsqueeze(1), k).squeeze(1) if keep is None else keep[level.position]
        pooled, coarse = level.coarsen(h, torch.tanh(s_d), keep_d, k)
        metrics = {}
        if not self.training:
            keep_r, keep_f = level.select(torch.stack([s_r, s_f], 1), k).unbind(1)
            metrics = _diagnose(level, loss, real - even, fake - even, keep_r, keep_f)
        return Pooled(pooled, coarse, {"mi": loss}, metrics, {"y_r": s_r, "y_f": s_f, "y_d": s_d})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}, mi={self.mi!r}, negative={self.negative!r}"


def _diagnose(
    level: Level, loss: Tensor, real: Tensor, fake: Tensor, keep_r: Tensor, keep_f: Tensor
) -> dict[str, Tensor]:
    """Whether the mutual-information term does anything: the discriminator's accuracy (0.5 is chance), and the share of
    its nodes that the real graph has in common with the fake one (at ratio 0.8 at least 0.75, by counting alone)."""
    right = ((real > 0).float() + (fake < 0).float()) / 2.0
    both = level.sums((keep_r * keep_f).unsqueeze(1), level.alive.unsqueeze(1)).view(-1)
    kept = level.sums(keep_r.unsqueeze(1), level.alive.unsqueeze(1)).view(-1).clamp(min=1.0)
    shared = level.over_graphs(both / kept)
    return {"mi": loss, "discriminator_accuracy": level.over_graphs(right), "overlap": shared}
