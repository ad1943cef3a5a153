"""Kernels for near-dense graphs, whose adjacency comes as bits: products of dense tiles on the matrix units.

Shapes: S splits, C positions, R places after, B graphs, F features, W words of 32 bits. A program handles a tile of
ROWS positions of one graph; programs behind the end of their graph leave at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.bits import WORD
from cgipool.ops.gpu.fill import fill_rows
from cgipool.ops.gpu.launch import dense, power
from cgipool.ops.gpu.launch import tiles as tiles_of


@triton.jit
def _add_product(total, a, x):
    """total + a · x for a of zeros and ones and x in float32: x as the sum of three numbers of the type of a, whose
    products the matrix units add up in float32. In bfloat16 that is as exact as a sum in float32, and faster than TF32
    would be."""
    high = x.to(a.dtype)
    rest = x - high.to(tl.float32)
    middle = rest.to(a.dtype)
    low = (rest - middle.to(tl.float32)).to(a.dtype)
    return tl.dot(a, low, tl.dot(a, middle, tl.dot(a, high, total)))


@triton.jit(do_not_specialize=["C", "B"])
def _propagate(
    x, bias, scale, bits, slot_ptr, out, C, B, F, self_weight, W: tl.constexpr, BIASED: tl.constexpr,
    RECTIFY: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, FACTOR: tl.constexpr,
):  # fmt: skip
    """out[p] = scale[p] · (Σ_q A[p, q] scale[q] x[q] + self_weight · scale[p] x[p]), 0 in the padding (which counts as
    one more graph); then plus bias, then what is positive, if asked for."""
    b, split = tl.program_id(1) % (B + 1), (tl.program_id(1) // (B + 1)).to(tl.int64)
    first = tl.load(slot_ptr + split * (B + 1) + b).to(tl.int32)
    last = tl.load(slot_ptr + split * (B + 1) + b + 1, mask=b < B, other=0).to(tl.int32)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = (col < F)[None, :]
    shift = tl.zeros((COLS,), tl.float32)
    if BIASED:
        shift += tl.load(bias + split * F + col, mask=col < F, other=0.0)
    x += split * C * F
    out += split * C * F
    bits += split * C * W
    scale += split * C
    if b == B:
        shift = tl.maximum(shift, 0.0) if RECTIFY else shift
        fill_rows(out, shift, first, C, col, F, tl.program_id(0), tl.num_programs(0), ROWS, COLS)
    start = first + tl.program_id(0) * ROWS
    if start < last:
        lane = tl.arange(0, 32)
        row = start + tl.arange(0, ROWS)
        here = row < last
        total = tl.zeros((ROWS, COLS), tl.float32)
        for w in range(0, tl.cdiv(last - first, 32)):
            word = tl.load(bits + row * W + w, mask=here, other=0)
            a = ((word[:, None] >> lane[None, :]) & 1).to(FACTOR)
            q = first + w * 32 + lane
            there = q < last
            value = tl.load(x + q[:, None] * F + col[None, :], mask=there[:, None] & wide, other=0.0)
            value *= tl.load(scale + q, mask=there, other=0.0)[:, None]
            total = _add_product(total, a, value)
        own = tl.load(scale + row, mask=here, other=0.0)[:, None]
        at = row[:, None] * F + col[None, :]
        mine = tl.load(x + at, mask=here[:, None] & wide, other=0.0)
        total = (total + self_weight * own * mine) * own + shift[None, :]
        if RECTIFY:
            total = tl.maximum(total, 0.0)
        tl.store(out + at, total, mask=here[:, None] & wide)


def tile_propagate(x: Tensor, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor) -> Tensor:
    """S (A + self_weight · I) S x."""
    return _launch(x, None, scale, self_weight, bits, slot_ptr, False)


def tile_convolve(
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor, rectify: bool
) -> Tensor:
    """`tile_propagate` of x, plus bias, and, if asked for, what is positive of that."""
    return _launch(x, bias, scale, self_weight, bits, slot_ptr, rectify)


def _launch(
    x: Tensor, bias: Tensor | None, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor, rectify: bool
) -> Tensor:
    x, scale, bits, slot_ptr = dense(x, scale, bits, slot_ptr)
    (splits, positions, features), out = x.shape, torch.empty_like(x)
    graphs, words = slot_ptr.shape[1] - 1, bits.shape[2]
    rows, cols = 128, power(features, least=16, most=128)
    factor = tl.bfloat16 if x.is_cuda else tl.float32  # Triton's interpreter multiplies the bits of bfloat16
    grid = (tiles_of(words * WORD, rows), (graphs + 1) * splits, tiles_of(features, cols))
    _propagate[grid](
        x, x if bias is None else bias.contiguous(), scale, bits, slot_ptr, out, positions, graphs, features,
        self_weight, W=words, BIASED=bias is not None, RECTIFY=rectify, ROWS=rows, COLS=cols, FACTOR=factor,
        num_warps=4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "R", "B"])
def _induce(bits, index, before, after, out, C, R, B, W: tl.constexpr, ROWS: tl.constexpr):
    """Bit i of out[r, w] is that of the positions which stand at place r and at place 32 w + i of its graph; 0 in the
    padding."""
    b, split = tl.program_id(1) % B, (tl.program_id(1) // B).to(tl.int64)
    was = tl.load(before + split * (B + 1) + b)
    first = tl.load(after + split * (B + 1) + b)
    last = tl.load(after + split * (B + 1) + b + 1)
    stop = tl.where(b == B - 1, R, last)
    lane = tl.arange(0, 32)
    for start in range(first + tl.program_id(0) * ROWS, stop, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        here = row < last
        p = tl.load(index + split * R + row, mask=here, other=0)
        for w in range(0, W):
            place = first + w * 32 + lane
            there = place < last
            q = tl.load(index + split * R + place, mask=there, other=0) - was
            mask = here[:, None] & there[None, :]
            word = tl.load(bits + (split * C + p)[:, None] * W + (q // 32)[None, :], mask=mask, other=0)
            bit = tl.where(mask, (word >> (q % 32).to(tl.int32)[None, :]) & 1, 0)
            tl.store(out + (split * R + row) * W + w, tl.sum(bit << lane[None, :], 1), mask=row < stop)


def tile_induce(bits: Tensor, index: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """The bits among the kept positions."""
    bits, index, before, after = dense(bits, index, before, after)
    (splits, positions, words), rows, graphs = bits.shape, index.shape[1], before.shape[1] - 1
    out = bits.new_empty(splits, rows, words)
    grid = (tiles_of(words * WORD, 32), graphs * splits)
    _induce[grid](bits, index, before, after, out, positions, rows, graphs, W=words, ROWS=32, num_warps=4)
    return out
