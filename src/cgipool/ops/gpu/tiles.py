"""Which tile of which graph a program handles, where every graph has a matrix with as many rows as nodes.

Shapes: S splits, B graphs, R tiles at most. The number of tiles is known only on the device, so more programs
start than are needed, and a table [S, R, 5] assigns each one its part; searching the sizes would cost every program
a chain of loads. Surplus programs have the table's last entries, of graph B, and write what follows the last
graph.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.bits import WORD
from cgipool.ops.gpu.launch import dense, fill_rows, power, tiles
from cgipool.ops.gpu.launch import tiles as tiles_of


@triton.jit(do_not_specialize=["B", "R", "slot_split", "block_split"])
def _table(
    slot_ptr, block_ptr, table, B, R, slot_split, block_split,
    TI: tl.constexpr, TJ: tl.constexpr, GRAPHS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """The entries of one graph's tiles: its number, the tile's, its first position, its size and its first cell. What
    is left counts as tiles of one more graph, whose size is their number."""
    g, split = tl.program_id(0), tl.program_id(1).to(tl.int64)
    slot_ptr += split * slot_split
    b = tl.arange(0, GRAPHS)
    size = tl.load(slot_ptr + 1 + b, mask=b < B, other=0) - tl.load(slot_ptr + b, mask=b < B, other=0)
    count = tl.cdiv(size, TI)
    if TJ > 0:
        count *= tl.cdiv(size, TJ)
    start = tl.sum(tl.where(b < g, count, 0))
    own = tl.where(g < B, tl.sum(tl.where(b == g, count, 0)), R - start)
    n = tl.where(g < B, tl.sum(tl.where(b == g, size, 0)), own)
    first, cell = tl.load(slot_ptr + g), tl.load(block_ptr + split * block_split + g)
    for begin in range(0, own, SIZE):
        tile = begin + tl.arange(0, SIZE)
        at, mask = table + (split * R + start + tile) * 5, tile < own
        tl.store(at, tl.zeros_like(tile) + g, mask=mask)
        tl.store(at + 1, tile, mask=mask)
        tl.store(at + 2, tl.zeros_like(tile) + first, mask=mask)
        tl.store(at + 3, tl.zeros_like(tile) + n, mask=mask)
        tl.store(at + 4, tl.zeros_like(tile) + cell, mask=mask)


@triton.jit
def entry(table, R):
    """What a program's entry holds: the graph, the tile, and the graph's first position, size and first cell."""
    at = table + (tl.program_id(1).to(tl.int64) * R + tl.program_id(0)) * 5
    return tl.load(at), tl.load(at + 1).to(tl.int32), tl.load(at + 2), tl.load(at + 3).to(tl.int32), tl.load(at + 4)


def tile_table(slot_ptr: Tensor, block_ptr: Tensor, positions: int, cells: int, ti: int, tj: int = 0) -> Tensor:
    """The table for matrices of n rows in strips of ti, or, with tj, of n rows and n columns in tiles of ti × tj; there
    are `positions` rows and `cells` cells at most. At least one entry is left over."""
    (splits, graphs), columns = (slot_ptr.shape[0], slot_ptr.shape[1] - 1), 5
    # A graph's last tile in either direction may be partly filled.
    most = graphs + 1 + tiles(positions, ti) + (tiles(positions, tj) + tiles(cells, ti * tj) if tj else 0)
    table = slot_ptr.new_empty(splits, most, columns)
    _table[(graphs + 1, splits)](
        slot_ptr, block_ptr, table, graphs, most, slot_ptr.stride(0), block_ptr.stride(0),
        TI=ti, TJ=tj, GRAPHS=power(graphs, most=2**20), SIZE=64, num_warps=2,
    )  # fmt: skip
    return table


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
    one more graph); then plus bias, then a ReLU if RECTIFY."""
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
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor, relu: bool
) -> Tensor:
    """`tile_propagate` of x, plus bias, followed by a ReLU if `relu`."""
    return _launch(x, bias, scale, self_weight, bits, slot_ptr, relu)


def _launch(
    x: Tensor, bias: Tensor | None, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor, relu: bool
) -> Tensor:
    x, scale, bits, slot_ptr = dense(x, scale, bits, slot_ptr)
    (splits, positions, features), out = x.shape, torch.empty_like(x)
    graphs, words = slot_ptr.shape[1] - 1, bits.shape[2]
    rows, cols = 128, power(features, least=16, most=128)
    factor = tl.bfloat16 if x.is_cuda else tl.float32  # Triton's interpreter multiplies the bits of bfloat16
    grid = (tiles_of(words * WORD, rows), (graphs + 1) * splits, tiles_of(features, cols))
    _propagate[grid](
        x, x if bias is None else bias.contiguous(), scale, bits, slot_ptr, out, positions, graphs, features,
        self_weight, W=words, BIASED=bias is not None, RECTIFY=relu, ROWS=rows, COLS=cols, FACTOR=factor,
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
