"""Rules: features, nodes, edges and edge data of a level are aligned.

Shapes: C positions, B graphs, F features.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cgipool.contract.subject import (
    ROOM,
    WIDTH,
    Broken,
    NotApplicable,
    batch_of,
    graphs_of,
    logits_of,
    must_agree,
    network_of,
    ways,
    with_edge_data,
)
from cgipool.errors import UserError
from cgipool.model.level import Level, SparseLevel
from cgipool.pool import Pooled


@torch.no_grad()
def edge_data(name: str) -> str:
    """After every pool, the remaining edges have their labels, attributes and weights, and a network that reads them
    has the same logits on static and on compact levels. The rule does not apply to pools that create new edges."""
    graphs = with_edge_data(graphs_of())
    logits = []
    for compact in ways(name):
        model = network_of(name, compact=compact, conv="gine").eval()
        pools = getattr(model, "pools", None)
        if pools is None:
            raise NotApplicable("a model without pools")
        hooks = [pool.register_forward_hook(_look_at_edges) for pool in pools]
        try:
            logits.append(logits_of(model, batch_of(graphs, room=None if compact else ROOM))[: graphs.n_graphs])
        except UserError as reason:
            raise NotApplicable(str(reason)) from None
        for hook in hooks:
            hook.remove()
    must_agree("with edge features, compact levels give different logits", logits[-1], logits[0])
    return "the remaining edges keep their labels, attributes and weights"


def _look_at_edges(module: nn.Module, inputs: tuple[Any, ...], pooled: Any) -> None:
    """A forward hook: every entry must have the data of the edge between the original nodes of its ends."""
    before, after = inputs[1], pooled.level
    if isinstance(before, SparseLevel) and isinstance(after, SparseLevel):
        known, left = _numbers(before), _numbers(after)
        _demand(bool(((left == known) | (left < 0)).all()), "the remaining edges have the data of other edges")


def _numbers(level: SparseLevel) -> Tensor:
    """[C, C] the number of each living edge in the batch, by the original positions of its ends; −1 elsewhere."""
    row_ptr, neighbor = level.edges
    first = len(level.origin.edges.code) if level.origin.edges is not None else 0
    own = torch.arange(len(level.alive)).repeat_interleave(torch.diff(row_ptr))
    other = neighbor[: len(own)].long()
    there = (level.alive[own] > 0) & (level.alive[other] > 0)
    _demand(len(level.edge_numbers) >= len(own), "a level has edges without a number")
    number = level.edge_numbers[: len(own)].long()
    _demand(bool((number[there] < first).all()), "an edge has a number that no edge of the batch has")
    nodes = ROOM.positions
    matrix = torch.full((nodes, nodes), -1)
    matrix[level.position[own[there]], level.position[other[there]]] = number[there]
    return matrix


@torch.no_grad()
def aligned(name: str) -> str:
    """After every pool: one row of features per position, 0 at dropped nodes; a consistent level; and edges only
    between living nodes of one graph, in both directions. Edges between kept nodes do not change."""
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
    return "features, nodes and edges are aligned on every level"


def _look(module: nn.Module, inputs: tuple[Any, ...], pooled: Any) -> None:
    """A forward hook that checks a pool's result before the next layer fails on it."""
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
    expected = (len(level.alive), WIDTH)
    _demand(tuple(x.shape) == expected, f"features have shape {list(x.shape)}, not [positions, d] = {list(expected)}")
    _demand(bool(x.isfinite().all()), "features are not finite")
    dropped = level.alive == 0
    if len(before.alive) == len(level.alive):
        dropped &= before.alive > 0  # nodes dropped earlier may keep their features
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
    _demand(bool((alive[~used] == 0).all()), "a position after the last graph is alive")
    count = torch.zeros(graphs, dtype=alive.dtype).index_add(0, graph, alive)
    _demand(torch.equal(count, level.sizes.to(count)), "sizes must be the number of living nodes of each graph")


def _adjacency(level: Level) -> Tensor:
    """[C, C] the adjacency matrix, from `neighbor_sum` of the identity."""
    return level.neighbor_sum(torch.eye(len(level.alive), dtype=level.alive.dtype))


def _edges(a: Tensor, level: Level) -> None:
    alive, graph = level.alive > 0, level.graph
    _demand(bool((a[~alive] == 0).all() and (a[:, ~alive] == 0).all()), "an edge ends at a dropped node")
    _demand(bool((a[graph[:, None] != graph] == 0).all()), "an edge joins two graphs")
    _demand(torch.allclose(a, a.T), "an edge exists or has its weight in one direction only")


def _induced(before: SparseLevel, after: SparseLevel, a: Tensor) -> None:
    """Living nodes were alive before, in the same graph, and have the same edges between them."""
    living = (after.alive > 0).nonzero().squeeze(1)
    match = after.position[living, None] == torch.where(before.alive > 0, before.position, -1)
    _demand(bool((match.sum(1) == 1).all()), "a kept node did not exist before")
    source = match.long().argmax(1)
    _demand(torch.equal(before.graph[source], after.graph[living]), "a node has moved to another graph")
    _demand(torch.equal(_adjacency(before)[source][:, source], a[living][:, living]), "kept nodes have different edges")
