"""The graph operations in plain torch and NumPy: what each one computes, and the version that runs on a CPU.

Shapes: C positions (the nodes of a batch, then padding), B graphs, E neighbour entries, F features, M columns,
V categories.
Positions of one graph are consecutive: graph b holds slot_ptr[b] .. slot_ptr[b+1]. The neighbours of position p are
neighbor[row_ptr[p] .. row_ptr[p+1]], the node itself not among them, and the relation is symmetric. Padding is never
alive, has no neighbours, stands behind the last graph, and bears that graph's number.

`embedding_bag` is the fast segmented sum on a CPU (docs/performance.md has it against gather and scatter), and each of
its bags is summed by one thread, so results do not depend on scheduling.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgipool.ops.draws import mix


def _bags(x: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """Row b is the (weighted) sum of x[index[ptr[b]:ptr[b+1]]]."""
    used = int(ptr[-1])  # what follows is padding
    if used == 0:
        return x.new_zeros(len(ptr) - 1, x.shape[1])
    if used < len(index):
        index, weight = index[:used], weight if weight is None else weight[:used]
    return torch.embedding_bag(x, index, ptr, False, 0, False, weight, True)[0]


def propagate(x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """S (A + self_weight · I) S x with S = diag(scale); x is [C, F], scale [C].

    The matrix is symmetric, so the gradient by x is the same product.
    """
    scaled = x * scale.unsqueeze(1)
    out = _bags(scaled, neighbor, row_ptr)
    if self_weight:
        out.add_(scaled, alpha=self_weight)
    return out.mul_(scale.unsqueeze(1))


def degree(alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """The number of living neighbours of each position, [C]."""
    return _bags(alive.unsqueeze(1), neighbor, row_ptr).squeeze(1)


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


def _descending(score: Tensor) -> np.ndarray:
    """The bits of single-precision scores as integers, turned so that a larger score is a smaller number."""
    bits = (score.detach().cpu().float() + 0.0).contiguous().numpy().view(np.int32)  # + 0.0 makes −0 and 0 equal
    return ~(bits ^ ((bits >> 31) & 0x7FFFFFFF))


def sums(x: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Weighted sums over each graph: out[b, m] = Σ_{p in b} weight[p, m] · x[p]; [C, F] and [C, M] → [B, M, F]."""
    if _is_wide(weight.shape[1], x):
        return by_graph(lambda w, v: (w.mT, v), (weight, x), (), slot_ptr, (weight.shape[1], x.shape[1]))
    columns, used = weight.shape[1], int(slot_ptr[-1])
    every = torch.arange(used, device=x.device).repeat(columns)
    first = slot_ptr[:-1] + used * torch.arange(columns, device=x.device).unsqueeze(1)
    ptr = torch.cat([first.view(-1), slot_ptr[-1:] * columns])
    out = _bags(x, every, ptr, weight[:used].T.reshape(-1))
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
    return _padded(_row_dots(x, table, index, row).view(-1, columns), len(x))


WIDE = 8
"""From so many columns on, a matrix product for each graph beats weighted bags."""


def _is_wide(columns: int, x: Tensor) -> bool:
    return columns >= WIDE and x.device.type == "cpu"


def common_size(slot_ptr: Tensor, positions: int) -> int:
    """The size of the graphs if it is the same for all and there is no padding, else 0."""
    size, rest = divmod(positions, len(slot_ptr) - 1)
    return size if rest == 0 and bool((torch.diff(slot_ptr) == size).all()) else 0


