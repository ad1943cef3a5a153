"""CGIPool: "Graph Pooling via Coarsened Graph Infomax" (Pang, Zhao, Li; SIGIR 2021), section 3.

A level with features H and adjacency A (without the paper's superscripts l and l+1) is pooled in four steps. The
numbers are those of the paper's equations in section 3:

    scores       y_r = σ(GNN_r(H, A)),  y_f = σ(GNN_f(H, A))                                                      (6)
    coarsening   idx_r = top-k(y_r),  H_r = H(idx_r) ⊙ y_r(idx_r);  the same with f: the real and the fake graph  (7, 9)
    infomax      e, e_r, e_f = encoder(H), encoder(H_r), encoder(H_f)                                             (10)
                 L_MI = −mean over graphs of [log σ(T(e, e_r)) + log(1 − σ(T(e, e_f)))]                           (2, 3)
    fusion       y_d = σ(y_r − y_f)                                                                               (11)
                 idx_d = top-k(y_d),  H' = H(idx_d) ⊙ y_d(idx_d),  A' = A(idx_d, idx_d)                           (12)

The adjacencies A_r and A_f of Eq. 8 are not computed, because the encoder reads only features. Eq. 4 and 5, the whole
loss, are in training/objective.py; Eq. 1 is the option mi="kl". Shapes: C positions, B graphs, d features, O outputs. σ
is the sigmoid, k = ⌈ratio · n⌉ per graph.

Eq. 2 bounds the mutual information of e and e_r only if its second term is over the product of their marginals, but the
paper's fake graph is another coarsening of the same graph. `negative` replaces that term. Only "learned" has y_f; for
the others the real graph is the output, y_d = y_r. V is the set of all nodes, i and j are graphs of the batch, and
dropped nodes have the gate 1 − y_r.

    learned     as in the paper: idx_f = top-k(y_f), gate y_f
    random      CGIPool-RS: idx_f = k random nodes, gate 1
    complement  idx_f = V ∖ idx_r, gate 1 − y_r, in Eq. 2
    batch       L = −mean_i log [exp T(e_i, e_r,i) / Σ_j exp T(e_i, e_r,j)] with T(a, b) = aᵀ W b / √d: InfoNCE (van
                den Oord et al., 2018), with I(e; e_r) ≥ log B − L
    predict     L = mean over graphs of Σ ‖P([(Â H_r)_v ‖ e_r]) − H_v‖² / Σ ‖H_v‖² over the dropped nodes v: the error
                of predicting their features from the kept graph. H is divided by the root mean square of its entries in
                the graph, and as the target it has no gradient
    sufficient  L = L_task(C(e_r)) + L_task(C'(e_f)) with e_f of the complement and its gradient reversed (Ganin and
                Lempitsky, 2015): the kept nodes should predict the target, the dropped nodes should not
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.errors import UserError, unknown
from cgipool.model.layers import GCN, GraphConv, Linear
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
optimal T is log(p / q) for the first and 1 + log(p / q) for the second."""


def bound_named(mi: str) -> str:
    """Return the name. Raise UserError if there is no such bound."""
    if mi not in BOUNDS:
        raise unknown("mutual-information bound", mi, BOUNDS)
    return mi


NEGATIVES = ("learned", "random", "batch", "complement", "predict", "sufficient")
ENCODINGS = ("plain", "unit")
CRITICS = ("discriminator", "critic", "predictor", "readers")
"""Names of the modules that only the mutual-information loss trains."""


def kind_named(negative: str) -> str:
    """Return the name. Raise UserError if there is no such kind of negatives."""
    if negative not in NEGATIVES:
        raise unknown("kind of negatives", negative, NEGATIVES)
    return negative


def is_critic(parameter: str) -> bool:
    """Whether the weight with this name belongs to a critic, a module that only the mutual-information loss trains."""
    return not set(CRITICS).isdisjoint(parameter.split("."))


def unit(e: Tensor) -> Tensor:
    """[B, d] each vector divided by its root mean square, so it does not reveal the size of gates."""
    return e * torch.rsqrt(e.square().mean(1, keepdim=True) + 1e-6)


