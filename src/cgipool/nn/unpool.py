"""The way back from a coarsened graph, as the decoder of a graph U-Net takes it."""

from collections.abc import Sequence

from torch import Tensor

from cgipool.errors import UserError


def unpool(x_coarse: Tensor, perm: Tensor | Sequence[Tensor], num_nodes: int) -> Tensor:
    """[N, F] the features of the kept nodes at the nodes they were, zeros elsewhere.

    `perm` is what a layer gave; for several layers one behind the other, what each of them gave, the first one first.
    `num_nodes` is how many nodes the (first) layer was given.
    """
    first, *later = [perm] if isinstance(perm, Tensor) else perm
    for kept in later:
        first = first[kept]
    if len(first) != len(x_coarse):
        raise UserError(f"unpool: perm names {len(first)} nodes, but there are features of {len(x_coarse)}")
    return x_coarse.new_zeros(num_nodes, *x_coarse.shape[1:]).index_copy(0, first, x_coarse)
