"""A stack of models with the same shapes, so that one program trains all splits of a cell.

Shapes: S splits, B graphs, C classes. Modules are written for one split; `vmap` adds the axis. A stack does
not draw splits: it makes a step on the batch that it is given, and returns losses.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from cgipool.data.batch import Batch
from cgipool.model.network import Model
from cgipool.task.base import Task
from cgipool.training.objective import objective
from cgipool.training.optimiser import follow, no_moments, update
from cgipool.training.recipe import Recipe


class Answer(NamedTuple):
    """The outputs of S models, each on its own batch."""

    logits: Tensor
    """[S, B, C]."""
    metrics: dict[str, Tensor]
    """[S, L] by name."""


class Stack:
    """S models with one Adam. Adam acts on each number separately, so this equals S separate Adams."""

    def __init__(
        self,
        models: Sequence[Model],
        device: torch.device,
        recipe: Recipe,
        task: Task,
        decays: Mapping[float, Sequence[str]],
        sample_weight: Tensor | None = None,
    ) -> None:
        self.base = models[0].to(device)
        """The module whose code runs; its own weights are never used."""
        self.base.compact = False
        self.params = {
            name: torch.stack([dict(m.named_parameters())[name].detach() for m in models]).to(device).requires_grad_()
            for name, _ in models[0].named_parameters()
        }
        self.buffers = {
            name: torch.stack([dict(m.named_buffers())[name] for m in models]).to(device)
            for name, _ in models[0].named_buffers()
        }
        self.recipe, self.task = recipe, task
        self.sample_weight = sample_weight
        """[S, G] weights of the graphs of the data set."""
        self.decays = decays
        """The names of weights by their weight decay."""
        # A captured step must read a changing rate from the device, where it is rounded to float32. A constant rate
        # stays a Python number, as in the loop over one split.
        self.rate = recipe.lr if recipe.steady else torch.tensor(recipe.lr, device=device)
        self.moments = {name: no_moments(p) for name, p in self.params.items()}
        """Adam's state by name of weight. The step count is the same for all splits and has no split axis."""
        averaged = self.state if recipe.average > 0.0 else {}
        self.average = {name: value.clone() for name, value in averaged.items()}
        """The average of `state` over steps by name, if the recipe uses averaging."""

    @property
    def state(self) -> dict[str, Tensor]:
        """The contents of a weights file by name: weights, and buffers such as running means."""
        held = self.base.state_dict()
        return {name: value.detach() for name, value in (self.params | self.buffers).items() if name in held}

    @property
    def eval_state(self) -> dict[str, Tensor]:
        """The weights that are evaluated: the average if there is one, otherwise `state`."""
        return self.average or self.state

    @property
    def parameters(self) -> int:
        """The number of weights of one model."""
        return sum(p[0].numel() for p in self.params.values())

    def begin(self, epoch: int) -> None:
        """Set the learning rate of an epoch, the same for all splits."""
        if isinstance(self.rate, Tensor):
            self.rate.fill_(self.recipe.rate_at(epoch))

    def losses(self, batch: Batch, constants: Tensor, own_weight: float | Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """[S] the loss of each split on its own batch, and new values of buffers [S, …] by name."""

        def one(
            state: dict[str, Tensor], batch: Batch, constants: Tensor, weight: Tensor | None = None
        ) -> tuple[Tensor, dict[str, Tensor]]:
            output = functional_call(self.base, state, (batch,))
            smoothing, focal = self.recipe.label_smoothing, self.recipe.focal
            loss = objective(output, batch, self.task, constants, own_weight, smoothing, weight, focal)
            return loss, dict(output.buffers)

        weight = () if self.sample_weight is None else (self.sample_weight,)
        return torch.vmap(one)(self.params | self.buffers, batch, constants, *weight)

    def step(self, batch: Batch, constants: Tensor, own_weight: float | Tensor) -> Tensor:
        """One step of every split; the losses [S] before it. A split's gradient does not depend on the others'."""
        losses, buffers = self.losses(batch, constants, own_weight)
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
        """Clip the gradient norm of each split, as torch's `clip_grad_norm_` does."""
        gradients = [p.grad for p in self.params.values() if p.grad is not None]
        norm = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
        share = (self.recipe.clip / (torch.linalg.vector_norm(norm, dim=0) + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(share.view(-1, *[1] * (gradient.ndim - 1)))

    def _adam(self) -> Tensor:
        """Update all weights that have a gradient; returns the number of the step."""
        steps = []
        for decay, names in self.decays.items():
            trained = {name: self.params[name] for name in names if self.params[name].grad is not None}
            moments = [self.moments[name] for name in trained]
            if moments:
                update(list(trained.values()), moments, self.rate, decay)
                steps.append(moments[0]["step"])
            for p in trained.values():
                p.grad = None
        return steps[0]

    @torch.no_grad()
    def answer(self, state: dict[str, Tensor], batch: Batch) -> Answer:
        """Return logits and diagnostics of each split with these weights and buffers, in evaluation mode."""

        def one(state: dict[str, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            output = functional_call(self.base, state, (batch,))
            return output.logits, output.metrics

        self.base.eval()
        return Answer(*torch.vmap(one)(self.buffers | state, batch))

    @torch.no_grad()
    def restore(
        self, state: dict[str, Tensor], moments: dict[str, dict[str, Tensor]], average: dict[str, Tensor]
    ) -> None:
        """Restore weights, buffers, Adam's state and averages in place, because a captured step keeps its addresses.
        The moments of a weight without saved ones become 0."""
        for held, saved in ((self.state, state), (self.average, average)):
            for name, value in saved.items():
                held[name].copy_(value)
        for name, parts in self.moments.items():
            for part, old in parts.items():
                new = moments.get(name, {}).get(part)
                old.copy_(new) if new is not None else old.zero_()

    def keep(self, splits: Tensor) -> None:
        """Keep only these splits."""
        self.params = {name: p.detach()[splits].requires_grad_() for name, p in self.params.items()}
        self.buffers = {name: b[splits] for name, b in self.buffers.items()}
        self.average = {name: a[splits] for name, a in self.average.items()}
        self.sample_weight = None if self.sample_weight is None else self.sample_weight[splits]
        self.moments = {
            name: {part: value.clone() if part == "step" else value[splits] for part, value in parts.items()}
            for name, parts in self.moments.items()
        }


class Program:
    """A function without arguments that works on tensors it holds. On a CPU it is called; on a GPU it is captured as a
    CUDA graph and replayed, so that a call is one launch."""

    def __init__(self, function: Callable[[], None], device: torch.device, pool: Any = None) -> None:
        self.function = function
        self.graph = None
        if device.type == "cuda":
            self.graph = torch.cuda.CUDAGraph()
            gc.collect()
            gc.disable()  # freeing an earlier graph during a capture would break it
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
