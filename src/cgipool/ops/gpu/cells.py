"""Kernels on the cells of each graph's matrix: the adjacency as a matrix, and maxima over the columns of a row.

Shapes: S splits, C positions, B graphs, E neighbour entries, F features, D cells.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, fill, power, rows_dense, tiles
from cgipool.ops.gpu.tiles import entry, tile_table


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _adjacency(
    alive, row_ptr, neighbor, weight, graph, slot_ptr, block_ptr, out, C, E, B, D, self_weight,
    WEIGHTED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Each living position writes 1, or the weights of its entries, into the cells of its living neighbours, and
    self_weight into its own."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    g = tl.load(graph + split * C + row, mask=here, other=0)
    first = tl.load(slot_ptr + split * (B + 1) + g, mask=here, other=0)
    n = tl.load(slot_ptr + split * (B + 1) + g + 1, mask=here, other=0) - first
    base = split * D + tl.load(block_ptr + split * (B + 1) + g, mask=here, other=0) + (row - first) * n - first
    own = tl.load(alive + split * C + row, mask=here, other=0.0)
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    for j in range(0, tl.max(count)):
        more = here & (j < count)
        q = tl.load(neighbor + split * E + start + j, mask=more, other=0)
        value = own * tl.load(alive + split * C + q, mask=more, other=0.0)
        if WEIGHTED:
            value *= tl.load(weight + split * E + start + j, mask=more, other=0.0)
        tl.store(out + base + q, value, mask=more)
    tl.store(out + base + row, own * self_weight, mask=here)


def block_adjacency(
    alive: Tensor,
    self_weight: float,
    row_ptr: Tensor,
    neighbor: Tensor,
    weight: Tensor,
    graph: Tensor,
    slot_ptr: Tensor,
    block_ptr: Tensor,
    cells: int,
) -> Tensor:
    """A + self_weight · I among the living nodes as matrices."""
    alive, row_ptr, neighbor, weight = dense(alive, row_ptr, neighbor, weight)
    graph, slot_ptr, block_ptr = dense(graph, slot_ptr, block_ptr)
    (splits, positions), entries, graphs = alive.shape, neighbor.shape[1], slot_ptr.shape[1] - 1
    out = alive.new_zeros(splits, cells)
    _adjacency[(tiles(positions, 64), splits)](
        alive, row_ptr, neighbor, weight, graph, slot_ptr, block_ptr, out, positions, entries, graphs, cells,
        self_weight, WEIGHTED=weight.shape[1] > 0, ROWS=64, num_warps=2,
    )  # fmt: skip
    return out


ROWS, COLS, STEP = 16, 32, 4
"""For the maximum: a program's rows, of one graph, and columns; how many candidates it reads at a time. A program is a
warp, and a thread has one column of all rows, so that a candidate is read once for all of them."""


@triton.jit(do_not_specialize=["C", "B", "D", "R"])
def _max(
    weight, x, table, top, where, C, B, D, R, F, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr
):  # fmt: skip
    """The maximum over the columns j with positive weight, one after another, and the first that attains it."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, cell = entry(table, R)
    top += split * C * F
    where += split * C * F
    if g == B:  # behind the last graph
        share, shares = tile * tl.num_programs(2) + tl.program_id(2), n * tl.num_programs(2)
        fill(top, 0.0, first * F, C * F, share, shares, ROWS * COLS)
        fill(where, -1, first * F, C * F, share, shares, ROWS * COLS)
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    weight += split * D + cell
    x += (split * C + first) * F
    best = tl.full((ROWS, COLS), float("-inf"), top.dtype.element_ty)
    at = tl.full((ROWS, COLS), -1, tl.int32)
    lane = tl.arange(0, 32)
    for start in range(0, n, 32):
        inside = (row < n)[:, None] & (start + lane < n)[None, :]
        linked = tl.load(weight + row[:, None] * n + (start + lane)[None, :], mask=inside, other=0.0) > 0
        word = tl.sum(linked.to(tl.int32) << lane[None, :], 1)  # a bit for each of 32 columns
        for j in range(start, tl.minimum(start + 32, n), STEP):
            for step in tl.static_range(STEP):
                # Behind the last column there are no bits, and the last is read in place of what is there.
                value = tl.load(x + tl.minimum(j + step, n - 1) * F + col, mask=col < F, other=0.0)
                bit = (word >> (j + step - start)) & 1
                better = (bit[:, None] > 0) & (value[None, :] > best)
                best = tl.where(better, value[None, :], best)
                at = tl.where(better, j + step, at)
    place, mask = (first + row)[:, None] * F + col[None, :], (row < n)[:, None] & (col < F)[None, :]
    tl.store(top + place, tl.where(at < 0, 0.0, best), mask=mask)
    tl.store(where + place, tl.where(at < 0, -1, first + at), mask=mask)


def block_max(weight: Tensor, x: Tensor, graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of x over the columns with positive weight, and where it is attained."""
    (weight, x), (slot_ptr, block_ptr) = dense(weight, x), rows_dense(slot_ptr, block_ptr)
    splits, positions, features = x.shape
    top, where = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
    table = tile_table(slot_ptr, block_ptr, positions, weight.shape[1], ROWS)
    cols, graphs, strips = power(features, most=COLS), slot_ptr.shape[1] - 1, table.shape[1]
    _max[(strips, splits, tiles(features, cols))](
        weight, x, table, top, where, positions, graphs, weight.shape[1], strips, features,
        ROWS=ROWS, COLS=cols, STEP=STEP, num_warps=1,
    )  # fmt: skip
    return top, where


@triton.jit(do_not_specialize=["C", "B", "R"])
def _max_grad(
    grad, where, table, out, C, B, R, F, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr
):  # fmt: skip
    """out[q] = Σ over the positions p of its graph of grad[p] where the maximum of p is attained at q."""
    split = tl.program_id(1).to(tl.int64)
    g, tile, first, n, _ = entry(table, R)
    out += split * C * F
    if g == B:  # behind the last graph
        share, shares = tile * tl.num_programs(2) + tl.program_id(2), n * tl.num_programs(2)
        fill(out, 0.0, first * F, C * F, share, shares, ROWS * COLS)
        return
    row = tile * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    where += (split * C + first) * F
    grad += (split * C + first) * F
    total = tl.zeros((ROWS, COLS), out.dtype.element_ty)
    for start in range(0, n, STEP):
        for step in tl.static_range(STEP):
            p = start + step
            mask = col < tl.where(p < n, F, 0)
            taken = (tl.load(where + p * F + col, mask=mask, other=-1) - first).to(tl.int32)
            value = tl.load(grad + p * F + col, mask=mask, other=0.0)
            total += tl.where(taken[None, :] == row[:, None], value[None, :], 0.0)
    place = (first + row)[:, None] * F + col[None, :]
    tl.store(out + place, total, mask=(row < n)[:, None] & (col < F)[None, :])


def block_max_grad(grad: Tensor, where: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Gradient of `block_max` by x."""
    (grad, where), (slot_ptr,) = dense(grad, where), rows_dense(slot_ptr)
    (splits, positions, features), out = grad.shape, torch.empty_like(grad)
    table = tile_table(slot_ptr, slot_ptr, positions, 0, ROWS)
    cols, graphs, strips = power(features, most=COLS), slot_ptr.shape[1] - 1, table.shape[1]
    _max_grad[(strips, splits, tiles(features, cols))](
        grad, where, table, out, positions, graphs, strips, features,
        ROWS=ROWS, COLS=cols, STEP=STEP, num_warps=1,
    )  # fmt: skip
    return out
