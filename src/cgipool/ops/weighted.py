"""Weighted sums over graphs: kernels, shapes, derivatives.

`sums`, `spread` and `dots` are the three derivatives of one trilinear form, Σ_p Σ_m weight[p, m] · x[p] ·
value[graph[p], m], hence each one's gradients are the other two.
"""

from typing import Any

from torch import Tensor

from cgipool.ops.cpu import weighted as cpu
from cgipool.ops.graph_op import GraphOp, save_inputs
from cgipool.ops.shapes import graphs_in, sized


def _sums_grad(ctx: Any, grad: Tensor) -> tuple:
    x, weight, *where = ctx.saved_tensors
    by_x, by_weight = ctx.needs_input_grad[:2]
    return spread(grad, weight, *where) if by_x else None, dots(x, grad, *where) if by_weight else None, None, None


sums = GraphOp(
    cpu.sums,
    2,
    lambda x, weight, graph, slot_ptr: sized(x, graphs_in(slot_ptr), weight.shape[-1], x.shape[-1]),
    _sums_grad,
    save_inputs,
    gpu="weighted.sums",
)


def _spread_grad(ctx: Any, grad: Tensor) -> tuple:
    value, weight, *where = ctx.saved_tensors
    by_value, by_weight = ctx.needs_input_grad[:2]
    return (
        sums(grad, weight, *where) if by_value else None,
        dots(grad, value, *where) if by_weight else None,
        None,
        None,
    )


spread = GraphOp(
    cpu.spread,
    3,
    lambda value, weight, graph, slot_ptr: sized(weight, weight.shape[-2], value.shape[-1]),
    _spread_grad,
    save_inputs,
    gpu="weighted.spread",
)


def _dots_grad(ctx: Any, grad: Tensor) -> tuple:
    x, value, *where = ctx.saved_tensors
    by_x, by_value = ctx.needs_input_grad[:2]
    return spread(value, grad, *where) if by_x else None, sums(x, grad, *where) if by_value else None, None, None


dots = GraphOp(
    cpu.dots,
    2,
    lambda x, value, graph, slot_ptr: sized(x, x.shape[-2], value.shape[-2]),
    _dots_grad,
    save_inputs,
    gpu="weighted.dots",
)
