"""Operations that read nodes and their neighbours one by one: kernels, shapes, derivatives."""

from typing import Any

import torch
from torch import Tensor

from cgipool.ops.convolutions import convolution, propagation
from cgipool.ops.cpu import nodes as cpu
from cgipool.ops.graph_op import GraphOp
from cgipool.ops.shapes import like, sized

propagate = propagation(cpu.propagate, "nodes.propagate")
convolve = convolution(cpu.convolve, "nodes.convolve", propagate)
degree = GraphOp(cpu.degree, 1, lambda alive, row_ptr, neighbor: like(alive), gpu="nodes.degree")


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
    gpu="nodes.neighbor_max",
)
neighbor_max_grad = GraphOp(
    cpu.neighbor_max_grad,
    2,
    lambda grad, where, row_ptr, neighbor: like(grad),
    gpu="nodes.neighbor_max_grad",
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
    gpu="nodes.lookup",
)
lookup_grad = GraphOp(
    cpu.lookup_grad, 2, lambda grad, category, rows: sized(grad, rows, grad.shape[-1]), gpu="nodes.lookup_grad"
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
    gpu="nodes.pick",
)
