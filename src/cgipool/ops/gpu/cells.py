"""Kernels on the cells of each graph's matrix: the adjacency as a matrix, and maxima over the columns of a row.

Shapes: S splits, C positions, B graphs, E neighbour entries, F features, D cells.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import dense, power, tiles


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _adjacency(
    alive, row_ptr, neighbor, graph, slot_ptr, block_ptr, out, C, E, B, D, self_weight, ROWS: tl.constexpr
):  # fmt: skip
    """Each living position writes 1 into the cells of its living neighbours, and self_weight into its own."""
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
        tl.store(out + base + q, own * tl.load(alive + split * C + q, mask=more, other=0.0), mask=more)
    tl.store(out + base + row, own * self_weight, mask=here)


def block_adjacency(
    alive: Tensor,
    self_weight: float,
    row_ptr: Tensor,
    neighbor: Tensor,
    graph: Tensor,
    slot_ptr: Tensor,
    block_ptr: Tensor,
    cells: int,
) -> Tensor:
    """A + self_weight · I among the living nodes as matrices."""
    alive, row_ptr, neighbor, graph, slot_ptr, block_ptr = dense(alive, row_ptr, neighbor, graph, slot_ptr, block_ptr)
    (splits, positions), entries, graphs = alive.shape, neighbor.shape[1], slot_ptr.shape[1] - 1
    out = alive.new_zeros(splits, cells)
    _adjacency[(tiles(positions, 64), splits)](
        alive, row_ptr, neighbor, graph, slot_ptr, block_ptr, out, positions, entries, graphs, cells, self_weight,
        ROWS=64, num_warps=2,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _max(
    weight, x, graph, slot_ptr, block_ptr, top, where, C, B, F, D, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """The maximum over the columns with positive weight, one column after another, and the first that attains it."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    g = tl.load(graph + split * C + row, mask=here, other=0)
    first = tl.load(slot_ptr + split * (B + 1) + g, mask=here, other=0)
    n = tl.load(slot_ptr + split * (B + 1) + g + 1, mask=here, other=0) - first
    base = split * D + tl.load(block_ptr + split * (B + 1) + g, mask=here, other=0) + (row - first) * n
    best = tl.full((ROWS, COLS), float("-inf"), top.dtype.element_ty)
    at = tl.full((ROWS, COLS), -1, tl.int64)
    for j in range(0, tl.max(n)):
        more = here & (j < n)
        linked = tl.load(weight + base + j, mask=more, other=0.0) > 0
        q = split * C + first + j
        value = tl.load(x + q[:, None] * F + col[None, :], mask=linked[:, None] & wide[None, :], other=float("-inf"))
        better = value > best
        best = tl.where(better, value, best)
        at = tl.where(better, (first + j)[:, None].to(tl.int64), at)
    place = (split * C + row)[:, None] * F + col[None, :]
    both = (row < C)[:, None] & wide[None, :]
    tl.store(top + place, tl.where(at < 0, 0.0, best), mask=both)
    tl.store(where + place, at, mask=both)


def block_max(weight: Tensor, x: Tensor, graph: Tensor, slot_ptr: Tensor, block_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of x over the columns with positive weight, and where it is attained."""
    weight, x, graph, slot_ptr, block_ptr = dense(weight, x, graph, slot_ptr, block_ptr)
    (splits, positions, features), graphs = x.shape, slot_ptr.shape[1] - 1
    top, where = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
    cols = power(features, most=128)
    rows = max(1, min(64, 1024 // cols))
    _max[(tiles(positions, rows), splits, tiles(features, cols))](
        weight, x, graph, slot_ptr, block_ptr, top, where, positions, graphs, features, weight.shape[1],
        ROWS=rows, COLS=cols, num_warps=4,
    )  # fmt: skip
    return top, where


@triton.jit(do_not_specialize=["C", "E", "B", "D", "R", "Q"])
def _max_grad(grad, where, graph, slot_ptr, out, C, B, F, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[q] = Σ over the positions p of its graph of grad[p] where the maximum of p is attained at q."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(2) * COLS + tl.arange(0, COLS)
    wide = col < F
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    g = tl.load(graph + split * C + row, mask=here, other=0)
    first = tl.load(slot_ptr + split * (B + 1) + g, mask=here, other=0)
    n = tl.load(slot_ptr + split * (B + 1) + g + 1, mask=here, other=0) - first
    total = tl.zeros((ROWS, COLS), out.dtype.element_ty)
    for j in range(0, tl.max(n)):
        mask = (here & (j < n))[:, None] & wide[None, :]
        place = (split * C + first + j)[:, None] * F + col[None, :]
        taken = tl.load(where + place, mask=mask, other=-1) == row[:, None]
        total += tl.where(taken, tl.load(grad + place, mask=mask, other=0.0), 0.0)
    tl.store(out + (split * C + row)[:, None] * F + col[None, :], total, mask=(row < C)[:, None] & wide[None, :])


def block_max_grad(grad: Tensor, where: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Gradient of `block_max` by x."""
    grad, where, graph, slot_ptr = dense(grad, where, graph, slot_ptr)
    (splits, positions, features), graphs = grad.shape, slot_ptr.shape[1] - 1
    out, cols = torch.empty_like(grad), power(features, most=128)
    rows = max(1, min(64, 1024 // cols))
    _max_grad[(tiles(positions, rows), splits, tiles(features, cols))](
        grad, where, graph, slot_ptr, out, positions, graphs, features, ROWS=rows, COLS=cols, num_warps=4
    )
    return out
