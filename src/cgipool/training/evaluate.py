"""Evaluation of a network on many graphs, in large fixed batches, without gradients."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgipool.data.batch import Batch, Batcher
from cgipool.model.network import Model, Output

NODES_PER_BATCH = 50_000
"""Bounds the memory of an evaluation batch: at width 128 a level's features take 26 MB."""

HELD_NODES = 1 << 22
"""Batches are kept between evaluations if their graphs have at most this many nodes in total; otherwise rebuilt."""


def pieces(sizes: np.ndarray, nodes: int) -> Iterator[slice]:
    """Cut graphs of these sizes into consecutive runs of at most `nodes` nodes, each with at least one graph."""
    start, ends = 0, np.cumsum(sizes)
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + nodes, side="right")))
        yield slice(start, stop)
        start = stop


def chunks(batcher: Batcher, ids: np.ndarray, key: int = 0, nodes: int | None = None) -> Iterator[Batch]:
    """Yield batches over the graphs in order, each as large as `nodes` allows, by default NODES_PER_BATCH."""
    for piece in pieces(batcher.graphs.sizes[ids], nodes or NODES_PER_BATCH):
        yield batcher.batch(ids[piece], key)


class Chunks:
    """The batches of `chunks`, for repeated iteration: kept in memory up to HELD_NODES, otherwise rebuilt each time."""

    def __init__(self, batcher: Batcher, ids: np.ndarray, key: int = 0) -> None:
        self._made = lambda: chunks(batcher, ids, key)
        self._held = list(self._made()) if batcher.graphs.sizes[ids].sum() <= HELD_NODES else None

    def __iter__(self) -> Iterator[Batch]:
        return self._made() if self._held is None else iter(self._held)


@dataclass(frozen=True)
class Evaluation:
    """The network's outputs on some graphs."""

    logits: Tensor
    """[G, classes]."""
    own_loss: float
    """The method's own loss, mean over graphs."""
    metrics: dict[str, list[float]]
    """The method's diagnostics, one value per level, mean over graphs."""


@torch.no_grad()
def evaluate(network: Model, batches: Iterable[Batch]) -> Evaluation:
    """Return logits, own loss and diagnostics over batches, computed in evaluation mode."""
    network.eval()
    outputs, weight = [], []
    for batch in batches:
        output = network(batch)
        outputs.append(output._replace(embedding=output.logits))  # embeddings of all graphs would take much memory
        weight.append(len(batch.y))
    return combined(outputs, weight)


def combined(outputs: Sequence[Output], weight: Sequence[int]) -> Evaluation:
    """Combine the outputs of several batches, weighted by their numbers of graphs."""
    total = sum(weight)
    share = [w / total for w in weight]
    metrics = {
        name: sum((s * o.metrics[name] for s, o in zip(share, outputs, strict=True)), torch.zeros(())).tolist()
        for name in outputs[0].metrics
    }
    own = sum(s * float(o.own_loss) for s, o in zip(share, outputs, strict=True))
    return Evaluation(torch.cat([o.logits for o in outputs]), own, metrics)
