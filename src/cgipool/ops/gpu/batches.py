"""The neighbour lists of a batch, copied out of the data set.

Shapes: S splits, C positions, E neighbour entries.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import tiles


@triton.jit(do_not_specialize=["C", "E"])
def _neighbors(node, row_ptr, edge_ptr, displacement, out, C, E, ROWS: tl.constexpr, WIDE: tl.constexpr):
    """Neighbour j of position p, which is a node of the data set: p plus that node's j-th displacement."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < C
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    edge = tl.load(edge_ptr + tl.load(node + split * C + row, mask=here, other=0), mask=here, other=0)
    for first in range(0, tl.max(count), WIDE):
        j = first + tl.arange(0, WIDE)
        more = j[None, :] < count[:, None]
        value = row[:, None] + tl.load(displacement + edge[:, None] + j[None, :], mask=more, other=0)
        tl.store(out + split * E + start[:, None] + j[None, :], value, mask=more)


def neighbors(node: Tensor, row_ptr: Tensor, edge_ptr: Tensor, displacement: Tensor, entries: int) -> Tensor:
    """[S, E] the neighbours of each position, as positions; zeros behind the last one."""
    splits, positions = node.shape
    out = torch.zeros(splits, entries, dtype=torch.int32, device=node.device)
    _neighbors[(tiles(positions, 32), splits)](
        node, row_ptr, edge_ptr, displacement, out, positions, entries, ROWS=32, WIDE=8, num_warps=4
    )
    return out
