"""Operations on neighbours that read edge features: kernels, shapes, derivatives."""

from typing import Any

import torch
from torch import Tensor

from cgipool.ops.cpu import edges as cpu
from cgipool.ops.graph_op import GraphOp, like


def _gine_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.each = inputs
    ctx.save_for_backward(*tensors)


def _gine_grad(ctx: Any, grad: Tensor) -> tuple:
    return *gine_grad(grad, *ctx.saved_tensors, ctx.each), *(None,) * 8


gine = GraphOp(cpu.gine, 2, lambda x, *_: like(x), _gine_grad, _gine_save, gpu="edges.gine")
gine_grad = GraphOp(cpu.gine_grad, 2, lambda grad, x, table, *_: (like(x), like(table)), gpu="edges.gine_grad")


def _attend_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.heads, ctx.each = inputs
    ctx.save_for_backward(*tensors[:4], *output, *tensors[4:])


def _attend_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return *attend_grad(grad, *ctx.saved_tensors, ctx.heads, ctx.each), *(None,) * 9


def _attend_shape(query: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *_, heads, _ = rest
    return like(query), query.new_empty(*query.shape[:-1], heads)


attend = GraphOp(cpu.attend, 2, _attend_shape, _attend_grad, _attend_save, gpu="edges.attend")
attend_grad = GraphOp(
    cpu.attend_grad,
    2,
    lambda grad, query, key, value, table, *_: tuple(torch.empty_like(t) for t in (query, key, value, table)),
    gpu="edges.attend_grad",
)
