"""Kernels that close up a level: the kept positions move together, and take their features and edges along.

Shapes: S splits, C positions, R places after, E neighbour entries, F features.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from cgipool.ops.gpu.launch import dense, power, tiles


@triton.jit(do_not_specialize=["C", "R", "B"])
def _close_up(
    keep, k, slot_ptr, position, index, back, alive, of_graph, of_position, ends, C, R, B,
    GRAPHS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """One graph: its kept positions write themselves to their places, which begin behind those of the graphs before
    it. The last graph also marks the padding and the places behind the last kept one."""
    b, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    every = tl.arange(0, GRAPHS)
    place = tl.sum(tl.load(k + split * B + every, mask=every < b, other=0), 0)
    tl.store(ends + split * (B + 1) + b, place)
    first = tl.load(slot_ptr + split * (B + 1) + b)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1)
    stop = tl.where(b == B - 1, C, last)
    for start in range(first, stop, SIZE):
        at = start + tl.arange(0, SIZE)
        kept = (tl.load(keep + split * C + at, mask=at < last, other=0.0) > 0).to(tl.int64)
        to = place + tl.cumsum(kept, 0) - 1
        place += tl.sum(kept, 0)
        tl.store(back + split * C + at, tl.where(kept > 0, to, -1), mask=at < stop)
        there = (kept > 0) & (to < R)
        to += split * R
        tl.store(index + to, at, mask=there)
        tl.store(alive + to, tl.full((SIZE,), 1.0, alive.dtype.element_ty), mask=there)
        tl.store(of_graph + to, tl.full((SIZE,), 0, tl.int64) + b, mask=there)
        tl.store(of_position + to, tl.load(position + split * C + at, mask=there, other=0), mask=there)
    if b == B - 1:
        tl.store(ends + split * (B + 1) + B, place)
        for start in range(place, R, SIZE):
            at = start + tl.arange(0, SIZE)
            to, empty = split * R + at, at < R
            tl.store(index + to, tl.full((SIZE,), -1, tl.int64), mask=empty)
            tl.store(alive + to, tl.full((SIZE,), 0.0, alive.dtype.element_ty), mask=empty)
            tl.store(of_graph + to, tl.full((SIZE,), 0, tl.int64) + B - 1, mask=empty)
            tl.store(of_position + to, tl.full((SIZE,), 0, tl.int64), mask=empty)


def close_up(
    keep: Tensor, k: Tensor, slot_ptr: Tensor, position: Tensor, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Move the kept positions together: positions by place and back, what is known of each place, and where the graphs
    now begin."""
    keep, k, slot_ptr, position = dense(keep, k, slot_ptr, position)
    (splits, positions), graphs = keep.shape, k.shape[1]
    index, of_graph, of_position = (position.new_empty(splits, rows) for _ in range(3))
    back, alive, ends = torch.empty_like(position), keep.new_empty(splits, rows), torch.empty_like(slot_ptr)
    _close_up[(graphs, splits)](
        keep, k, slot_ptr, position, index, back, alive, of_graph, of_position, ends, positions, rows, graphs,
        GRAPHS=power(graphs, most=1 << 20), SIZE=64, num_warps=2,
    )  # fmt: skip
    return index, back, alive, of_graph, of_position, ends