class Discriminator(nn.Sequential):
    """T(a, b): a two-layer perceptron from the pair [a ‖ b] to a logit. There is one per level, as in the released
    code; the paper's formula has one for all levels."""

    def __init__(self, dim: int, activation: nn.Module) -> None:
        super().__init__(nn.Linear(2 * dim, dim), activation, nn.Linear(dim, 1))

    def pairs(self, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """[B] logits of two pairs of [B, d] vectors in one pass."""
        logits = self(torch.stack([torch.cat(first, 1), torch.cat(second, 1)])).squeeze(2)
        return logits[0], logits[1]


class Bilinear(nn.Module):
    """T(a, b) = aᵀ W b / √d for all pairs of a batch. A perceptron on [a ‖ b] may become a function of a plus one of b,
    and the function of a cancels in InfoNCE."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = Linear(dim, dim)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """[B, B] T(a_i, b_j)."""
        return self.linear(a) @ b.T / math.sqrt(a.shape[1])


class Predictor(nn.Module):
    """P([m ‖ e]): predicts a node's features from its neighbours m in the kept graph and that graph's encoding e."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.node, self.graph, self.last = Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, m: Tensor, e: Tensor, level: Level) -> Tensor:
        """Predict features [C, d] from m [C, d] and e [B, d]."""
        of_graph = ops.spread(
            self.graph(e).unsqueeze(1), level.alive.unsqueeze(1).to(m.dtype), level.graph, level.slot_ptr
        )
        return self.last(F.relu(self.node(m) + of_graph))


class CGIPool(nn.Module):
    """CGIPool as in the paper.

    Choices that the paper leaves open: the encoder is the mean over the nodes (the paper says "e.g., a readout
    function"; the released code uses the mean); the hidden activation of the discriminator is the ReLU.

    `negative="random"` is the ablation CGIPool-RS: the fake graph is k nodes drawn uniformly without replacement, anew
    at each step. The paper says neither how these are gated nor what replaces the fusion; here their gate is 1, as they
    have no score, and y_r alone selects and gates the output. The other kinds of negatives are ours; their formulas
    are above. `encoding="unit"` divides encodings by their root mean square. `outputs` is the number O of the network's
    outputs, for "sufficient".
    """

    def __init__(
        self,
        dim: int,
        ratio: float | int = 0.8,
        site: int = 0,
        mi: str = "gan",
        negative: str = "learned",
        encoding: str = "plain",
        outputs: int | None = None,
    ) -> None:
        super().__init__()
        self.ratio, self.site, self.mi, self.negative = check_ratio(ratio), site, bound_named(mi), kind_named(negative)
        if encoding not in ENCODINGS:
            raise unknown("encoding", encoding, ENCODINGS)
        self.encoding = encoding
        # GNN_r and GNN_f, two GCNs d → 1, as one GCN d → 2, which propagates once.
        self.gnn = GCN(dim, 2 if negative == "learned" else 1)
        if negative == "predict":
            self.predictor = Predictor(dim)
        elif negative == "sufficient":
            if outputs is None:
                raise UserError('negative="sufficient" needs the number of outputs of the network')
            self.readers = nn.ModuleList([nn.Linear(dim, outputs), nn.Linear(dim, outputs)])  # C and C'
        elif negative == "batch":
            self.critic = Bilinear(dim)
        else:
            self.discriminator = Discriminator(dim, nn.ReLU())

    def forward(self, h: Tensor, level: Level, keep: Tensor | None = None) -> Pooled:
        """Coarsen the graph; h is [C, d]. `keep`, by first-level position, overrides idx_d."""
        k = level.kept(self.ratio)
        y = torch.sigmoid(self.gnn(h, level))
        y_r = y_d = y[:, 0]
        count_f = k
        if self.negative == "learned":
            y_f = gate_f = y[:, 1]
            y_d = torch.sigmoid(y_r - y_f)
            keep_r, keep_f, keep_d = level.select(torch.stack([y_r, y_f, y_d], 1), k).unbind(1)
        elif self.negative == "random":
            y_f, gate_f = level.uniform(self.site), torch.ones_like(y_r)
            keep_r, keep_f = level.select(torch.stack([y_r, y_f], 1), k).unbind(1)
            keep_d = keep_r
        else:
            y_f = gate_f = 1.0 - y_r
            keep_d = keep_r = level.select(y_r.unsqueeze(1), k).squeeze(1)
            keep_f, count_f = level.alive - keep_r, level.sizes - k
        keep_d = keep_d if keep is None else keep[level.position]

        weight = torch.stack([level.alive, y_r * keep_r, gate_f * keep_f], 1)
        total, x, coarse = level.sum_and_coarsen(h, weight, y_d, keep_d, k)
        count = torch.stack([level.sizes, k, count_f], 1).clamp(min=1)
        encodings = (total / count.unsqueeze(2)).unbind(1)
        e, e_r, e_f = map(unit, encodings) if self.encoding == "unit" else encodings
        scores = {"y_r": y_r, "y_f": y_f, "y_d": y_d}
        if self.negative == "sufficient":
            kept, dropped = self.readers
            readings = (kept(e_r), dropped(2.0 * e_f.detach() - e_f))  # e_f with its gradient reversed
            return Pooled(x, coarse, scores=scores, readings=readings)
        metrics: dict[str, Tensor] = {}
        if self.negative == "batch":
            loss, metrics = self._infonce(level, e, e_r)
        elif self.negative == "predict":
            loss = self._unpredicted(h, level, y_r * keep_r, e_r, keep_f)
        else:
            real, fake = self.discriminator.pairs((e, e_r), (e, e_f))
            bound, even = BOUNDS[self.mi]
            # A graph without dropped nodes has no complement, and therefore no fake pair.
            loss = level.over_graphs(bound(real, fake) * (count_f > 0))
            if not self.training:
                metrics = _diagnose(level, real - even, fake - even, keep_r, keep_f, count_f > 0)
                swapped = torch.stack([y_r * keep_f, gate_f * keep_r], 1)
                metrics["swapped_accuracy"] = self._swapped(h, level, e, swapped, torch.stack([count_f, k], 1))
        metrics = {} if self.training else {"mi": loss} | metrics
        return Pooled(x, coarse, {"mi": loss}, metrics, scores)

    def _infonce(self, level: Level, e: Tensor, e_r: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of "batch". The metrics are how often a pair of one graph has a higher T than a pair of two graphs
        (0.5 is chance), and the lower bound on the mutual information in nats, at most log B."""
        there = level.sizes > 0
        logits = torch.where(there.unsqueeze(0), self.critic(e, e_r), -1e9)
        own = torch.diagonal(logits)
        loss = level.over_graphs(torch.logsumexp(logits, 1) - own)
        others = there.to(e.dtype) * (1.0 - torch.eye(len(own), dtype=e.dtype, device=e.device))
        right = (own.unsqueeze(1) > logits).to(e.dtype) + 0.5 * (own.unsqueeze(1) == logits).to(e.dtype)
        accuracy = (right * others).sum(1) / others.sum(1).clamp(min=1.0)
        bound = there.sum().clamp(min=1).to(e.dtype).log() - loss
        return loss, {"discriminator_accuracy": level.over_graphs(accuracy), "mi_bound": bound}

    def _unpredicted(self, h: Tensor, level: Level, gate: Tensor, e_r: Tensor, dropped: Tensor) -> Tensor:
        """The loss of "predict"; 0 for a graph without dropped nodes, or whose dropped features are all 0."""
        square = level.sums(h.detach().square().sum(1, keepdim=True), level.alive.unsqueeze(1)).view(-1)
        scale = torch.rsqrt((square / (level.sizes * h.shape[1]).clamp(min=1)).clamp(min=1e-12))
        h = h * scale[level.graph].unsqueeze(1)
        e_r = e_r if self.encoding == "unit" else e_r * scale.unsqueeze(1)
        target = h.detach()
        wrong = self.predictor(level.propagate(h * gate.unsqueeze(1)), e_r, level) - target
        both = torch.stack([wrong.square().sum(1), target.square().sum(1)], 1)
        error, size = level.sums(both, dropped.unsqueeze(1)).squeeze(1).unbind(1)
        return level.over_graphs(torch.where(size > 0, error / size.clamp(min=1e-6), torch.zeros_like(error)))

    def _swapped(self, h: Tensor, level: Level, e: Tensor, weight: Tensor, count: Tensor) -> Tensor:
        """The accuracy of the discriminator when the two graphs exchange their nodes but keep their gates: 1 if it
        reads the size of the gates, 0 if it reads the nodes. weight [C, 2] and count [B, 2] are those of the real and
        the fake graph after the exchange."""
        means = (level.sums(h, weight) / count.clamp(min=1).unsqueeze(2)).unbind(1)
        e_r, e_f = map(unit, means) if self.encoding == "unit" else means
        real, fake = self.discriminator.pairs((e, e_r), (e, e_f))
        even = BOUNDS[self.mi][1]
        return level.over_graphs(_right(real - even, fake - even, count[:, 0] > 0))

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        encoding = "" if self.encoding == "plain" else f", encoding={self.encoding!r}"
        return f"ratio={self.ratio}, mi={self.mi!r}, negative={self.negative!r}{encoding}"


class ReleasedCGIPool(nn.Module):
    """CGIPool as in the authors' released code, which differs from the paper in every step:

        transform    X' = leaky(GraphConv(X)) feeds the output and the encoders
        scores       s_r, s_f = GraphConv(leaky(GraphConv(X))), without a sigmoid
        coarsening   e_r, e_f = means over ALL nodes of X' ⊙ tanh(s_r), X' ⊙ tanh(s_f), without selection
        infomax      T(e_coarse, e), the coarse graph first; L_MI is the mean of the two terms, not their sum
        fusion       top-k of s_r − s_f, gate tanh(s_r − s_f)

    `negative="random"` is CGIPool-RS in this form: e_f is the mean of X' over k random nodes, and s_r alone selects and
    gates the output.
    """

    def __init__(
        self,
        dim: int,
        ratio: float | int = 0.8,
        site: int = 0,
        mi: str = "gan",
        negative: str = "learned",
        encoding: str = "plain",
    ) -> None:
        super().__init__()
        if negative in NEGATIVES[2:] or encoding != "plain":
            raise UserError("the released form of CGIPool supports only negative=learned or random and encoding=plain")
        self.ratio, self.site, self.mi, self.negative = check_ratio(ratio), site, bound_named(mi), kind_named(negative)
        scorers = 2 if negative == "learned" else 1
        # The transform and the first layers of the scorers as one layer, which aggregates X once.
        self.hidden = GraphConv(dim, (1 + scorers) * dim)
        self.score_r = GraphConv(dim, 1)
        self.score_f = GraphConv(dim, 1) if negative == "learned" else None
        self.discriminator = Discriminator(dim, nn.LeakyReLU(LEAK))

    def forward(self, x: Tensor, level: Level, keep: Tensor | None = None) -> Pooled:
        """Coarsen the graph; x is [C, d]. `keep`, by first-level position, overrides the kept nodes."""
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
            everywhere = level.sizes > 0
            metrics = {"mi": loss} | _diagnose(level, real - even, fake - even, keep_r, keep_f, everywhere)
        return Pooled(pooled, coarse, {"mi": loss}, metrics, {"y_r": s_r, "y_f": s_f, "y_d": s_d})

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}, mi={self.mi!r}, negative={self.negative!r}"


def _right(real: Tensor, fake: Tensor, pairs: Tensor) -> Tensor:
    """[B] the accuracy of a discriminator; 0.5 for a graph without pairs."""
    right = ((real > 0).float() + (fake < 0).float()) / 2.0
    return torch.where(pairs, right, 0.5)


def _diagnose(
    level: Level, real: Tensor, fake: Tensor, keep_r: Tensor, keep_f: Tensor, pairs: Tensor
) -> dict[str, Tensor]:
    """Diagnostics of the mutual-information term: the discriminator's accuracy (0.5 is chance), and the share of the
    real graph's nodes that are also in the fake graph (at ratio 0.8, at least 0.75)."""
    both = level.sums((keep_r * keep_f).unsqueeze(1), level.alive.unsqueeze(1)).view(-1)
    kept = level.sums(keep_r.unsqueeze(1), level.alive.unsqueeze(1)).view(-1).clamp(min=1.0)
    shared = level.over_graphs(both / kept)
    return {"discriminator_accuracy": level.over_graphs(_right(real, fake, pairs)), "overlap": shared}
