"""Kernels that make one row for each node: propagation, degrees, neighbour maxima, look-ups.

Shapes: S splits, C positions, E neighbour entries, F features, K category columns, V categories. A program handles a
tile of ROWS positions of one split by COLS features; the neighbours of its rows are visited in turn, all rows at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, power, precision, tiles


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _propagate(
    x, bias, scale, row_ptr, neighbor, weight, out, C, E, F, self_weight,
    SCALED: tl.constexpr, WEIGHTED: tl.constexpr, BIASED: tl.constexpr, RECTIFY: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """out[p] = scale[p] · (Σ_{q in N(p)} weight · scale[q] x[q] + self_weight · scale[p] x[p]), or without scales
    Σ_{q in N(p)} weight · x[q]; then plus bias, then a ReLU if RECTIFY."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < C, col < F
    x += split * C * F
    scale += split * C
    row_ptr += split * (C + 1)
    neighbor += split * E
    start = tl.load(row_ptr + row, mask=here, other=0)
    count = tl.load(row_ptr + row + 1, mask=here, other=0) - start
    total = tl.zeros((ROWS, COLS), out.dtype.element_ty)
    for j in range(0, tl.max(count)):
        more = j < count
        q = tl.load(neighbor + start + j, mask=more, other=0)
        value = tl.load(x + q[:, None] * F + col[None, :], mask=more[:, None] & wide[None, :], other=0.0)
        if SCALED:
            value *= tl.load(scale + q, mask=more, other=0.0)[:, None]
        if WEIGHTED:
            value *= tl.load(weight + split * E + start + j, mask=more, other=0.0)[:, None]
        total += value
    if SCALED:
        own = tl.load(scale + row, mask=here, other=0.0)[:, None]
        mine = tl.load(x + row[:, None] * F + col[None, :], mask=here[:, None] & wide[None, :], other=0.0)
        total = (total + self_weight * own * mine) * own
    if BIASED:
        total += tl.load(bias + split * F + col, mask=wide, other=0.0)[None, :]
    if RECTIFY:
        total = tl.maximum(total, 0.0)
    out += split * C * F
    tl.store(out + row[:, None] * F + col[None, :], total, mask=here[:, None] & wide[None, :])


