"""The nodes of each graph by their scores. Shapes: see `cgipool.ops.cpu`."""

import numpy as np
import torch
from torch import Tensor


def keep_top_k(score: Tensor, alive: Tensor, k: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """For each of the M columns of score [C, M], 1 at the k[b] best living positions of every graph b, else 0.

    Ties go to the lower position. One stable sort of integers does all graphs and columns: a key holds column and graph
    in its high half and, in its low half, the score's bits turned so that a larger score is a smaller number. Positions
    come graph by graph, so the keys are sorted in their high half already, which NumPy's stable sort exploits.
    """
    (positions, columns), graphs = score.shape, len(k)
    slot, low = graph.cpu().numpy(), _descending(score.T)
    size = np.bincount(slot, minlength=graphs)
    count = np.minimum(k.cpu().numpy(), size)
    living = alive.cpu().numpy() > 0
    if not living.all():
        low[:, ~living] = 2**31 - 1
        count = np.minimum(count, np.bincount(slot, living, graphs).astype(np.int64))
    high = slot + np.arange(columns)[:, None] * graphs
    ranked = np.argsort(((high << 32) + low).ravel(), kind="stable")
    size, count = np.tile(size, columns), np.tile(count, columns)
    best = np.repeat(np.cumsum(size) - size - (np.cumsum(count) - count), count) + np.arange(count.sum())
    keep = np.zeros(positions * columns, np.float32)
    keep[ranked[best]] = 1.0
    return torch.from_numpy(np.ascontiguousarray(keep.reshape(columns, positions).T)).to(score)


def order(score: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of each graph by descending score [C], and its inverse, the rank of each position; twice [C].

    Entry slot_ptr[b] + r is the position that comes r-th in graph b. The dead come last, ties go to the lower position.
    """
    slot, living = graph.cpu().numpy(), alive.cpu().numpy() > 0
    low = _descending(score)
    low[~living] = 2**31 - 1
    ranked = np.argsort((slot << 32) + low, kind="stable")
    rank = np.empty_like(ranked)
    rank[ranked] = np.arange(len(ranked))
    return torch.from_numpy(ranked).to(graph.device), torch.from_numpy(rank).to(graph.device)


def _descending(score: Tensor) -> np.ndarray:
    """The bits of single-precision scores as integers, turned so that a larger score is a smaller number."""
    bits = (score.detach().cpu().float() + 0.0).contiguous().numpy().view(np.int32)  # + 0.0 makes −0 and 0 equal
    return ~(bits ^ ((bits >> 31) & 0x7FFFFFFF))
