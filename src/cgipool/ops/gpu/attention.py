"""Attention along the lines of each graph's matrix, and its gradient.

Shapes: S splits, C positions, B graphs, D cells. A program handles a few rows, or columns for the gradient by the
columns' share, and walks along them in chunks.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, tiles
from cgipool.ops.gpu.lines import fill, line

ROWS, COLS, WARPS = 16, 64, 4
"""A program's rows, how many columns it reads at a time, and its warps."""


@triton.jit
def _scores(a, node, inside, j, q, leak):
    """LeakyReLU(q_i + node_j) where a_ij > 0, else −∞; a and node point at the rows' first columns."""
    linked = tl.load(a[:, None] + j[None, :], mask=inside, other=0.0) > 0
    score = q[:, None] + tl.load(node[:, None] + j[None, :], mask=linked, other=0.0)
    return tl.where(linked, tl.where(score > 0, score, leak * score), float("-inf"))


@triton.jit(do_not_specialize=["C", "B", "D"])
def _attention(
    a, query, node, graph, slot_ptr, block_ptr, out, C, B, D, leak, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """The softmax of each row over its linked columns: once along the row for maximum and sum, once to write."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here, first, n, cell = line(row, graph, slot_ptr, block_ptr, split, C, B)
    q = tl.load(query + split * C + row, mask=here, other=0.0)
    base = split * D + cell + (row - first) * n
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, tl.max(n), COLS):
        j = start + tl.arange(0, COLS)
        inside = here[:, None] & (j[None, :] < n[:, None])
        score = _scores(a + base, node + split * C + first, inside, j, q, leak)
        best = tl.maximum(top, tl.max(score, 1))
        shift = tl.where(best == float("-inf"), 0.0, best)
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(score - shift[:, None]), 1)
        top = best
    top = tl.where(top == float("-inf"), 0.0, top)
    share = 1.0 / tl.where(total > 0, total, 1.0)
    for start in range(0, tl.max(n), COLS):
        j = start + tl.arange(0, COLS)
        inside = here[:, None] & (j[None, :] < n[:, None])
        score = _scores(a + base, node + split * C + first, inside, j, q, leak)
        soft = tl.exp(score - top[:, None]) * share[:, None]
        tl.store(out + base[:, None] + j[None, :], soft.to(out.dtype.element_ty), mask=inside)
    used = tl.load(block_ptr + split * (B + 1) + B)
    fill(out + split * D, 0.0, used, D, tl.program_id(0), tl.num_programs(0), ROWS * COLS)


def block_attention(
    a: Tensor, query: Tensor, node: Tensor, leak: float, graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor
) -> Tensor:
    """The softmax over the columns j with a_ij > 0 of LeakyReLU(query_i + node_j)."""
    a, query, node, graph, slot_ptr, block_ptr = dense(a, query, node, graph, slot_ptr, block_ptr)
    (splits, positions), graphs, out = query.shape, slot_ptr.shape[1] - 1, torch.empty_like(a)
    _attention[(tiles(positions, ROWS), splits)](
        a, query, node, graph, slot_ptr, block_ptr, out, positions, graphs, a.shape[1], leak,
        ROWS=ROWS, COLS=COLS, num_warps=WARPS,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "B", "D"])
def _by_query(
    grad, alpha, query, node, graph, slot_ptr, block_ptr, mean, out, C, B, D, leak,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Of each row: the mean of the gradient, Σ_j α_ij grad_ij, and the gradient by its query."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here, first, n, cell = line(row, graph, slot_ptr, block_ptr, split, C, B)
    q = tl.load(query + split * C + row, mask=here, other=0.0)
    base = split * D + cell + (row - first) * n
    average = tl.zeros((ROWS,), tl.float32)
    for start in range(0, tl.max(n), COLS):
        j = start + tl.arange(0, COLS)
        inside = here[:, None] & (j[None, :] < n[:, None])
        at = base[:, None] + j[None, :]
        average += tl.sum(tl.load(alpha + at, mask=inside, other=0.0) * tl.load(grad + at, mask=inside, other=0.0), 1)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, tl.max(n), COLS):
        j = start + tl.arange(0, COLS)
        inside = here[:, None] & (j[None, :] < n[:, None])
        at = base[:, None] + j[None, :]
        step = tl.load(grad + at, mask=inside, other=0.0) - average[:, None]
        score = q[:, None] + tl.load(node + (split * C + first)[:, None] + j[None, :], mask=inside, other=0.0)
        step *= tl.load(alpha + at, mask=inside, other=0.0) * tl.where(score > 0, 1.0, leak)
        total += tl.sum(step, 1)
    tl.store(mean + split * C + row, average, mask=row < C)
    tl.store(out + split * C + row, total.to(out.dtype.element_ty), mask=row < C)


@triton.jit(do_not_specialize=["C", "B", "D"])
def _by_node(
    grad, alpha, query, node, graph, slot_ptr, block_ptr, mean, out, C, B, D, leak,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Of each column, the gradient by its node, from the means of the rows."""
    split = tl.program_id(1).to(tl.int64)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    here, first, n, cell = line(col, graph, slot_ptr, block_ptr, split, C, B)
    v = tl.load(node + split * C + col, mask=here, other=0.0)
    base = split * D + cell + col - first
    total = tl.zeros((COLS,), tl.float32)
    for start in range(0, tl.max(n), ROWS):
        i = start + tl.arange(0, ROWS)
        inside = here[None, :] & (i[:, None] < n[None, :])
        at, row = base[None, :] + i[:, None] * n[None, :], split * C + first[None, :] + i[:, None]
        step = tl.load(grad + at, mask=inside, other=0.0) - tl.load(mean + row, mask=inside, other=0.0)
        score = tl.load(query + row, mask=inside, other=0.0) + v[None, :]
        step *= tl.load(alpha + at, mask=inside, other=0.0) * tl.where(score > 0, 1.0, leak)
        total += tl.sum(step, 0)
    tl.store(out + split * C + col, total.to(out.dtype.element_ty), mask=col < C)


def block_attention_grad(
    grad: Tensor, alpha: Tensor, query: Tensor, node: Tensor, leak: float,
    graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of `block_attention` by query and node: row sums and column sums, each in a kernel of its own."""
    tensors = dense(grad, alpha, query, node, graph, slot_ptr, block_ptr)
    (splits, positions), graphs, cells = query.shape, slot_ptr.shape[1] - 1, grad.shape[1]
    by_query, by_node, mean = (torch.empty_like(tensors[2]) for _ in range(3))
    shape = (positions, graphs, cells, leak)
    _by_query[(tiles(positions, ROWS), splits)](*tensors, mean, by_query, *shape, ROWS=ROWS, COLS=COLS, num_warps=WARPS)
    _by_node[(tiles(positions, COLS), splits)](*tensors, mean, by_node, *shape, ROWS=ROWS, COLS=COLS, num_warps=WARPS)
    return by_query, by_node
