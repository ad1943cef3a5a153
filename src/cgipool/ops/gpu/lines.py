"""What kernels on the lines of each graph's matrix share: where the line of a position lies, and filling
what is behind the last graph.

Shapes: C positions, B graphs, D cells. A program handles some consecutive positions, which may be of several graphs.
"""

import triton
import triton.language as tl


@triton.jit
def line(row, graph, slot_ptr, block_ptr, split, C, B):
    """Of positions of a split: whether each is of a graph, that graph's first position, its size and its first cell."""
    here = row < tl.load(slot_ptr + split * (B + 1) + B)
    at = split * (B + 1) + tl.load(graph + split * C + row, mask=here, other=0)
    first = tl.load(slot_ptr + at, mask=here, other=0)
    n = tl.load(slot_ptr + at + 1, mask=here, other=0) - first
    return here, first, n, tl.load(block_ptr + at, mask=here, other=0)


@triton.jit
def fill(out, value, first, last, share, shares, SIZE: tl.constexpr):
    """Write a value from first to last; so many programs share the work, and this is one share of it."""
    for start in range(first + share * SIZE, last, shares * SIZE):
        at = start + tl.arange(0, SIZE)
        tl.store(out + at, tl.zeros((SIZE,), out.dtype.element_ty) + value, mask=at < last)


@triton.jit
def fill_rows(out, value, first, last, col, F, share, shares, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Write a row of F numbers, of which value are the columns col, to all positions from first to last; so many
    programs share the work, and this is one share of it."""
    for start in range(first + share * ROWS, last, shares * ROWS):
        row = start + tl.arange(0, ROWS)
        rows = tl.zeros((ROWS, COLS), out.dtype.element_ty) + value[None, :]
        tl.store(out + row[:, None] * F + col[None, :], rows, mask=(row < last)[:, None] & (col < F)[None, :])
