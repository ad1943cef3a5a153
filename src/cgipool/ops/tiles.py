"""The adjacency of near-dense graphs as bits: the neighbour sum is a product of small dense matrices.

Shapes: C positions, F features, W words. Bit i of bits[p, w] says whether p has an edge to the position 32 w + i of its
graph. The kernels here serve tests and small work on a CPU, where lists of neighbours are as fast; the Triton versions
are what this form is for.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

WORD = 32
"""Bits in a word."""


def words_for(nodes: int) -> int:
    """How many words a row over so many nodes takes."""
    return -(-nodes // WORD)


def adjacency_bits(node_ptr: np.ndarray, edge_ptr: np.ndarray, displacement: np.ndarray, words: int) -> np.ndarray:
    """[N, W] int32: the bits of every node of a data set, from its edges as `GraphSet` holds them."""
    bits = np.zeros((len(edge_ptr) - 1, words), np.uint32)
    if words == 0:
        return bits.view(np.int32)
    source = np.repeat(np.arange(len(edge_ptr) - 1), np.diff(edge_ptr))
    first = np.repeat(node_ptr[:-1], np.diff(node_ptr))
    target = source + displacement - first[source]
    # An edge stands once, so that adding its bit sets it; adding up is much faster than `bitwise_or.at`.
    place, bit = source * words + target // WORD, np.left_shift(1, target % WORD, dtype=np.int64)
    bits += np.bincount(place, weights=bit, minlength=bits.size).reshape(bits.shape).astype(np.uint32)
    return bits.view(np.int32)


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
