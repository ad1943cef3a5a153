"""The matrices of a batch with their rows and columns scaled, and the gradient by the scale.

Shapes: S splits, C positions, B graphs, D cells.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, tiles
from cgipool.ops.gpu.lines import fill, line

ROWS, COLS, WARPS = 16, 64, 4
"""A program's rows, how many columns it reads at a time, and its warps."""

SIDE = 32
"""A program's positions for the gradient by the scale, and how many cells of each line it reads at a time."""


@triton.jit(do_not_specialize=["C", "B", "D"])
def _scaled(
    weight, scale, graph, slot_ptr, block_ptr, out, C, B, D, own, loop, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Some rows of the scaled matrices."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here, first, n, cell = line(row, graph, slot_ptr, block_ptr, split, C, B)
    s = tl.load(scale + split * C + row, mask=here, other=0.0)
    base = split * D + cell + (row - first) * n
    for start in range(0, tl.max(n), COLS):
        j = start + tl.arange(0, COLS)
        inside = here[:, None] & (j[None, :] < n[:, None])
        value = tl.load(weight + base[:, None] + j[None, :], mask=inside, other=0.0)
        value = tl.where(j[None, :] == (row - first)[:, None], own * value + loop, value)
        value *= s[:, None] * tl.load(scale + (split * C + first)[:, None] + j[None, :], mask=inside, other=0.0)
        tl.store(out + base[:, None] + j[None, :], value.to(out.dtype.element_ty), mask=inside)
    used = tl.load(block_ptr + split * (B + 1) + B)
    fill(out + split * D, 0.0, used, D, tl.program_id(0), tl.num_programs(0), ROWS * COLS)


def block_scaled(
    weight: Tensor, scale: Tensor, own: float, loop: float, graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor
) -> Tensor:
    """S W S for each graph, where a node's weight to itself is first taken times `own` and plus `loop`."""
    weight, scale, graph, slot_ptr, block_ptr = dense(weight, scale, graph, slot_ptr, block_ptr)
    (splits, positions), graphs, out = scale.shape, slot_ptr.shape[1] - 1, torch.empty_like(weight)
    _scaled[(tiles(positions, ROWS), splits)](
        weight, scale, graph, slot_ptr, block_ptr, out, positions, graphs, weight.shape[1], own, loop,
        ROWS=ROWS, COLS=COLS, num_warps=WARPS,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "B", "D"])
def _by_scale(
    grad, weight, scale, graph, slot_ptr, block_ptr, out, C, B, D, own, loop, SIDE: tl.constexpr
):  # fmt: skip
    """Of each position p, with W′ the matrix before scaling: the sum along its row, Σ_q grad[p, q] W′[p, q] scale[q],
    plus that along its column, Σ_q grad[q, p] W′[q, p] scale[q]."""
    split = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    here, first, n, cell = line(p, graph, slot_ptr, block_ptr, split, C, B)
    base, place = split * D + cell, p - first
    total = tl.zeros((SIDE,), tl.float32)
    for start in range(0, tl.max(n), SIDE):
        q = start + tl.arange(0, SIDE)
        inside = here[:, None] & (q[None, :] < n[:, None])
        at = (base + place * n)[:, None] + q[None, :]
        value = tl.load(weight + at, mask=inside, other=0.0)
        value = tl.where(q[None, :] == place[:, None], own * value + loop, value)
        other = tl.load(scale + (split * C + first)[:, None] + q[None, :], mask=inside, other=0.0)
        total += tl.sum(value * other * tl.load(grad + at, mask=inside, other=0.0), 1)
    for start in range(0, tl.max(n), SIDE):
        q = start + tl.arange(0, SIDE)
        inside = here[None, :] & (q[:, None] < n[None, :])
        at = (base + place)[None, :] + q[:, None] * n[None, :]
        value = tl.load(weight + at, mask=inside, other=0.0)
        value = tl.where(q[:, None] == place[None, :], own * value + loop, value)
        other = tl.load(scale + (split * C + first)[None, :] + q[:, None], mask=inside, other=0.0)
        total += tl.sum(value * other * tl.load(grad + at, mask=inside, other=0.0), 0)
    tl.store(out + split * C + p, total.to(out.dtype.element_ty), mask=p < C)


def block_scaled_grad(
    grad: Tensor, weight: Tensor, scale: Tensor, own: float, loop: float,
    graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor,
) -> Tensor:  # fmt: skip
    """Gradient of `block_scaled` by its scale."""
    tensors = dense(grad, weight, scale, graph, slot_ptr, block_ptr)
    (splits, positions), graphs, out = scale.shape, slot_ptr.shape[1] - 1, torch.empty_like(tensors[2])
    _by_scale[(tiles(positions, SIDE), splits)](
        *tensors, out, positions, graphs, weight.shape[1], own, loop, SIDE=SIDE, num_warps=WARPS
    )
    return out
