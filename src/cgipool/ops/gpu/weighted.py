"""`sums`, `spread` and `dots`: one column after another where they are few, a matrix product per graph where many."""

from torch import Tensor

from cgipool.ops.gpu import graphs, matrices

WIDE = 9
"""Number of columns from which a tile of the matrix units (16 wide) is filled well enough."""


def sums(x: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Weighted sums over each graph."""
    return graphs.sums(x, weight, slot_ptr) if weight.shape[2] < WIDE else matrices.sums(x, weight, slot_ptr)


def spread(value: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each graph's vectors to its nodes."""
    if weight.shape[2] < WIDE:
        return graphs.spread(value, weight, graph, slot_ptr)
    return matrices.spread(value, weight, slot_ptr)


def dots(x: Tensor, value: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each node against its graph's vectors."""
    if value.shape[2] < WIDE:
        return graphs.dots(x, value, graph, slot_ptr)
    return matrices.dots(x, value, slot_ptr)
