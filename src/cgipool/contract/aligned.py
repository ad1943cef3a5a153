"""The rule that features, nodes and edges of a level belong together.

Shapes: C positions, B graphs, F features.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cgipool.contract.subject import ROOM, WIDTH, Broken, NotApplicable, batch_of, graphs_of, network_of, ways
from cgipool.model.level import Level, SparseLevel
from cgipool.pool import Pooled


@torch.no_grad()
def aligned(name: str) -> str:
    """After every pool: one row of features per position, 0 at the dead, a level that agrees with itself, and edges
    only among living nodes of one graph, in both directions; where edges are kept, they are those of the kept nodes."""
    for compact in ways(name):
        model = network_of(name, compact=compact).eval()
        pools = getattr(model, "pools", None)
        if pools is None:
            raise NotApplicable("a model without pools")
        hooks = [pool.register_forward_hook(_look) for pool in pools]
        for seed in range(2):
            model(batch_of(graphs_of(seed), room=None if compact else ROOM))
        for hook in hooks:
            hook.remove()
    return "features, nodes and edges belong together on every level"


def _look(module: nn.Module, inputs: tuple[Any, ...], pooled: Any) -> None:
    """As a forward hook: it looks before the next layer stumbles."""
    if not isinstance(pooled, Pooled):
        raise Broken(f"a pool must return Pooled(x, level), not a {type(pooled).__name__}")
    before, after = inputs[1], pooled.level
    _features(pooled.x, before, after)
    _nodes(after)
    a = _adjacency(after)
    _edges(a, after)
    if isinstance(before, SparseLevel) and isinstance(after, SparseLevel):
        _induced(before, after, a)
    for kind, values in (("loss", pooled.losses), ("metric", pooled.metrics)):
        for what, value in values.items():
            if value.shape != ():
                raise Broken(f"the {kind} {what!r} must be a scalar, not of shape {tuple(value.shape)}")
            _demand(bool(value.isfinite()), f"the {kind} {what!r} is {value.item()}")


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def _features(x: Tensor, before: Level, level: Level) -> None:
    wanted = (len(level.alive), WIDTH)
    _demand(tuple(x.shape) == wanted, f"features {list(x.shape)} where the level has [positions, d] = {list(wanted)}")
    _demand(bool(x.isfinite().all()), "features are not finite")
    dropped = level.alive == 0
    if len(before.alive) == len(level.alive):
        dropped &= before.alive > 0  # what was dead before may stay as it came
    _demand(bool((x[dropped] == 0).all()), "features of dropped nodes must be 0")


def _nodes(level: Level) -> None:
    alive, graph, slot_ptr = level.alive, level.graph, level.slot_ptr
    positions, graphs = len(alive), len(level.sizes)
    _demand(bool(((alive == 0) | (alive == 1)).all()), "alive must be 0 or 1")
    _demand(len(graph) == len(level.position) == positions, "graph, position and alive differ in length")
    _demand(len(slot_ptr) == graphs + 1, "slot_ptr must have one entry more than sizes")
    owner = torch.bucketize(torch.arange(positions), slot_ptr[1:], right=True)
    used = owner < graphs
    _demand(int(slot_ptr[0]) == 0 and bool((torch.diff(slot_ptr) >= 0).all()), "slot_ptr must ascend from 0")
    _demand(torch.equal(graph[used], owner[used]), "graph and slot_ptr disagree on which positions a graph has")
    _demand(bool((alive[~used] == 0).all()), "a position behind the last graph is alive")
    count = torch.zeros(graphs, dtype=alive.dtype).index_add(0, graph, alive)
    _demand(torch.equal(count, level.sizes.to(count)), "sizes must be the number of living nodes of each graph")


def _adjacency(level: Level) -> Tensor:
    """[C, C] who adds to whose sum."""
    return level.neighbor_sum(torch.eye(len(level.alive), dtype=level.alive.dtype))


def _edges(a: Tensor, level: Level) -> None:
    alive, graph = level.alive > 0, level.graph
    _demand(bool((a[~alive] == 0).all() and (a[:, ~alive] == 0).all()), "an edge ends at a dropped node")
    _demand(bool((a[graph[:, None] != graph] == 0).all()), "an edge joins two graphs")
    _demand(torch.allclose(a, a.T), "an edge goes one way only, or weighs more one way than the other")


def _induced(before: SparseLevel, after: SparseLevel, a: Tensor) -> None:
    """Living nodes were alive before, in the same graph, and have the edges that they had among themselves."""
    living = (after.alive > 0).nonzero().squeeze(1)
    match = after.position[living, None] == torch.where(before.alive > 0, before.position, -1)
    _demand(bool((match.sum(1) == 1).all()), "a kept node is none of the nodes before")
    source = match.long().argmax(1)
    _demand(torch.equal(before.graph[source], after.graph[living]), "a node has changed its graph")
    _demand(torch.equal(_adjacency(before)[source][:, source], a[living][:, living]), "kept nodes have other edges")
