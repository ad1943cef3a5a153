"""Operations over each graph: maximum, sums, softmax, weighted sums, ranks."""

import numpy as np
import torch
from torch import Tensor

from cgipool.ops.cpu.blocks import by_graph
from cgipool.ops.cpu.rows import bags, row_dots


def readout(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum and sum over each graph's living nodes, [C, F] → twice [B, F]; 0 for a graph without any."""
    graphs = len(slot_ptr) - 1
    nowhere = torch.where(alive > 0, graph, graphs)  # dead positions go to a row that is cut off
    top = x.new_full((graphs + 1, x.shape[1]), -torch.inf)
    top.scatter_reduce_(0, nowhere.unsqueeze(1).expand_as(x), x, "amax")
    top = top[:-1].masked_fill(top[:-1] == -torch.inf, 0.0)
    return top, bags(x, torch.arange(len(x), device=x.device), slot_ptr, alive)


def readout_grad(
    grad_top: Tensor, grad_sum: Tensor, x: Tensor, top: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor
) -> Tensor:
    """Gradient of `readout` by x. Nodes that attain the maximum share its gradient equally, so that it is permutation
    equivariant."""
    grad = top.index_select(0, graph)
    torch.eq(x, grad, out=grad)  # 1.0 where the maximum is attained; with floats out, the vectorised kernel
    count = bags(grad, torch.arange(len(x), device=x.device), slot_ptr, alive).clamp_(min=1.0)
    share = (grad_top / count).index_select(0, graph)  # reused below: fresh memory costs more than the arithmetic
    grad.mul_(share).add_(torch.index_select(grad_sum, 0, graph, out=share))
    return grad.mul_(alive.unsqueeze(1))


def softmax(score: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """The softmax of each column over the living nodes of each graph, 0 at the dead; [C, M] → [C, M]."""
    living = alive.unsqueeze(1) > 0
    top = score.new_full((len(slot_ptr) - 1, score.shape[1]), -torch.inf)
    top.scatter_reduce_(0, graph.unsqueeze(1).expand_as(score), score.masked_fill(~living, -torch.inf), "amax")
    power = (score - top.index_select(0, graph)).exp_().masked_fill_(~living, 0.0)
    return power / _totals(power, graph, slot_ptr).clamp_(min=torch.finfo(score.dtype).tiny)


def softmax_grad(grad: Tensor, soft: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Gradient of `softmax` by its score, from its result."""
    return soft * (grad - _totals(soft * grad, graph, slot_ptr))


def _totals(x: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each position gets the sum over its graph."""
    return bags(x, torch.arange(len(x), device=x.device), slot_ptr).index_select(0, graph)


WIDE = 8
"""Number of columns from which a matrix product per graph is faster than weighted bags."""


def sums(x: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Weighted sums over each graph: out[b, m] = Σ_{p in b} weight[p, m] · x[p]; [C, F] and [C, M] → [B, M, F]."""
    if _is_wide(weight.shape[1], x):
        return by_graph(lambda w, v: (w.mT, v), (weight, x), (), slot_ptr, (weight.shape[1], x.shape[1]))
    columns, used = weight.shape[1], int(slot_ptr[-1])
    every = torch.arange(used, device=x.device).repeat(columns)
    first = slot_ptr[:-1] + used * torch.arange(columns, device=x.device).unsqueeze(1)
    ptr = torch.cat([first.view(-1), slot_ptr[-1:] * columns])
    out = bags(x, every, ptr, weight[:used].T.reshape(-1))
    return out.view(columns, -1, x.shape[1]).transpose(0, 1).contiguous()


def spread(value: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each graph's vectors to its nodes: out[p] = Σ_m weight[p, m] · value[graph[p], m]; value [B, M, F] → [C, F]."""
    if _is_wide(weight.shape[1], value):
        return by_graph(lambda w, v: (w, v), (weight,), (value,), slot_ptr, value.shape[2])
    used = int(slot_ptr[-1])
    table, index, start = _table(value, graph[:used])
    out = torch.embedding_bag(table, index, start, False, 0, False, weight[:used].reshape(-1))[0]
    return _padded(out, len(weight))


def dots(x: Tensor, value: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each node against its graph's vectors: out[p, m] = x[p] · value[graph[p], m]; [C, F] and [B, M, F] → [C, M]."""
    if _is_wide(value.shape[1], x):
        return by_graph(lambda v, u: (v, u.mT), (x,), (value,), slot_ptr, value.shape[1])
    used, columns = int(slot_ptr[-1]), value.shape[1]
    table, index, _ = _table(value, graph[:used])
    row = torch.arange(used, device=x.device).repeat_interleave(columns, output_size=used * columns)
    return _padded(row_dots(x, table, index, row).view(-1, columns), len(x))


def _is_wide(columns: int, x: Tensor) -> bool:
    return columns >= WIDE and x.device.type == "cpu"


def _table(value: Tensor, graph: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value [B, M, F] as a table of B·M rows, with the rows of each position's graph as its bag."""
    columns = value.shape[1]
    index = (graph.unsqueeze(1) * columns + torch.arange(columns, device=graph.device)).view(-1)
    start = torch.arange(0, len(index), columns, device=graph.device)
    return value.reshape(-1, value.shape[2]).contiguous(), index, start


def _padded(out: Tensor, positions: int) -> Tensor:
    """Append zeros after the last row that is used."""
    return out if len(out) == positions else torch.cat([out, out.new_zeros(positions - len(out), out.shape[1])])


def keep_top_k(score: Tensor, alive: Tensor, k: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """For each of the M columns of score [C, M], 1 at the k[b] best living positions of every graph b, else 0.

    Ties go to the lower position. One stable sort of integers does all graphs and columns: a key holds column and graph
    in its high half and, in its low half, the score's bits turned so that a larger score is a smaller number. Positions
    are in order of graphs, so the high halves are already sorted, which NumPy's stable sort exploits.
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
