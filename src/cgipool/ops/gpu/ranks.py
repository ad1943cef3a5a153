"""Kernels that rank the nodes of a graph: which are the k best, and the place of each in the order.

Shapes: S splits, C positions, B graphs, M columns. Graph b of split s holds the positions slot_ptr[s, b] ..
slot_ptr[s, b+1].
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense

LARGE = 2048
"""Number of nodes from which a graph is ranked by its k-th score instead of by counting."""


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
    """Every position counts those before it: n² comparisons, which cost little for small graphs."""
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
