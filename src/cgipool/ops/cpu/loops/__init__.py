"""Loops over nodes and edges, compiled by Numba when they are first called and kept in its cache.

Each takes NumPy arrays and fills those at the end of its arguments. Shapes and the layout of a batch: see
`cgipool.ops.cpu`. A loop works on one row of features after another, so that what it has just written is still in the
cache when it is read again. Arrays whose shapes do not fit raise ValueError, as a loop would read or write outside of
them otherwise.
"""

from cgipool.ops.cpu.loops.edges import convolve, gine, gine_grad, induce, lookup, lookup_grad
from cgipool.ops.cpu.loops.nodes import (
    close_up,
    dots,
    draws,
    keep_top_k,
    pick,
    pick_gated_grad,
    project,
    project_grad,
    readout,
    readout_grad,
    relu_grad,
    spread,
    sums_and_pick,
    sums_and_pick_grad,
)

__all__ = [
    "close_up",
    "convolve",
    "dots",
    "draws",
    "gine",
    "gine_grad",
    "induce",
    "keep_top_k",
    "lookup",
    "lookup_grad",
    "pick",
    "pick_gated_grad",
    "project",
    "project_grad",
    "readout",
    "readout_grad",
    "relu_grad",
    "spread",
    "sums_and_pick",
    "sums_and_pick_grad",
]
