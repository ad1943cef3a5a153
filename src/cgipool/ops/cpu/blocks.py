"""Operations on one dense matrix per graph, in NumPy. Shapes and where the matrices lie: see ops/blocks.py."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST = 2**18
"""Maximum number of multiplications for which OpenBLAS, NumPy's usual library, stays in the calling thread. Beyond
that, its threads compete for the cores with those of torch, which still spin for a while after their last task."""


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b in the calling thread, in strips if necessary."""
    height, depth = a.shape
    strip = max(1, LARGEST // max(1, height * depth))
    for first in range(0, b.shape[1], strip):
        np.matmul(a, b[:, first : first + strip], out=out[:, first : first + strip])


def common_size(slot_ptr: Tensor, positions: int) -> int:
    """The size of the graphs if it is the same for all and there is no padding, else 0."""
    size, rest = divmod(positions, len(slot_ptr) - 1)
    return size if rest == 0 and bool((torch.diff(slot_ptr) == size).all()) else 0


def by_graph(
    product: Callable[[Any, Any], tuple[Any, Any]],
    nodes: tuple[Tensor, ...],
    graphs: tuple[Tensor, ...],
    slot_ptr: Tensor,
    shape: int | tuple[int, int],
) -> Tensor:
    """A product of two matrices for each graph. Each matrix has a row per node of the graph or belongs to the graph;
    `product` transposes them as needed.

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


Array = np.ndarray


def _plain(x: Tensor) -> Array:
    return x.detach().cpu().contiguous().numpy()


def _places(slot_ptr: Tensor, block_ptr: Tensor) -> Iterator[tuple[int, slice, slice]]:
    """For each graph: its size, its positions and its cells."""
    slots, blocks = slot_ptr.tolist(), block_ptr.tolist()
    for a, z, first, last in zip(slots, slots[1:], blocks, blocks[1:], strict=False):
        if z > a:
            yield z - a, slice(a, z), slice(first, last)


def _lines(slot_ptr: Tensor, block_ptr: Tensor) -> tuple[Array, Array]:
    """Every position p of a graph, and what to add to a position q for the cell of row p and column q."""
    slots = _plain(slot_ptr)
    size, node = np.diff(slots), np.arange(slots[-1])
    first, width = np.repeat(slots[:-1], size), np.repeat(size, size)
    return node, np.repeat(_plain(block_ptr)[:-1], size) + (node - first) * width - first


def block_adjacency(
    alive: Tensor,
    self_weight: float,
    row_ptr: Tensor,
    neighbor: Tensor,
    weight: Tensor,
    graph: Tensor,
    slot_ptr: Tensor,
    block_ptr: Tensor,
    cells: int,
) -> Tensor:
    """A + self_weight · I among the living nodes as matrices, [D]; weight is [E], or [0] where all edges weigh 1."""
    living, rows = _plain(alive), _plain(row_ptr).astype(np.int64)
    node, row = _lines(slot_ptr, block_ptr)
    out = np.zeros(cells, living.dtype)
    source = np.repeat(node, np.diff(rows[: len(node) + 1]))
    target = _plain(neighbor)[: len(source)].astype(np.int64)
    out[row[source] + target] = living[source] * living[target] * (_plain(weight)[: len(source)] if len(weight) else 1)
    if self_weight:
        out[row + node] = self_weight * living[: len(node)]
    return torch.from_numpy(out).to(alive.device)


def block_mm(weight: Tensor, x: Tensor, flip: bool, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """W x for each graph, or Wᵀ x if flipped; weight [D], x [C, F] → [C, F]."""
    if size := common_size(slot_ptr, len(x)):
        matrices = weight.view(-1, size, size)
        return torch.bmm(matrices.mT if flip else matrices, x.view(len(matrices), size, -1)).view_as(x)
    w, v = _plain(weight), _plain(x)
    out = np.zeros_like(v)
    for n, at, cells in _places(slot_ptr, block_ptr):
        matrix = w[cells].reshape(n, n)
        matmul(matrix.T if flip else matrix, v[at], out[at])
    return torch.from_numpy(out).to(x.device)


def block_convolve(weight: Tensor, x: Tensor, bias: Tensor, relu: bool, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """`block_mm` of x, plus bias [F], followed by a ReLU if `relu`."""
    out = block_mm(weight, x, False, slot_ptr, block_ptr).add_(bias)
    return out.relu_() if relu else out


def block_outer(a: Tensor, b: Tensor, slot_ptr: Tensor, block_ptr: Tensor, cells: int) -> Tensor:
    """The products of rows within each graph: out[p, q] = a[p] · b[q]; twice [C, F] → [D]."""
    if size := common_size(slot_ptr, len(a)):
        return torch.bmm(a.view(-1, size, a.shape[1]), b.view(-1, size, b.shape[1]).mT).view(-1)
    u, v = _plain(a), _plain(b)
    out = np.zeros(cells, u.dtype)
    for n, at, where in _places(slot_ptr, block_ptr):
        matmul(u[at], v[at].T, out[where].reshape(n, n))
    return torch.from_numpy(out).to(a.device)


def block_product(a: Tensor, b: Tensor, flip_a: bool, flip_b: bool, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """The matrix product of each graph's two matrices, either one transposed if flipped; twice [D] → [D]."""
    u, v = _plain(a), _plain(b)
    out = np.zeros_like(u)
    for n, _, where in _places(slot_ptr, block_ptr):
        left, right = u[where].reshape(n, n), v[where].reshape(n, n)
        matmul(left.T if flip_a else left, right.T if flip_b else right, out[where].reshape(n, n))
    return torch.from_numpy(out).to(a.device)


def block_max(weight: Tensor, x: Tensor, graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of x over the columns q with weight[p, q] > 0, and where it is attained (the lowest such position);
    twice [C, F]. A row without such columns has 0, attained nowhere: −1."""
    w, positions = _plain(weight), len(x)
    count, column = np.zeros(positions, np.int64), [np.zeros(0, np.int64)]
    for n, at, where in _places(slot_ptr, block_ptr):
        linked = w[where].reshape(n, n) > 0
        count[at] = linked.sum(1)
        column.append(np.nonzero(linked)[1] + at.start)
    row_ptr = torch.from_numpy(np.append(0, np.cumsum(count))).to(x.device)
    index = torch.from_numpy(np.concatenate(column)).to(x.device)
    if len(index) == 0:
        return torch.zeros_like(x), torch.full_like(x, -1, dtype=torch.int64)
    top, _, _, arg = torch.embedding_bag(x, index, row_ptr, False, 2, False, None, True)
    alone = (row_ptr[1:] == row_ptr[:-1]).unsqueeze(1)
    return top.masked_fill(alone, 0.0), arg.long().masked_fill(alone, -1)


def block_max_grad(grad: Tensor, where: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Gradient of `block_max` by x: each entry goes to where the maximum was attained, if at all."""
    return torch.zeros_like(grad).scatter_add_(0, where.clamp(min=0), grad.masked_fill(where < 0, 0.0))


def block_attention(a: Tensor, query: Tensor, node: Tensor, leak: float, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """The softmax over the columns j with a_ij > 0 of LeakyReLU(query_i + node_j), whose slope below 0 is `leak`;
    a [D], query and node [C] → [D]. A row without such columns has 0."""
    linked, q, v = _plain(a) > 0, _plain(query), _plain(node)
    out = np.zeros(len(linked), q.dtype)
    for n, at, where in _places(slot_ptr, block_ptr):
        score = q[at, None] + v[at]
        np.maximum(score, leak * score, out=score)
        score[~linked[where].reshape(n, n)] = -np.inf
        top = score.max(1, keepdims=True)
        top[top == -np.inf] = 0.0
        power = np.exp(np.subtract(score, top, out=score), out=out[where].reshape(n, n))
        total = power.sum(1, keepdims=True)
        total[total == 0.0] = 1.0
        power /= total
    return torch.from_numpy(out).to(a.device)


def block_attention_grad(
    grad: Tensor,
    alpha: Tensor,
    query: Tensor,
    node: Tensor,
    leak: float,
    slot_ptr: Tensor,
    block_ptr: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of `block_attention` by query and node, from its result alpha; twice [C]."""
    g, soft, q, v = _plain(grad), _plain(alpha), _plain(query), _plain(node)
    by_query, by_node = np.zeros_like(q), np.zeros_like(v)
    for n, at, where in _places(slot_ptr, block_ptr):
        power = soft[where].reshape(n, n)
        step = power * g[where].reshape(n, n)
        step -= power * step.sum(1, keepdims=True)
        np.multiply(step, leak, out=step, where=q[at, None] <= -v[at])
        by_query[at], by_node[at] = step.sum(1), step.sum(0)
    return torch.from_numpy(by_query).to(grad.device), torch.from_numpy(by_node).to(grad.device)


def block_scaled(weight: Tensor, scale: Tensor, own: float, loop: float, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """S W S for each graph, S = diag(scale), where the diagonal of W is first multiplied by `own` and increased by
    `loop`; [D] and [C] → [D]."""
    w, s = _plain(weight), _plain(scale)
    out = np.zeros_like(w)
    for shape, at, where in _alike(slot_ptr, block_ptr, len(s)):
        side, scaled = s[at].reshape(shape), out[where].reshape(*shape, shape[-1])
        np.multiply(w[where].reshape(scaled.shape), side[..., None], out=scaled)
        scaled *= side[..., None, :]
    node, row = _lines(slot_ptr, block_ptr)
    out[row + node] = own * out[row + node] + loop * s[node] ** 2
    return torch.from_numpy(out).to(weight.device)


def block_scaled_grad(
    grad: Tensor,
    weight: Tensor,
    scale: Tensor,
    own: float,
    loop: float,
    slot_ptr: Tensor,
    block_ptr: Tensor,
) -> Tensor:
    """Gradient of `block_scaled` by its scale, [C]."""
    g, s = _plain(grad), _plain(scale)
    slope, out = g * _plain(weight), np.zeros_like(s)
    node, row = _lines(slot_ptr, block_ptr)
    slope[row + node] = own * slope[row + node] + loop * g[row + node]
    for shape, at, where in _alike(slot_ptr, block_ptr, len(s)):
        side, matrix = s[at].reshape(shape), slope[where].reshape(*shape, shape[-1])
        sums = np.einsum("...ij,...j->...i", matrix, side) + np.einsum("...ji,...j->...i", matrix, side)
        out[at] = sums.ravel()
    return torch.from_numpy(out).to(grad.device)


def _alike(slot_ptr: Tensor, block_ptr: Tensor, positions: int) -> Iterator[tuple[tuple[int, ...], slice, slice]]:
    """For each graph its size, its positions and its cells; or, if all have the same size, their number and size, all
    positions and all cells."""
    if size := common_size(slot_ptr, positions):
        yield (positions // size, size), slice(0, positions), slice(0, positions * size)
        return
    for n, at, where in _places(slot_ptr, block_ptr):
        yield (n,), at, where
