"""Which tile of which graph a program handles, where every graph has a matrix with as many rows as nodes.

Shapes: S splits, B graphs, R tiles at most. How many tiles there are is known on the device alone, so more programs
start than are needed, and a table [S, R, 5] tells each one its part; finding it among the sizes would take every one of
them a chain of loads. Programs that are left have the table's last entries, of graph B, and write what is behind the
last graph.
"""

import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import power, tiles


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
