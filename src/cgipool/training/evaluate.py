"""What a network says of many graphs: in large fixed batches, without gradients."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgipool.data.batch import Batch, Batcher
from cgipool.network import Model

NODES_PER_BATCH = 50_000
"""Bounds the memory of an evaluation batch: at width 128 a level's features take 26 MB."""


def chunks(batcher: Batcher, ids: np.ndarray, key: int = 0) -> Iterator[Batch]:
    """Batches over the graphs in their order, each as large as NODES_PER_BATCH allows."""
    start, nodes = 0, np.cumsum(batcher.graphs.sizes[ids])
    while start < len(ids):
        before = nodes[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(nodes, before + NODES_PER_BATCH, side="right")))
        yield batcher.batch(ids[start:stop], key)
        start = stop


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
def evaluate(network: Model, batches: Sequence[Batch] | Iterator[Batch]) -> Evaluation:
    """Logits, own loss and diagnostics over batches, in evaluation mode."""
    network.eval()
    outputs, weight = [], []
    for batch in batches:
        outputs.append(network(batch))
        weight.append(len(batch.y))
    total = sum(weight)
    share = [w / total for w in weight]
    metrics = {
        name: sum(s * o.metrics[name] for s, o in zip(share, outputs, strict=True)).tolist()
        for name in outputs[0].metrics
    }
    own = sum(s * float(o.own_loss) for s, o in zip(share, outputs, strict=True))
    return Evaluation(torch.cat([o.logits for o in outputs]), own, metrics)
