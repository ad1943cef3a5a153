"""Operations over each graph (maximum, sums, softmax, weighted sums, ranks): kernels, shapes, derivatives."""

from typing import Any

from torch import Tensor

from cgipool.ops.cpu import graphs as cpu
from cgipool.ops.graph_op import GraphOp, graphs_in, like, save_inputs, sized


def _readout_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    x, *where = inputs
    ctx.save_for_backward(x, output[0], *where)


def _readout_grad(ctx: Any, grad_top: Tensor, grad_sum: Tensor) -> tuple:
    return readout_grad(grad_top, grad_sum, *ctx.saved_tensors), None, None, None


readout = GraphOp(
    cpu.readout,
    2,
    lambda x, alive, graph, slot_ptr: (
        sized(x, graphs_in(slot_ptr), x.shape[-1]),
        sized(x, graphs_in(slot_ptr), x.shape[-1]),
    ),
    _readout_grad,
    _readout_save,
    gpu="graphs.readout",
)
readout_grad = GraphOp(
    cpu.readout_grad,
    2,
    lambda grad_top, grad_sum, x, top, alive, graph, slot_ptr: like(x),
    gpu="graphs.readout_grad",
)


def _softmax_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[2:])


def _softmax_grad(ctx: Any, grad: Tensor) -> tuple:
    return softmax_grad(grad, *ctx.saved_tensors), None, None, None


softmax = GraphOp(
    cpu.softmax,
    2,
    lambda score, alive, graph, slot_ptr: like(score),
    _softmax_grad,
    _softmax_save,
    gpu="graphs.softmax",
)
softmax_grad = GraphOp(cpu.softmax_grad, 2, lambda grad, soft, graph, slot_ptr: like(soft), gpu="graphs.softmax_grad")


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


keep_top_k = GraphOp(cpu.keep_top_k, 2, lambda score, alive, k, graph, slot_ptr: like(score), gpu="ranks.keep_top_k")
order = GraphOp(cpu.order, 1, lambda score, alive, graph, slot_ptr: (like(graph), like(graph)), gpu="ranks.order")
