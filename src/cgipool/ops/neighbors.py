"""Operations on nodes and their neighbours, as lists or, for near-dense graphs, bits: kernels, shapes, derivatives."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cgipool.ops.cpu import neighbors as cpu
from cgipool.ops.graph_op import GraphOp, like, sized
from cgipool.ops.rows import column_sums, rectify_grad


def propagation(kernel: Callable[..., Tensor], gpu: str) -> GraphOp:
    """The operation of a kernel of x, scale, self_weight and the two arrays of an adjacency."""

    def save(ctx: Any, inputs: tuple, output: Tensor) -> None:
        _, scale, ctx.self_weight, *adjacency = inputs
        ctx.save_for_backward(scale, *adjacency)

    def gradient(ctx: Any, grad: Tensor) -> tuple:
        scale, *adjacency = ctx.saved_tensors
        return op(grad, scale, ctx.self_weight, *adjacency), None, None, None, None

    op = GraphOp(kernel, 2, lambda x, *_: like(x), gradient, save, gpu=gpu)
    return op


def convolution(kernel: Callable[..., Tensor], gpu: str, propagate: GraphOp) -> GraphOp:
    """The operation of a kernel of x, bias, scale, self_weight, the two arrays of an adjacency and rectify: a
    propagation, the bias, and a ReLU if `rectify`."""

    def save(ctx: Any, inputs: tuple, output: Tensor) -> None:
        _, _, scale, ctx.self_weight, *adjacency, ctx.rectify = inputs
        ctx.save_for_backward(scale, *adjacency, *([output] if ctx.rectify else []))

    def gradient(ctx: Any, grad: Tensor) -> tuple:
        scale, one, other, *out = ctx.saved_tensors
        grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
        return propagate(grad, scale, ctx.self_weight, one, other), by_bias, None, None, None, None, None

    return GraphOp(kernel, 2, lambda x, *_: like(x), gradient, save, gpu=gpu)


propagate = propagation(cpu.propagate, "neighbors.propagate")
convolve = convolution(cpu.convolve, "neighbors.convolve", propagate)


def _weighted_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, scale, ctx.self_weight, *adjacency = inputs
    ctx.save_for_backward(scale, *adjacency)


def _weighted_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, row_ptr, neighbor, weight, back = ctx.saved_tensors
    by_x = weighted_propagate(grad, scale, ctx.self_weight, row_ptr, neighbor, back, weight)
    return by_x, None, None, None, None, None, None


weighted_propagate = GraphOp(
    cpu.weighted_propagate,
    2,
    lambda x, *_: like(x),
    _weighted_grad,
    _weighted_save,
    gpu="neighbors.weighted_propagate",
)
degree = GraphOp(cpu.degree, 1, lambda alive, row_ptr, neighbor: like(alive), gpu="neighbors.degree")


def _neighbor_max_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs[2:])


def _neighbor_max_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return neighbor_max_grad(grad, *ctx.saved_tensors), None, None, None


neighbor_max = GraphOp(
    cpu.neighbor_max,
    2,
    lambda x, alive, row_ptr, neighbor: (like(x), like(x, torch.int64)),
    _neighbor_max_grad,
    _neighbor_max_save,
    gpu="neighbors.neighbor_max",
)
neighbor_max_grad = GraphOp(
    cpu.neighbor_max_grad,
    2,
    lambda grad, where, row_ptr, neighbor: like(grad),
    gpu="neighbors.neighbor_max_grad",
)


def _lookup_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.rows = inputs[0].shape[-2]
    ctx.save_for_backward(inputs[1])


def _lookup_grad(ctx: Any, grad: Tensor) -> tuple:
    return lookup_grad(grad, ctx.saved_tensors[0], ctx.rows), None


lookup = GraphOp(
    cpu.lookup,
    2,
    lambda weight, category: sized(weight, category.shape[-2], weight.shape[-1]),
    _lookup_grad,
    _lookup_save,
    gpu="neighbors.lookup",
)
lookup_grad = GraphOp(
    cpu.lookup_grad, 2, lambda grad, category, rows: sized(grad, rows, grad.shape[-1]), gpu="neighbors.lookup_grad"
)


def _pick_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _pick_grad(ctx: Any, grad: Tensor) -> tuple:
    index, back = ctx.saved_tensors
    return pick(grad, back, index), None, None


pick = GraphOp(
    cpu.pick,
    2,
    lambda x, index, back: sized(x, index.shape[-1], x.shape[-1]),
    _pick_grad,
    _pick_save,
    gpu="neighbors.pick",
)


tile_propagate = propagation(cpu.tile_propagate, "tiles.tile_propagate")
tile_convolve = convolution(cpu.tile_convolve, "tiles.tile_convolve", tile_propagate)
tile_induce = GraphOp(
    cpu.tile_induce,
    2,
    lambda bits, index, before, after: bits.new_empty(*bits.shape[:-2], index.shape[-1], bits.shape[-1]),
    gpu="tiles.tile_induce",
)
