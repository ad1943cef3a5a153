"""Kernels that go over rows of features once: gates, narrow projections, the gradient of a ReLU, random draws.

Shapes: S splits, C positions, F features, M columns, N numbers. Where a gradient is a sum over all positions, each
program sums a part of them, and the parts are added up in order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.draws import mix
from cgipool.ops.gpu.launch import dense, power, tiles

PARTS = 32
"""Maximum number of parts into which the positions of a split are divided for such sums."""


def _parts(positions: int, rows: int) -> tuple[int, int]:
    """Return the number of parts, and the number of row tiles of each."""
    count = tiles(positions, rows)
    each = tiles(count, PARTS)
    return tiles(count, each), each


@triton.jit(do_not_specialize=["C"])
def _rectify_grad(
    grad, out, before, total, C, F, parts, EACH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """before = grad where out > 0, else 0; total[part] = its sum over the part's positions."""
    part, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    acc = tl.zeros((COLS,), tl.float32)
    for tile in range(EACH):
        row = (part * EACH + tile) * ROWS + tl.arange(0, ROWS)
        mask = (row < C)[:, None] & (col < F)[None, :]
        at = (split * C + row)[:, None] * F + col[None, :]
        positive = tl.load(out + at, mask=mask, other=0.0) > 0
        value = tl.where(positive, tl.load(grad + at, mask=mask, other=0.0), 0.0)
        tl.store(before + at, value, mask=mask)
        acc += tl.sum(value, 0)
    tl.store(total + (split * parts + part) * F + col, acc.to(total.dtype.element_ty), mask=col < F)


