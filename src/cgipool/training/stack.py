"""Several models of one shape side by side: one program trains all splits of a cell.

Shapes: S splits, B graphs, C classes. Modules are written for one split; `vmap` adds the axis. A stack does not know
what its splits are: it makes a step on whatever batch it is given, and tells losses.
"""

import gc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from cgipool.data.batch import Batch
from cgipool.network import Model
from cgipool.training.objective import objective

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Answer(NamedTuple):
    """What S models say of a batch each."""

    logits: Tensor
    """[S, B, C]."""
    metrics: dict[str, Tensor]
    """[S, L] by name."""


class Stack:
    """S models with one Adam over all of them. Adam acts on each number by itself, so this is S Adams."""

    def __init__(self, models: Sequence[Model], device: torch.device, lr: float, weight_decay: float) -> None:
        self.base = models[0].to(device)
        """Whose code runs; its own weights are never used."""
        self.base.compact = False
        self.params = {
            name: torch.stack([dict(m.named_parameters())[name].detach() for m in models]).to(device).requires_grad_()
            for name, _ in models[0].named_parameters()
        }
        self.buffers = {
            name: torch.stack([dict(m.named_buffers())[name] for m in models]).to(device)
            for name, _ in models[0].named_buffers()
        }
        graph = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            self.params.values(), lr=lr, weight_decay=weight_decay, fused=True, capturable=graph
        )

    @property
    def splits(self) -> int:
        """S."""
        return len(next(iter(self.params.values())))

    @property
    def parameters(self) -> int:
        """The weights of one model."""
        return sum(p[0].numel() for p in self.params.values())

    def losses(self, batch: Batch, class_weight: Tensor, own_weight: float | Tensor) -> Tensor:
        """[S] the loss of each split on its own batch."""

        def one(params: dict[str, Tensor], buffers: dict[str, Tensor], batch: Batch, weight: Tensor) -> Tensor:
            output = functional_call(self.base, {**params, **buffers}, (batch,))
            return objective(output, batch, weight, own_weight)

        return torch.vmap(one)(self.params, self.buffers, batch, class_weight)

    def step(self, batch: Batch, class_weight: Tensor, own_weight: float | Tensor) -> Tensor:
        """One step of every split; the losses [S] before it. A split's gradient does not depend on the others'."""
        losses = self.losses(batch, class_weight, own_weight)
        losses.sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return losses.detach()

    @torch.no_grad()
    def answer(self, params: dict[str, Tensor], batch: Batch) -> Answer:
        """Logits and diagnostics of each split with these weights, in evaluation mode."""

        def one(
            params: dict[str, Tensor], buffers: dict[str, Tensor], batch: Batch
        ) -> tuple[Tensor, dict[str, Tensor]]:
            output = functional_call(self.base, {**params, **buffers}, (batch,))
            return output.logits, output.metrics

        self.base.eval()
        return Answer(*torch.vmap(one)(params, self.buffers, batch))

    def moments(self) -> dict[str, dict[str, Tensor]]:
        """Adam's state by name of weight. The count of steps is the same for all splits, and has no split axis."""
        return {name: dict(self.optimizer.state[p]) for name, p in self.params.items() if p in self.optimizer.state}

    @torch.no_grad()
    def restore(self, params: dict[str, Tensor], moments: dict[str, dict[str, Tensor]]) -> None:
        """Put weights and Adam's state back, in place where they are there already: a captured step keeps its
        addresses."""
        for name, value in params.items():
            self.params[name].copy_(value)
        for name, p in self.params.items():
            for part in MOMENTS:
                new, old = moments.get(name, {}).get(part), self.optimizer.state[p].get(part)
                if old is not None:
                    old.copy_(new) if new is not None else old.zero_()
                elif new is not None:
                    self.optimizer.state[p][part] = new.clone()

    def keep(self, splits: Tensor) -> None:
        """Go on with these splits alone."""
        before = self.moments()
        self.params = {name: p.detach()[splits].requires_grad_() for name, p in self.params.items()}
        self.buffers = {name: b[splits] for name, b in self.buffers.items()}
        group = self.optimizer.param_groups[0]
        options = {name: group[name] for name in ("lr", "weight_decay", "fused", "capturable")}
        self.optimizer = torch.optim.Adam(self.params.values(), **options)
        for name, parts in before.items():
            self.optimizer.state[self.params[name]] = {
                part: value.clone() if part == "step" else value[splits] for part, value in parts.items()
            }


class Program:
    """A function without arguments that works on tensors it holds: called plainly on a CPU, captured on a GPU and
    replayed, so that a call is one launch."""

    def __init__(self, function: Callable[[], None], device: torch.device, pool: Any = None) -> None:
        self.function = function
        self.graph = None
        if device.type == "cuda":
            self.graph = torch.cuda.CUDAGraph()
            gc.collect()
            gc.disable()  # a graph of an earlier capture that is freed during this one would break it
            try:
                with torch.cuda.graph(self.graph, pool=pool):
                    function()
            finally:
                gc.enable()

    def __call__(self) -> None:
        """Run it."""
        if self.graph is not None:
            self.graph.replay()
        else:
            self.function()
