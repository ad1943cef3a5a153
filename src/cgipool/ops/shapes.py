"""Empty tensors of the shapes that operations give, for tracing. Every tensor may have an axis of splits in front."""

import torch
from torch import Tensor


def like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of x's shape."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def sized(x: Tensor, *shape: int) -> Tensor:
    """A tensor with the split axis of x [C, F], if it has one, and this shape."""
    return x.new_empty(*x.shape[:-2], *shape)


def graphs_in(slot_ptr: Tensor) -> int:
    """How many graphs begin at slot_ptr [B + 1]."""
    return slot_ptr.shape[-1] - 1
