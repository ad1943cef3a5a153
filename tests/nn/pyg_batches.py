"""Batches as PyG has them, the same ones as the engine has them, and every layer there is.

Shapes: N nodes, B graphs, E directed edges, F features.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cgipool.data import GraphSet, Inputs
from cgipool.data.batch import Batch, Batcher
from cgipool.model.level import Level
from cgipool.nn import ASAPooling, CGIPooling, PoolingOutput, SAGPooling, TopKPooling, VIPooling

DIM = 6

SIZES = (9, 1, 7, 12, 10)
"""With the default density and a seed below 4 no two nodes have the same neighbours: a GCN gives these one score."""

LAYERS = {
    "cgi": CGIPooling,
    "cgi-kl": lambda dim, ratio=0.8: CGIPooling(dim, ratio, mi="kl"),
    "cgi-rs": lambda dim, ratio=0.8: CGIPooling(dim, ratio, negative="random"),
    "released": lambda dim, ratio=0.8: CGIPooling(dim, ratio, form="released"),
    "released-rs": lambda dim, ratio=0.8: CGIPooling(dim, ratio, negative="random", form="released"),
    "vip": VIPooling,
    "vip-2": lambda dim, ratio=0.8: VIPooling(dim, ratio, hops=2),
    "sag": SAGPooling,
    "topk": TopKPooling,
    "asap": ASAPooling,
}


class Graphs(NamedTuple):
    """A batch in PyG's form."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor


def random_batch(seed: int, sizes: Sequence[int] = SIZES, density: float = 0.3, directed: bool = False) -> Graphs:
    """Random graphs in double precision, their edges in a random order; a directed one has each edge one way, with
    loops and parallel edges among them."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    edges = torch.rand(len(batch), len(batch), generator=generator) < density
    edges &= batch.unsqueeze(0) == batch.unsqueeze(1)
    if directed:
        edge_index = torch.cat([edges.nonzero(), edges.nonzero()[::3]]).T
    else:
        edge_index = (edges.triu(1) | edges.triu(1).T).nonzero().T
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1], generator=generator)].contiguous()
    x = torch.randn(len(batch), DIM, dtype=torch.float64, generator=generator)
    attr = torch.rand(edge_index.shape[1], dtype=torch.float64, generator=generator) + 0.1
    return Graphs(x, edge_index, attr, batch)


def engine_level(graphs: Graphs, compact: bool) -> Level:
    """The same symmetric graphs as the trainer has them."""
    source, target = graphs.edge_index[:, graphs.edge_index[0] < graphs.edge_index[1]].tolist()
    sizes = torch.bincount(graphs.batch).tolist()
    stored = GraphSet.from_edges("random", sizes, source, target, np.zeros(len(sizes), int), class_names=("0",))
    inputs = Inputs(np.zeros((len(graphs.x), 0), np.int32), 0, np.zeros((len(graphs.x), 1), np.float32))
    batch = Batcher(stored, inputs).batch(np.arange(len(sizes)))
    return Level.whole(Batch(*(t.double() if t.is_floating_point() else t for t in batch)), compact=compact)


def double(module: nn.Module) -> nn.Module:
    """In double precision, with random biases: zeros would hide one that is left out."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.3, 0.3)
    return module.double()


def without_ties(out: PoolingOutput, batch: Tensor, score: str) -> bool:
    """Whether at every cut the last kept and the first dropped score differ by more than single precision can miss."""
    kept = torch.zeros(len(batch), dtype=torch.bool).index_fill(0, out.perm, True)
    values = out.scores[score].detach()
    for graph in batch.unique():
        mine = batch == graph
        last, dropped = values[mine & kept].min(), values[mine & ~kept]
        if len(dropped) and last - dropped.max() < 1e-6:
            return False
    return True


def dense(edge_index: Tensor, weight: Tensor | None, nodes: int) -> Tensor:
    """[nodes, nodes] the weights of the edges, row the target, column the source."""
    matrix = torch.zeros(nodes, nodes, dtype=torch.float64)
    weight = torch.ones(edge_index.shape[1], dtype=torch.float64) if weight is None else weight
    return matrix.index_put((edge_index[1], edge_index[0]), weight, accumulate=True)


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