@triton.jit(do_not_specialize=["C", "R", "E"])
def _count(row_ptr, neighbor, index, back, count, C, R, E, ROWS: tl.constexpr):
    """How many neighbours of the position at each place were kept."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    p = tl.load(index + split * R + row, mask=row < R, other=-1)
    here = p >= 0
    start = tl.load(row_ptr + split * (C + 1) + p, mask=here, other=0)
    n = tl.load(row_ptr + split * (C + 1) + p + 1, mask=here, other=0) - start
    total = tl.zeros((ROWS,), tl.int32)
    for j in range(0, tl.max(n)):
        more = j < n
        q = tl.load(neighbor + split * E + start + j, mask=more, other=0)
        total += (tl.load(back + split * C + q, mask=more, other=-1) >= 0).to(tl.int32)
    tl.store(count + split * R + row, total, mask=row < R)


@triton.jit(do_not_specialize=["C", "R", "E"])
def _fill(
    row_ptr, neighbor, number, index, back, ends, out, left, C, R, E, NUMBERED: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Write the places of those neighbours, and the numbers of their entries."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    p = tl.load(index + split * R + row, mask=row < R, other=-1)
    here = p >= 0
    start = tl.load(row_ptr + split * (C + 1) + p, mask=here, other=0)
    n = tl.load(row_ptr + split * (C + 1) + p + 1, mask=here, other=0) - start
    to = tl.load(ends + split * (R + 1) + row, mask=here, other=0)
    for j in range(0, tl.max(n)):
        more = j < n
        q = tl.load(neighbor + split * E + start + j, mask=more, other=0)
        place = tl.load(back + split * C + q, mask=more, other=-1).to(tl.int32)
        stays = more & (place >= 0)
        tl.store(out + split * E + to, place, mask=stays)
        if NUMBERED:
            tl.store(left + split * E + to, tl.load(number + split * E + start + j, mask=stays, other=0), mask=stays)
        to += stays.to(tl.int32)


def induce(
    row_ptr: Tensor, neighbor: Tensor, number: Tensor, index: Tensor, back: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The neighbour lists among the kept positions, as places, and the numbers of their entries."""
    row_ptr, neighbor, number, index, back = dense(row_ptr, neighbor, number, index, back)
    (splits, rows), positions, entries = index.shape, back.shape[1], neighbor.shape[1]
    count = torch.empty(splits, rows, dtype=torch.int32, device=index.device)
    grid = (tiles(rows, 64), splits)
    _count[grid](row_ptr, neighbor, index, back, count, positions, rows, entries, ROWS=64, num_warps=2)
    ends = pad(torch.cumsum(count, 1, dtype=row_ptr.dtype), (1, 0))
    out, left = torch.zeros_like(neighbor), torch.zeros_like(number)
    _fill[grid](
        row_ptr, neighbor, number, index, back, ends, out, left, positions, rows, entries,
        NUMBERED=number.shape[1] > 0, ROWS=64, num_warps=2,
    )  # fmt: skip
    return ends, out, left


@triton.jit(do_not_specialize=["C", "R"])
def _pick_gated(x, gate, index, out, C, R, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[q] = gate[index[q]] · x[index[q]], 0 for −1."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = (col < F)[None, :]
    p = tl.load(index + split * R + row, mask=row < R, other=-1)
    weight = tl.load(gate + split * C + p, mask=p >= 0, other=0.0)
    value = tl.load(x + (split * C + p)[:, None] * F + col[None, :], mask=(p >= 0)[:, None] & wide, other=0.0)
    tl.store(
        out + (split * R + row)[:, None] * F + col[None, :], weight[:, None] * value, mask=(row < R)[:, None] & wide
    )


def pick_gated(x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """`pick` of rows times their gates."""
    x, gate, index = dense(x, gate, index)
    (splits, positions, features), rows = x.shape, index.shape[1]
    out, cols = x.new_empty(splits, rows, features), power(features, most=128)
    _pick_gated[(tiles(rows, 16), splits, tiles(features, cols))](
        x, gate, index, out, positions, rows, features, ROWS=16, COLS=cols, num_warps=4
    )
    return out


@triton.jit(do_not_specialize=["C", "R"])
def _pick_gated_grad(grad, x, gate, back, by_x, by_gate, C, R, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """by_x[p] = gate[p] · grad[back[p]] and by_gate[p] = x[p] · grad[back[p]], 0 for −1."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < C
    q = tl.load(back + split * C + row, mask=here, other=-1)
    weight = tl.load(gate + split * C + row, mask=here, other=0.0)
    acc = tl.zeros((ROWS,), by_gate.dtype.element_ty)
    for start in range(0, F, COLS):
        col = start + tl.arange(0, COLS)
        wide = (col < F)[None, :]
        kept = (q >= 0)[:, None] & wide
        value = tl.load(grad + (split * R + q)[:, None] * F + col[None, :], mask=kept, other=0.0)
        at = (split * C + row)[:, None] * F + col[None, :]
        tl.store(by_x + at, weight[:, None] * value, mask=here[:, None] & wide)
        acc += tl.sum(value * tl.load(x + at, mask=kept, other=0.0), 1)
    tl.store(by_gate + split * C + row, acc, mask=here)


def pick_gated_grad(grad: Tensor, x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `pick_gated` by x and gate."""
    grad, x, gate, back = dense(grad, x, gate, back)
    (splits, positions, features), rows = x.shape, index.shape[1]
    by_x, by_gate = torch.empty_like(x), torch.empty_like(gate)
    _pick_gated_grad[(tiles(positions, 16), splits)](
        grad, x, gate, back, by_x, by_gate, positions, rows, features,
        ROWS=16, COLS=power(features, most=128), num_warps=4,
    )  # fmt: skip
    return by_x, by_gate


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
    """Gradients of `sums_and_pick` by x, weight and gate. A program handles all features of its rows, so that it
    reads everything once."""
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
