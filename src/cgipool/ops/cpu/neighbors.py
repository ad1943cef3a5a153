"""Operations on nodes and their neighbours, given as lists or as bits."""

from itertools import pairwise

import torch
from torch import Tensor

from cgipool.ops.bits import WORD
from cgipool.ops.cpu.rows import bags


def propagate(x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """S (A + self_weight · I) S x with S = diag(scale); x is [C, F], scale [C], or [0] for S = I (on a CPU).

    The matrix is symmetric, so the gradient by x is the same product.
    """
    scaled = x * scale.unsqueeze(1) if len(scale) else x.contiguous()
    out = bags(scaled, neighbor, row_ptr)
    if self_weight:
        out.add_(scaled, alpha=self_weight)
    return out.mul_(scale.unsqueeze(1)) if len(scale) else out


def weighted_propagate(
    x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, weight: Tensor, back: Tensor
) -> Tensor:
    """`propagate` with a weight [E] for each entry; back [E] are the weights of the reverse entries, with which the
    gradient is the same product."""
    scaled = x * scale.unsqueeze(1)
    out = bags(scaled, neighbor, row_ptr, weight)
    if self_weight:
        out.add_(scaled, alpha=self_weight)
    return out.mul_(scale.unsqueeze(1))


def convolve(
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, relu: bool
) -> Tensor:
    """`propagate` of x, plus bias [F], followed by a ReLU if `relu`."""
    out = propagate(x, scale, self_weight, row_ptr, neighbor).add_(bias)
    return out.relu_() if relu else out


def degree(alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """The number of living neighbours of each position, [C]."""
    return bags(alive.unsqueeze(1), neighbor, row_ptr).squeeze(1)


def neighbor_max(x: Tensor, alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum over each node and its living neighbours, and where it is attained (the node itself if it may be);
    twice [C, F]. A dead position has 0, attained nowhere: −1."""
    dead = (alive == 0).unsqueeze(1)
    own = torch.arange(len(x), device=x.device).unsqueeze(1).masked_fill(dead, -1).expand_as(x)
    living, used = x.masked_fill(dead, -torch.inf), int(row_ptr[-1])
    if used == 0:
        return x.masked_fill(dead, 0.0), own.contiguous()
    top, _, _, where = torch.embedding_bag(living, neighbor[:used], row_ptr, False, 2, False, None, True)
    mine = (living >= top) | (row_ptr[1:] == row_ptr[:-1]).unsqueeze(1) | dead
    return torch.where(mine, living, top).masked_fill_(dead, 0.0), torch.where(mine, own, where.to(own.dtype))


def neighbor_max_grad(grad: Tensor, where: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """Gradient of `neighbor_max` by x: each entry goes to where the maximum was attained, if at all."""
    return torch.zeros_like(grad).scatter_add_(0, where.clamp(min=0), grad.masked_fill(where < 0, 0.0))


def lookup(weight: Tensor, category: Tensor) -> Tensor:
    """A one-hot (or several-hot) matrix times weight [V, F], without the matrix: category [C, K] → [C, F]."""
    return torch.nn.functional.embedding_bag(category, weight, mode="sum")


def lookup_grad(grad: Tensor, category: Tensor, rows: int) -> Tensor:
    """Gradient of `lookup` by its weight, [V, F]."""
    flat = grad.unsqueeze(1).expand(-1, category.shape[1], -1).reshape(-1, grad.shape[1])
    return torch.ops.aten.embedding_dense_backward(flat, category.reshape(-1), rows, -1, False)


def pick(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """Rows by number, 0 for the number −1: out[q] = x[index[q]]. No row is picked twice: back [C] says which q picked
    it, or −1, so that the gradient is the same operation with index and back exchanged."""
    return x.index_select(0, index.clamp(min=0)).masked_fill_((index < 0).unsqueeze(1), 0.0)


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
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, bits: Tensor, slot_ptr: Tensor, relu: bool
) -> Tensor:
    """`tile_propagate` of x, plus bias, followed by a ReLU if `relu`."""
    out = tile_propagate(x, scale, self_weight, bits, slot_ptr) + bias
    return torch.relu(out) if relu else out


def tile_induce(bits: Tensor, index: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """[rows, W] the bits among the positions index [rows] that were kept (−1: an empty place), whose graphs began at
    `before` [B + 1] and now begin at `after`."""
    out = torch.zeros(len(index), bits.shape[1], dtype=torch.int64, device=bits.device)
    starts, ends = before.tolist(), after.tolist()
    for b, matrix in enumerate(_matrices(bits, before)):
        kept = index[ends[b] : ends[b + 1]] - starts[b]
        chosen = torch.nn.functional.pad(matrix[kept][:, kept], (0, bits.shape[1] * WORD - len(kept)))
        weight = torch.ones(WORD, dtype=torch.int64, device=bits.device) << torch.arange(WORD, device=bits.device)
        out[ends[b] : ends[b + 1]] = (chosen.unflatten(1, (-1, WORD)).long() * weight).sum(2)
    return torch.where(out >= 2**31, out - 2**32, out).int()
