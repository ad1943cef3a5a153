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
from cgipool.model.network import Model
from cgipool.training.objective import objective
from cgipool.training.optimiser import follow, no_moments, update
from cgipool.training.recipe import Recipe


class Answer(NamedTuple):
    """What S models say of a batch each."""

    logits: Tensor
    """[S, B, C]."""
    metrics: dict[str, Tensor]
    """[S, L] by name."""


class Stack:
    """S models with one Adam over all of them. Adam acts on each number by itself, so this is S Adams."""

    def __init__(
        self, models: Sequence[Model], device: torch.device, recipe: Recipe, sample_weight: Tensor | None = None
    ) -> None:
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
        self.recipe = recipe
        self.sample_weight = sample_weight
        """[G] of the graphs of the data set, the same for all splits."""
        # A captured step reads a rate that changes from the device. There it is rounded to float32, so one that does
        # not change stays a number of the host, as in the plain loop.
        self.rate = recipe.lr if recipe.steady else torch.tensor(recipe.lr, device=device)
        self.moments = {name: no_moments(p) for name, p in self.params.items()}
        """Adam's state by name of weight. The count of steps is the same for all splits, and has no split axis."""
        averaged = self.state if recipe.average > 0.0 else {}
        self.average = {name: value.clone() for name, value in averaged.items()}
        """The average of `state` over steps by name, if the recipe wants one."""

    @property
    def state(self) -> dict[str, Tensor]:
        """What a model's file holds, by name: weights, and buffers such as running means."""
        held = self.base.state_dict()
        return {name: value.detach() for name, value in (self.params | self.buffers).items() if name in held}

    @property
    def eval_state(self) -> dict[str, Tensor]:
        """What is validated and tested: the average if there is one, else `state`."""
        return self.average or self.state

    @property
    def parameters(self) -> int:
        """The weights of one model."""
        return sum(p[0].numel() for p in self.params.values())

    def begin(self, epoch: int) -> None:
        """Set what changes from epoch to epoch: the learning rate, the same for all splits."""
        if isinstance(self.rate, Tensor):
            self.rate.fill_(self.recipe.rate_at(epoch))

    def losses(
        self, batch: Batch, class_weight: Tensor, own_weight: float | Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """[S] the loss of each split on its own batch, and new values of buffers [S, …] by name."""

        def one(state: dict[str, Tensor], batch: Batch, weight: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            output = functional_call(self.base, state, (batch,))
            smoothing = self.recipe.label_smoothing
            loss = objective(output, batch, weight, own_weight, smoothing=smoothing, sample_weight=self.sample_weight)
            return loss, dict(output.buffers)

        return torch.vmap(one)(self.params | self.buffers, batch, class_weight)

    def step(self, batch: Batch, class_weight: Tensor, own_weight: float | Tensor) -> Tensor:
        """One step of every split; the losses [S] before it. A split's gradient does not depend on the others'."""
        losses, buffers = self.losses(batch, class_weight, own_weight)
        losses.sum().backward()
        if self.recipe.clip > 0.0:
            self._clip()
        number = self._adam()
        for name, value in buffers.items():
            self.buffers[name].copy_(value)
        if self.average:
            follow(self.average, self.state, self.buffers, self.recipe.average, number)
        return losses.detach()

    @torch.no_grad()
    def _clip(self) -> None:
        """Scale the gradients of each split down to the norm that they may have, as torch's `clip_grad_norm_` does."""
        gradients = [p.grad for p in self.params.values() if p.grad is not None]
        norm = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
        share = (self.recipe.clip / (torch.linalg.vector_norm(norm, dim=0) + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(share.view(-1, *[1] * (gradient.ndim - 1)))

    def _adam(self) -> Tensor:
        """One update of all weights that have a gradient; the number of the step."""
        trained = {name: p for name, p in self.params.items() if p.grad is not None}
        moments = [self.moments[name] for name in trained]
        update(list(trained.values()), moments, self.rate, self.recipe.weight_decay)
        for p in trained.values():
            p.grad = None
        return moments[0]["step"]

    @torch.no_grad()
    def answer(self, state: dict[str, Tensor], batch: Batch) -> Answer:
        """Logits and diagnostics of each split with these weights and buffers, in evaluation mode."""

        def one(state: dict[str, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            output = functional_call(self.base, state, (batch,))
            return output.logits, output.metrics

        self.base.eval()
        return Answer(*torch.vmap(one)(self.buffers | state, batch))

    @torch.no_grad()
    def restore(
        self, state: dict[str, Tensor], moments: dict[str, dict[str, Tensor]], average: dict[str, Tensor]
    ) -> None:
        """Put weights, buffers, Adam's state and averages back, in place: a captured step keeps its addresses. A weight
        without saved moments has none."""
        for held, saved in ((self.state, state), (self.average, average)):
            for name, value in saved.items():
                held[name].copy_(value)
        for name, parts in self.moments.items():
            for part, old in parts.items():
                new = moments.get(name, {}).get(part)
                old.copy_(new) if new is not None else old.zero_()

    def keep(self, splits: Tensor) -> None:
        """Go on with these splits alone."""
        self.params = {name: p.detach()[splits].requires_grad_() for name, p in self.params.items()}
        self.buffers = {name: b[splits] for name, b in self.buffers.items()}
        self.average = {name: a[splits] for name, a in self.average.items()}
        self.moments = {
            name: {part: value.clone() if part == "step" else value[splits] for part, value in parts.items()}
            for name, parts in self.moments.items()
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