LARGEST = 2**18
"""Up to so many multiplications OpenBLAS, NumPy's usual library, stays in the calling thread. Beyond, its threads and
those of torch, which still spin for a while after their last task, fight for the cores."""


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b in the calling thread, in strips if need be."""
    height, depth = a.shape
    strip = max(1, LARGEST // max(1, height * depth))
    for first in range(0, b.shape[1], strip):
        np.matmul(a, b[:, first : first + strip], out=out[:, first : first + strip])


def by_graph(
    product: Callable[[Any, Any], tuple[Any, Any]],
    nodes: tuple[Tensor, ...],
    graphs: tuple[Tensor, ...],
    slot_ptr: Tensor,
    shape: int | tuple[int, int],
) -> Tensor:
    """A product of two matrices for each graph, of which each has a row per node of the graph or is the graph's own;
    `product` turns them as needed.

    The result has a row of `shape` per node, or is a matrix of that shape per graph. NumPy makes the small products:
    calling it takes a fraction of the time of calling torch.
    """
    count, positions, first = len(slot_ptr) - 1, len(nodes[0]), nodes[0]
    if size := common_size(slot_ptr, positions):
        out = torch.bmm(*product(*(t.view(count, size, -1) for t in nodes), *graphs))
        return out if isinstance(shape, tuple) else out.reshape(positions, shape)
    rows, own = [t.contiguous().numpy() for t in nodes], [t.contiguous().numpy() for t in graphs]
    dtype = rows[0].dtype
    result = np.zeros((count, *shape) if isinstance(shape, tuple) else (positions, shape), dtype)
    for b, (a, z) in enumerate(pairwise(slot_ptr.tolist())):
        if a < z:
            where = b if isinstance(shape, tuple) else slice(a, z)
            matmul(*product(*(r[a:z] for r in rows), *(o[b] for o in own)), result[where])
    return torch.from_numpy(result).to(first.device)


def _table(value: Tensor, graph: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value [B, M, F] as a table of B·M rows, with the rows of each position's graph as its bag."""
    columns = value.shape[1]
    index = (graph.unsqueeze(1) * columns + torch.arange(columns, device=graph.device)).view(-1)
    start = torch.arange(0, len(index), columns, device=graph.device)
    return value.reshape(-1, value.shape[2]).contiguous(), index, start


def _padded(out: Tensor, positions: int) -> Tensor:
    """Zeros behind the last row that is used."""
    return out if len(out) == positions else torch.cat([out, out.new_zeros(positions - len(out), out.shape[1])])


