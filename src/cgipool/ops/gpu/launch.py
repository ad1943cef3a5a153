"""What the kernels' launches share."""

import torch
import triton
import triton.language as tl
from torch import Tensor


def power(n: int, least: int = 1, most: int = 1024) -> int:
    """The power of two from n on, within bounds: Triton's tiles have such sides."""
    return max(least, min(most, triton.next_power_of_2(max(n, 1))))


def tiles(n: int, size: int) -> int:
    """How many tiles of a size cover n."""
    return triton.cdiv(n, size)


def dense(*tensors: Tensor) -> list[Tensor]:
    """Contiguous tensors, as the kernels compute addresses by hand."""
    return [t.contiguous() for t in tensors]


def rows_dense(*tensors: Tensor) -> list[Tensor]:
    """Tensors whose rows are contiguous; one row that stands for all splits need not be copied."""
    return [t if t.stride(-1) == 1 else t.contiguous() for t in tensors]


def precision(x: Tensor) -> str:
    """How matrix units read float32: as torch's own matrix products do."""
    return "tf32" if x.is_cuda and torch.backends.cuda.matmul.allow_tf32 else "ieee"


@triton.jit
def fill(out, value, first, last, share, shares, SIZE: tl.constexpr):
    """Write a value from first to last; this program handles one of `shares` shares."""
    for start in range(first + share * SIZE, last, shares * SIZE):
        at = start + tl.arange(0, SIZE)
        tl.store(out + at, tl.zeros((SIZE,), out.dtype.element_ty) + value, mask=at < last)


@triton.jit
def fill_rows(out, value, first, last, col, F, share, shares, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Write a row of F numbers, whose columns col are `value`, to all positions from first to last; this program
    handles one of `shares` shares."""
    for start in range(first + share * ROWS, last, shares * ROWS):
        row = start + tl.arange(0, ROWS)
        rows = tl.zeros((ROWS, COLS), out.dtype.element_ty) + value[None, :]
        tl.store(out + row[:, None] * F + col[None, :], rows, mask=(row < last)[:, None] & (col < F)[None, :])
