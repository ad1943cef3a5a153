"""Operations on each row by itself, and sums over all rows: kernels, shapes, derivatives."""

from typing import Any

import torch
from torch import Tensor

from cgipool.ops.cpu import rows as cpu
from cgipool.ops.graph_op import GraphOp, like, save_inputs, sized

rectify_grad = GraphOp(
    cpu.rectify_grad,
    2,
    lambda grad, out: (like(grad), grad.new_empty(*grad.shape[:-2], grad.shape[-1])),
    gpu="rows.rectify_grad",
)
column_sums = GraphOp(cpu.column_sums, 2, lambda x: x.new_empty(*x.shape[:-2], x.shape[-1]), gpu="rows.column_sums")


def _gated_grad(ctx: Any, grad: Tensor) -> tuple:
    return gated_grad(grad, *ctx.saved_tensors)


gated = GraphOp(cpu.gated, 2, lambda x, gate: like(x), _gated_grad, save_inputs, gpu="rows.gated")
gated_grad = GraphOp(cpu.gated_grad, 2, lambda grad, x, gate: (like(x), like(gate)), gpu="rows.gated_grad")


def _project_grad(ctx: Any, grad: Tensor) -> tuple:
    return project_grad(grad, *ctx.saved_tensors)


project = GraphOp(
    cpu.project,
    2,
    lambda x, weight: sized(x, x.shape[-2], weight.shape[-2]),
    _project_grad,
    save_inputs,
    gpu="rows.project",
)
project_grad = GraphOp(cpu.project_grad, 2, lambda grad, x, weight: (like(x), like(weight)), gpu="rows.project_grad")
draws = GraphOp(cpu.draws, 1, lambda index, key, site: torch.empty_like(index, dtype=torch.float32), gpu="rows.draws")
