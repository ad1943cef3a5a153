"""Operations on near-dense graphs, whose adjacency comes as bits (see ops/bits.py): kernels, shapes, derivatives.

The neighbour sum is a product of small dense matrices.
"""

from cgipool.ops.convolutions import convolution, propagation
from cgipool.ops.cpu import tiles as cpu
from cgipool.ops.graph_op import GraphOp

tile_propagate = propagation(cpu.tile_propagate, "tiles.tile_propagate")
tile_convolve = convolution(cpu.tile_convolve, "tiles.tile_convolve", tile_propagate)
tile_induce = GraphOp(
    cpu.tile_induce,
    2,
    lambda bits, index, before, after: bits.new_empty(*bits.shape[:-2], index.shape[-1], bits.shape[-1]),
    gpu="tiles.tile_induce",
)
