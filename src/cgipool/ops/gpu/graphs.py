"""Kernels that look at one graph as a whole: readouts, softmax, ranks, narrow weighted sums.

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


@triton.jit
def _rank(score, alive, first, last, row, own, living, base, SIZE: tl.constexpr):
    """How many positions of a graph come before each row: the living first, by descending score, ties by position."""
    rank = tl.zeros((SIZE,), tl.int32)
    for start in range(first, last, SIZE):
        other = start + tl.arange(0, SIZE)
        there = other < last
        lives = there & (tl.load(alive + base + other, mask=there, other=0.0) > 0)
        value = tl.load(score + base + other, mask=there, other=0.0).to(tl.float32)
        earlier = there[None, :] & (other[None, :] < row[:, None])
        better = (value[None, :] > own[:, None]) | ((value[None, :] == own[:, None]) & earlier)
        before = tl.where(living[:, None], lives[None, :] & better, lives[None, :] | earlier)
        rank += tl.sum(before.to(tl.int32), 1)
    return rank


@triton.jit
def _keep_by_rank(
    score, alive, out, base, first, last, count, part, column,
    M: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Every position counts those before it. n² comparisons, which for small graphs is next to nothing."""
    for start in range(first + part * SIZE, last, PARTS * SIZE):
        row = start + tl.arange(0, SIZE)
        here = row < last
        living = here & (tl.load(alive + base + row, mask=here, other=0.0) > 0)
        own = tl.load(score + (base + row) * M + column, mask=here, other=0.0).to(tl.float32)
        rank = tl.zeros((SIZE,), tl.int32)
        for begin in range(first, last, SIZE):
            other = begin + tl.arange(0, SIZE)
            lives = tl.load(alive + base + other, mask=other < last, other=0.0) > 0
            value = tl.load(score + (base + other) * M + column, mask=other < last, other=0.0).to(tl.float32)
            tied = (value[None, :] == own[:, None]) & (other[None, :] < row[:, None])
            rank += tl.sum((lives[None, :] & ((value[None, :] > own[:, None]) | tied)).to(tl.int32), 1)
        tl.store(out + (base + row) * M + column, (living & (rank < count)).to(out.dtype.element_ty), mask=here)


@triton.jit
def _ordered(score, alive, base, row, last, column, M: tl.constexpr):
    """Whole numbers from 1 to 2^32 − 1 in the order of the scores; 0 for the dead."""
    living = tl.load(alive + base + row, mask=row < last, other=0.0) > 0
    value = tl.load(score + (base + row) * M + column, mask=row < last, other=0.0).to(tl.float32) + 0.0  # −0 is 0
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(living, (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) + 2147483649, 0)


@triton.jit
def _keep_by_threshold(
    score, alive, out, base, first, last, count, column, M: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    """The k-th largest score, bit by bit from the top: 33 passes over the graph, however large it is. Of those that
    equal it, the first ones fill what is left of k."""
    threshold = tl.zeros((), tl.int64)
    for step in range(33):
        tried = threshold + (tl.full((), 1, tl.int64) << (32 - step))
        above = tl.zeros((SIZE,), tl.int64)
        for start in range(first, last, SIZE):
            row = start + tl.arange(0, SIZE)
            above += (_ordered(score, alive, base, row, last, column, M) >= tried).to(tl.int64)
        threshold = tl.where(tl.sum(above, 0) >= count, tried, threshold)
    above = tl.zeros((SIZE,), tl.int64)
    for start in range(first, last, SIZE):
        above += (_ordered(score, alive, base, start + tl.arange(0, SIZE), last, column, M) > threshold).to(tl.int64)
    left = count - tl.sum(above, 0)
    for start in range(first, last, SIZE):
        row = start + tl.arange(0, SIZE)
        value = _ordered(score, alive, base, row, last, column, M)
        equal = ((value == threshold) & (value > 0)).to(tl.int64)
        kept = (value > threshold) | ((equal > 0) & (tl.cumsum(equal, 0) <= left))
        left -= tl.sum(equal, 0)
        tl.store(out + (base + row) * M + column, kept.to(out.dtype.element_ty), mask=row < last)


@triton.jit(do_not_specialize=["C", "B"])
def _keep_top_k(
    score, alive, k, slot_ptr, out, C, B,
    M: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, LARGE: tl.constexpr,
):  # fmt: skip
    """1 at the living positions with fewer than k living ones before them, by score, then by position; 0 in the
    padding. A small graph and a column go to PARTS programs, a large graph to the first of them."""
    b, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    split, column = tl.program_id(1).to(tl.int64), tl.program_id(2)
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    count = tl.load(k + split * B + b)
    base = split * C
    if last - first <= LARGE:
        _keep_by_rank(score, alive, out, base, first, last, count, part, column, M, SIZE, PARTS)
    elif part == 0:
        _keep_by_threshold(score, alive, out, base, first, last, count, column, M, 512)
    if b == B - 1:
        for start in range(last + part * SIZE, C, PARTS * SIZE):
            row = start + tl.arange(0, SIZE)
            tl.store(out + (base + row) * M + column, tl.zeros((SIZE,), out.dtype.element_ty), mask=row < C)


LARGE = 2048
"""From so many nodes on, a graph is ranked by its k-th score and not by counting."""


def keep_top_k(score: Tensor, alive: Tensor, k: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """1 at the k best living positions of every graph by each column of score, else 0."""
    score, alive, k, slot_ptr = dense(score, alive, k, slot_ptr)
    (splits, positions, columns), graphs = score.shape, slot_ptr.shape[1] - 1
    out, parts = torch.empty_like(score), 4
    _keep_top_k[(graphs * parts, splits, columns)](
        score, alive, k, slot_ptr, out, positions, graphs, M=columns, SIZE=32, PARTS=parts, LARGE=LARGE, num_warps=2
    )
    return out


@triton.jit(do_not_specialize=["C", "B"])
def _order(score, alive, slot_ptr, order, place, C, B, SIZE: tl.constexpr):
    """The place of each position in its graph's list, and the list, one graph to a program. Padding stays in place."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    base = split * C
    for start in range(first, last, SIZE):
        row = start + tl.arange(0, SIZE)
        here = row < last
        living = here & (tl.load(alive + base + row, mask=here, other=0.0) > 0)
        own = tl.load(score + base + row, mask=here, other=0.0).to(tl.float32)
        to = first + _rank(score, alive, first, last, row, own, living, base, SIZE)
        tl.store(place + base + row, to, mask=here)
        tl.store(order + base + to, row.to(tl.int64), mask=here)
    if b == B - 1:
        for start in range(last, C, SIZE):
            row = (start + tl.arange(0, SIZE)).to(tl.int64)
            tl.store(place + base + row, row, mask=row < C)
            tl.store(order + base + row, row, mask=row < C)


def order(score: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of each graph by descending score, and its inverse."""
    score, alive, slot_ptr = dense(score, alive, slot_ptr)
    (splits, positions), graphs = score.shape, slot_ptr.shape[1] - 1
    listed, place = torch.empty_like(graph), torch.empty_like(graph)
    _order[(graphs, splits)](score, alive, slot_ptr, listed, place, positions, graphs, SIZE=32, num_warps=4)
    return listed, place


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
