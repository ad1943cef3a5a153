"""Kernels on neighbours that read edge features. Signatures and shapes: ops/cpu/edges.py, with a split axis S in front.

A program handles ROWS positions of one split by the features of one tile, or of one attention head, and visits the
entries of its rows in turn, all rows at once. Going back, a position collects what it sent: its entries are the edges
from its neighbours, and the reverses of these are the edges to them, so no program writes what another one writes.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, power, tiles
from cgipool.ops.gpu.neighbors import lookup_grad


@triton.jit
def _factors(alive, weight, q, at, more, WEIGHTED: tl.constexpr):
    """The weights of some entries, 0 where the neighbour q is dead."""
    factor = tl.load(alive + q, mask=more, other=0.0)
    if WEIGHTED:
        factor *= tl.load(weight + at, mask=more, other=0.0)
    return factor


@triton.jit(do_not_specialize=["C", "E", "T"])
def _gine(
    x, table, alive, row_ptr, neighbor, code, weight, out, C, E, T, F,
    WEIGHTED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """out[p] = alive[p] · Σ_i factor_i · relu(x[q_i] + table[code[i]])."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < C, (col < F)[None, :]
    x += split * C * F
    table += split * T * F
    alive += split * C
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    total = tl.zeros((ROWS, COLS), out.dtype.element_ty)
    for j in range(0, tl.max(count)):
        more = j < count
        at = split * E + start + j
        q = tl.load(neighbor + at, mask=more, other=0)
        edge = tl.load(code + at, mask=more, other=0)
        both = more[:, None] & wide
        value = tl.load(x + q[:, None] * F + col[None, :], mask=both, other=0.0)
        value += tl.load(table + edge[:, None] * F + col[None, :], mask=both, other=0.0)
        total += tl.maximum(value, 0.0) * _factors(alive, weight, q, at, more, WEIGHTED)[:, None]
    own = tl.load(alive + row, mask=here, other=0.0)
    tl.store(out + split * C * F + row[:, None] * F + col[None, :], total * own[:, None], mask=here[:, None] & wide)


