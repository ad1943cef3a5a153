"""What one of several processes does of a batch: which graphs it takes, and what they count.

The parts of all processes add up to the batch: of a loss that is a mean over graphs (or nodes), a part gives its own
mean times its share of the graphs (or nodes), and draws that go by a graph's place in the batch go by its place in the
whole one. Batch norm's sums over nodes are added up on the way.
"""

import contextlib
import heapq
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cgipool.data.batch import Batch
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Ids
from cgipool.errors import UserError, counted
from cgipool.model.level import kept_of
from cgipool.model.network import Head, Model
from cgipool.model.norm import BatchNorm
from cgipool.pool.base import Pooled
from cgipool.training.objective import objective
from cgipool.training.recipe import Recipe

BY_NODES = ("vip",)
"""Methods whose own loss is a mean over the nodes of a batch, not over its graphs."""


def owners(sizes: np.ndarray, processes: int) -> np.ndarray:
    """[B] which process takes each of the graphs with so many nodes: the largest first, each to who has fewest nodes
    by then. Graphs without nodes go where the largest went, so that no process has only such."""
    owner = np.zeros(len(sizes), dtype=np.int64)
    loads = [(0, process) for process in range(processes)]
    for graph in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]:
        nodes, process = loads[0]
        owner[graph] = process
        heapq.heapreplace(loads, (nodes + int(sizes[graph]), process))
    return owner


class Share(NamedTuple):
    """The part of a batch that one process has. A process that gets no graph has one all the same, which counts
    nothing: all must take part in every step."""

    ids: Ids
    """[b] the graphs."""
    place: Ids
    """[b] where they stand in the whole batch."""
    graphs: int
    """How many graphs the whole batch has."""
    weight: float
    """Their share of the class weights of the whole batch."""
    own: tuple[float, ...]
    """For each level, their share of what the method's own loss is a mean over."""
    idle: bool
    """Whether they count nothing."""


class Shares:
    """How the batches of a training are divided among processes; this one is number `process`."""

    def __init__(
        self, graphs: GraphSet, class_weight: Tensor, recipe: Recipe, method: str, process: int, processes: int
    ) -> None:
        self.graphs, self.recipe = graphs, recipe
        self.class_weight = class_weight.cpu().double().numpy()
        self.by_nodes = method in BY_NODES
        self.process, self.processes = process, processes

    def of(self, ids: Ids) -> Share:
        """This process's part of a batch."""
        sizes = self.graphs.sizes[ids]
        mine = owners(sizes, self.processes) == self.process
        if not mine.any():
            smallest_first = np.argsort(np.where(sizes > 0, sizes, sizes.max() + 1), kind="stable")
            place = smallest_first[:1]  # no empty one, if it can be
            return Share(ids[place], place, len(ids), 0.0, (0.0,) * self.recipe.levels, True)
        weight = self.class_weight[self.graphs.y[ids]] * (sizes > 0)
        share = float(weight[mine].sum() / max(weight.sum(), 1e-12))  # all 0 where training has none of the classes
        return Share(ids[mine], np.flatnonzero(mine), len(ids), share, self._own(torch.from_numpy(sizes), mine), False)

    def _own(self, sizes: Tensor, mine: np.ndarray) -> tuple[float, ...]:
        shares = []
        for _ in range(self.recipe.levels):
            counts = sizes if self.by_nodes else sizes > 0
            shares.append(int(counts[mine].sum()) / max(int(counts.sum()), 1))
            sizes = kept_of(sizes, self.recipe.ratio)
        return tuple(shares)


Total = Callable[[Tensor], Tensor]
"""Sums what each process has over all of them, with a gradient."""


def alone(sums: Tensor) -> Tensor:
    """The sums of a process that has no others."""
    return sums


@contextlib.contextmanager
def part_of(network: Model, share: Share, total: Total = alone) -> Iterator[None]:
    """Inside, the network treats the batch that it is given as this part of a larger one: own losses and diagnostics
    are what the part adds to those of the whole, the head's dropout is drawn for the places in the whole, and batch
    norm, which in training goes by the whole, gets its sums by `total`."""
    handles = [
        pool.register_forward_hook(partial(_shrink, by))
        for pool, by in zip(getattr(network, "pools", ()), share.own, strict=False)
    ]
    head = getattr(network, "head", None)
    if isinstance(head, Head) and network.training and network.dropout > 0.0:
        place = torch.from_numpy(share.place).to(next(head.parameters()).device)
        handles.append(head.register_forward_pre_hook(partial(_spread, place, share.graphs)))
        handles.append(head.register_forward_hook(partial(_pick, place)))
    norms = [module for module in network.modules() if isinstance(module, BatchNorm)]
    for norm in norms:
        norm.whole = lambda sums: total(0.0 * sums if share.idle else sums)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for norm in norms:
            del norm.whole


def _shrink(by: float, pool: nn.Module, given: Any, pooled: Pooled) -> Pooled:
    losses, metrics = ({name: by * value for name, value in part.items()} for part in (pooled.losses, pooled.metrics))
    return pooled._replace(losses=losses, metrics=metrics)


def _spread(place: Tensor, graphs: int, head: nn.Module, given: tuple[Tensor, Tensor, float]) -> tuple[Any, ...]:
    """A row for every graph of the whole batch, as a draw goes by the number of the row."""
    readout, *rest = given
    return readout.new_zeros(graphs, readout.shape[1]).index_copy(0, place, readout), *rest


def _pick(place: Tensor, head: nn.Module, given: Any, logits: Tensor) -> Tensor:
    return logits.index_select(0, place)


class Part(nn.Module):
    """What a process's part of a batch adds to the loss."""

    def __init__(self, network: Model, class_weight: Tensor, smoothing: float = 0.0, total: Total = alone) -> None:
        super().__init__()
        self.network, self.class_weight, self.smoothing, self.total = network, class_weight, smoothing, total

    def forward(self, batch: Batch, share: Share, own_weight: float) -> Tensor:
        """A scalar; the sum over processes is the loss of the whole batch. The network's buffers are moved on."""
        with part_of(self.network, share, self.total):
            output = self.network(batch)
        self.network.update(output.buffers)
        return objective(output, batch, self.class_weight, own_weight, share.weight, self.smoothing)


def check_alone(sizes: np.ndarray, recipe: Recipe, method: str) -> None:
    """An error for what looks beyond a process's own graphs: a method that takes a negative of a one-node graph from
    the next graph of the batch, if there are such graphs before its last pool."""
    if method not in BY_NODES:
        return
    left = torch.from_numpy(np.unique(sizes))
    for level in range(recipe.levels):
        if bool((left == 1).any()):
            where = "" if level == 0 else f" after {counted(level, 'pool')}"
            raise UserError(f"{method} cannot train --distributed on graphs that have one node{where}")
        left = kept_of(left, recipe.ratio)
