"""Sums over neighbours as operations, whatever form a level's adjacency has: as lists (ops/nodes.py) or as bits
(ops/tiles.py). Its arrays are the last arguments of every kernel.

A is symmetric, hence the gradient of a propagation is that propagation.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cgipool.ops.graph_op import GraphOp
from cgipool.ops.rows import column_sums, rectify_grad
from cgipool.ops.shapes import like


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
    propagation, the bias, and a ReLU if asked for."""

    def save(ctx: Any, inputs: tuple, output: Tensor) -> None:
        _, _, scale, ctx.self_weight, *adjacency, ctx.rectify = inputs
        ctx.save_for_backward(scale, *adjacency, *([output] if ctx.rectify else []))

    def gradient(ctx: Any, grad: Tensor) -> tuple:
        scale, one, other, *out = ctx.saved_tensors
        grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
        return propagate(grad, scale, ctx.self_weight, one, other), by_bias, None, None, None, None, None

    return GraphOp(kernel, 2, lambda x, *_: like(x), gradient, save, gpu=gpu)