def _tile(features: int, most: int = 128) -> tuple[int, int]:
    """Rows and columns of a tile: about 1,024 numbers."""
    cols = power(features, most=most)
    return min(128, max(1, 1024 // cols)), cols


def gine(
    x: Tensor,
    table: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    each: bool,
) -> Tensor:
    """The weighted sum of relu(x + e) over neighbours."""
    x, table, alive, row_ptr, neighbor, code, weight = dense(x, table, alive, row_ptr, neighbor, code, weight)
    (splits, positions, features), out = x.shape, torch.empty_like(x)
    rows, cols = _tile(features)
    _gine[(tiles(positions, rows), splits, tiles(features, cols))](
        x, table, alive, row_ptr, neighbor, code, weight, out, positions, neighbor.shape[1], table.shape[1], features,
        WEIGHTED=weight.shape[1] > 0, ROWS=rows, COLS=cols, num_warps=4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "E", "T", "Q"])
def _gine_grad(
    grad, x, table, alive, row_ptr, neighbor, back, weight, by_x, by_entry, C, E, T, Q, F,
    WEIGHTED: tl.constexpr, EACH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Of each entry: the gradient by what position p sent to its neighbour q, grad[q] where x[p] + table[back] > 0;
    by_x[p] is their sum. It is stored by entry or, if each has a row of the table, by row."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < C, (col < F)[None, :]
    grad += split * C * F
    table += split * T * F
    alive += split * C
    place = split * C * F + row[:, None] * F + col[None, :]
    mine = tl.load(x + place, mask=here[:, None] & wide, other=0.0)
    own = tl.load(alive + row, mask=here, other=0.0)
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    total = tl.zeros((ROWS, COLS), by_x.dtype.element_ty)
    for j in range(0, tl.max(count)):
        more = j < count
        at = split * E + start + j
        q = tl.load(neighbor + at, mask=more, other=0)
        edge = tl.load(back + at, mask=more, other=0)
        both = more[:, None] & wide
        sent = mine + tl.load(table + edge[:, None] * F + col[None, :], mask=both, other=0.0)
        value = tl.load(grad + q[:, None] * F + col[None, :], mask=both, other=0.0)
        value *= (own * _factors(alive, weight, q, at, more, WEIGHTED))[:, None]
        value = tl.where(sent > 0, value, 0.0)
        total += value
        to = edge if EACH else start + j
        tl.store(by_entry + (split * Q + to)[:, None] * F + col[None, :], value, mask=both)
    tl.store(by_x + place, total, mask=here[:, None] & wide)


def gine_grad(
    grad: Tensor,
    x: Tensor,
    table: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    each: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of `gine` by x and table."""
    grad, x, table, alive, row_ptr, neighbor = dense(grad, x, table, alive, row_ptr, neighbor)
    back, weight = dense(back, weight_back)
    (splits, positions, features), by_x = x.shape, torch.empty_like(x)
    by_entry = x.new_zeros(splits, table.shape[1] if each else neighbor.shape[1], features)
    rows, cols = _tile(features)
    _gine_grad[(tiles(positions, rows), splits, tiles(features, cols))](
        grad, x, table, alive, row_ptr, neighbor, back, weight, by_x, by_entry,
        positions, neighbor.shape[1], table.shape[1], by_entry.shape[1], features,
        WEIGHTED=weight.shape[1] > 0, EACH=each, ROWS=rows, COLS=cols, num_warps=4,
    )  # fmt: skip
    return by_x, by_entry if each else lookup_grad(by_entry, back.unsqueeze(2), table.shape[1])


@triton.jit
def _head_rows(x, row, mask, wide, col, F):
    """Some rows of one head."""
    return tl.load(x + row[:, None] * F + col[None, :], mask=mask[:, None] & wide, other=0.0)


@triton.jit(do_not_specialize=["C", "E", "T"])
def _attend(
    query, key, value, table, alive, row_ptr, neighbor, code, weight, out, log, C, E, T, scale,
    H: tl.constexpr, D: tl.constexpr, WEIGHTED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One head: a running softmax, whose maximum and sum are adjusted entry by entry."""
    split, head = tl.program_id(1).to(tl.int64), tl.program_id(2)
    F = H * D
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, COLS)
    col, wide, here = head * D + d, (d < D)[None, :], row < C
    key += split * C * F
    value += split * C * F
    table += split * T * F
    alive += split * C
    q = _head_rows(query + split * C * F, row, here, wide, col, F)
    own = tl.load(alive + row, mask=here, other=0.0)
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for j in range(0, tl.max(count)):
        more = j < count
        at = split * E + start + j
        n = tl.load(neighbor + at, mask=more, other=0)
        factor = own * _factors(alive, weight, n, at, more, WEIGHTED)
        edge = _head_rows(table, tl.load(code + at, mask=more, other=0), more, wide, col, F)
        score = tl.sum(q * (_head_rows(key, n, more, wide, col, F) + edge), 1) * scale
        best = tl.where(factor > 0, tl.maximum(top, score), top)
        shift = tl.where(best == float("-inf"), 0.0, best)
        power = tl.where(factor > 0, factor * tl.exp(score - shift), 0.0)
        fade = tl.exp(top - shift)
        total = total * fade + power
        acc = acc * fade[:, None] + power[:, None] * (_head_rows(value, n, more, wide, col, F) + edge)
        top = best
    there = total > 0
    safe = tl.where(there, total, 1.0)
    place = (split * C + row)[:, None] * F + col[None, :]
    tl.store(out + place, (acc / safe[:, None]).to(out.dtype.element_ty), mask=here[:, None] & wide)
    tl.store(log + (split * C + row) * H + head, tl.where(there, top + tl.log(safe), 0.0), mask=here)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    table: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    heads: int,
    each: bool,
) -> tuple[Tensor, Tensor]:
    """Attention to the neighbours, and the logarithms of the softmax's sums."""
    query, key, value, table, alive = dense(query, key, value, table, alive)
    row_ptr, neighbor, code, weight = dense(row_ptr, neighbor, code, weight)
    (splits, positions, features), out = query.shape, torch.empty_like(query)
    log, size = query.new_empty(splits, positions, heads), features // heads
    rows, cols = _tile(size, most=1 << 16)  # a head is one tile
    _attend[(tiles(positions, rows), splits, heads)](
        query, key, value, table, alive, row_ptr, neighbor, code, weight, out, log,
        positions, neighbor.shape[1], table.shape[1], size**-0.5,
        H=heads, D=size, WEIGHTED=weight.shape[1] > 0, ROWS=rows, COLS=cols, num_warps=4,
    )  # fmt: skip
    return out, log


@triton.jit(do_not_specialize=["C", "E", "T"])
def _by_query(
    grad, query, key, value, table, out, log, alive, row_ptr, neighbor, code, weight, by_query, mean, C, E, T, scale,
    H: tl.constexpr, D: tl.constexpr, WEIGHTED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One head: mean[p] = grad[p] · out[p], and by_query[p] = Σ_i α_i (grad[p] · (value + e) − mean[p]) (key + e)."""
    split, head = tl.program_id(1).to(tl.int64), tl.program_id(2)
    F = H * D
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, COLS)
    col, wide, here = head * D + d, (d < D)[None, :], row < C
    key += split * C * F
    value += split * C * F
    table += split * T * F
    alive += split * C
    q = _head_rows(query + split * C * F, row, here, wide, col, F)
    g = _head_rows(grad + split * C * F, row, here, wide, col, F)
    average = tl.sum(g * _head_rows(out + split * C * F, row, here, wide, col, F), 1)
    own = tl.load(alive + row, mask=here, other=0.0)
    divisor = tl.load(log + (split * C + row) * H + head, mask=here, other=0.0)
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for j in range(0, tl.max(count)):
        more = j < count
        at = split * E + start + j
        n = tl.load(neighbor + at, mask=more, other=0)
        factor = own * _factors(alive, weight, n, at, more, WEIGHTED)
        edge = _head_rows(table, tl.load(code + at, mask=more, other=0), more, wide, col, F)
        k = _head_rows(key, n, more, wide, col, F) + edge
        alpha = tl.where(factor > 0, factor * tl.exp(tl.sum(q * k, 1) * scale - divisor), 0.0)
        step = alpha * (tl.sum(g * (_head_rows(value, n, more, wide, col, F) + edge), 1) - average) * scale
        acc += step[:, None] * k
    place = (split * C + row)[:, None] * F + col[None, :]
    tl.store(by_query + place, acc.to(by_query.dtype.element_ty), mask=here[:, None] & wide)
    tl.store(mean + (split * C + row) * H + head, average, mask=here)


@triton.jit(do_not_specialize=["C", "E", "T", "Q"])
def _by_source(
    grad, query, key, value, table, log, mean, alive, row_ptr, neighbor, back, weight, by_key, by_value, by_entry,
    C, E, T, Q, scale, H: tl.constexpr, D: tl.constexpr, WEIGHTED: tl.constexpr, EACH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One head: what position p sent to each neighbour n, whose attention is computed once more; the gradients by its
    key and value, and by the features of these edges."""
    split, head = tl.program_id(1).to(tl.int64), tl.program_id(2)
    F = H * D
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, COLS)
    col, wide, here = head * D + d, (d < D)[None, :], row < C
    query += split * C * F
    grad += split * C * F
    table += split * T * F
    alive += split * C
    log += split * C * H + head
    mean += split * C * H + head
    k = _head_rows(key + split * C * F, row, here, wide, col, F)
    v = _head_rows(value + split * C * F, row, here, wide, col, F)
    own = tl.load(alive + row, mask=here, other=0.0)
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    keyed = tl.zeros((ROWS, COLS), tl.float32)
    valued = tl.zeros((ROWS, COLS), tl.float32)
    for j in range(0, tl.max(count)):
        more = j < count
        at = split * E + start + j
        n = tl.load(neighbor + at, mask=more, other=0)
        factor = own * _factors(alive, weight, n, at, more, WEIGHTED)
        entry = tl.load(back + at, mask=more, other=0)
        edge = _head_rows(table, entry, more, wide, col, F)
        q = _head_rows(query, n, more, wide, col, F)
        g = _head_rows(grad, n, more, wide, col, F)
        score = tl.sum(q * (k + edge), 1) * scale - tl.load(log + n * H, mask=more, other=0.0)
        alpha = tl.where(factor > 0, factor * tl.exp(score), 0.0)
        step = alpha * (tl.sum(g * (v + edge), 1) - tl.load(mean + n * H, mask=more, other=0.0)) * scale
        keyed += step[:, None] * q
        valued += alpha[:, None] * g
        to = entry if EACH else start + j
        both = step[:, None] * q + alpha[:, None] * g
        tl.store(by_entry + (split * Q + to)[:, None] * F + col[None, :], both, mask=more[:, None] & wide)
    place = (split * C + row)[:, None] * F + col[None, :]
    tl.store(by_key + place, keyed.to(by_key.dtype.element_ty), mask=here[:, None] & wide)
    tl.store(by_value + place, valued.to(by_value.dtype.element_ty), mask=here[:, None] & wide)


def attend_grad(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    table: Tensor,
    out: Tensor,
    log: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    heads: int,
    each: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `attend` by query, key, value and table."""
    grad, query, key, value, table, out, log = dense(grad, query, key, value, table, out, log)
    alive, row_ptr, neighbor, code, back = dense(alive, row_ptr, neighbor, code, back)
    weight, weight_back = dense(weight, weight_back)
    (splits, positions, features), entries = query.shape, neighbor.shape[1]
    by_query, by_key, by_value, mean = (torch.empty_like(t) for t in (query, key, value, log))
    by_entry = query.new_zeros(splits, table.shape[1] if each else entries, features)
    size = features // heads
    rows, cols = _tile(size, most=1 << 16)  # a head is one tile
    grid, of_all = (tiles(positions, rows), splits, heads), (positions, entries, table.shape[1])
    options = {"H": heads, "D": size, "WEIGHTED": weight.shape[1] > 0, "ROWS": rows, "COLS": cols, "num_warps": 4}
    _by_query[grid](
        grad, query, key, value, table, out, log, alive, row_ptr, neighbor, code, weight, by_query, mean,
        *of_all, size**-0.5, **options,
    )  # fmt: skip
    _by_source[grid](
        grad, query, key, value, table, log, mean, alive, row_ptr, neighbor, back, weight_back, by_key, by_value,
        by_entry, *of_all, by_entry.shape[1], size**-0.5, EACH=each, **options,
    )  # fmt: skip
    return by_query, by_key, by_value, by_entry if each else lookup_grad(by_entry, back.unsqueeze(2), table.shape[1])
