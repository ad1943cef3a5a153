"""One kernel for all products of small matrices, one product per graph.

Shapes: S splits, C positions, B graphs, F features, M columns, D cells. For a graph with n nodes every product of
ops/blocks.py, and the wide ones of ops/weighted.py, is out[i, j] = Σ_k a[i, k] · b[k, j], where the sides are n or
fixed and each matrix lies in its tensor at an address that is linear in the graph's first position, its first cell and
its number:

    address(r, c) = node · first position + cell · first cell + graph · number + row · r + col · c

where the last two, the strides, are fixed or n. A `Place` holds these five for each operand.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, fill, fill_rows, power, precision, rows_dense, tiles
from cgipool.ops.gpu.tiles import entry, tile_table

N = -1
"""Stands for the number of nodes of the graph, as a side or a stride."""


class Place(NamedTuple):
    """Where a matrix of graph b lies in its tensor."""

    node: int = 0
    """Numbers per position before it."""
    cell: int = 0
    """Numbers per cell before it."""
    graph: int = 0
    """Numbers per graph before it."""
    row: int = 1
    """Distance of two rows, or N."""
    col: int = 1
    """Distance of two columns, or N."""

    @property
    def flipped(self) -> "Place":
        """The transposed matrix."""
        return self._replace(row=self.col, col=self.row)


class Tile(NamedTuple):
    """What one program computes of a product."""

    rows: int
    cols: int
    depth: int
    """Length of the piece of each sum that it reads at a time."""
    warps: int
    stages: int
    """Number of such pieces in flight at once."""


SQUARE = Tile(32, 32, 32, warps=4, stages=2)
"""Of n × n matrices."""

STRIP = Tile(32, 128, 32, warps=4, stages=2)
"""Of matrices with a fixed width; a side that is shorter takes less."""


@triton.jit
def _or(fixed: tl.constexpr, n):
    """A side or stride: fixed, or that of the graph."""
    return n if fixed < 0 else fixed


@triton.jit
def _shifted(x, bias, split, col, WIDTH: tl.constexpr, BIASED: tl.constexpr, RECTIFY: tl.constexpr):
    """x plus the bias of the columns, followed by a ReLU if RECTIFY."""
    if BIASED:
        x += tl.load(bias + split * WIDTH + col, mask=col < WIDTH, other=0.0)
    if RECTIFY:
        x = tl.maximum(x, 0.0)
    return x


@triton.jit(do_not_specialize=["B", "R"])
def _products(
    a, b, bias, out, slot_ptr, table, B, R, a_split, b_split, out_split, slot_split,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    a_node: tl.constexpr, a_cell: tl.constexpr, a_graph: tl.constexpr, a_row: tl.constexpr, a_col: tl.constexpr,
    b_node: tl.constexpr, b_cell: tl.constexpr, b_graph: tl.constexpr, b_row: tl.constexpr, b_col: tl.constexpr,
    o_node: tl.constexpr, o_cell: tl.constexpr, o_graph: tl.constexpr, o_row: tl.constexpr, o_col: tl.constexpr,
    BIASED: tl.constexpr, RECTIFY: tl.constexpr,
    TI: tl.constexpr, TJ: tl.constexpr, TK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile TI × TJ of one graph's product. If the height is the graph's, the table says which tile, and surplus
    programs write the product of zeros after the last graph; otherwise each graph has its own programs. A fixed side
    is divided among the programs of the last axis."""
    split = tl.program_id(1).to(tl.int64)
    if HEIGHT < 0:
        g, tile, first, n, cell = entry(table, R)
        if g == B:  # behind the last graph
            out += split * out_split
            if WIDTH < 0:
                fill(out, 0.0, cell, out_split, tile, n, TI * TJ)
            else:
                col = tl.program_id(2) * TJ + tl.arange(0, TJ)
                row = _shifted(tl.zeros((TJ,), tl.float32), bias, split, col, WIDTH, BIASED, RECTIFY)
                fill_rows(out, row, first, out_split // WIDTH, col, WIDTH, tile, n, TI, TJ)
            return
    else:
        g, tile, cell = tl.program_id(0).to(tl.int64), tl.program_id(2) // tl.cdiv(WIDTH, TJ), 0
        first = tl.load(slot_ptr + split * slot_split + g)
        n = (tl.load(slot_ptr + split * slot_split + g + 1) - first).to(tl.int32)
    if WIDTH < 0:
        across = tl.cdiv(n, TJ)
        down, aside = tile // across, tile % across
    else:
        down, aside = tile, tl.program_id(2) % tl.cdiv(WIDTH, TJ)
    height, width, depth = _or(HEIGHT, n), _or(WIDTH, n), _or(DEPTH, n)
    i, j = down * TI + tl.arange(0, TI), aside * TJ + tl.arange(0, TJ)
    a += split * a_split + a_node * first + a_cell * cell + a_graph * g
    b += split * b_split + b_node * first + b_cell * cell + b_graph * g
    out += split * out_split + o_node * first + o_cell * cell + o_graph * g
    total = tl.zeros((TI, TJ), tl.float32)
    for start in range(0, depth, TK):
        k = start + tl.arange(0, TK)
        left = tl.load(
            a + i[:, None] * _or(a_row, n) + k[None, :] * _or(a_col, n),
            mask=(i < height)[:, None] & (k < depth)[None, :], other=0.0,
        )  # fmt: skip
        right = tl.load(
            b + k[:, None] * _or(b_row, n) + j[None, :] * _or(b_col, n),
            mask=(k < depth)[:, None] & (j < width)[None, :], other=0.0,
        )  # fmt: skip
        total += tl.dot(left.to(tl.float32), right.to(tl.float32), input_precision=PRECISION)
    total = _shifted(total, bias, split, j, WIDTH, BIASED, RECTIFY)
    tl.store(
        out + i[:, None] * _or(o_row, n) + j[None, :] * _or(o_col, n), total.to(out.dtype.element_ty),
        mask=(i < height)[:, None] & (j < width)[None, :],
    )  # fmt: skip


def products(
    sides: tuple[int, int, int],
    a: tuple[Tensor, Place],
    b: tuple[Tensor, Place],
    out: tuple[Tensor, Place],
    slot_ptr: Tensor,
    block_ptr: Tensor,
    positions: int,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """out = a b for every graph; sides are the height, the width and the depth, fixed or N. The width is N only if the
    height is. If only the width is fixed, a bias [S, width] may be added, followed by a ReLU."""
    (left, right), (slot_ptr, block_ptr) = dense(a[0], b[0]), rows_dense(slot_ptr, block_ptr)
    height, width, depth = sides
    splits, graphs = slot_ptr.shape[0], slot_ptr.shape[1] - 1
    tile = SQUARE if width == N else STRIP
    ti, tj, tk = (most if side == N else power(side, 16, most) for side, most in zip(sides, tile, strict=False))
    fixed = 1 if width == N else tiles(width, tj)
    if height == N:
        table = tile_table(slot_ptr, block_ptr, positions, out[0].shape[1], ti, tj if width == N else 0)
        most, grid = table.shape[1], (table.shape[1], splits, fixed)
    else:
        table, most, grid = slot_ptr, 0, (graphs, splits, tiles(height, ti) * fixed)
    _products[grid](
        left, right, left if bias is None else bias.contiguous(), out[0], slot_ptr, table, graphs, most,
        *(x[0].numel() for x in (left, right, out[0])), slot_ptr.stride(0),
        height, width, depth, *a[1], *b[1], *out[1], BIASED=bias is not None, RECTIFY=relu,
        TI=ti, TJ=tj, TK=tk, PRECISION=precision(left), num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out[0]


def sums(x: Tensor, weight: Tensor, slot_ptr: Tensor) -> Tensor:
    """Wᵀ X for each graph: [S, C, F] and [S, C, M] → [S, B, M, F]."""
    (splits, positions, features), columns, graphs = x.shape, weight.shape[2], slot_ptr.shape[1] - 1
    out = x.new_empty(splits, graphs, columns, features)
    return products(
        (columns, features, N),
        (weight, Place(node=columns, row=1, col=columns)),
        (x, Place(node=features, row=features)),
        (out, Place(graph=columns * features, row=features)),
        slot_ptr, slot_ptr, positions,
    )  # fmt: skip


def spread(value: Tensor, weight: Tensor, slot_ptr: Tensor) -> Tensor:
    """W V for each graph: [S, B, M, F] and [S, C, M] → [S, C, F]."""
    (splits, _, columns, features), positions = value.shape, weight.shape[1]
    out = value.new_empty(splits, positions, features)
    return products(
        (N, features, columns),
        (weight, Place(node=columns, row=columns)),
        (value, Place(graph=columns * features, row=features)),
        (out, Place(node=features, row=features)),
        slot_ptr, slot_ptr, positions,
    )  # fmt: skip


def dots(x: Tensor, value: Tensor, slot_ptr: Tensor) -> Tensor:
    """X Vᵀ for each graph: [S, C, F] and [S, B, M, F] → [S, C, M]."""
    (splits, positions, features), columns = x.shape, value.shape[2]
    out = x.new_empty(splits, positions, columns)
    return products(
        (N, columns, features),
        (x, Place(node=features, row=features)),
        (value, Place(graph=columns * features, row=1, col=features)),
        (out, Place(node=columns, row=columns)),
        slot_ptr, slot_ptr, positions,
    )  # fmt: skip


MATRIX = Place(cell=1, row=N)
"""A graph's cells, row by row."""


def block_mm(weight: Tensor, x: Tensor, flip: bool, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """W x for each graph, or Wᵀ x if flipped."""
    features = x.shape[2]
    rows = Place(node=features, row=features)
    matrix = MATRIX.flipped if flip else MATRIX
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return products((N, features, N), (weight, matrix), (x, rows), (out, rows), slot_ptr, block_ptr, x.shape[1])


def block_convolve(weight: Tensor, x: Tensor, bias: Tensor, relu: bool, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """W x for each graph, plus bias, followed by a ReLU if `relu`."""
    features, out = x.shape[2], torch.empty_like(x, memory_format=torch.contiguous_format)
    rows, where = Place(node=features, row=features), (slot_ptr, block_ptr, x.shape[1])
    return products((N, features, N), (weight, MATRIX), (x, rows), (out, rows), *where, bias, relu)


def block_outer(a: Tensor, b: Tensor, slot_ptr: Tensor, block_ptr: Tensor, cells: int) -> Tensor:
    """The products of rows within each graph."""
    features = a.shape[2]
    rows, out = Place(node=features, row=features), a.new_empty(a.shape[0], cells)
    return products((N, N, features), (a, rows), (b, rows.flipped), (out, MATRIX), slot_ptr, block_ptr, a.shape[1])


def block_product(a: Tensor, b: Tensor, flip_a: bool, flip_b: bool, slot_ptr: Tensor, block_ptr: Tensor) -> Tensor:
    """The matrix product of each graph's two matrices, either one transposed if flipped."""
    left, right = (MATRIX.flipped if flip else MATRIX for flip in (flip_a, flip_b))
    out = torch.empty_like(a, memory_format=torch.contiguous_format)
    graphs, cells = slot_ptr.shape[1] - 1, a.shape[1]
    positions = math.isqrt(graphs * cells) + 1  # Σ n ≤ √(B Σ n²): there are no more
    return products((N, N, N), (a, left), (b, right), (out, MATRIX), slot_ptr, block_ptr, positions)
