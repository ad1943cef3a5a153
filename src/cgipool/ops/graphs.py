"""Maximum, sum and softmax over each graph: kernels, shapes, derivatives."""

from typing import Any

from torch import Tensor

from cgipool.ops.cpu import graphs as cpu
from cgipool.ops.graph_op import GraphOp
from cgipool.ops.shapes import graphs_in, like, sized


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
