"""The graph operations as `torch.library` custom ops: with shapes for tracing, derivatives, and a rule for `vmap`.

Each op is opaque to autograd, `vmap` and `torch.compile`, so its kernel may use whatever is fast on the device.
`sums`, `spread` and `dots` are the three derivatives of one trilinear form, Σ_p Σ_m weight[p, m] · x[p] ·
value[graph[p], m], hence each one's gradients are the other two; so are `block_mm` and `block_outer` for
Σ_{p,q} weight[p, q] · y[p] · x[q]. A is symmetric, hence the gradient of `propagate` is `propagate`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cgipool.ops import blocks, reference


class GraphOp:
    """A kernel with its custom op.

    Called plainly, it runs the kernel under an ordinary autograd function, which is dispatched in half the time of a
    custom op (there are some 40 calls a step). Under `vmap`, tracing or compilation it is the custom op.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        shape: Callable[..., Any],
        grad: Callable[..., Any] | None = None,
        save: Callable[..., None] | None = None,
    ) -> None:
        self.kernel = kernel
        self.__doc__ = kernel.__doc__
        self.custom: Any = torch.library.custom_op(f"cgipool::{kernel.__name__}", kernel, mutates_args=())
        self.custom.register_fake(shape)
        self.custom.register_vmap(_one_split_after_another(self.custom))
        self.apply: Callable[..., Any] = kernel
        if grad is not None and save is not None:
            self.custom.register_autograd(grad, setup_context=save)
            self.apply = _plain(kernel, grad, save)

    def __call__(self, *args: Any) -> Any:
        """Run the kernel."""
        if _transformed():
            return self.custom(*args)
        return self.apply(*args) if torch.is_grad_enabled() else self.kernel(*args)


def _plain(kernel: Callable[..., Any], grad: Callable[..., Any], save: Callable[..., None]) -> Callable[..., Any]:
    """The kernel under an autograd function. (With a `setup_context` of its own, torch would inspect the signature of
    `forward` at each call, which takes longer than most kernels.)"""

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = kernel(*inputs)
        save(ctx, inputs, output)
        return output

    parts = {"forward": staticmethod(forward), "backward": staticmethod(grad)}
    function: Any = type(kernel.__name__, (torch.autograd.Function,), parts)
    return function.apply


def _transformed() -> bool:
    """Whether a function transform, a tracing mode or the compiler is at work."""
    return (
        torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


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


def _graphs(slot_ptr: Tensor) -> int:
    return slot_ptr.shape[0] - 1


def _like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _propagate_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, scale, ctx.self_weight, row_ptr, neighbor = inputs
    ctx.save_for_backward(scale, row_ptr, neighbor)


def _propagate_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, row_ptr, neighbor = ctx.saved_tensors
    return propagate(grad, scale, ctx.self_weight, row_ptr, neighbor), None, None, None, None


def _sums_grad(ctx: Any, grad: Tensor) -> tuple:
    x, weight, *where = ctx.saved_tensors
    by_x, by_weight = ctx.needs_input_grad[:2]
    return spread(grad, weight, *where) if by_x else None, dots(x, grad, *where) if by_weight else None, None, None


def _spread_grad(ctx: Any, grad: Tensor) -> tuple:
    value, weight, *where = ctx.saved_tensors
    by_value, by_weight = ctx.needs_input_grad[:2]
    return (
        sums(grad, weight, *where) if by_value else None,
        dots(grad, value, *where) if by_weight else None,
        None,
        None,
    )


def _dots_grad(ctx: Any, grad: Tensor) -> tuple:
    x, value, *where = ctx.saved_tensors
    by_x, by_value = ctx.needs_input_grad[:2]
    return spread(value, grad, *where) if by_x else None, sums(x, grad, *where) if by_value else None, None, None


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


def _pick_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _pick_grad(ctx: Any, grad: Tensor) -> tuple:
    index, back = ctx.saved_tensors
    return pick(grad, back, index), None, None


def _softmax_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[2:])


def _softmax_grad(ctx: Any, grad: Tensor) -> tuple:
    return softmax_grad(grad, *ctx.saved_tensors), None, None, None


def _max_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def _neighbor_max_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return max_grad(grad, *ctx.saved_tensors), None, None, None


def _block_max_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return None, max_grad(grad, *ctx.saved_tensors), None, None


def _block_mm_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, x, ctx.flip, *where = inputs
    ctx.save_for_backward(weight, x, *where)


