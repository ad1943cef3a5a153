"""Neighbour sums of near-dense graphs, whose adjacency comes as bits (see ops/bits.py).

Shapes: C positions, F features, W words. The kernels here serve tests and small work on a CPU, where lists of
neighbours are as fast; the Triton versions are what this form is for.
"""

from itertools import pairwise

import torch
from torch import Tensor

from cgipool.ops.bits import WORD


def _matrices(bits: Tensor, slot_ptr: Tensor) -> list[Tensor]:
    """The adjacency of each graph."""
    spread = (bits.unsqueeze(2) >> torch.arange(WORD, device=bits.device)) & 1
    rows = spread.flatten(1)
    ends = slot_ptr.tolist()
    return [rows[a:z, : z - a] for a, z in pairwise(ends)]


def tile_propagate(x: Tensor, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor) -> Tensor:
    """S (A + self_weight · I) S x with S = diag(scale); 0 in the padding."""
    scaled, out = x * scale.unsqueeze(1), torch.zeros_like(x)
    first = 0
    for matrix in _matrices(bits, slot_ptr):
        part = slice(first, first + len(matrix))
        out[part] = matrix.to(x.dtype) @ scaled[part] + self_weight * scaled[part]
        first += len(matrix)
    return out * scale.unsqueeze(1)


def tile_convolve(
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor, rectify: bool
) -> Tensor:
    """`tile_propagate` of x, plus bias, and, if asked for, what is positive of that."""
    out = tile_propagate(x, scale, self_weight, bits, slot_ptr) + bias
    return torch.relu(out) if rectify else out


def tile_induce(bits: Tensor, index: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """[rows, W] the bits among the positions index [rows] that were kept (−1: an empty place), whose graphs began at
    `before` [B + 1] and begin at `after` now."""
    out = torch.zeros(len(index), bits.shape[1], dtype=torch.int64, device=bits.device)
    starts, ends = before.tolist(), after.tolist()
    for b, matrix in enumerate(_matrices(bits, before)):
        kept = index[ends[b] : ends[b + 1]] - starts[b]
        chosen = torch.nn.functional.pad(matrix[kept][:, kept], (0, bits.shape[1] * WORD - len(kept)))
        weight = torch.ones(WORD, dtype=torch.int64, device=bits.device) << torch.arange(WORD, device=bits.device)
        out[ends[b] : ends[b + 1]] = (chosen.unflatten(1, (-1, WORD)).long() * weight).sum(2)
    return torch.where(out >= 2**31, out - 2**32, out).int()
