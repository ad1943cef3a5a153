"""From a level to the next: kernels, shapes, derivatives."""

from typing import Any

import torch
from torch import Tensor

from cgipool.ops.cpu import shrink as cpu
from cgipool.ops.graph_op import GraphOp, graphs_in, like, save_inputs, sized


def _close_up_shape(keep: Tensor, k: Tensor, slot_ptr: Tensor, position: Tensor, rows: int) -> tuple[Tensor, ...]:
    places = [keep.new_empty(*keep.shape[:-1], rows, dtype=t) for t in (torch.int64, keep.dtype)]
    graph, first = torch.empty_like(places[0]), torch.empty_like(places[0])
    return places[0], like(position), places[1], graph, first, like(slot_ptr)


close_up = GraphOp(cpu.close_up, 1, _close_up_shape, gpu="shrink.close_up")
induce = GraphOp(
    cpu.induce,
    1,
    lambda row_ptr, neighbor, number, index, back: (
        row_ptr.new_empty(*row_ptr.shape[:-1], index.shape[-1] + 1),
        torch.empty_like(neighbor),
        torch.empty_like(number),
    ),
    gpu="shrink.induce",
)


def _pick_gated_grad(ctx: Any, grad: Tensor) -> tuple:
    return *pick_gated_grad(grad, *ctx.saved_tensors), None, None


pick_gated = GraphOp(
    cpu.pick_gated,
    2,
    lambda x, gate, index, back: sized(x, index.shape[-1], x.shape[-1]),
    _pick_gated_grad,
    save_inputs,
    gpu="shrink.pick_gated",
)
pick_gated_grad = GraphOp(
    cpu.pick_gated_grad,
    2,
    lambda grad, x, gate, index, back: (like(x), like(gate)),
    gpu="shrink.pick_gated_grad",
)


def _sums_and_pick_grad(ctx: Any, by_sums: Tensor, by_picked: Tensor) -> tuple:
    return *sums_and_pick_grad(by_sums, by_picked, *ctx.saved_tensors), None, None, None, None, None


sums_and_pick = GraphOp(
    cpu.sums_and_pick,
    2,
    lambda x, weight, gate, index, back, ends, graph, slot_ptr: (
        sized(x, graphs_in(slot_ptr), weight.shape[-1], x.shape[-1]),
        sized(x, index.shape[-1], x.shape[-1]),
    ),
    _sums_and_pick_grad,
    save_inputs,
    gpu="shrink.sums_and_pick",
)
sums_and_pick_grad = GraphOp(
    cpu.sums_and_pick_grad,
    3,
    lambda grad_sums, grad_picked, x, weight, gate, index, back, ends, graph, slot_ptr: (
        like(x),
        like(weight),
        like(gate),
    ),
    gpu="shrink.sums_and_pick_grad",
)