def _block_mm_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, x, *where = ctx.saved_tensors
    left, right = (x, grad) if ctx.flip else (grad, x)
    by_weight = block_outer(left, right, *where, weight.shape[0]) if ctx.needs_input_grad[0] else None
    by_x = block_mm(weight, grad, not ctx.flip, *where) if ctx.needs_input_grad[1] else None
    return by_weight, by_x, None, None, None


def _block_outer_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])


def _block_outer_grad(ctx: Any, grad: Tensor) -> tuple:
    a, b, *where = ctx.saved_tensors
    by_a = block_mm(grad, b, False, *where) if ctx.needs_input_grad[0] else None
    by_b = block_mm(grad, a, True, *where) if ctx.needs_input_grad[1] else None
    return by_a, by_b, None, None, None


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


def _readout_shape(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    top = x.new_empty(_graphs(slot_ptr), x.shape[1])
    return top, torch.empty_like(top)


propagate = GraphOp(
    reference.propagate,
    lambda x, scale, self_weight, row_ptr, neighbor: torch.empty_like(x),
    _propagate_grad,
    _propagate_save,
)
degree = GraphOp(reference.degree, lambda alive, row_ptr, neighbor: torch.empty_like(alive))
keep_top_k = GraphOp(
    reference.keep_top_k,
    lambda score, alive, k, graph: _like(score),
)
sums = GraphOp(
    reference.sums,
    lambda x, weight, graph, slot_ptr: x.new_empty(_graphs(slot_ptr), weight.shape[1], x.shape[1]),
    _sums_grad,
    _save,
)
spread = GraphOp(
    reference.spread,
    lambda value, weight, graph, slot_ptr: value.new_empty(weight.shape[0], value.shape[2]),
    _spread_grad,
    _save,
)
dots = GraphOp(
    reference.dots,
    lambda x, value, graph, slot_ptr: x.new_empty(x.shape[0], value.shape[1]),
    _dots_grad,
    _save,
)
readout = GraphOp(reference.readout, _readout_shape, _readout_grad, _readout_save)
readout_grad = GraphOp(
    reference.readout_grad,
    lambda grad_top, grad_sum, x, top, alive, graph, slot_ptr: torch.empty_like(x),
)
take = GraphOp(
    reference.take,
    lambda x, gate, kept, before: x.new_empty(kept.shape[0], x.shape[1]),
    _take_grad,
    _save,
)
take_grad = GraphOp(
    reference.take_grad,
    lambda grad, x, gate, kept, before: (torch.empty_like(x), torch.empty_like(gate)),
)
lookup = GraphOp(
    reference.lookup,
    lambda weight, category: weight.new_empty(category.shape[0], weight.shape[1]),
    _lookup_grad,
    _lookup_save,
)
lookup_grad = GraphOp(reference.lookup_grad, lambda grad, category, rows: grad.new_empty(rows, grad.shape[1]))
order = GraphOp(
    reference.order,
    lambda score, alive, graph: (torch.empty_like(graph), torch.empty_like(graph)),
)
pick = GraphOp(
    reference.pick,
    lambda x, index, back: x.new_empty(index.shape[0], x.shape[1]),
    _pick_grad,
    _pick_save,
)
softmax = GraphOp(
    reference.softmax,
    lambda score, alive, graph, slot_ptr: _like(score),
    _softmax_grad,
    _softmax_save,
)
softmax_grad = GraphOp(
    reference.softmax_grad,
    lambda grad, soft, graph, slot_ptr: _like(soft),
)
neighbor_max = GraphOp(
    reference.neighbor_max,
    lambda x, alive, row_ptr, neighbor: (_like(x), _like(x, torch.int64)),
    _neighbor_max_grad,
    _max_save,
)
max_grad = GraphOp(reference.max_grad, lambda grad, where: torch.empty_like(grad))
block_adjacency = GraphOp(
    blocks.block_adjacency,
    lambda alive, self_weight, row_ptr, neighbor, slot_ptr, block_ptr, cells: alive.new_empty(cells),
)
block_mm = GraphOp(
    blocks.block_mm,
    lambda weight, x, flip, slot_ptr, block_ptr: _like(x),
    _block_mm_grad,
    _block_mm_save,
)
block_outer = GraphOp(
    blocks.block_outer,
    lambda a, b, slot_ptr, block_ptr, cells: a.new_empty(cells),
    _block_outer_grad,
    _block_outer_save,
)
block_product = GraphOp(
    blocks.block_product,
    lambda a, b, flip_a, flip_b, slot_ptr, block_ptr: _like(a),
    _block_product_grad,
    _block_product_save,
)
block_max = GraphOp(
    blocks.block_max,
    lambda weight, x, slot_ptr, block_ptr: (_like(x), _like(x, torch.int64)),
    _block_max_grad,
    _max_save,
)
