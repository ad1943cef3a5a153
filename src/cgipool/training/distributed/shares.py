"""The part of a batch that each of several processes takes, and its weight.

The parts add up to the batch: where a loss is a mean over graphs (or nodes), a part contributes its own mean times its
share of the graphs (or nodes). Random draws depend on a graph's place in the whole batch. Batch norm sums over all
processes.
"""

import heapq
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from cgipool.data.batch import Batch, Batcher, PartialBatch, Share, target_columns
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Ids
from cgipool.errors import UserError, counted
from cgipool.model.level import kept_of
from cgipool.model.network import Model
from cgipool.pool import method_named
from cgipool.task.base import Task, Truth
from cgipool.task.registry import task_of
from cgipool.training.objective import objective
from cgipool.training.recipe import Recipe


def owners(sizes: np.ndarray, processes: int) -> np.ndarray:
    """[B] the process that takes each graph. The largest graphs are assigned first, each to the process with the fewest
    nodes so far. Graphs without nodes go to the process with the largest graph, so that no process has only empty
    graphs."""
    owner = np.zeros(len(sizes), dtype=np.int64)
    loads = [(0, process) for process in range(processes)]
    for graph in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]:
        nodes, process = loads[0]
        owner[graph] = process
        heapq.heapreplace(loads, (nodes + int(sizes[graph]), process))
    return owner


class Shares:
    """How the batches of a training are divided among processes; this one is number `process`."""

    def __init__(
        self,
        graphs: GraphSet,
        constants: Tensor,
        recipe: Recipe,
        method: str,
        process: int,
        processes: int,
        total: Callable[[Tensor], Tensor] = lambda sums: sums,
        sample_weight: Tensor | None = None,
    ) -> None:
        self.graphs, self.recipe = graphs, recipe
        self.task, self.constants = task_of(graphs), constants.cpu().double()
        self.targets = target_columns(graphs)
        self.per_node = method_named(method).own_loss_per_node
        self.process, self.processes, self.total = process, processes, total
        self.sample_weight = None if sample_weight is None else sample_weight.cpu().double()

    def batch(self, batcher: Batcher, ids: Ids, key: int) -> PartialBatch:
        """Return this process's part of the batch of these graphs."""
        share = self.of(ids)
        return PartialBatch.of(batcher.batch(share.ids, key), share)

    def of(self, ids: Ids) -> Share:
        """Return this process's share of a batch."""
        sizes = self.graphs.sizes[ids]
        mine = owners(sizes, self.processes) == self.process
        if not mine.any():
            smallest_first = np.argsort(np.where(sizes > 0, sizes, sizes.max() + 1), kind="stable")
            place = smallest_first[:1]  # not an empty graph, if possible
            return Share(ids[place], place, len(ids), 0.0, (0.0,) * self.recipe.levels, True, self.total)
        part, whole = (self._mass(ids, there) for there in ((sizes > 0) & mine, sizes > 0))
        share = part / max(whole, 1e-12)  # it is 0 where all weights are
        own = self._own(torch.from_numpy(sizes), mine)
        return Share(ids[mine], np.flatnonzero(mine), len(ids), share, own, False, self.total)

    def _mass(self, ids: Ids, there: np.ndarray) -> float:
        """What the loss over the graphs that are `there` [B] is a mean over."""
        truth = Truth(torch.from_numpy(self.graphs.y[ids]), torch.from_numpy(self.targets[ids]))
        weight = torch.from_numpy(there).double()
        if self.sample_weight is not None:
            weight = weight * self.sample_weight[torch.from_numpy(ids)]
        return float(self.task.mass(truth, self.constants, weight))

    def _own(self, sizes: Tensor, mine: np.ndarray) -> tuple[float, ...]:
        shares = []
        for _ in range(self.recipe.levels):
            counts = sizes if self.per_node else sizes > 0
            shares.append(int(counts[mine].sum()) / max(int(counts.sum()), 1))
            sizes = kept_of(sizes, self.recipe.ratio)
        return tuple(shares)


class PartialLoss(nn.Module):
    """The contribution of a process's part of a batch; the sum over processes is the loss of the whole batch."""

    def __init__(
        self,
        network: Model,
        task: Task,
        constants: Tensor,
        smoothing: float = 0.0,
        sample_weight: Tensor | None = None,
        focal: float = 0.0,
    ) -> None:
        super().__init__()
        self.network, self.task, self.constants = network, task, constants
        self.settings = smoothing, sample_weight, focal

    def forward(self, batch: Batch, own_weight: float) -> Tensor:
        """Return the contribution, a scalar, and update the network's buffers."""
        output = self.network(batch)
        self.network.update(output.buffers)
        return objective(output, batch, self.task, self.constants, own_weight, *self.settings)


def check_alone(sizes: np.ndarray, recipe: Recipe, method: str) -> None:
    """Raise UserError if a method would need another process's graphs: CGIPool with negatives from the batch, and
    VIPool, which takes the negative of a one-node graph from the next graph of the batch. Also if the method
    is not a network."""
    if method_named(method).classical:
        raise UserError(f"{method} is not a network: train it without --distributed")
    if recipe.negative == "batch" and method_named(method).reads("negative"):
        raise UserError("negative=batch cannot train --distributed: it compares the graphs of a whole batch")
    if not method_named(method).own_loss_per_node:
        return
    nodes = torch.from_numpy(np.unique(sizes))
    for level in range(recipe.levels):
        if bool((nodes == 1).any()):
            where = "" if level == 0 else f" after {counted(level, 'pool')}"
            raise UserError(f"{method} cannot train --distributed on graphs that have one node{where}")
        nodes = kept_of(nodes, recipe.ratio)
