"""Small random graphs and networks, and what a pool did to them, told without regard to how a level stores it.

Shapes: C positions, B graphs, N nodes, F features.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cgipool.data import GraphSet, Inputs
from cgipool.data.batch import Batch, Batcher
from cgipool.model.build import build_network
from cgipool.model.layers import InputSize
from cgipool.model.level import Level
from cgipool.model.network import Network, Output
from cgipool.pool import Pooled
from cgipool.task.classification import Classification
from cgipool.training.initial import prepared
from cgipool.training.job import Job
from cgipool.training.objective import objective as loss_of
from cgipool.training.stacked.group import Group

SIZES = (7, 1, 5, 12, 2, 9)
"""With the defaults of `random_graphs`, graph 1 has one node and graph 2 no edges."""

FLOATS, LABELS = 4, (60, 5)


class Case(NamedTuple):
    """Graphs as the library takes them and as dense matrices."""

    graphs: GraphSet
    batcher: Batcher
    size: InputSize
    x: np.ndarray
    """[N, F] the input features in full, one-hot columns first."""

    def batch(self, ids: Sequence[int] | None = None, key: int = 0) -> Batch:
        """Some of the graphs, by default all."""
        return self.batcher.batch(np.arange(self.graphs.n_graphs) if ids is None else np.asarray(ids), key)

    def adjacency(self, graph: int) -> np.ndarray:
        """[n, n] of one graph."""
        first, last = self.graphs.node_ptr[graph : graph + 2]
        dense = np.zeros((last - first, last - first))
        for node in range(first, last):
            start, stop = self.graphs.edge_ptr[node : node + 2]
            dense[node - first, node - first + self.graphs.edge_disp[start:stop]] = 1.0
        return dense

    def features(self, graph: int) -> np.ndarray:
        """[n, F] of one graph."""
        return self.x[self.graphs.node_ptr[graph] : self.graphs.node_ptr[graph + 1]]


def random_graphs(
    seed: int, sizes: Sequence[int] = SIZES, density: float = 0.4, edgeless: Sequence[int] = (2,), classes: int = 3
) -> GraphSet:
    """Graphs with continuous attributes and two label columns; the first label is nearly always another."""
    generator = np.random.default_rng(seed)
    source, target, start = [], [], 0
    for g, n in enumerate(sizes):
        u, v = np.nonzero(np.triu(generator.random((n, n)) < density, 1))
        if g not in edgeless:
            source += (u + start).tolist()
            target += (v + start).tolist()
        start += n
    nodes = int(sum(sizes))
    return GraphSet.from_edges(
        "random",
        sizes,
        source,
        target,
        generator.integers(0, classes, len(sizes)),
        class_names=tuple(map(str, range(classes))),
        attributes=generator.normal(size=(nodes, FLOATS)).astype(np.float32),
        category=np.stack([generator.permutation(max(nodes, LABELS[0]))[:nodes] % LABELS[0],
                           generator.integers(0, LABELS[1], nodes)], 1).astype(np.int32),
        category_names=tuple(tuple(map(str, range(count))) for count in LABELS),
    )  # fmt: skip


def case_of(graphs: GraphSet, kind: str = "floats") -> Case:
    """The graphs with inputs of a kind: "floats", "labels" or "both"."""
    category = np.zeros((graphs.n_nodes, 0), np.int32)
    floats, columns, dense = None, 0, np.zeros((graphs.n_nodes, 0))
    if kind in ("labels", "both"):
        category, columns = graphs.category + np.array([0, LABELS[0]], np.int32), sum(LABELS)
        dense = np.eye(columns)[category].sum(1)
    if kind in ("floats", "both"):
        floats = graphs.attributes
        dense = np.concatenate([dense, floats], 1)
    size = InputSize(columns, 0 if floats is None else FLOATS)
    return Case(graphs, Batcher(graphs, Inputs(category, columns, floats)), size, dense)


def random_case(seed: int, kind: str = "floats", **options: object) -> Case:
    """A case of `random_graphs`."""
    return case_of(random_graphs(seed, **options), kind)  # type: ignore[arg-type]


def random_network(size: InputSize, seed: int = 0, *, classes: int = 3, compact: bool = False, **options) -> Network:
    """A narrow network; its biases are random too, as zeros would hide a bias that is left out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_network(size, classes, **{"width": 8, **options})
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if name.endswith("bias"):
                    parameter.uniform_(-0.3, 0.3)
    network.compact = compact
    return network


