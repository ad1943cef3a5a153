"""Operations on each row by itself, and segmented sums, the building blocks of most operations on a CPU."""

import torch
from torch import Tensor

from cgipool.ops.draws import mix


def bags(x: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """Row b is the (weighted) sum of x[index[ptr[b]:ptr[b+1]]]."""
    used = int(ptr[-1])  # what follows is padding
    if used == 0:
        return x.new_zeros(len(ptr) - 1, x.shape[1])
    if used < len(index):
        index, weight = index[:used], weight if weight is None else weight[:used]
    return torch.embedding_bag(x, index, ptr, False, 0, False, weight, True)[0]


def row_dots(x: Tensor, table: Tensor, row: Tensor, of: Tensor) -> Tensor:
    """x[of[i]] · table[row[i]] for every i."""
    # The aten name of embedding_bag's derivative by its weights, which is this product.
    product = torch.ops.aten._embedding_bag_per_sample_weights_backward
    return product(x.contiguous(), table.contiguous(), row, of[:0], of, 0)


def rectify_grad(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU with this result, and its sum over positions, which is that of a bias; [C, F] → [C, F]
    and [F]."""
    before = torch.ops.aten.threshold_backward(grad, out, 0)
    return before, before.sum(0)


def column_sums(x: Tensor) -> Tensor:
    """[F] the sum over all positions."""
    return x.sum(0)


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """Each row times its gate: [C, F] and [C] → [C, F]."""
    return x * gate.unsqueeze(1)


def gated_grad(grad: Tensor, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `gated` by x and gate."""
    return grad * gate.unsqueeze(1), (grad * x).sum(1)


def project(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for few rows of W: [C, F] and [M, F] → [C, M]."""
    return x @ weight.T


def project_grad(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `project` by x and weight."""
    return grad @ weight, grad.T @ x


def draws(index: Tensor, key: Tensor, site: int) -> Tensor:
    """Numbers in [0, 1) for every entry of index [N], drawn with a key [] at a site; see ops/draws.py."""
    # The hash of draws.py in 32 bits: the same numbers, in a third of the time. Shifts must not copy the sign.
    x = _mix32(index.int() ^ _signed(mix(site + 1)))
    x = _mix32(x ^ key.int())
    return ((x >> 8) & 0xFFFFFF).float().mul_(2.0**-24)


def _signed(x: int) -> int:
    """The 32-bit number with these bits."""
    return x - 2**32 if x >= 2**31 else x


def _mix32(x: Tensor) -> Tensor:
    """`mix` on int32, in place."""
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= _signed(0x846CA68B)
    x ^= (x >> 16) & 0xFFFF
    return x
