"""Operations over each graph: maximum, sums, softmax, weighted sums, ranks."""

import numpy as np
import torch
from torch import Tensor

from cgipool.ops.cpu.blocks import by_graph
from cgipool.ops.cpu.rows import arrays, bags, like, loops


def readout(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum and sum over each graph's living nodes, [C, F] → twice [B, F]; 0 for a graph without any."""
    top, total = (x.new_empty(len(slot_ptr) - 1, x.shape[1]) for _ in range(2))
    loops().readout(*arrays(x, alive, slot_ptr, top, total))
    return top, total


def readout_grad(
    grad_top: Tensor, grad_sum: Tensor, x: Tensor, top: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor
) -> Tensor:
    """Gradient of `readout` by x. Nodes that attain the maximum share its gradient equally, so that it is permutation
    equivariant."""
    out = like(x)
    loops().readout_grad(*arrays(grad_top, grad_sum, x, top, alive, slot_ptr, out))
    return out


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
"""Number of columns from which a matrix product per graph is faster than a loop over its nodes."""


def sums(x: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Weighted sums over each graph: out[b, m] = Σ_{p in b} weight[p, m] · x[p]; [C, F] and [C, M] → [B, M, F]."""
    if weight.shape[1] >= WIDE:
        return by_graph(lambda w, v: (w.mT, v), (weight, x), (), slot_ptr, (weight.shape[1], x.shape[1]))
    out = x.new_empty(len(slot_ptr) - 1, weight.shape[1], x.shape[1])
    given, weights, ends, made, back = arrays(x, weight, slot_ptr, out, graph[:0])
    loops().sums_and_pick(given, weights, given[:0, 0], back, ends, made, given[:0])
    return out


def spread(value: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each graph's vectors to its nodes: out[p] = Σ_m weight[p, m] · value[graph[p], m]; value [B, M, F] → [C, F]."""
    if weight.shape[1] >= WIDE:
        return by_graph(lambda w, v: (w, v), (weight,), (value,), slot_ptr, value.shape[2])
    out = value.new_empty(len(weight), value.shape[2])
    loops().spread(*arrays(value, weight, slot_ptr, out))
    return out


def dots(x: Tensor, value: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each node against its graph's vectors: out[p, m] = x[p] · value[graph[p], m]; [C, F] and [B, M, F] → [C, M]."""
    if value.shape[1] >= WIDE:
        return by_graph(lambda v, u: (v, u.mT), (x,), (value,), slot_ptr, value.shape[1])
    out = x.new_empty(len(x), value.shape[1])
    loops().dots(*arrays(x, value, slot_ptr, out))
    return out


def keep_top_k(score: Tensor, alive: Tensor, k: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """For each of the M columns of score [C, M], 1 at the k[b] best living positions of every graph b, else 0. Ties go
    to the lower position."""
    keep = like(score)
    (single,) = arrays(score.float())
    loops().keep_top_k(single.view(np.int32), *arrays(alive, k, slot_ptr, keep))
    return keep


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