def double(batch: Batch) -> Batch:
    """The batch with its float tensors in double precision."""
    return Batch(*(t.double() if t.is_floating_point() else t for t in batch))


class Step(NamedTuple):
    """One pool at work."""

    before: Level
    pooled: Pooled

    @property
    def after(self) -> Level:
        """The level that the pool gave."""
        return self.pooled.level


@contextmanager
def watching(network: Network) -> Iterator[list[Step]]:
    """Collects the steps of the forward passes inside."""
    steps: list[Step] = []

    def note(module: nn.Module, inputs: tuple, pooled: Pooled) -> None:
        steps.append(Step(inputs[1], pooled))

    hooks = [pool.register_forward_hook(note) for pool in network.pools]
    try:
        yield steps
    finally:
        for hook in hooks:
            hook.remove()


def traced(network: Network, batch: Batch, keep: list[Tensor] | None = None) -> tuple[Output, list[Step]]:
    """The output, and what each pool did."""
    with watching(network) as steps, torch.no_grad():
        return network(batch, keep), steps


def rows(level: Level) -> Tensor:
    """The rows of the level's features that belong to living nodes."""
    return torch.nonzero(level.alive).squeeze(1)


def kept(level: Level) -> Tensor:
    """The living nodes as positions of the batch, in ascending order."""
    return level.position[rows(level)]


def kept_by_graph(level: Level, batch: Batch) -> list[list[int]]:
    """Per graph of the batch, its living nodes, numbered within the graph."""
    start, nodes = batch.slot_ptr, kept(level)
    return [
        (nodes[(nodes >= a) & (nodes < b)] - a).tolist()
        for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]


def adjacency(level: Level) -> Tensor:
    """[n, n] who adds to whose sum, among the living nodes of the level in the order of `kept`."""
    alive = rows(level)
    unit = torch.zeros(len(level.alive), len(alive), dtype=level.alive.dtype)
    unit[alive, torch.arange(len(alive))] = 1.0
    return level.neighbor_sum(unit)[alive]


def clear_graphs(steps: list[Step], gap: float = 1e-5) -> list[int]:
    """The graphs in which, at every cut, the last kept and the first dropped score differ by more than a rounding.

    Continuous features are not enough for that: a GCN gives two adjacent nodes with the same neighbours otherwise the
    same result, whatever their features, and a ReLU can silence several nodes. Scores are ranked in single precision.
    """
    clear = set(range(len(steps[0].after.sizes)))
    for before, pooled in steps:
        graph, alive = before.graph, rows(before)
        for score in pooled.scores.values():
            for g, k in enumerate(pooled.level.sizes.tolist()):
                ranked = score[alive][graph[alive] == g].sort(descending=True).values
                if 0 < k < len(ranked) and ranked[k - 1] - ranked[k] <= gap:
                    clear.discard(g)
    return sorted(clear)


def group_of(jobs: Sequence[Job], graphs: GraphSet) -> Group:
    """The jobs as the stacked engine trains them."""
    return Group([prepared(job, graphs) for job in jobs], graphs)


TASK = Classification(("a", "b", "c"))
"""Its loss does not depend on the number of classes."""


def objective(output: Output, batch: Batch, class_weight: Tensor, own_weight: float | Tensor, **more: Any) -> Tensor:
    """The loss of a classification."""
    return loss_of(output, batch, TASK, class_weight, own_weight, **more)
