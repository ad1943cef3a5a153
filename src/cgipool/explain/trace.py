"""Which nodes a network keeps at each level, and with what scores.

Shapes: G graphs, N nodes of all graphs end to end, L levels, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.fitted import FittedModel
from cgipool.level import Level
from cgipool.network import Model, Network
from cgipool.pool import Pooled


@dataclass(frozen=True, eq=False)
class Trace:
    """What a network did to some graphs."""

    probabilities: NDArray[np.float64]
    """[G, C]."""
    alive: NDArray[np.bool_]
    """[L, N] which nodes are left after each level."""
    scores: dict[str, NDArray[np.float32]]
    """By the name that the method's paper has for them, [L, N]; NaN for nodes that were gone before the level."""

    @property
    def levels(self) -> int:
        """L."""
        return len(self.alive)

    @property
    def unsure(self) -> NDArray[np.bool_]:
        """[G] whether the network's answer is not finite, so that it says nothing."""
        return np.asarray(~np.isfinite(self.probabilities).all(1))

    @property
    def guess(self) -> NDArray[np.int64]:
        """[G] the most probable classes."""
        return self.probabilities.argmax(1)

    @property
    def ranking(self) -> str | None:
        """The name of the score that nodes are kept by: the last of several (y_d). None for a pool that tells none."""
        return next(reversed(self.scores), None)

    @property
    def score(self) -> NDArray[np.float32]:
        """[L, N] that score; NaN if there is none."""
        return np.full(self.alive.shape, np.nan, np.float32) if self.ranking is None else self.scores[self.ranking]

    @property
    def dropped(self) -> NDArray[np.int64]:
        """[N] the level that dropped each node, counted from 1; 0 for those that were kept to the end."""
        return np.where(self.alive[-1], 0, self.alive.sum(0) + 1)

    @classmethod
    def join(cls, parts: Sequence["Trace"]) -> "Trace":
        """The traces of one network on several batches, as one."""
        return cls(
            np.concatenate([part.probabilities for part in parts]),
            np.concatenate([part.alive for part in parts], 1),
            {name: np.concatenate([part.scores[name] for part in parts], 1) for name in parts[0].scores},
        )


def member_of(model: FittedModel, member: int) -> FittedModel:
    """One member of an ensemble as a model of its own."""
    count = len(model.members)
    if not 0 <= member < count:
        raise UserError(f"there is no member {member}; the model has {count}, numbered from 0")
    return model if count == 1 else replace(model, members=[model.members[member]])


def trace(model: FittedModel, graphs: GraphSet, member: int = 0, first: int = 0) -> Trace:
    """What a member of a model does to each graph.

    A graph's trace does not depend on the other graphs. Only what a method draws at random follows from the graph's
    number in its set; `first` is the number of the first one, where the graphs were cut out of a larger set.
    """
    if not graphs.n_graphs:
        raise UserError(f"{graphs.name}: there are no graphs")
    (network,) = member_of(model, member).networks
    try:
        batches = model.batches(graphs)
    except UserError as error:
        raise UserError(f"the model does not fit these graphs: {error}") from None
    numbered = (batch._replace(id=batch.id + first) for batch in batches)
    return Trace.join([trace_batch(network, batch, model.method) for batch in numbered])


@torch.no_grad()
def trace_batch(network: Model, batch: Batch, method: str) -> Trace:
    """Pass a batch through a network in evaluation mode and note what each pool does."""
    if not isinstance(network, Network):
        raise _selects_nothing(method)
    alive: list[NDArray[np.bool_]] = []
    scores: list[dict[str, NDArray[np.float32]]] = []

    def note(_: torch.nn.Module, given: tuple[Any, ...], pooled: Pooled) -> None:
        before, after = given[1], pooled.level
        if not _selects(before, after):
            raise _selects_nothing(method)
        alive.append(_spread(after, after.alive, len(batch.alive)) > 0)
        scores.append({name: _spread(before, value, len(batch.alive)) for name, value in pooled.scores.items()})

    hooks = [pool.register_forward_hook(note) for pool in network.pools]
    try:
        logits = network(batch).logits
    finally:
        for hook in hooks:
            hook.remove()
    return Trace(
        torch.softmax(logits.double(), 1).cpu().numpy(),
        np.stack(alive),
        {name: np.stack([level[name] for level in scores]) for name in scores[0]},
    )


def _selects(before: Level, after: Level) -> bool:
    """Whether the nodes of the next level are nodes of this one: clusters have places of their own."""
    return after is not before and after.origin.slot_ptr is before.origin.slot_ptr


def _selects_nothing(method: str) -> UserError:
    return UserError(f"{method} selects no nodes, so there is nothing to trace")


def _spread(level: Level, value: torch.Tensor, nodes: int) -> NDArray[np.float32]:
    """[nodes] the values of a level's living nodes at their first places, NaN elsewhere."""
    spread = np.full(nodes, np.nan, np.float32)
    living = level.alive > 0
    spread[level.position[living].cpu().numpy()] = value[living].float().cpu().numpy()
    return spread
