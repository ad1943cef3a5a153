"""The matrices of a batch with their rows and columns scaled, and the gradient by the scale.

Shapes: S splits, C positions, B graphs, D cells. A program handles some rows of one graph, for the gradient also the
columns of the same nodes.
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
def _cells(weight, i, j, n, own, loop):
    """Some cells before they are scaled, of rows i and columns j, which have two axes each."""
    value = tl.load(weight + i * n + j, mask=(i < n) & (j < n), other=0.0)
    return tl.where(i == j, own * value + loop, value)


@triton.jit(do_not_specialize=["C", "B", "D", "R"])
def _scaled(weight, scale, table, out, C, B, D, R, own, loop, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Some rows of the scaled matrices."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, cell = entry(table, R)
    if g == B:
        fill(out + split * D, 0.0, cell, D, tile, n, ROWS * COLS)
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    scale += split * C + first
    s = tl.load(scale + row, mask=row < n, other=0.0)
    for start in range(0, n, COLS):
        j = start + tl.arange(0, COLS)
        value = _cells(weight + split * D + cell, row[:, None], j[None, :], n, own, loop)
        value *= s[:, None] * tl.load(scale + j, mask=j < n, other=0.0)[None, :]
        at, inside = row[:, None] * n + j[None, :], (row < n)[:, None] & (j < n)[None, :]
        tl.store(out + split * D + cell + at, value.to(out.dtype.element_ty), mask=inside)


def block_scaled(weight: Tensor, scale: Tensor, own: float, loop: float, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """S W S for each graph, where the diagonal of W is first multiplied by `own` and increased by `loop`."""
    (weight, scale), (slot_ptr, block_ptr) = dense(weight, scale), rows_dense(slot_ptr, block_ptr)
    (splits, positions), cells, out = scale.shape, weight.shape[1], torch.empty_like(weight)
    table = tile_table(slot_ptr, block_ptr, positions, cells, ROWS)
    graphs, strips = slot_ptr.shape[1] - 1, table.shape[1]
    _scaled[(strips, splits)](
        weight, scale, table, out, positions, graphs, cells, strips, own, loop, ROWS=ROWS, COLS=COLS, num_warps=WARPS
    )
    return out


@triton.jit(do_not_specialize=["C", "B", "D", "R"])
def _by_scale(grad, weight, scale, table, out, C, B, D, R, own, loop, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Of each node p, with W′ the matrix before scaling: the sum along its row, Σ_q grad[p, q] W′[p, q] scale[q], plus
    that along its column, Σ_q grad[q, p] W′[q, p] scale[q]."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, cell = entry(table, R)
    if g == B:
        fill(out + split * C, 0.0, first, C, tile, n, ROWS * COLS)
        return
    p = tile * ROWS + tl.arange(0, ROWS)
    grad += split * D + cell
    weight += split * D + cell
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, COLS):
        q = start + tl.arange(0, COLS)
        s = tl.load(scale + split * C + first + q, mask=q < n, other=0.0)
        along = tl.load(grad + p[:, None] * n + q[None, :], mask=(p < n)[:, None] & (q < n)[None, :], other=0.0)
        down = tl.load(grad + q[:, None] * n + p[None, :], mask=(q < n)[:, None] & (p < n)[None, :], other=0.0)
        along *= _cells(weight, p[:, None], q[None, :], n, own, loop)
        down *= _cells(weight, q[:, None], p[None, :], n, own, loop)
        total += tl.sum(along * s[None, :], 1) + tl.sum(down * s[:, None], 0)
    tl.store(out + split * C + first + p, total.to(out.dtype.element_ty), mask=p < n)


def block_scaled_grad(
    grad: Tensor, weight: Tensor, scale: Tensor, own: float, loop: float, slot_ptr: Tensor, block_ptr: Tensor
) -> Tensor:
    """Gradient of `block_scaled` by its scale."""
    grad, weight, scale = dense(grad, weight, scale)
    slot_ptr, block_ptr = rows_dense(slot_ptr, block_ptr)
    (splits, positions), cells, out = scale.shape, weight.shape[1], torch.empty_like(scale)
    table = tile_table(slot_ptr, block_ptr, positions, cells, ROWS)
    graphs, strips = slot_ptr.shape[1] - 1, table.shape[1]
    _by_scale[(strips, splits)](
        grad, weight, scale, table, out, positions, graphs, cells, strips, own, loop,
        ROWS=ROWS, COLS=COLS, num_warps=WARPS,
    )  # fmt: skip
    return out
