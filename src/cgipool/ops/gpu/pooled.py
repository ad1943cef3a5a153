"""Kernels for all that a pool reads of its rows at once: weighted sums over each graph, and the kept rows, gated.

Shapes: S splits, C positions, R places after, B graphs, F features, M columns.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, power, tiles


@triton.jit(do_not_specialize=["C", "R", "B"])
def _sums_and_pick(
    x, weight, gate, back, slot_ptr, ends, out, picked, C, R, B, F,
    M: tl.constexpr, MP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One graph: out[b, m] = Σ_p weight[p, m] · x[p], and picked[back[p]] = gate[p] · x[p] for the kept. The last graph
    also clears the places behind the last kept one."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    m = tl.arange(0, MP)
    wide = col < F
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    acc = tl.zeros((MP, COLS), out.dtype.element_ty)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        here = row < last
        value = tl.load(
            x + (split * C + row)[:, None] * F + col[None, :], mask=here[:, None] & wide[None, :], other=0.0
        )
        w = tl.load(
            weight + (split * C + row)[:, None] * M + m[None, :], mask=here[:, None] & (m < M)[None, :], other=0.0
        )
        acc += tl.sum(w[:, :, None] * value[:, None, :], 0)
        place = tl.load(back + split * C + row, mask=here, other=-1)
        g = tl.load(gate + split * C + row, mask=here, other=0.0)
        kept = (place >= 0)[:, None] & wide[None, :]
        tl.store(picked + (split * R + place)[:, None] * F + col[None, :], g[:, None] * value, mask=kept)
    place = ((split * B + b) * M + m)[:, None] * F + col[None, :]
    tl.store(out + place, acc, mask=(m < M)[:, None] & wide[None, :])
    if b == B - 1:
        for start in range(tl.load(ends + split * (B + 1) + B), R, ROWS):
            row = start + tl.arange(0, ROWS)
            empty = (row < R)[:, None] & wide[None, :]
            zero = tl.zeros((ROWS, COLS), picked.dtype.element_ty)
            tl.store(picked + (split * R + row)[:, None] * F + col[None, :], zero, mask=empty)


def sums_and_pick(
    x: Tensor, weight: Tensor, gate: Tensor, index: Tensor, back: Tensor, ends: Tensor, graph: Tensor, slot_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Weighted sums over each graph, and the kept rows times their gates."""
    x, weight, gate, back, ends, slot_ptr = dense(x, weight, gate, back, ends, slot_ptr)
    (splits, positions, features), columns, graphs = x.shape, weight.shape[2], slot_ptr.shape[1] - 1
    rows, cols = index.shape[1], power(features, most=128)
    out, picked = x.new_empty(splits, graphs, columns, features), x.new_empty(splits, rows, features)
    _sums_and_pick[(graphs, splits, tiles(features, cols))](
        x, weight, gate, back, slot_ptr, ends, out, picked, positions, rows, graphs, features,
        M=columns, MP=power(columns), ROWS=16, COLS=cols, num_warps=4,
    )  # fmt: skip
    return out, picked


@triton.jit(do_not_specialize=["C", "R", "B"])
def _sums_and_pick_grad(
    grad_sums, grad_picked, x, weight, gate, back, graph, slot_ptr, by_x, by_weight, by_gate, C, R, B, F,
    M: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """by_x[p] = gate[p] · grad_picked[back[p]] + Σ_m weight[p, m] · grad_sums[graph[p], m], and what x[p] · each of
    those vectors is: by_gate[p] and by_weight[p, m]. 0 in the padding."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    wide = (col < F)[None, :]
    both = here[:, None] & wide
    b = split * B + tl.load(graph + split * C + row, mask=here, other=0)
    at = (split * C + row)[:, None] * F + col[None, :]
    mine = tl.load(x + at, mask=both, other=0.0)
    place = tl.load(back + split * C + row, mask=here, other=-1)
    value = tl.load(
        grad_picked + (split * R + place)[:, None] * F + col[None, :], mask=(place >= 0)[:, None] & wide, other=0.0
    )
    tl.store(by_gate + split * C + row, tl.sum(mine * value, 1), mask=row < C)
    total = tl.load(gate + split * C + row, mask=here, other=0.0)[:, None] * value
    for m in tl.static_range(M):
        value = tl.load(grad_sums + (b * M + m)[:, None] * F + col[None, :], mask=both, other=0.0)
        tl.store(by_weight + (split * C + row) * M + m, tl.sum(mine * value, 1), mask=row < C)
        total += tl.load(weight + (split * C + row) * M + m, mask=here, other=0.0)[:, None] * value
    tl.store(by_x + at, total, mask=(row < C)[:, None] & wide)


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
    """Gradients of `sums_and_pick` by x, weight and gate. A program has all features of its rows, so that what it
    reads it reads once."""
    grad_sums, grad_picked, x, weight, gate = dense(grad_sums, grad_picked, x, weight, gate)
    back, graph, slot_ptr = dense(back, graph, slot_ptr)
    (splits, positions, features), columns, graphs = x.shape, weight.shape[2], slot_ptr.shape[1] - 1
    by_x, by_weight, by_gate = (torch.empty_like(t) for t in (x, weight, gate))
    cols = power(features, most=1 << 16)
    rows = max(1, 1024 // cols)
    _sums_and_pick_grad[(tiles(positions, rows), splits)](
        grad_sums, grad_picked, x, weight, gate, back, graph, slot_ptr, by_x, by_weight, by_gate,
        positions, grad_picked.shape[1], graphs, features, M=columns, ROWS=rows, COLS=cols, num_warps=4,
    )  # fmt: skip
    return by_x, by_weight, by_gate
