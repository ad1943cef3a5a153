"""Rules of the fast engine: shapes do not depend on the data, no value is read back from the device, and splits can be
stacked.

Shapes: S splits.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.func import functional_call, stack_module_state
from torch.utils._python_dispatch import TorchDispatchMode

from cgipool.contract.subject import (
    CLASSES,
    ROOM,
    TASK,
    Broken,
    batch_of,
    graphs_of,
    must_agree,
    network_of,
    only_compact,
)
from cgipool.data.batch import Batch, stack
from cgipool.model.network import Model
from cgipool.pool.own import place_of
from cgipool.training.objective import objective


def splits(name: str) -> str:
    """Three splits stacked by `vmap`, each with its own random numbers, have the same losses and gradients as alone."""
    only_compact(name)
    models = [network_of(name, seed, dropout=0.5).train() for seed in range(3)]
    drawn = enumerate(([0, 1, 2, 3], [5, 4], [3, 2, 5, 0, 1]))
    batches = [batch_of(graphs_of(seed), ids, key=seed, room=ROOM) for seed, ids in drawn]
    alone = [_loss_and_gradients(model, batch) for model, batch in zip(models, batches, strict=True)]
    weights, buffers = stack_module_state(models)

    def one(weights: dict[str, Tensor], buffers: dict[str, Tensor], batch: Batch) -> Tensor:
        return _loss(models[0], weights | buffers, batch)

    losses = torch.vmap(one)(weights, buffers, stack(batches))
    must_agree("a stacked split has a different loss", losses, torch.stack([loss for loss, _ in alone]))
    if weights:
        losses.sum().backward()
    for parameter, weight in weights.items():
        mine = torch.stack([grads[parameter] for _, grads in alone])
        given = torch.zeros_like(mine) if weight.grad is None else weight.grad
        must_agree(f"a stacked split has a different gradient of {parameter}", given, mine)
    return "three stacked splits have the same losses and gradients as alone"


def _loss(model: Model, state: Mapping[str, Tensor], batch: Batch) -> Tensor:
    output = functional_call(model, dict(state), (batch,))
    return objective(output, batch, TASK, torch.ones(CLASSES, dtype=torch.float64), 1.0)


def _loss_and_gradients(model: Model, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and the gradients by name, 0 for a weight without one."""
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    loss, weights = _loss(model, state, batch), dict(model.named_parameters())
    grads = torch.autograd.grad(loss, list(weights.values()), allow_unused=True) if weights else ()
    known = zip(weights, grads, strict=True)
    return loss.detach(), {n: torch.zeros_like(weights[n]) if grad is None else grad for n, grad in known}


def static_shapes(name: str) -> str:
    """Forward and backward run on tensors with shapes but no values: nothing reads a value."""
    only_compact(name)
    model = network_of(name, compact=False, dropout=0.5).train()
    batch = batch_of(graphs_of(), room=ROOM)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, _Watching():
        shapes = Batch(*map(fake.from_tensor, batch))
        weights = {parameter: fake.from_tensor(weight) for parameter, weight in model.named_parameters()}
        buffers = {buffer: fake.from_tensor(value) for buffer, value in model.named_buffers()}
        try:
            loss = _loss(model, weights | buffers, shapes)
            if weights:
                torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise Broken(f"{_named(error.func)} at {place_of(error)}") from None
        except _ReadsValues as error:
            raise Broken(f"{error} at {place_of(error)}") from None
    return "no value is read in forward or backward, and no shape depends on one"


class _ReadsValues(Exception):
    """An operation reads values of a tensor."""


class _Watching(TorchDispatchMode):
    """Reports boolean indexing. Assigning to x[mask] has a known shape, but on a GPU it waits for the mask."""

    INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.INDEXING and any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            raise _ReadsValues("boolean indexing")
        return func(*args, **(kwargs or {}))


def _named(func: Any) -> str:
    """Return a name of a torch operation that users know."""
    plain = str(func).removeprefix("aten.").split(".")[0].strip("_")
    if plain == "local_scalar_dense":
        return "a value read back (.item(), .tolist(), int(), float(), bool() or if)"
    return f"a shape that depends on values ({plain})"
