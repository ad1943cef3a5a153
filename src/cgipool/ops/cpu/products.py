"""Products of small matrices, a pair for each graph."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST = 2**18
"""Up to so many multiplications OpenBLAS, NumPy's usual library, stays in the calling thread. Beyond, its threads and
those of torch, which still spin for a while after their last task, fight for the cores."""


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b in the calling thread, in strips if need be."""
    height, depth = a.shape
    strip = max(1, LARGEST // max(1, height * depth))
    for first in range(0, b.shape[1], strip):
        np.matmul(a, b[:, first : first + strip], out=out[:, first : first + strip])


def common_size(slot_ptr: Tensor, positions: int) -> int:
    """The size of the graphs if it is the same for all and there is no padding, else 0."""
    size, rest = divmod(positions, len(slot_ptr) - 1)
    return size if rest == 0 and bool((torch.diff(slot_ptr) == size).all()) else 0


def by_graph(
    product: Callable[[Any, Any], tuple[Any, Any]],
    nodes: tuple[Tensor, ...],
    graphs: tuple[Tensor, ...],
    slot_ptr: Tensor,
    shape: int | tuple[int, int],
) -> Tensor:
    """A product of two matrices for each graph, of which each has a row per node of the graph or is the graph's own;
    `product` turns them as needed.

    The result has a row of `shape` per node, or is a matrix of that shape per graph. NumPy makes the small products:
    calling it takes a fraction of the time of calling torch.
    """
    count, positions, first = len(slot_ptr) - 1, len(nodes[0]), nodes[0]
    if size := common_size(slot_ptr, positions):
        out = torch.bmm(*product(*(t.view(count, size, -1) for t in nodes), *graphs))
        return out if isinstance(shape, tuple) else out.reshape(positions, shape)
    rows, own = [t.contiguous().numpy() for t in nodes], [t.contiguous().numpy() for t in graphs]
    dtype = rows[0].dtype
    result = np.zeros((count, *shape) if isinstance(shape, tuple) else (positions, shape), dtype)
    for b, (a, z) in enumerate(pairwise(slot_ptr.tolist())):
        if a < z:
            where = b if isinstance(shape, tuple) else slice(a, z)
            matmul(*product(*(r[a:z] for r in rows), *(o[b] for o in own)), result[where])
    return torch.from_numpy(result).to(first.device)
