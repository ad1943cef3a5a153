"""Pools that break the contract, each in one way, for the checker to find."""

import torch
from torch import Tensor, nn

from cgipool.model.level import Level, SparseLevel
from cgipool.model.level.sparse import Entries
from cgipool.pool import Pooled


class Sound(nn.Module):
    """Keeps the nodes with the best score, which gates them."""

    def __init__(self, dim: int, ratio: float | int = 0.8, site: int = 0) -> None:
        super().__init__()
        self.ratio, self.site = ratio, site
        self.score = nn.Linear(dim, 1)

    def scores(self, x: Tensor, level: Level) -> Tensor:
        return torch.sigmoid(self.score(x)).squeeze(1)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        score, k = self.scores(x, level), level.kept(self.ratio)
        keep = level.select(score.unsqueeze(1), k).squeeze(1)
        return Pooled(*level.coarsen(x, score, keep, k))


class OverTheBatch(Sound):
    """The best nodes of the whole batch, of whatever graph."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        score = self.scores(x, level)
        living = torch.where(level.alive > 0, score, -torch.inf)
        cut = living.sort(descending=True).values[(level.alive.sum() * self.ratio).long()]
        keep = (living > cut).to(x.dtype)
        k = torch.zeros_like(level.sizes, dtype=x.dtype).index_add(0, level.graph, keep).long()
        return Pooled(*level.coarsen(x, score, keep, k))


class Reads(Sound):
    def scores(self, x: Tensor, level: Level) -> Tensor:
        largest = x.abs().max().item()  # the line that is found
        return super().scores(x, level) + 0.0 * largest


class Indexes(Sound):
    def scores(self, x: Tensor, level: Level) -> Tensor:
        score = super().scores(x, level)
        return score + 0.0 * score[level.alive > 0].sum()  # the line that is found


class Assigns(Sound):
    def scores(self, x: Tensor, level: Level) -> Tensor:
        score = super().scores(x, level).clone()
        score[level.alive == 0] = 0.0  # the line that is found
        return score


class ReadsInBackward(Sound):
    def scores(self, x: Tensor, level: Level) -> Tensor:
        return Careless.apply(super().scores(x, level))


class Careless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, score: Tensor) -> Tensor:
        return score.clone()

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad if grad.abs().max() > 0 else grad.clone()  # the line that is found


class TorchRand(Sound):
    def scores(self, x: Tensor, level: Level) -> Tensor:
        score = super().scores(x, level)
        return score + 0.1 * torch.rand(len(score)) if self.training else score


class Dropout(Sound):
    """Torch's own dropout, which draws from its global generator."""

    def scores(self, x: Tensor, level: Level) -> Tensor:
        return super().scores(nn.functional.dropout(x, 0.3, self.training), level)


class Unreached(Sound):
    """Its second score chooses nodes and is never differentiated."""

    def __init__(self, dim: int, ratio: float | int = 0.8) -> None:
        super().__init__(dim, ratio)
        self.choice = nn.Linear(dim, 1)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        k = level.kept(self.ratio)
        keep = level.select(self.choice(x), k).squeeze(1)
        return Pooled(*level.coarsen(x, self.scores(x, level), keep, k))


class NotFinite(Sound):
    """Where the score is below ½, the root is not taken, but differentiated."""

    def scores(self, x: Tensor, level: Level) -> Tensor:
        score = super().scores(x, level)
        return torch.where(score > 0.5, (score - 0.5).sqrt(), score)


class Rolled(Sound):
    """Every node has the features of another."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        pooled = super().forward(x, level)
        return pooled._replace(x=pooled.x.roll(1, 0))


class Shuffled(Sound):
    """The edges that are left have the data of other edges."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        pooled = super().forward(x, level)
        after = pooled.level
        if isinstance(after, SparseLevel) and len(after.edge_numbers):
            entries = Entries(*after.edges, after.edge_numbers.flip(0))
            mixed = type(after)(after.nodes, after.origin, after.compact, lambda: entries)
            return pooled._replace(level=mixed)
        return pooled


class TooFew(Sound):
    def forward(self, x: Tensor, level: Level) -> Pooled:
        pooled = super().forward(x, level)
        return pooled._replace(x=pooled.x[:-1])


class WrongSize(Sound):
    def forward(self, x: Tensor, level: Level) -> Pooled:
        score, k = self.scores(x, level), level.kept(self.ratio)
        keep = level.select(score.unsqueeze(1), k).squeeze(1)
        return Pooled(*level.coarsen(x, score, keep, level.sizes))


class NoPooled(Sound):
    def forward(self, x: Tensor, level: Level) -> tuple[Tensor, Level]:
        return x, level


class First(Sound):
    """The first nodes of each graph, whatever they are."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        place = (level.position - level.origin.slot_ptr[level.graph]).to(x.dtype)
        keep = level.select(-place.unsqueeze(1), level.kept(self.ratio)).squeeze(1)
        return Pooled(*level.coarsen(x, self.scores(x, level), keep, level.kept(self.ratio)))


class Forgetful(Sound):
    """A vector drawn at the start and not kept with the weights."""

    def __init__(self, dim: int, ratio: float | int = 0.8) -> None:
        super().__init__(dim, ratio)
        self.shift = torch.rand(dim)

    def scores(self, x: Tensor, level: Level) -> Tensor:
        return super().scores(x + self.shift, level)


class Constant(Sound):
    """Nothing of the graph is left."""

    def forward(self, x: Tensor, level: Level) -> Pooled:
        pooled = super().forward(x, level)
        return pooled._replace(x=pooled.x * 0.0)


class Raises(Sound):
    def forward(self, x: Tensor, level: Level) -> Pooled:
        raise ZeroDivisionError("on purpose")  # the line that is found


class RaisesWithoutEdges(Sound):
    def forward(self, x: Tensor, level: Level) -> Pooled:
        if not torch.compiler.is_compiling() and float(level.degree.sum()) == 0.0:
            raise LookupError("no edges")
        return super().forward(x, level)
