"""Kernels that look at one graph as a whole: readouts, softmax, narrow weighted sums.

Shapes: S splits, C positions, B graphs, F features, M columns. Graph b of split s holds the positions slot_ptr[s, b] ..
slot_ptr[s, b+1]. A program handles one graph, or a tile of positions that each look at their own graph.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, power, tiles


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _readout(x, alive, slot_ptr, top, total, C, B, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Maximum and sum over the living nodes of a graph."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    best = tl.full((COLS,), float("-inf"), top.dtype.element_ty)
    acc = tl.zeros((COLS,), top.dtype.element_ty)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        living = tl.load(alive + split * C + row, mask=row < last, other=0.0) > 0
        mask = living[:, None] & wide[None, :]
        value = tl.load(x + (split * C + row)[:, None] * F + col[None, :], mask=mask, other=0.0)
        acc += tl.sum(value, 0)
        best = tl.maximum(best, tl.max(tl.where(mask, value, float("-inf")), 0))
    place = (split * B + b) * F + col
    tl.store(top + place, tl.where(best == float("-inf"), 0.0, best), mask=wide)
    tl.store(total + place, acc, mask=wide)


def readout(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum and sum over each graph's living nodes."""
    x, alive, slot_ptr = dense(x, alive, slot_ptr)
    (splits, positions, features), graphs = x.shape, slot_ptr.shape[1] - 1
    top = x.new_empty(splits, graphs, features)
    total, cols = torch.empty_like(top), power(features, most=128)
    grid = (graphs, splits, tiles(features, cols))
    _readout[grid](x, alive, slot_ptr, top, total, positions, graphs, features, ROWS=32, COLS=cols, num_warps=4)
    return top, total


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _readout_grad(
    grad_top, grad_sum, x, top, alive, slot_ptr, out, C, B, F, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """The maximum's gradient in equal shares to those that attain it, plus the sum's gradient, to the living."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    place = (split * B + b) * F + col
    best = tl.load(top + place, mask=wide, other=0.0)
    count = tl.zeros((COLS,), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        living = tl.load(alive + split * C + row, mask=row < last, other=0.0) > 0
        mask = living[:, None] & wide[None, :]
        value = tl.load(x + (split * C + row)[:, None] * F + col[None, :], mask=mask, other=0.0)
        count += tl.sum((mask & (value == best[None, :])).to(tl.float32), 0)
    share = tl.load(grad_top + place, mask=wide, other=0.0) / tl.maximum(count, 1.0)
    each = tl.load(grad_sum + place, mask=wide, other=0.0)
    stop = tl.where(b == B - 1, C, last)  # behind the last graph there is padding
    for start in range(first, stop, ROWS):
        row = start + tl.arange(0, ROWS)
        living = tl.load(alive + split * C + row, mask=row < last, other=0.0) > 0
        mask = living[:, None] & wide[None, :]
        at = (split * C + row)[:, None] * F + col[None, :]
        value = tl.load(x + at, mask=mask, other=0.0)
        grad = each[None, :] + tl.where(value == best[None, :], share[None, :], 0.0)
        tl.store(
            out + at, tl.where(mask, grad, 0.0).to(out.dtype.element_ty), mask=(row < stop)[:, None] & wide[None, :]
        )


def readout_grad(
    grad_top: Tensor, grad_sum: Tensor, x: Tensor, top: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor
) -> Tensor:
    """Gradient of `readout` by x."""
    grad_top, grad_sum, x, top, alive, slot_ptr = dense(grad_top, grad_sum, x, top, alive, slot_ptr)
    (splits, positions, features), graphs = x.shape, slot_ptr.shape[1] - 1
    out, cols = torch.empty_like(x), power(features, most=128)
    grid = (graphs, splits, tiles(features, cols))
    _readout_grad[grid](
        grad_top, grad_sum, x, top, alive, slot_ptr, out, positions, graphs, features,
        ROWS=32, COLS=cols, num_warps=4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _softmax(score, alive, slot_ptr, out, C, B, M, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The softmax of each column over the living nodes of a graph."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.arange(0, COLS)
    wide = col < M
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    top = tl.full((COLS,), float("-inf"), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        living = tl.load(alive + split * C + row, mask=row < last, other=0.0) > 0
        mask = living[:, None] & wide[None, :]
        value = tl.load(score + (split * C + row)[:, None] * M + col[None, :], mask=mask, other=float("-inf"))
        top = tl.maximum(top, tl.max(value, 0))
    total = tl.zeros((COLS,), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        living = tl.load(alive + split * C + row, mask=row < last, other=0.0) > 0
        mask = living[:, None] & wide[None, :]
        value = tl.load(score + (split * C + row)[:, None] * M + col[None, :], mask=mask, other=0.0)
        total += tl.sum(tl.where(mask, tl.exp(value - top[None, :]), 0.0), 0)
    stop = tl.where(b == B - 1, C, last)
    for start in range(first, stop, ROWS):
        row = start + tl.arange(0, ROWS)
        living = tl.load(alive + split * C + row, mask=row < last, other=0.0) > 0
        mask = living[:, None] & wide[None, :]
        at = (split * C + row)[:, None] * M + col[None, :]
        value = tl.load(score + at, mask=mask, other=0.0)
        soft = tl.where(mask, tl.exp(value - top[None, :]) / total[None, :], 0.0)
        tl.store(out + at, soft.to(out.dtype.element_ty), mask=(row < stop)[:, None] & wide[None, :])


def softmax(score: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """The softmax of each column over the living nodes of each graph."""
    score, alive, slot_ptr = dense(score, alive, slot_ptr)
    (splits, positions, columns), graphs = score.shape, slot_ptr.shape[1] - 1
    out = torch.empty_like(score)
    grid = (graphs, splits)
    _softmax[grid](score, alive, slot_ptr, out, positions, graphs, columns, ROWS=32, COLS=power(columns), num_warps=2)
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _softmax_grad(grad, soft, slot_ptr, out, C, B, M, ROWS: tl.constexpr, COLS: tl.constexpr):
    """soft · (grad − Σ over the graph of soft · grad)."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.arange(0, COLS)
    wide = col < M
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    total = tl.zeros((COLS,), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < last)[:, None] & wide[None, :]
        at = (split * C + row)[:, None] * M + col[None, :]
        total += tl.sum(tl.load(soft + at, mask=mask, other=0.0) * tl.load(grad + at, mask=mask, other=0.0), 0)
    stop = tl.where(b == B - 1, C, last)
    for start in range(first, stop, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < stop)[:, None] & wide[None, :]
        at = (split * C + row)[:, None] * M + col[None, :]
        value = tl.load(soft + at, mask=mask, other=0.0) * (tl.load(grad + at, mask=mask, other=0.0) - total[None, :])
        tl.store(out + at, value.to(out.dtype.element_ty), mask=mask)


def softmax_grad(grad: Tensor, soft: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Gradient of `softmax` by its score, from its result (which is 0 at the dead and in the padding)."""
    grad, soft, slot_ptr = dense(grad, soft, slot_ptr)
    (splits, positions, columns), graphs = soft.shape, slot_ptr.shape[1] - 1
    out = torch.empty_like(soft)
    grid = (graphs, splits)
    _softmax_grad[grid](
        grad, soft, slot_ptr, out, positions, graphs, columns, ROWS=32, COLS=power(columns), num_warps=2
    )
    return out


@triton.jit(do_not_specialize=["C", "B"])
def _sums(
    x, weight, slot_ptr, out, C, B, F, M: tl.constexpr, MP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """out[b, m] = Σ_{p in b} weight[p, m] · x[p], for all columns m (padded to MP) at once."""
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
        w = tl.load(
            weight + (split * C + row)[:, None] * M + m[None, :], mask=here[:, None] & (m < M)[None, :], other=0.0
        )
        value = tl.load(
            x + (split * C + row)[:, None] * F + col[None, :], mask=here[:, None] & wide[None, :], other=0.0
        )
        acc += tl.sum(w[:, :, None] * value[:, None, :], 0)
    place = ((split * B + b) * M + m)[:, None] * F + col[None, :]
    tl.store(out + place, acc, mask=(m < M)[:, None] & wide[None, :])


def sums(x: Tensor, weight: Tensor, slot_ptr: Tensor) -> Tensor:
    """Weighted sums over each graph, for few columns."""
    x, weight, slot_ptr = dense(x, weight, slot_ptr)
    (splits, positions, features), columns, graphs = x.shape, weight.shape[2], slot_ptr.shape[1] - 1
    out, cols = x.new_empty(splits, graphs, columns, features), power(features, most=128)
    grid = (graphs, splits, tiles(features, cols))
    _sums[grid](
        x, weight, slot_ptr, out, positions, graphs, features,
        M=columns, MP=power(columns), ROWS=16, COLS=cols, num_warps=4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _spread(value, weight, graph, slot_ptr, out, C, B, F, M: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[p] = Σ_m weight[p, m] · value[graph[p], m]; 0 in the padding."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    g = split * B + tl.load(graph + split * C + row, mask=here, other=0)
    total = tl.zeros((ROWS, COLS), out.dtype.element_ty)
    for m in tl.static_range(M):
        w = tl.load(weight + (split * C + row) * M + m, mask=here, other=0.0)
        at = (g * M + m)[:, None] * F + col[None, :]
        total += w[:, None] * tl.load(value + at, mask=here[:, None] & wide[None, :], other=0.0)
    tl.store(out + (split * C + row)[:, None] * F + col[None, :], total, mask=(row < C)[:, None] & wide[None, :])


def spread(value: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each graph's vectors to its nodes, for few columns."""
    value, weight, graph, slot_ptr = dense(value, weight, graph, slot_ptr)
    (splits, graphs, columns, features), positions = value.shape, weight.shape[1]
    out, cols = value.new_empty(splits, positions, features), power(features, most=128)
    rows = max(1, 1024 // cols) if cols > 8 else 128
    grid = (tiles(positions, rows), splits, tiles(features, cols))
    _spread[grid](
        value, weight, graph, slot_ptr, out, positions, graphs, features, M=columns, ROWS=rows, COLS=cols, num_warps=4
    )
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _dots(x, value, graph, slot_ptr, out, C, B, F, M: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[p, m] = x[p] · value[graph[p], m]; 0 in the padding."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    g = split * B + tl.load(graph + split * C + row, mask=here, other=0)
    for m in tl.static_range(M):
        acc = tl.zeros((ROWS,), out.dtype.element_ty)
        for start in range(0, F, COLS):
            col = start + tl.arange(0, COLS)
            mask = here[:, None] & (col < F)[None, :]
            left = tl.load(x + (split * C + row)[:, None] * F + col[None, :], mask=mask, other=0.0)
            acc += tl.sum(left * tl.load(value + (g * M + m)[:, None] * F + col[None, :], mask=mask, other=0.0), 1)
        tl.store(out + (split * C + row) * M + m, acc, mask=row < C)


def dots(x: Tensor, value: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each node against its graph's vectors, for few columns."""
    x, value, graph, slot_ptr = dense(x, value, graph, slot_ptr)
    (splits, positions, features), (_, graphs, columns, _) = x.shape, value.shape
    out, cols = x.new_empty(splits, positions, columns), power(features, most=128)
    rows = max(1, 1024 // cols) if cols > 8 else 128
    grid = (tiles(positions, rows), splits)
    _dots[grid](
        x, value, graph, slot_ptr, out, positions, graphs, features, M=columns, ROWS=rows, COLS=cols, num_warps=4
    )
    return out
