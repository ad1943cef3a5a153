"""What a network says of many graphs: in large fixed batches, without gradients."""

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
"""Graphs of up to so many nodes in all are kept as batches between evaluations; of more, batches are made anew."""


def pieces(sizes: np.ndarray, nodes: int) -> Iterator[slice]:
    """Graphs of these sizes cut into runs, each as long as this number of nodes allows, and of one graph at least."""
    start, ends = 0, np.cumsum(sizes)
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + nodes, side="right")))
        yield slice(start, stop)
        start = stop


def chunks(batcher: Batcher, ids: np.ndarray, key: int = 0) -> Iterator[Batch]:
    """Batches over the graphs in their order, each as large as NODES_PER_BATCH allows."""
    for piece in pieces(batcher.graphs.sizes[ids], NODES_PER_BATCH):
        yield batcher.batch(ids[piece], key)


class Chunks:
    """The batches of `chunks`, to be gone through many times: held if they are few, else made each time."""

    def __init__(self, batcher: Batcher, ids: np.ndarray, key: int = 0) -> None:
        self._made = lambda: chunks(batcher, ids, key)
        self._held = list(self._made()) if batcher.graphs.sizes[ids].sum() <= HELD_NODES else None

    def __iter__(self) -> Iterator[Batch]:
        return self._made() if self._held is None else iter(self._held)


@dataclass(frozen=True)
class Evaluation:
    """The network's answers on some graphs."""

    logits: Tensor
    """[G, classes]."""
    own_loss: float
    """The method's own loss, mean over graphs."""
    metrics: dict[str, list[float]]
    """The method's diagnostics, one value per level, mean over graphs."""


@torch.no_grad()
def evaluate(network: Model, batches: Iterable[Batch]) -> Evaluation:
    """Logits, own loss and diagnostics over batches, in evaluation mode."""
    network.eval()
    outputs, weight = [], []
    for batch in batches:
        output = network(batch)
        outputs.append(output._replace(embedding=output.logits))  # of all graphs they would be many
        weight.append(len(batch.y))
    return combined(outputs, weight)


def combined(outputs: Sequence[Output], weight: Sequence[int]) -> Evaluation:
    """One answer out of those on several batches, which count by their numbers of graphs."""
    total = sum(weight)
    share = [w / total for w in weight]
    metrics = {
        name: sum((s * o.metrics[name] for s, o in zip(share, outputs, strict=True)), torch.zeros(())).tolist()
        for name in outputs[0].metrics
    }
    own = sum(s * float(o.own_loss) for s, o in zip(share, outputs, strict=True))
    return Evaluation(torch.cat([o.logits for o in outputs]), own, metrics)
