"""The handful of graph operations that every method is made of."""

from cgipool.ops.blocks import (
    block_adjacency,
    block_attention,
    block_convolve,
    block_max,
    block_mm,
    block_outer,
    block_product,
    block_scaled,
)
from cgipool.ops.edges import attend, gine
from cgipool.ops.graphs import dots, keep_top_k, order, readout, softmax, spread, sums
from cgipool.ops.neighbors import (
    convolve,
    degree,
    lookup,
    neighbor_max,
    pick,
    propagate,
    tile_convolve,
    tile_induce,
    tile_propagate,
    weighted_propagate,
)
from cgipool.ops.rows import draws, gated, project
from cgipool.ops.shrink import close_up, induce, pick_gated, sums_and_pick

__all__ = [
    "attend",
    "block_adjacency",
    "block_attention",
    "block_convolve",
    "block_max",
    "block_mm",
    "block_outer",
    "block_product",
    "block_scaled",
    "close_up",
    "convolve",
    "degree",
    "dots",
    "draws",
    "gated",
    "gine",
    "induce",
    "keep_top_k",
    "lookup",
    "neighbor_max",
    "order",
    "pick",
    "pick_gated",
    "project",
    "propagate",
    "readout",
    "softmax",
    "spread",
    "sums",
    "sums_and_pick",
    "tile_convolve",
    "tile_induce",
    "tile_propagate",
    "weighted_propagate",
]
