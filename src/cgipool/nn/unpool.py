"""Undo pooling, as in the decoder of a graph U-Net."""

from collections.abc import Sequence

from torch import Tensor

from cgipool.errors import UserError


def unpool(x_coarse: Tensor, perm: Tensor | Sequence[Tensor], num_nodes: int) -> Tensor:
    """Return [N, F]: the features of the kept nodes at their original nodes, zeros elsewhere.

    `perm` is the `perm` of a layer; for several layers in a row, a list with the `perm` of each, in order.
    `num_nodes` is the number of input nodes of the (first) layer.
    """
    first, *later = [perm] if isinstance(perm, Tensor) else perm
    for kept in later:
        first = first[kept]
    if len(first) != len(x_coarse):
        raise UserError(f"unpool: perm names {len(first)} nodes, but there are features of {len(x_coarse)}")
    return x_coarse.new_zeros(num_nodes, *x_coarse.shape[1:]).index_copy(0, first, x_coarse)
