"""The graph operations as `torch.library` custom ops: with shapes for tracing, derivatives, and a rule for `vmap`.

Each op is opaque to autograd, `vmap` and `torch.compile`, so its body may use whatever is fast on the device.
`sums`, `spread` and `dots` are the three derivatives of one trilinear form Σ_p Σ_m weight[p, m] · x[p] · value[graph[p], m],
hence each one's gradients are the other two. A is symmetric, hence the gradient of `propagate` is `propagate`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cgipool.ops import reference


@torch.library.custom_op("cgipool::propagate", mutates_args=())
def propagate(x: Tensor, scale: Tensor, self_weight: float, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """See `reference.propagate`."""
    return reference.propagate(x, scale, self_weight, row_ptr, neighbor)


@torch.library.custom_op("cgipool::degree", mutates_args=())
def degree(alive: Tensor, row_ptr: Tensor, neighbor: Tensor) -> Tensor:
    """See `reference.degree`."""
    return reference.degree(alive, row_ptr, neighbor)


@torch.library.custom_op("cgipool::keep_top_k", mutates_args=())
def keep_top_k(score: Tensor, alive: Tensor, k: Tensor, graph: Tensor) -> Tensor:
    """See `reference.keep_top_k`."""
    return reference.keep_top_k(score, alive, k, graph)


@torch.library.custom_op("cgipool::sums", mutates_args=())
def sums(x: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """See `reference.sums`."""
    return reference.sums(x, weight, graph, slot_ptr)


@torch.library.custom_op("cgipool::spread", mutates_args=())
def spread(value: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """See `reference.spread`."""
    return reference.spread(value, weight, graph, slot_ptr)


@torch.library.custom_op("cgipool::dots", mutates_args=())
def dots(x: Tensor, value: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """See `reference.dots`."""
    return reference.dots(x, value, graph, slot_ptr)


@torch.library.custom_op("cgipool::readout", mutates_args=())
def readout(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """See `reference.readout`."""
    return reference.readout(x, alive, graph, slot_ptr)


@torch.library.custom_op("cgipool::readout_grad", mutates_args=())
def readout_grad(
    grad_top: Tensor, grad_sum: Tensor, x: Tensor, top: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor
) -> Tensor:
    """See `reference.readout_grad`."""
    return reference.readout_grad(grad_top, grad_sum, x, top, alive, graph, slot_ptr)


@torch.library.custom_op("cgipool::take", mutates_args=())
def take(x: Tensor, gate: Tensor, kept: Tensor, place: Tensor) -> Tensor:
    """See `reference.take`."""
    return reference.take(x, gate, kept, place)


@torch.library.custom_op("cgipool::take_grad", mutates_args=())
def take_grad(grad: Tensor, x: Tensor, gate: Tensor, kept: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """See `reference.take_grad`."""
    return reference.take_grad(grad, x, gate, kept, place)


@torch.library.custom_op("cgipool::lookup", mutates_args=())
def lookup(weight: Tensor, category: Tensor) -> Tensor:
    """See `reference.lookup`."""
    return reference.lookup(weight, category)


@torch.library.custom_op("cgipool::lookup_grad", mutates_args=())
def lookup_grad(grad: Tensor, category: Tensor, rows: int) -> Tensor:
    """See `reference.lookup_grad`."""
    return reference.lookup_grad(grad, category, rows)


def _graphs(slot_ptr: Tensor) -> int:
    return slot_ptr.shape[0] - 1


propagate.register_fake(lambda x, scale, self_weight, row_ptr, neighbor: torch.empty_like(x))
degree.register_fake(lambda alive, row_ptr, neighbor: torch.empty_like(alive))
keep_top_k.register_fake(lambda score, alive, k, graph: torch.empty_like(score, memory_format=torch.contiguous_format))
sums.register_fake(
    lambda x, weight, graph, slot_ptr: x.new_empty(_graphs(slot_ptr), weight.shape[1], x.shape[1]),
)
spread.register_fake(lambda value, weight, graph, slot_ptr: value.new_empty(weight.shape[0], value.shape[2]))
dots.register_fake(lambda x, value, graph, slot_ptr: x.new_empty(x.shape[0], value.shape[1]))
readout.register_fake(
    lambda x, alive, graph, slot_ptr: (
        x.new_empty(_graphs(slot_ptr), x.shape[1]),
        x.new_empty(_graphs(slot_ptr), x.shape[1]),
    ),
)
readout_grad.register_fake(lambda grad_top, grad_sum, x, top, alive, graph, slot_ptr: torch.empty_like(x))
take.register_fake(lambda x, gate, kept, place: x.new_empty(kept.shape[0], x.shape[1]))
take_grad.register_fake(lambda grad, x, gate, kept, place: (torch.empty_like(x), torch.empty_like(gate)))
lookup.register_fake(lambda weight, category: weight.new_empty(category.shape[0], weight.shape[1]))
lookup_grad.register_fake(lambda grad, category, rows: grad.new_empty(rows, grad.shape[1]))


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _propagate_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, scale, ctx.self_weight, row_ptr, neighbor = inputs
    ctx.save_for_backward(scale, row_ptr, neighbor)


def _propagate_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, row_ptr, neighbor = ctx.saved_tensors
    return propagate(grad, scale, ctx.self_weight, row_ptr, neighbor), None, None, None, None


def _sums_grad(ctx: Any, grad: Tensor) -> tuple:
    x, weight, graph, slot_ptr = ctx.saved_tensors
    by_x, by_weight = ctx.needs_input_grad[:2]
    return (
        spread(grad, weight, graph, slot_ptr) if by_x else None,
        dots(x, grad, graph, slot_ptr) if by_weight else None,
        None,
        None,
    )


def _spread_grad(ctx: Any, grad: Tensor) -> tuple:
    value, weight, graph, slot_ptr = ctx.saved_tensors
    by_value, by_weight = ctx.needs_input_grad[:2]
    return (
        sums(grad, weight, graph, slot_ptr) if by_value else None,
        dots(grad, value, graph, slot_ptr) if by_weight else None,
        None,
        None,
    )


def _dots_grad(ctx: Any, grad: Tensor) -> tuple:
    x, value, graph, slot_ptr = ctx.saved_tensors
    by_x, by_value = ctx.needs_input_grad[:2]
    return (
        spread(value, grad, graph, slot_ptr) if by_x else None,
        sums(x, grad, graph, slot_ptr) if by_value else None,
        None,
        None,
    )


def _readout_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    x, *where = inputs
    ctx.save_for_backward(x, output[0], *where)


def _readout_grad(ctx: Any, grad_top: Tensor, grad_sum: Tensor) -> tuple:
    return readout_grad(grad_top, grad_sum, *ctx.saved_tensors), None, None, None


def _take_grad(ctx: Any, grad: Tensor) -> tuple:
    return *take_grad(grad, *ctx.saved_tensors), None, None


def _lookup_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.rows = inputs[0].shape[0]
    ctx.save_for_backward(inputs[1])


def _lookup_grad(ctx: Any, grad: Tensor) -> tuple:
    return lookup_grad(grad, ctx.saved_tensors[0], ctx.rows), None


propagate.register_autograd(_propagate_grad, setup_context=_propagate_save)
sums.register_autograd(_sums_grad, setup_context=_save)
spread.register_autograd(_spread_grad, setup_context=_save)
dots.register_autograd(_dots_grad, setup_context=_save)
readout.register_autograd(_readout_grad, setup_context=_readout_save)
take.register_autograd(_take_grad, setup_context=_save)
lookup.register_autograd(_lookup_grad, setup_context=_lookup_save)


def _one_split_after_another(op: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """The `vmap` rule of a CPU, where a split axis gains nothing: apply the op to each split and stack."""

    def rule(info: Any, in_dims: tuple, *args: Any) -> tuple[Any, Any]:
        def of(split: int) -> list[Any]:
            return [a if d is None else a.select(d, split) for a, d in zip(args, in_dims, strict=True)]

        results = [op(*of(split)) for split in range(info.batch_size)]
        if isinstance(results[0], tuple):
            return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])
        return torch.stack(results), 0

    return rule


for _op in (
    propagate, degree, keep_top_k, sums, spread, dots, readout, readout_grad, take, take_grad, lookup, lookup_grad
):  # fmt: skip
    _op.register_vmap(_one_split_after_another(_op))
