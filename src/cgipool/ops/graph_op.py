"""How a kernel becomes an operation: a `torch.library` custom op with shapes for tracing, derivatives, and a rule
for `vmap`.
"""

import importlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


def like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of x's shape."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def sized(x: Tensor, *shape: int) -> Tensor:
    """A tensor with the split axis of x [C, F], if it has one, and this shape."""
    return x.new_empty(*x.shape[:-2], *shape)


def graphs_in(slot_ptr: Tensor) -> int:
    """Return the number of graphs of slot_ptr [B + 1]."""
    return slot_ptr.shape[-1] - 1


# Not `torch.library.custom_op`: calling one of those imports torch's compiler, which takes seconds.
LIBRARY = torch.library.Library("cgipool", "FRAGMENT")


class GraphOp:
    """A kernel with its custom op.

    Every tensor may have one more axis in front, over splits, as `vmap` gives it. On a CPU the kernel then runs split
    by split, since an axis gains nothing there; on a GPU the Triton kernel takes all splits at once.

    Called plainly, it runs the kernel under an ordinary autograd function, which is dispatched in half the time of a
    custom op (there are some 40 calls a step). Under `vmap`, tracing or compilation it is the custom op.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        rank: int,
        shape: Callable[..., Any],
        grad: Callable[..., Any] | None = None,
        save: Callable[..., None] | None = None,
        gpu: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.rank = rank
        """Axes of the first argument without that of splits."""
        self.gpu = gpu
        """Module and name of the Triton version in cgipool.ops.gpu; None: the kernel runs on any device."""
        self.__doc__ = kernel.__doc__
        name = kernel.__name__
        LIBRARY.define(name + torch.library.infer_schema(kernel, mutates_args=()))
        LIBRARY.impl(name, self.run, "CompositeExplicitAutograd")
        self.custom: Any = getattr(torch.ops.cgipool, name).default
        full = f"cgipool::{name}"
        torch.library.register_fake(full, shape, lib=LIBRARY)
        torch.library.register_vmap(full, _all_splits(self.custom), lib=LIBRARY)
        self.apply: Callable[..., Any] = self.run
        if grad is not None and save is not None:
            torch.library.register_autograd(full, grad, setup_context=save, lib=LIBRARY)
            self.apply = _plain(name, self.run, grad, save)

    def __call__(self, *args: Any) -> Any:
        """Run the kernel."""
        if _transformed():
            return self.custom(*args)
        return self.apply(*args) if torch.is_grad_enabled() else self.run(*args)

    def run(self, *args: Any) -> Any:
        """Run the kernel of the device on one split or on all, without gradients."""
        alone = args[0].ndim == self.rank
        if self.gpu and args[0].is_cuda:
            return _without_axis(self.on_gpu(*_with_axis(args))) if alone else self.on_gpu(*args)
        return self.kernel(*args) if alone else _split_by_split(self.kernel, args)

    @cached_property
    def on_gpu(self) -> Callable[..., Any]:
        """The Triton version, imported when first used: a machine without a GPU needs no Triton."""
        assert self.gpu is not None
        module, name = self.gpu.split(".")
        return getattr(importlib.import_module(f"cgipool.ops.gpu.{module}"), name)


def save_inputs(ctx: Any, inputs: tuple, output: Any) -> None:
    """Keep all inputs, and nothing else, for the gradient."""
    ctx.save_for_backward(*inputs)


def _plain(
    name: str, run: Callable[..., Any], grad: Callable[..., Any], save: Callable[..., None]
) -> Callable[..., Any]:
    """The kernel under an autograd function. (With a `setup_context` of its own, torch would inspect the signature of
    `forward` at each call, which takes longer than most kernels.)"""

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = run(*inputs)
        save(ctx, inputs, output)
        return output

    parts = {"forward": staticmethod(forward), "backward": staticmethod(grad)}
    function: Any = type(name, (torch.autograd.Function,), parts)
    return function.apply


def _transformed() -> bool:
    """Whether a function transform, a tracing mode or the compiler is at work."""
    return (
        torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


def _with_axis(args: tuple) -> list[Any]:
    return [a.unsqueeze(0) if isinstance(a, Tensor) else a for a in args]


def _without_axis(result: Any) -> Any:
    return tuple(r.squeeze(0) for r in result) if isinstance(result, tuple) else result.squeeze(0)


def _split_by_split(kernel: Callable[..., Any], args: tuple) -> Any:
    results = [kernel(*(a[split] if isinstance(a, Tensor) else a for a in args)) for split in range(args[0].shape[0])]
    return (
        tuple(map(torch.stack, zip(*results, strict=True))) if isinstance(results[0], tuple) else torch.stack(results)
    )


def _all_splits(op: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """The `vmap` rule: the same op, with the split axis in front of every tensor."""

    def rule(info: Any, in_dims: tuple, *args: Any) -> tuple[Any, Any]:
        def in_front(value: Any, dim: int | None) -> Any:
            if not isinstance(value, Tensor):
                return value
            return value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)

        result = op(*(in_front(value, dim) for value, dim in zip(args, in_dims, strict=True)))
        return result, (0,) * len(result) if isinstance(result, tuple) else 0

    return rule
