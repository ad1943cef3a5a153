"""Operations on each row by itself, and segmented sums, the building blocks of most operations on a CPU."""

import importlib
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgipool.ops.draws import mix


@cache
def loops() -> Any:
    """The compiled loops. Numba is imported when the first one is called: a training on a GPU needs none."""
    return importlib.import_module("cgipool.ops.cpu.loops")


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors as arrays over the same memory, or over a copy where they are not contiguous."""
    return [(t.detach() if t.requires_grad else t).contiguous().numpy() for t in tensors]


def like(x: Tensor) -> Tensor:
    """A contiguous tensor of x's shape."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def bags(x: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """Row b is the (weighted) sum of x[index[ptr[b]:ptr[b+1]]]."""
    used = int(ptr[-1])  # what follows is padding
    if used == 0:
        return x.new_zeros(len(ptr) - 1, x.shape[1])
    if used < len(index):
        index, weight = index[:used], weight if weight is None else weight[:used]
    return torch.embedding_bag(x, index, ptr, False, 0, False, weight, True)[0]


def rectify_grad(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU with this result, and its sum over positions, which is that of a bias; [C, F] → [C, F]
    and [F]."""
    before, total = like(out), out.new_empty(out.shape[1])
    loops().relu_grad(*arrays(grad, out, before, total))
    return before, total


def column_sums(x: Tensor) -> Tensor:
    """[F] the sum over all positions."""
    return x.sum(0)


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """Each row times its gate: [C, F] and [C] → [C, F]."""
    return x * gate.unsqueeze(1)


def gated_grad(grad: Tensor, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `gated` by x and gate."""
    return grad * gate.unsqueeze(1), (grad * x).sum(1)


FEW = 4
"""Number of columns up to which a loop over the rows is faster than a matrix product."""


def project(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for few rows of W: [C, F] and [M, F] → [C, M]."""
    if len(weight) > FEW:
        return x @ weight.T
    out = x.new_empty(len(x), len(weight))
    loops().project(*arrays(x, weight, out))
    return out


def project_grad(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `project` by x and weight."""
    if len(weight) > FEW:
        return grad @ weight, grad.T @ x
    by_x, by_weight = like(x), like(weight)
    loops().project_grad(*arrays(grad, x, weight, by_x, by_weight))
    return by_x, by_weight


def draws(index: Tensor, key: Tensor, site: int) -> Tensor:
    """Numbers in [0, 1) for every entry of index [N], drawn with a key [] at a site; see ops/draws.py."""
    out = torch.empty(len(index))
    loops().draws(*arrays(index), np.uint32(int(key) & 0xFFFFFFFF), np.uint32(mix(site + 1)), *arrays(out))
    return out
