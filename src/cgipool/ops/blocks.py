"""Operations on one dense matrix per graph: kernels, shapes, derivatives.

Shapes: C positions, B graphs, F features, D cells. The matrix of a graph with n positions has n² cells, row by row, and
the matrices follow each other without padding: graph b holds block_ptr[b] .. block_ptr[b+1]. So a batch takes Σ n²
cells, whatever its largest graph. Cells behind the last matrix are padding, and 0 in every result.

`block_mm` and `block_outer` are derivatives of Σ_{p,q} weight[p, q] · y[p] · x[q], hence each one's gradients are made
of both.
"""

from typing import Any

import torch
from torch import Tensor

from cgipool.ops.cpu import blocks as cpu
from cgipool.ops.graph_op import GraphOp, like, sized
from cgipool.ops.rows import column_sums, rectify_grad

block_adjacency = GraphOp(
    cpu.block_adjacency,
    1,
    lambda alive, self_weight, row_ptr, neighbor, weight, graph, slot_ptr, block_ptr, cells: alive.new_empty(
        *alive.shape[:-1], cells
    ),
    gpu="cells.block_adjacency",
)


def _block_mm_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, x, ctx.flip, *where = inputs
    ctx.save_for_backward(weight, x, *where)


def _block_mm_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, x, *where = ctx.saved_tensors
    left, right = (x, grad) if ctx.flip else (grad, x)
    by_weight = block_outer(left, right, *where, weight.shape[-1]) if ctx.needs_input_grad[0] else None
    by_x = block_mm(weight, grad, not ctx.flip, *where) if ctx.needs_input_grad[1] else None
    return by_weight, by_x, None, None, None


block_mm = GraphOp(
    cpu.block_mm,
    1,
    lambda weight, x, flip, slot_ptr, block_ptr: like(x),
    _block_mm_grad,
    _block_mm_save,
    gpu="matrices.block_mm",
)


def _block_convolve_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, x, _, ctx.rectify, *where = inputs
    ctx.save_for_backward(weight, x, *where, *([output] if ctx.rectify else []))


def _block_convolve_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, x, slot_ptr, block_ptr, *out = ctx.saved_tensors
    grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
    by_weight = block_outer(grad, x, slot_ptr, block_ptr, weight.shape[-1]) if ctx.needs_input_grad[0] else None
    by_x = block_mm(weight, grad, True, slot_ptr, block_ptr) if ctx.needs_input_grad[1] else None
    return by_weight, by_x, by_bias, None, None, None


block_convolve = GraphOp(
    cpu.block_convolve,
    1,
    lambda weight, x, bias, relu, slot_ptr, block_ptr: like(x),
    _block_convolve_grad,
    _block_convolve_save,
    gpu="matrices.block_convolve",
)


def _block_outer_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])


def _block_outer_grad(ctx: Any, grad: Tensor) -> tuple:
    a, b, *where = ctx.saved_tensors
    by_a = block_mm(grad, b, False, *where) if ctx.needs_input_grad[0] else None
    by_b = block_mm(grad, a, True, *where) if ctx.needs_input_grad[1] else None
    return by_a, by_b, None, None, None


block_outer = GraphOp(
    cpu.block_outer,
    2,
    lambda a, b, slot_ptr, block_ptr, cells: sized(a, cells),
    _block_outer_grad,
    _block_outer_save,
    gpu="matrices.block_outer",
)


def _block_product_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, *ctx.flips, slot_ptr, block_ptr = inputs
    ctx.save_for_backward(a, b, slot_ptr, block_ptr)


def _block_product_grad(ctx: Any, grad: Tensor) -> tuple:
    a, b, *where = ctx.saved_tensors
    flip_a, flip_b = ctx.flips
    by_a, by_b = None, None
    if ctx.needs_input_grad[0]:
        left, right = ((b, flip_b), (grad, True)) if flip_a else ((grad, False), (b, not flip_b))
        by_a = block_product(left[0], right[0], left[1], right[1], *where)
    if ctx.needs_input_grad[1]:
        left, right = ((grad, True), (a, flip_a)) if flip_b else ((a, not flip_a), (grad, False))
        by_b = block_product(left[0], right[0], left[1], right[1], *where)
    return by_a, by_b, None, None, None, None


block_product = GraphOp(
    cpu.block_product,
    1,
    lambda a, b, flip_a, flip_b, slot_ptr, block_ptr: like(a),
    _block_product_grad,
    _block_product_save,
    gpu="matrices.block_product",
)


def _block_max_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs[2:4])


def _block_max_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return None, block_max_grad(grad, *ctx.saved_tensors), None, None, None


block_max = GraphOp(
    cpu.block_max,
    1,
    lambda weight, x, graph, slot_ptr, block_ptr: (like(x), like(x, torch.int64)),
    _block_max_grad,
    _block_max_save,
    gpu="cells.block_max",
)
block_max_grad = GraphOp(
    cpu.block_max_grad, 2, lambda grad, where, graph, slot_ptr: like(grad), gpu="cells.block_max_grad"
)


def _block_attention_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, query, node, ctx.leak, *where = inputs
    ctx.save_for_backward(output, query, node, *where)


def _block_attention_grad(ctx: Any, grad: Tensor) -> tuple:
    alpha, query, node, *where = ctx.saved_tensors
    return None, *block_attention_grad(grad, alpha, query, node, ctx.leak, *where), None, None, None


block_attention = GraphOp(
    cpu.block_attention,
    1,
    lambda a, query, node, leak, slot_ptr, block_ptr: like(a),
    _block_attention_grad,
    _block_attention_save,
    gpu="attention.block_attention",
)
block_attention_grad = GraphOp(
    cpu.block_attention_grad,
    1,
    lambda grad, alpha, query, node, leak, slot_ptr, block_ptr: (like(query), like(node)),
    gpu="attention.block_attention_grad",
)


def _block_scaled_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, scale, ctx.own, ctx.loop, *where = inputs
    ctx.save_for_backward(weight, scale, *where)


def _block_scaled_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, scale, *where = ctx.saved_tensors
    by_weight = block_scaled(grad, scale, ctx.own, 0.0, *where) if ctx.needs_input_grad[0] else None
    by_scale = block_scaled_grad(grad, weight, scale, ctx.own, ctx.loop, *where) if ctx.needs_input_grad[1] else None
    return by_weight, by_scale, None, None, None, None


block_scaled = GraphOp(
    cpu.block_scaled,
    1,
    lambda weight, scale, own, loop, slot_ptr, block_ptr: like(weight),
    _block_scaled_grad,
    _block_scaled_save,
    gpu="scaled.block_scaled",
)
block_scaled_grad = GraphOp(
    cpu.block_scaled_grad,
    1,
    lambda grad, weight, scale, own, loop, slot_ptr, block_ptr: like(scale),
    gpu="scaled.block_scaled_grad",
)
