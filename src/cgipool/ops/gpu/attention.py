"""Attention along the rows of each graph's matrix, and its gradient.

Shapes: S splits, C positions, B graphs, D cells. A program handles some rows of one graph (or columns, for the gradient
by node) and walks along them in chunks.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, fill, rows_dense
from cgipool.ops.gpu.tiles import entry, tile_table

ROWS, COLS, WARPS = 32, 32, 4
"""A program's rows, how many columns it reads at a time, and its warps."""


@triton.jit
def _scores(a, node, q, row, j, n, leak):
    """LeakyReLU(q_i + node_j) where a_ij > 0, else −∞; a and node point at the graph's first cell and node."""
    inside = (row < n)[:, None] & (j < n)[None, :]
    linked = tl.load(a + row[:, None] * n + j[None, :], mask=inside, other=0.0) > 0
    score = q[:, None] + tl.load(node + j, mask=j < n, other=0.0)[None, :]
    return tl.where(linked, tl.where(score > 0, score, leak * score), float("-inf"))


@triton.jit(do_not_specialize=["C", "B", "D", "R"])
def _attention(a, query, node, table, out, C, B, D, R, leak, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The softmax of each row over its linked columns: once along the row for maximum and sum, once to write."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, cell = entry(table, R)
    if g == B:
        fill(out + split * D, 0.0, cell, D, tile, n, ROWS * COLS)
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    q = tl.load(query + split * C + first + row, mask=row < n, other=0.0)
    a += split * D + cell
    node += split * C + first
    out += split * D + cell
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, COLS):
        score = _scores(a, node, q, row, start + tl.arange(0, COLS), n, leak)
        best = tl.maximum(top, tl.max(score, 1))
        shift = tl.where(best == float("-inf"), 0.0, best)
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(score - shift[:, None]), 1)
        top = best
    top = tl.where(top == float("-inf"), 0.0, top)
    share = 1.0 / tl.where(total > 0, total, 1.0)
    for start in range(0, n, COLS):
        j = start + tl.arange(0, COLS)
        soft = tl.exp(_scores(a, node, q, row, j, n, leak) - top[:, None]) * share[:, None]
        inside = (row < n)[:, None] & (j < n)[None, :]
        tl.store(out + row[:, None] * n + j[None, :], soft.to(out.dtype.element_ty), mask=inside)


def block_attention(a: Tensor, query: Tensor, node: Tensor, leak: float, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """The softmax over the columns j with a_ij > 0 of LeakyReLU(query_i + node_j)."""
    (a, query, node), (slot_ptr, block_ptr) = dense(a, query, node), rows_dense(slot_ptr, block_ptr)
    (splits, positions), cells, out = query.shape, a.shape[1], torch.empty_like(a)
    table = tile_table(slot_ptr, block_ptr, positions, cells, ROWS)
    graphs, strips = slot_ptr.shape[1] - 1, table.shape[1]
    _attention[(strips, splits)](
        a, query, node, table, out, positions, graphs, cells, strips, leak, ROWS=ROWS, COLS=COLS, num_warps=WARPS
    )
    return out


@triton.jit
def _slope(grad, alpha, mean, score, at, inside, leak):
    """The gradient by the scores before the leaky ReLU, α (grad − mean) · 1 or leak, at some cells."""
    step = tl.load(grad + at, mask=inside, other=0.0) - mean
    return step * tl.load(alpha + at, mask=inside, other=0.0) * tl.where(score > 0, 1.0, leak)


@triton.jit(do_not_specialize=["C", "B", "D", "R"])
def _by_query(
    grad, alpha, query, node, table, mean, out, C, B, D, R, leak, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Of each row: the mean of the gradient, Σ_j α_ij grad_ij, and the gradient by its query."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, cell = entry(table, R)
    if g == B:
        fill(out + split * C, 0.0, first, C, tile, n, ROWS * COLS)
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    place = split * C + first + row
    q = tl.load(query + place, mask=row < n, other=0.0)
    grad += split * D + cell
    alpha += split * D + cell
    average = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, COLS):
        j = start + tl.arange(0, COLS)
        at, inside = row[:, None] * n + j[None, :], (row < n)[:, None] & (j < n)[None, :]
        average += tl.sum(tl.load(alpha + at, mask=inside, other=0.0) * tl.load(grad + at, mask=inside, other=0.0), 1)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, COLS):
        j = start + tl.arange(0, COLS)
        at, inside = row[:, None] * n + j[None, :], (row < n)[:, None] & (j < n)[None, :]
        score = q[:, None] + tl.load(node + split * C + first + j, mask=j < n, other=0.0)[None, :]
        total += tl.sum(_slope(grad, alpha, average[:, None], score, at, inside, leak), 1)
    tl.store(mean + place, average, mask=row < n)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=row < n)


@triton.jit(do_not_specialize=["C", "B", "D", "R"])
def _by_node(
    grad, alpha, query, node, table, mean, out, C, B, D, R, leak, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Of each column (as many as rows elsewhere), the gradient by its node, from the means of the rows."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, cell = entry(table, R)
    if g == B:
        fill(out + split * C, 0.0, first, C, tile, n, ROWS * COLS)
        return
    col = tile * ROWS + tl.arange(0, ROWS)
    place = split * C + first + col
    v = tl.load(node + place, mask=col < n, other=0.0)
    grad += split * D + cell
    alpha += split * D + cell
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, COLS):
        i = start + tl.arange(0, COLS)
        at, inside = i[:, None] * n + col[None, :], (i < n)[:, None] & (col < n)[None, :]
        average = tl.load(mean + split * C + first + i, mask=i < n, other=0.0)
        score = tl.load(query + split * C + first + i, mask=i < n, other=0.0)[:, None] + v[None, :]
        total += tl.sum(_slope(grad, alpha, average[:, None], score, at, inside, leak), 0)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=col < n)


def block_attention_grad(
    grad: Tensor, alpha: Tensor, query: Tensor, node: Tensor, leak: float, slot_ptr: Tensor, block_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `block_attention` by query and node: row sums and column sums, each in a kernel of its own."""
    grad, alpha, query, node = dense(grad, alpha, query, node)
    slot_ptr, block_ptr = rows_dense(slot_ptr, block_ptr)
    (splits, positions), cells = query.shape, grad.shape[1]
    table = tile_table(slot_ptr, block_ptr, positions, cells, ROWS)
    graphs, strips = slot_ptr.shape[1] - 1, table.shape[1]
    by_query, by_node, mean = (torch.empty_like(query) for _ in range(3))
    for kernel, out in ((_by_query, by_query), (_by_node, by_node)):
        kernel[(strips, splits)](
            grad, alpha, query, node, table, mean, out, positions, graphs, cells, strips, leak,
            ROWS=ROWS, COLS=COLS, num_warps=WARPS,
        )  # fmt: skip
    return by_query, by_node
