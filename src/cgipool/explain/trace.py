"""Trace which nodes a network keeps at each pooling level, and cut graphs down to a set of nodes.

Shapes: G graphs, N nodes of all graphs, L levels, m edges of one graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cgipool.data.batch import Batch
from cgipool.data.build import pointer
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.model.level import Level
from cgipool.model.network import Model, Network
from cgipool.pool import Pooled


def sum_by_graph(graphs: GraphSet, values: NDArray[Any]) -> NDArray[np.int64]:
    """[…, G] sums over each graph of node values […, N]."""
    total = np.zeros((*values.shape[:-1], graphs.n_nodes + 1), np.int64)
    np.cumsum(values, axis=-1, out=total[..., 1:])
    return np.diff(total[..., graphs.node_ptr])


def edges_left(graphs: GraphSet, alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[L, G] number of edges of each graph between nodes that are alive [L, N], each counted once."""
    source = graphs.edge_source
    left = alive[:, source] & alive[:, source + graphs.edge_disp] & (graphs.edge_disp > 0)
    per_node = np.zeros((len(alive), graphs.n_edges + 1), np.int64)
    np.cumsum(left, axis=1, out=per_node[:, 1:])
    return np.diff(per_node[:, graphs.edge_ptr[graphs.node_ptr]])


def cut(graphs: GraphSet, keep: NDArray[np.bool_]) -> GraphSet:
    """Return the subgraphs induced by the nodes to keep [N], with all columns."""
    source, number = graphs.edge_source, np.cumsum(keep) - 1
    target = source + graphs.edge_disp
    stays = keep[source] & keep[target]
    source, target = source[stays], target[stays]

    def nodes(values: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if values is None else values[keep]

    def edges(values: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if values is None else values[stays]

    return replace(
        graphs,
        node_ptr=pointer(sum_by_graph(graphs, keep)),
        edge_ptr=pointer(np.bincount(source, minlength=graphs.n_nodes)[keep]),
        edge_disp=(number[target] - number[source]).astype(np.int32),
        category=nodes(graphs.category),
        attributes=nodes(graphs.attributes),
        node_truth=nodes(graphs.node_truth),
        edge_weight=edges(graphs.edge_weight),
        edge_category=edges(graphs.edge_category),
        edge_attributes=edges(graphs.edge_attributes),
        checked=True,
    )


def random_nodes(graphs: GraphSet, counts: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.bool_]:
    """[N] a random selection of counts[g] nodes of each graph g, drawn without replacement."""
    order = np.lexsort((generator.random(graphs.n_nodes), graphs.node_graph))
    place = np.arange(graphs.n_nodes) - np.repeat(graphs.node_ptr[:-1], graphs.sizes)
    drawn = np.zeros(graphs.n_nodes, bool)
    drawn[order] = place < np.repeat(counts, graphs.sizes)
    return drawn


def node_names(graphs: GraphSet) -> Sequence[str]:
    """[N] the names of the nodes of all graphs; empty if they have none."""
    return () if graphs.node_names is None else list(graphs.node_names)


def edges_of(graph: GraphSet) -> NDArray[np.int64]:
    """[m, 2] the edges of a set of one graph, each once."""
    one_way = graph.edge_disp > 0
    source = graph.edge_source[one_way]
    return np.stack([source, source + graph.edge_disp[one_way]], 1)


@dataclass(frozen=True, eq=False)
class Trace:
    """The result of passing graphs through a network: predictions, kept nodes and scores."""

    predictions: NDArray[np.float64]
    """[G, O] probabilities, or values in the units of the targets."""
    alive: NDArray[np.bool_]
    """[L, N] which nodes are left after each level."""
    scores: dict[str, NDArray[np.float32]]
    """Scores [L, N] by their name in the method's paper; NaN for nodes dropped at an earlier level."""

    @property
    def levels(self) -> int:
        """L, the number of levels."""
        return len(self.alive)

    @property
    def unsure(self) -> NDArray[np.bool_]:
        """[G] whether the network's output is not finite, so that there is no prediction."""
        return np.asarray(~np.isfinite(self.predictions).all(1))

    @property
    def guess(self) -> NDArray[np.int64]:
        """[G] the most probable classes."""
        return self.predictions.argmax(1)

    @property
    def ranking(self) -> str | None:
        """The name of the score that nodes are ranked by: the last one (y_d). None if the pool reports no scores."""
        return next(reversed(self.scores), None)

    @property
    def score(self) -> NDArray[np.float32]:
        """[L, N] the score that nodes are ranked by; NaN if there is none."""
        return np.full(self.alive.shape, np.nan, np.float32) if self.ranking is None else self.scores[self.ranking]

    @property
    def dropped(self) -> NDArray[np.int64]:
        """[N] the level that dropped each node, counted from 1; 0 for nodes kept to the end."""
        return np.where(self.alive[-1], 0, self.alive.sum(0) + 1)

    @classmethod
    def join(cls, parts: Sequence["Trace"]) -> "Trace":
        """Join the traces of one network on several batches."""
        return cls(
            np.concatenate([part.predictions for part in parts]),
            np.concatenate([part.alive for part in parts], 1),
            {name: np.concatenate([part.scores[name] for part in parts], 1) for name in parts[0].scores},
        )


def member_of(model: FittedModel, member: int) -> FittedModel:
    """Return one member of an ensemble as a separate model."""
    count = len(model.members)
    if not 0 <= member < count:
        raise UserError(f"there is no member {member}; the model has {count}, numbered from 0")
    return model if count == 1 else replace(model, members=[model.members[member]])


def trace(model: FittedModel, graphs: GraphSet, member: int = 0, first: int = 0) -> Trace:
    """Trace what a member of a model does to each graph.

    The trace of a graph does not depend on the other graphs. Random draws of a method depend on the position of the
    graph in its set; `first` is the position of the first graph if the graphs are part of a larger set.
    """
    if not graphs.n_graphs:
        raise UserError(f"{graphs.name}: there are no graphs")
    (network,) = member_of(model, member).networks
    try:
        batches = model.batches(graphs)
    except UserError as error:
        raise UserError(f"the model does not fit these graphs: {error}") from None
    numbered = (batch._replace(id=batch.id + first) for batch in batches)
    constants = torch.tensor(model.constants, dtype=torch.float32, device=model.device)
    predict = partial(model.task.predictions, constants=constants)
    return Trace.join([trace_batch(network, batch, model.method, predict) for batch in numbered])


@torch.no_grad()
def trace_batch(network: Model, batch: Batch, method: str, predict: Callable[[torch.Tensor], torch.Tensor]) -> Trace:
    """Pass a batch through a network in evaluation mode and record what each pool does. `predict` turns the network's
    outputs into predictions."""
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
        predict(logits).cpu().numpy(),
        np.stack(alive),
        {name: np.stack([level[name] for level in scores]) for name in scores[0]},
    )


def _selects(before: Level, after: Level) -> bool:
    """Whether the nodes of the next level are nodes of this level. Clusters are new nodes."""
    return after is not before and after.origin.slot_ptr is before.origin.slot_ptr


def _selects_nothing(method: str) -> UserError:
    return UserError(f"{method} selects no nodes, so there is nothing to trace")


def _spread(level: Level, value: torch.Tensor, nodes: int) -> NDArray[np.float32]:
    """[nodes] the values of the nodes that are alive, at their original positions; NaN elsewhere."""
    spread = np.full(nodes, np.nan, np.float32)
    living = level.alive > 0
    spread[level.position[living].cpu().numpy()] = value[living].float().cpu().numpy()
    return spread