def readout(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum and sum over each graph's living nodes, [C, F] → twice [B, F]; 0 for a graph without any."""
    graphs = len(slot_ptr) - 1
    nowhere = torch.where(alive > 0, graph, graphs)  # the dead go to a row that is cut off
    top = x.new_full((graphs + 1, x.shape[1]), -torch.inf)
    top.scatter_reduce_(0, nowhere.unsqueeze(1).expand_as(x), x, "amax")
    top = top[:-1].masked_fill(top[:-1] == -torch.inf, 0.0)
    return top, _bags(x, torch.arange(len(x), device=x.device), slot_ptr, alive)


def readout_grad(
    grad_top: Tensor, grad_sum: Tensor, x: Tensor, top: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor
) -> Tensor:
    """Gradient of `readout` by x. Nodes that attain the maximum share its gradient equally, so that it is permutation
    equivariant."""
    grad = top.index_select(0, graph)
    torch.eq(x, grad, out=grad)  # 1.0 where the maximum is attained; with floats out, the vectorised kernel
    count = _bags(grad, torch.arange(len(x), device=x.device), slot_ptr, alive).clamp_(min=1.0)
    share = (grad_top / count).index_select(0, graph)  # reused below: fresh memory costs more than the arithmetic
    grad.mul_(share).add_(torch.index_select(grad_sum, 0, graph, out=share))
    return grad.mul_(alive.unsqueeze(1))


def take(x: Tensor, gate: Tensor, kept: Tensor, before: Tensor) -> Tensor:
    """The kept rows, gated: out[i] = gate[kept[i]] · x[kept[i]]; before [C + 1] counts the kept ones before each."""
    one_each = torch.arange(len(kept) + 1, device=kept.device)
    return _bags(x, kept, one_each, gate.index_select(0, kept))


def take_grad(grad: Tensor, x: Tensor, gate: Tensor, kept: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `take` by x and gate; 0 where a position was dropped."""
    row = torch.arange(len(kept), device=kept.device)
    by_x = _bags(grad, row, before, gate.index_select(0, kept))
    by_gate = grad.new_zeros(len(x))
    by_gate[kept] = _row_dots(x, grad, row, kept)
    return by_x, by_gate


def _row_dots(x: Tensor, table: Tensor, row: Tensor, of: Tensor) -> Tensor:
    """x[of[i]] · table[row[i]] for every i."""
    # The aten name of embedding_bag's derivative by its weights, which is this very product.
    product = torch.ops.aten._embedding_bag_per_sample_weights_backward
    return product(x.contiguous(), table.contiguous(), row, of[:0], of, 0)


def lookup(weight: Tensor, category: Tensor) -> Tensor:
    """A one-hot (or several-hot) matrix times weight [V, F], without the matrix: category [C, K] → [C, F]."""
    return torch.nn.functional.embedding_bag(category, weight, mode="sum")


def lookup_grad(grad: Tensor, category: Tensor, rows: int) -> Tensor:
    """Gradient of `lookup` by its weight, [V, F]."""
    flat = grad.unsqueeze(1).expand(-1, category.shape[1], -1).reshape(-1, grad.shape[1])
    return torch.ops.aten.embedding_dense_backward(flat, category.reshape(-1), rows, -1, False)


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


def pick(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """Rows by number, 0 for the number −1: out[q] = x[index[q]]. No row is picked twice: back [C] says which q picked
    it, or −1, so that the gradient is the same operation with index and back exchanged."""
    return x.index_select(0, index.clamp(min=0)).masked_fill_((index < 0).unsqueeze(1), 0.0)


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
    return _bags(x, torch.arange(len(x), device=x.device), slot_ptr).index_select(0, graph)


def neighbor_max(x: Tensor, alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum over each node and its living neighbours, and where it is attained (the node itself if it may be);
    twice [C, F]. A dead position has 0, attained nowhere: −1."""
    dead = (alive == 0).unsqueeze(1)
    own = torch.arange(len(x), device=x.device).unsqueeze(1).masked_fill(dead, -1).expand_as(x)
    living, used = x.masked_fill(dead, -torch.inf), int(row_ptr[-1])
    if used == 0:
        return x.masked_fill(dead, 0.0), own.contiguous()
    top, _, _, where = torch.embedding_bag(living, neighbor[:used], row_ptr, False, 2, False, None, True)
    mine = (living >= top) | (row_ptr[1:] == row_ptr[:-1]).unsqueeze(1) | dead
    return torch.where(mine, living, top).masked_fill_(dead, 0.0), torch.where(mine, own, where.to(own.dtype))


def neighbor_max_grad(grad: Tensor, where: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """Gradient of `neighbor_max` by x: each entry goes to where the maximum was attained, if at all."""
    return torch.zeros_like(grad).scatter_add_(0, where.clamp(min=0), grad.masked_fill(where < 0, 0.0))


def convolve(
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, rectify: bool
) -> Tensor:
    """`propagate` of x, plus bias [F], and, if asked for, what is positive of that."""
    out = propagate(x, scale, self_weight, row_ptr, neighbor).add_(bias)
    return out.relu_() if rectify else out


def rectify_grad(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU with this result, and its sum over positions, which is that of a bias; [C, F] → [C, F]
    and [F]."""
    before = torch.ops.aten.threshold_backward(grad, out, 0)
    return before, before.sum(0)


def column_sums(x: Tensor) -> Tensor:
    """[F] the sum over all positions."""
    return x.sum(0)


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """Each row times its gate: [C, F] and [C] → [C, F]."""
    return x * gate.unsqueeze(1)


def gated_grad(grad: Tensor, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `gated` by x and gate."""
    return grad * gate.unsqueeze(1), (grad * x).sum(1)


def project(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for few rows of W: [C, F] and [M, F] → [C, M]."""
    return x @ weight.T


def project_grad(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `project` by x and weight."""
    return grad @ weight, grad.T @ x


def draws(index: Tensor, key: Tensor, site: int) -> Tensor:
    """Numbers in [0, 1) for every entry of index [N], drawn with a key [] at a site; see ops/draws.py."""
    # The hash of draws.py in 32 bits: the same numbers, in a third of the time. Shifts must not copy the sign.
    x = _mix32(index.int() ^ _signed(mix(site + 1)))
    x = _mix32(x ^ key.int())
    return ((x >> 8) & 0xFFFFFF).float().mul_(2.0**-24)


def _signed(x: int) -> int:
    """The 32-bit number with these bits."""
    return x - 2**32 if x >= 2**31 else x


def _mix32(x: Tensor) -> Tensor:
    """`mix` on int32, in place."""
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= _signed(0x846CA68B)
    x ^= (x >> 16) & 0xFFFF
    return x


def close_up(
    keep: Tensor, k: Tensor, slot_ptr: Tensor, position: Tensor, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The positions with keep = 1 move together, into `rows` places; k[b] of them are in graph b.

    [rows] which position stands at each place, or −1; [C] which place each position has, or −1; of each place [rows]
    whether it is alive, its graph (behind the last, the last one) and its first position; [B + 1] where the graphs
    begin now.
    """
    kept = keep.nonzero().squeeze(1)
    index, back = kept.new_full((rows,), -1), kept.new_full((len(keep),), -1)
    index[: len(kept)] = kept
    back[kept] = torch.arange(len(kept), device=keep.device)
    there, held = index >= 0, index.clamp(min=0)
    ends = torch.nn.functional.pad(torch.cumsum(k, 0), (1, 0))
    place = torch.arange(rows, device=keep.device)
    graph = torch.searchsorted(ends[1:].contiguous(), place, right=True).clamp(max=len(k) - 1)
    return index, back, there.to(keep.dtype), graph, torch.where(there, position[held], 0), ends


def induce(row_ptr: Tensor, neighbor: Tensor, index: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbour lists among the positions that `close_up` kept, as places: [rows + 1] and [E]."""
    pointer, number = row_ptr.cpu().numpy(), back.cpu().numpy()
    chosen = index.cpu().numpy()
    chosen = chosen[chosen >= 0]
    count = np.diff(pointer)[chosen]
    entry = np.repeat(pointer[chosen] - (np.cumsum(count) - count), count) + np.arange(count.sum())
    target = number[neighbor.cpu().numpy()[entry]]
    stays = target >= 0
    out = np.zeros(len(neighbor), np.int32)
    out[: stays.sum()] = target[stays]
    ends = np.zeros(len(index) + 1, np.int32)
    ends[1 : len(chosen) + 1] = np.cumsum(
        np.bincount(np.repeat(np.arange(len(chosen)), count)[stays], minlength=len(chosen))
    )
    ends[len(chosen) + 1 :] = ends[len(chosen)]
    return torch.from_numpy(ends).to(row_ptr.device), torch.from_numpy(out).to(row_ptr.device)


def pick_gated(x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """`pick` of rows times their gates [C]: out[q] = gate[index[q]] · x[index[q]], 0 for −1."""
    return pick(x, index, back).mul_(pick(gate.unsqueeze(1), index, back))


def pick_gated_grad(grad: Tensor, x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `pick_gated` by x and gate."""
    there = pick(grad, back, index)
    return there * gate.unsqueeze(1), (there * x).sum(1)


def sums_and_pick(
    x: Tensor, weight: Tensor, gate: Tensor, index: Tensor, back: Tensor, ends: Tensor, graph: Tensor, slot_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """`sums` and `pick_gated` of the same rows: [B, M, F] and [rows, F]. The places of graph b, of those that `index`
    and `back` number, begin at ends[b]."""
    return sums(x, weight, graph, slot_ptr), pick_gated(x, gate, index, back)


def sums_and_pick_grad(
    grad_sums: Tensor,
    grad_picked: Tensor,
    x: Tensor,
    weight: Tensor,
    gate: Tensor,
    index: Tensor,
    back: Tensor,
    ends: Tensor,
    graph: Tensor,
    slot_ptr: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `sums_and_pick` by x, weight and gate."""
    by_x, by_gate = pick_gated_grad(grad_picked, x, gate, index, back)
    by_x = by_x.add_(spread(grad_sums, weight, graph, slot_ptr))
    return by_x, dots(x, grad_sums, graph, slot_ptr), by_gate
