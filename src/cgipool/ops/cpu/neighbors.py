"""Operations on nodes and their neighbours, given as lists or as bits."""

from itertools import pairwise

import torch
from torch import Tensor

from cgipool.ops.bits import WORD
from cgipool.ops.cpu.rows import arrays, like, loops


def propagate(x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """S (A + self_weight · I) S x with S = diag(scale); x is [C, F], scale [C], or [0] for S = I (on a CPU).

    The matrix is symmetric, so the gradient by x is the same product.
    """
    return _convolved(x, scale, self_weight, row_ptr, neighbor)


def weighted_propagate(
    x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, weight: Tensor, back: Tensor
) -> Tensor:
    """`propagate` with a weight [E] for each entry; back [E] are the weights of the reverse entries, with which the
    gradient is the same product."""
    return _convolved(x, scale, self_weight, row_ptr, neighbor, weight=weight)


def convolve(
    x: Tensor, bias: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor, relu: bool
) -> Tensor:
    """`propagate` of x, plus bias [F], followed by a ReLU if `relu`."""
    return _convolved(x, scale, self_weight, row_ptr, neighbor, bias=bias, relu=relu)


def _convolved(
    x: Tensor,
    scale: Tensor,
    own: float,
    row_ptr: Tensor,
    neighbor: Tensor,
    *,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    out = like(x)
    given, scales, made = arrays(x, scale, out)
    weights, biases = (given[:0, 0] if each is None else arrays(each)[0] for each in (weight, bias))
    own = given.dtype.type(own)
    loops().convolve(given, scales, own, *arrays(row_ptr, neighbor), weights, biases, relu, made)
    return out


def degree(alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """The number of living neighbours of each position, [C]."""
    return _convolved(alive.unsqueeze(1), alive[:0], 0.0, row_ptr, neighbor).squeeze(1)


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
    out = weight.new_empty(len(category), weight.shape[1])
    loops().lookup(*arrays(weight, category, out))
    return out


def lookup_grad(grad: Tensor, category: Tensor, rows: int) -> Tensor:
    """Gradient of `lookup` by its weight, [V, F]."""
    out = grad.new_zeros(rows, grad.shape[1])
    loops().lookup_grad(*arrays(grad, category, out))
    return out


def pick(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """Rows by number, 0 for the number −1: out[q] = x[index[q]]. No row is picked twice: back [C] says which q picked
    it, or −1, so that the gradient is the same operation with index and back exchanged."""
    out = x.new_empty(len(index), x.shape[1])
    given, places, made = arrays(x, index, out)
    loops().pick(given, given[:0, 0], places, made)
    return out


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
