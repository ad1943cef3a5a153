"""Segmented sums: what most operations on a CPU are made of.

`embedding_bag` is the fast segmented sum on a CPU (docs/explanation/performance.md has it
against gather and scatter), and each of its bags is summed by one thread, so results do not depend on scheduling.
"""

import torch
from torch import Tensor


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
    # The aten name of embedding_bag's derivative by its weights, which is this very product.
    product = torch.ops.aten._embedding_bag_per_sample_weights_backward
    return product(x.contiguous(), table.contiguous(), row, of[:0], of, 0)