def _tile(features: int) -> tuple[int, int, int]:
    """Rows, columns and warps of a tile: about 1,024 numbers."""
    cols = power(features, most=128)
    rows = max(1, 1024 // cols) if cols > 16 else 128
    return min(rows, 128), cols, 4


def propagate(x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """S (A + self_weight · I) S x."""
    return _launch(x, None, scale, self_weight, row_ptr, neighbor, False)


def weighted_propagate(
    x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, weight: Tensor, back: Tensor
) -> Tensor:
    """`propagate` with a weight for each entry."""
    return _launch(x, None, scale, self_weight, row_ptr, neighbor, False, weight)


def convolve(
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, relu: bool
) -> Tensor:
    """`propagate` of x, plus bias, followed by a ReLU if `relu`."""
    return _launch(x, bias, scale, self_weight, row_ptr, neighbor, relu)


def degree(alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """The number of living neighbours of each position."""
    return _launch(alive.unsqueeze(2), None, None, 0.0, row_ptr, neighbor, False).squeeze(2)


def _launch(
    x: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    self_weight: float,
    row_ptr: Tensor,
    neighbor: Tensor,
    relu: bool,
    weight: Tensor | None = None,
) -> Tensor:
    x, row_ptr, neighbor = dense(x, row_ptr, neighbor)
    (splits, positions, features), out = x.shape, torch.empty_like(x)
    rows, cols, warps = _tile(features)
    grid = (tiles(positions, rows), splits, tiles(features, cols))
    _propagate[grid](
        x, x if bias is None else bias.contiguous(), x if scale is None else scale.contiguous(), row_ptr, neighbor,
        x if weight is None else weight.contiguous(), out, positions, neighbor.shape[1], features, self_weight,
        SCALED=scale is not None, WEIGHTED=weight is not None, BIASED=bias is not None, RECTIFY=relu,
        ROWS=rows, COLS=cols, num_warps=warps,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _neighbor_max(
    x, alive, row_ptr, neighbor, top, where, C, E, F, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """The maximum over a living node and its living neighbours, and the position where it is attained."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < C, col < F
    both = here[:, None] & wide[None, :]
    x += split * C * F
    alive += split * C
    row_ptr += split * (C + 1)
    neighbor += split * E
    living = tl.load(alive + row, mask=here, other=0.0) > 0
    start = tl.load(row_ptr + row, mask=here, other=0)
    count = tl.where(living, tl.load(row_ptr + row + 1, mask=here, other=0) - start, 0)
    best = tl.load(x + row[:, None] * F + col[None, :], mask=both, other=0.0)
    at = tl.zeros((ROWS, COLS), tl.int64) + row[:, None]
    for j in range(0, tl.max(count)):
        more = j < count
        q = tl.load(neighbor + start + j, mask=more, other=0)
        more = more & (tl.load(alive + q, mask=more, other=0.0) > 0)
        value = tl.load(x + q[:, None] * F + col[None, :], mask=more[:, None] & wide[None, :], other=float("-inf"))
        better = value > best
        best = tl.where(better, value, best)
        at = tl.where(better, q[:, None].to(tl.int64), at)
    offset = split * C * F + row[:, None] * F + col[None, :]
    tl.store(top + offset, tl.where(living[:, None], best, 0.0), mask=both)
    tl.store(where + offset, tl.where(living[:, None], at, -1), mask=both)


def neighbor_max(x: Tensor, alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum over each node and its living neighbours, and where it is attained."""
    x, alive, row_ptr, neighbor = dense(x, alive, row_ptr, neighbor)
    splits, positions, features = x.shape
    top, where = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
    rows, cols, warps = _tile(features)
    grid = (tiles(positions, rows), splits, tiles(features, cols))
    _neighbor_max[grid](
        x, alive, row_ptr, neighbor, top, where, positions, neighbor.shape[1], features,
        ROWS=rows, COLS=cols, num_warps=warps,
    )  # fmt: skip
    return top, where


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _neighbor_max_grad(grad, where, row_ptr, neighbor, out, C, E, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[p] = Σ over q in N(p) ∪ {p} of grad[q] where the maximum of q is attained at p."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < C, col < F
    both = here[:, None] & wide[None, :]
    grad += split * C * F
    where += split * C * F
    row_ptr += split * (C + 1)
    neighbor += split * E
    start = tl.load(row_ptr + row, mask=here, other=0)
    count = tl.load(row_ptr + row + 1, mask=here, other=0) - start
    place = row[:, None] * F + col[None, :]
    mine = tl.load(where + place, mask=both, other=-1) == row[:, None]
    total = tl.where(mine, tl.load(grad + place, mask=both, other=0.0), 0.0)
    for j in range(0, tl.max(count)):
        more = j < count
        q = tl.load(neighbor + start + j, mask=more, other=0)
        place = q[:, None] * F + col[None, :]
        mask = more[:, None] & wide[None, :]
        taken = tl.load(where + place, mask=mask, other=-1) == row[:, None]
        total += tl.where(taken, tl.load(grad + place, mask=mask, other=0.0), 0.0)
    tl.store(out + split * C * F + row[:, None] * F + col[None, :], total, mask=both)


def neighbor_max_grad(grad: Tensor, where: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """Gradient of `neighbor_max` by x."""
    grad, where, row_ptr, neighbor = dense(grad, where, row_ptr, neighbor)
    (splits, positions, features), out = grad.shape, torch.empty_like(grad)
    rows, cols, warps = _tile(features)
    grid = (tiles(positions, rows), splits, tiles(features, cols))
    _neighbor_max_grad[grid](
        grad, where, row_ptr, neighbor, out, positions, neighbor.shape[1], features,
        ROWS=rows, COLS=cols, num_warps=warps,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _pick(x, index, out, R, Q, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[q] = x[index[q]], 0 for −1."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < Q, col < F
    at = tl.load(index + split * Q + row, mask=here, other=-1)
    mask = (at >= 0)[:, None] & wide[None, :]
    value = tl.load(x + split * R * F + at[:, None] * F + col[None, :], mask=mask, other=0.0)
    tl.store(out + split * Q * F + row[:, None] * F + col[None, :], value, mask=here[:, None] & wide[None, :])


def pick(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """Rows by number, 0 for the number −1."""
    x, index = dense(x, index)
    (splits, count, features), picked = x.shape, index.shape[1]
    out = x.new_empty(splits, picked, features)
    rows, cols, warps = _tile(features)
    grid = (tiles(picked, rows), splits, tiles(features, cols))
    _pick[grid](x, index, out, count, picked, features, ROWS=rows, COLS=cols, num_warps=warps)
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _lookup(weight, category, out, C, K, V, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[p] = Σ_k weight[category[p, k]]."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    here, wide = row < C, col < F
    both = here[:, None] & wide[None, :]
    total = tl.zeros((ROWS, COLS), out.dtype.element_ty)
    for k in range(0, K):
        v = tl.load(category + (split * C + row) * K + k, mask=here, other=0)
        total += tl.load(weight + split * V * F + v[:, None] * F + col[None, :], mask=both, other=0.0)
    tl.store(out + split * C * F + row[:, None] * F + col[None, :], total, mask=both)


def lookup(weight: Tensor, category: Tensor) -> Tensor:
    """A one-hot (or several-hot) matrix times weight, without the matrix."""
    weight, category = dense(weight, category)
    (splits, categories, features), (_, positions, columns) = weight.shape, category.shape
    out = weight.new_empty(splits, positions, features)
    rows, cols, warps = _tile(features)
    grid = (tiles(positions, rows), splits, tiles(features, cols))
    _lookup[grid](
        weight, category, out, positions, columns, categories, features, ROWS=rows, COLS=cols, num_warps=warps
    )
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _lookup_grad(
    grad, category, out, C, K, V, F, parts, ROWS: tl.constexpr, CATS: tl.constexpr, COLS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """out[part, v] = Σ over the positions p of a part with category v of grad[p]: a one-hot matrix times grad."""
    block = tl.program_id(0)
    split = (tl.program_id(1) // parts).to(tl.int64)
    part = tl.program_id(1) % parts
    cat = block * CATS + tl.arange(0, CATS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    per = tl.cdiv(tl.cdiv(C, parts), ROWS) * ROWS
    total = tl.zeros((CATS, COLS), tl.float32)
    for first in range(part * per, tl.minimum((part + 1) * per, C), ROWS):
        row = first + tl.arange(0, ROWS)
        here = row < C
        value = tl.load(
            grad + (split * C + row)[:, None] * F + col[None, :], mask=here[:, None] & wide[None, :], other=0.0
        )
        hot = tl.zeros((CATS, ROWS), tl.float32)
        for k in range(0, K):
            v = tl.load(category + (split * C + row) * K + k, mask=here, other=-1)
            hot += (cat[:, None] == v[None, :]).to(tl.float32)
        total += tl.dot(hot, value.to(tl.float32), input_precision=PRECISION)
    place = ((split * parts + part) * V + cat)[:, None] * F + col[None, :]
    tl.store(out + place, total.to(out.dtype.element_ty), mask=(cat < V)[:, None] & wide[None, :])


def lookup_grad(grad: Tensor, category: Tensor, rows: int) -> Tensor:
    """Gradient of `lookup` by its weight. The positions are summed in parts, and the parts in order: no atomics."""
    grad, category = dense(grad, category)
    (splits, positions, features), columns = grad.shape, category.shape[2]
    parts = max(1, min(16, positions // 256))
    out = grad.new_empty(splits, parts, rows, features)
    cols = power(features, least=16, most=128)
    grid = (tiles(rows, 32), splits * parts, tiles(features, cols))
    _lookup_grad[grid](
        grad, category, out, positions, columns, rows, features, parts,
        ROWS=32, CATS=32, COLS=cols, PRECISION=precision(grad), num_warps=4,
    )  # fmt: skip
    return out.sum(1) if parts > 1 else out[:, 0]