def rectify_grad(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU, and its sum over positions."""
    grad, out = dense(grad, out)
    splits, positions, features = out.shape
    cols = power(features, most=128)
    parts, each = _parts(positions, 16)
    before, total = torch.empty_like(out), out.new_empty(splits, parts, features)
    _rectify_grad[(parts, splits, tiles(features, cols))](
        grad, out, before, total, positions, features, parts, EACH=each, ROWS=16, COLS=cols, num_warps=4
    )
    return before, total.sum(1)


@triton.jit(do_not_specialize=["C"])
def _column_sums(x, out, C, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out = Σ_p x[p], one split and one tile of columns to a program."""
    split = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    acc = tl.zeros((COLS,), tl.float32)
    for start in range(0, C, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < C)[:, None] & (col < F)[None, :]
        acc += tl.sum(tl.load(x + (split * C + row)[:, None] * F + col[None, :], mask=mask, other=0.0), 0)
    tl.store(out + split * F + col, acc.to(out.dtype.element_ty), mask=col < F)


def column_sums(x: Tensor) -> Tensor:
    """The sum over positions, made for few columns."""
    (x,) = dense(x)
    splits, positions, features = x.shape
    out, cols = x.new_empty(splits, features), power(features, most=8)
    _column_sums[(splits, tiles(features, cols))](x, out, positions, features, ROWS=1024, COLS=cols, num_warps=8)
    return out


@triton.jit(do_not_specialize=["C"])
def _gated(x, gate, out, C, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[p] = gate[p] · x[p]."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    mask = (row < C)[:, None] & (col < F)[None, :]
    at = (split * C + row)[:, None] * F + col[None, :]
    weight = tl.load(gate + split * C + row, mask=row < C, other=0.0)
    tl.store(out + at, weight[:, None] * tl.load(x + at, mask=mask, other=0.0), mask=mask)


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """Each row times its gate."""
    x, gate = dense(x, gate)
    (splits, positions, features), out = x.shape, torch.empty_like(x)
    cols = power(features, most=128)
    _gated[(tiles(positions, 16), splits, tiles(features, cols))](
        x, gate, out, positions, features, ROWS=16, COLS=cols, num_warps=4
    )
    return out


@triton.jit(do_not_specialize=["C"])
def _gated_grad(grad, x, gate, by_x, by_gate, C, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """by_x[p] = gate[p] · grad[p], by_gate[p] = grad[p] · x[p]."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < C
    weight = tl.load(gate + split * C + row, mask=here, other=0.0)
    acc = tl.zeros((ROWS,), by_gate.dtype.element_ty)
    for start in range(0, F, COLS):
        col = start + tl.arange(0, COLS)
        mask = here[:, None] & (col < F)[None, :]
        at = (split * C + row)[:, None] * F + col[None, :]
        value = tl.load(grad + at, mask=mask, other=0.0)
        tl.store(by_x + at, weight[:, None] * value, mask=mask)
        acc += tl.sum(value * tl.load(x + at, mask=mask, other=0.0), 1)
    tl.store(by_gate + split * C + row, acc, mask=here)


def gated_grad(grad: Tensor, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `gated` by x and gate."""
    grad, x, gate = dense(grad, x, gate)
    splits, positions, features = x.shape
    by_x, by_gate = torch.empty_like(x), torch.empty_like(gate)
    _gated_grad[(tiles(positions, 16), splits)](
        grad, x, gate, by_x, by_gate, positions, features, ROWS=16, COLS=power(features, most=128), num_warps=4
    )
    return by_x, by_gate


@triton.jit(do_not_specialize=["C"])
def _project(x, weight, out, C, F, M: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[p, m] = x[p] · weight[m]; COLS covers all features, so that x is read once."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    wide = col < F
    mask = (row < C)[:, None] & wide[None, :]
    value = tl.load(x + (split * C + row)[:, None] * F + col[None, :], mask=mask, other=0.0)
    for m in tl.static_range(M):
        w = tl.load(weight + (split * M + m) * F + col, mask=wide, other=0.0)
        tl.store(out + (split * C + row) * M + m, tl.sum(value * w[None, :], 1), mask=row < C)


def project(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for few rows of W."""
    x, weight = dense(x, weight)
    (splits, positions, features), columns = x.shape, weight.shape[1]
    out, cols = x.new_empty(splits, positions, columns), power(features, most=1 << 16)
    rows = max(1, 2048 // cols)
    _project[(tiles(positions, rows), splits)](
        x, weight, out, positions, features, M=columns, ROWS=rows, COLS=cols, num_warps=4
    )
    return out


@triton.jit(do_not_specialize=["C"])
def _project_grad(
    grad, x, weight, by_x, by_weight, C, F, parts,
    M: tl.constexpr, MP: tl.constexpr, EACH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """by_x[p] = Σ_m grad[p, m] · weight[m]; by_weight[part, m] = Σ over the part's positions of grad[p, m] · x[p]."""
    part, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    every = tl.arange(0, MP)
    acc = tl.zeros((MP, COLS), tl.float32)
    for tile in range(EACH):
        row = (part * EACH + tile) * ROWS + tl.arange(0, ROWS)
        mask = (row < C)[:, None] & wide[None, :]
        at = (split * C + row)[:, None] * F + col[None, :]
        value = tl.load(x + at, mask=mask, other=0.0)
        total = tl.zeros((ROWS, COLS), tl.float32)
        for m in tl.static_range(M):
            g = tl.load(grad + (split * C + row) * M + m, mask=row < C, other=0.0)
            w = tl.load(weight + (split * M + m) * F + col, mask=wide, other=0.0)
            total += g[:, None] * w[None, :]
            acc += tl.where((every == m)[:, None], tl.sum(g[:, None] * value, 0)[None, :], 0.0)
        tl.store(by_x + at, total.to(by_x.dtype.element_ty), mask=mask)
    place = ((split * parts + part) * M + every)[:, None] * F + col[None, :]
    tl.store(by_weight + place, acc.to(by_weight.dtype.element_ty), mask=(every < M)[:, None] & wide[None, :])


def project_grad(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `project` by x and weight."""
    grad, x, weight = dense(grad, x, weight)
    (splits, positions, features), columns = x.shape, weight.shape[1]
    cols = power(features, most=128)
    parts, each = _parts(positions, 16)
    by_x, by_weight = torch.empty_like(x), x.new_empty(splits, parts, columns, features)
    _project_grad[(parts, splits, tiles(features, cols))](
        grad, x, weight, by_x, by_weight, positions, features, parts,
        M=columns, MP=power(columns), EACH=each, ROWS=16, COLS=cols, num_warps=4,
    )  # fmt: skip
    return by_x, by_weight.sum(1)


@triton.jit
def _mix(x):
    """`mix` of ops/draws.py on uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit(do_not_specialize=["N", "site"])
def _draws(index, key, out, N, site, SIZE: tl.constexpr):
    """A number in [0, 1) from an index, the key of its split and a site."""
    split = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = tl.load(index + split * N + at, mask=at < N, other=0).to(tl.uint32)
    x = _mix(_mix(x ^ site.to(tl.uint32)) ^ tl.load(key + split).to(tl.uint32))
    tl.store(out + split * N + at, (x >> 8).to(tl.float32) * 5.9604644775390625e-08, mask=at < N)  # 2^-24


def draws(index: Tensor, key: Tensor, site: int) -> Tensor:
    """Numbers in [0, 1) for every entry of index."""
    index, key = dense(index, key)
    (splits, count), out = index.shape, torch.empty_like(index, dtype=torch.float32)
    _draws[(tiles(count, 1024), splits)](index, key, out, count, mix(site + 1), SIZE=1024, num_warps=4)
    return out
