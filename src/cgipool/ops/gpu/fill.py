"""Filling what is behind the last graph, the work being shared among programs."""

import triton
import triton.language as tl


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
