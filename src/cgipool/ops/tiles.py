"""Operations on near-dense graphs, whose adjacency comes as bits (see ops/bits.py): kernels, shapes, derivatives.

The neighbour sum is a product of small dense matrices.
"""

from typing import Any

from torch import Tensor

from cgipool.ops.cpu import tiles as cpu
from cgipool.ops.graph_op import GraphOp
from cgipool.ops.rows import column_sums, rectify_grad
from cgipool.ops.shapes import like


def _tile_propagate_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, scale, ctx.self_weight, *where = inputs
    ctx.save_for_backward(scale, *where)


def _tile_propagate_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, *where = ctx.saved_tensors
    return tile_propagate(grad, scale, ctx.self_weight, *where), None, None, None, None


tile_propagate = GraphOp(
    cpu.tile_propagate,
    2,
    lambda x, scale, self_weight, bits, slot_ptr: like(x),
    _tile_propagate_grad,
    _tile_propagate_save,
    gpu="tiles.tile_propagate",
)


def _tile_convolve_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, _, scale, ctx.self_weight, bits, slot_ptr, ctx.rectify = inputs
    ctx.save_for_backward(scale, bits, slot_ptr, *([output] if ctx.rectify else []))


def _tile_convolve_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, bits, slot_ptr, *out = ctx.saved_tensors
    grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
    return tile_propagate(grad, scale, ctx.self_weight, bits, slot_ptr), by_bias, None, None, None, None, None


tile_convolve = GraphOp(
    cpu.tile_convolve,
    2,
    lambda x, bias, scale, self_weight, bits, slot_ptr, rectify: like(x),
    _tile_convolve_grad,
    _tile_convolve_save,
    gpu="tiles.tile_convolve",
)
tile_induce = GraphOp(
    cpu.tile_induce,
    2,
    lambda bits, index, before, after: bits.new_empty(*bits.shape[:-2], index.shape[-1], bits.shape[-1]),
    gpu="tiles.tile_induce",
)
