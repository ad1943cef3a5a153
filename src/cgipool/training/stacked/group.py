"""Every split at once: the training loop of a GPU.

Shapes: S splits, B graphs. The state of all splits lives on the device, early stopping included; the host only launches
epochs and looks at what they gave now and then.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool.data.batch import Batch, Capacity
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.ops.draws import extended, shuffled
from cgipool.pool import method_named
from cgipool.training.initial import fit_encoder, initial_model
from cgipool.training.job import EVALUATION, ORDER, STEP, Job
from cgipool.training.objective import class_weights, classification_loss, sample_weights
from cgipool.training.optimiser import MOMENTS
from cgipool.training.stacked.batches import Resident, near_dense
from cgipool.training.stacked.stack import Program, Stack

HISTORY = 256
"""Epochs that the device remembers; the host looks more often than that."""

EPOCHS_AT_ONCE = 32
"""Epochs whose orders are drawn at once to find the largest step; bounds that memory."""

EVALUATED_ROWS = 500_000
"""Positions of all splits in one evaluation batch: bounds its memory."""


class Piece(NamedTuple):
    """A fixed batch of every split, to be evaluated."""

    batch: Batch
    there: Tensor
    """[S, B] 1 for a graph, 0 for an empty slot."""
    rows: tuple[int, ...]
    """How many nodes are left after each pool at most, if that is known."""


class Group:
    """Splits that train together: same method, recipe and data set, same shapes."""

    def __init__(self, tasks: Sequence[Job], graphs: GraphSet) -> None:
        self.tasks, self.recipe, self.graphs = list(tasks), tasks[0].recipe, graphs
        self.device = torch.device(tasks[0].device)
        self.encoders = [fit_encoder(task, graphs) for task in tasks]
        self.data = self._resident()
        models = [initial_model(task, graphs, e) for task, e in zip(tasks, self.encoders, strict=True)]
        self.sample_weight = sample_weights(tasks[0].sample_weight, self.device)
        self.stack = Stack(models, self.device, self.recipe, self.sample_weight)
        self.class_weight = torch.stack(
            [class_weights(graphs.y[t.split.train], graphs.n_classes, self.recipe.class_weight) for t in tasks]
        ).to(self.device)
        self.train = self._ids([task.split.train for task in tasks])
        self.batch_size = min(self.recipe.batch_size, self.train.shape[1])
        self.steps = math.ceil(self.train.shape[1] / self.batch_size)
        self.step_key, self.order_key, self.evaluation_key = (
            self._put([task.key(purpose) for task in tasks]) for purpose in (STEP, ORDER, EVALUATION)
        )
        self.val = self._evaluation_batches([task.split.val for task in tasks])
        self._reset()
        self.programs: dict[str, Program] = {}
        self.room, self.rows = self._training_room()

    def _resident(self) -> Resident:
        tiled = self.device.type == "cuda" and near_dense(self.graphs)
        try:
            return Resident(self.graphs, [e.encode(self.graphs) for e in self.encoders], self.device, tiled)
        except (torch.OutOfMemoryError, MemoryError):
            if len(self.tasks) > 1:  # fewer splits need less, as each has its own columns
                raise
            raise UserError(
                f"{self.graphs.name} does not fit into the memory of {self.device}, which must hold the whole data "
                "set; to read it batch by batch: torchrun --nproc-per-node 1 -m cgipool train … --distributed"
            ) from None

    def _put(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def _ids(self, parts: Sequence[np.ndarray]) -> Tensor:
        """[S, n] graph ids, −1 behind the shorter ones."""
        longest = max(map(len, parts))
        padded = [np.pad(part, (0, longest - len(part)), constant_values=-1) for part in parts]
        return self._put(np.stack(padded))

    def _reset(self) -> None:
        splits, device = len(self.tasks), self.device
        self.epoch, self.step_number = self._put(0), self._put(0)
        self.order = torch.full((splits, self.steps, self.batch_size), -1, device=device)
        self.keys = torch.zeros(splits, self.steps, dtype=torch.int64, device=device)
        self.best_loss = torch.full((splits,), torch.inf, device=device)
        self.best_epoch = torch.zeros(splits, dtype=torch.int64, device=device)
        self.best = {name: value.clone() for name, value in self.stack.state.items()}
        self.total = torch.zeros(splits, device=device)
        self.own_weight = torch.zeros((), device=device)
        self.history: Tensor | None = None
        self.names: list[tuple[str, int]] = []

    def _evaluation_batches(self, parts: Sequence[np.ndarray]) -> list[Piece]:
        """Fixed batches over these graphs of every split."""
        ids = self._ids(parts)
        nodes = max(1, int(self.data.size[ids.clamp(min=0)].sum()))
        pieces = min(ids.shape[1], math.ceil(nodes / EVALUATED_ROWS))
        batches = []
        for piece in ids.tensor_split(pieces, 1):
            batch = self.data.batch(piece, self.evaluation_key, self.data.capacity(piece))
            batches.append(Piece(batch, (piece >= 0).float(), self._rows_of(piece)))
        return batches

    def _epoch_order(self, epoch: Tensor) -> Tensor:
        """[…, S, steps, B] the training graphs of an epoch in their order, −1 behind the last; epoch has any shape."""
        number = epoch if self.recipe.shuffle else torch.zeros_like(epoch)
        order = shuffled(extended(self.order_key, number.unsqueeze(-1)), self.train.shape[1])
        ids = self.train.expand_as(order).gather(-1, order)
        empty = self.steps * self.batch_size - self.train.shape[1]
        return torch.nn.functional.pad(ids, (0, empty), value=-1).unflatten(-1, (self.steps, self.batch_size))

    def _rows_of(self, ids: Tensor) -> tuple[int, ...]:
        """The positions that each level needs on these batches, if the method's selections are known beforehand."""
        if not method_named(self.tasks[0].method).selects:
            return ()
        return self.data.rows(ids, self.recipe.ratio, self.recipe.levels)

    def _training_room(self) -> tuple[Capacity, tuple[int, ...]]:
        """What the largest step of any epoch needs, and each level after its pool: the orders are known from the
        seeds."""
        room, rows = np.zeros(4, int), np.zeros(len(self._rows_of(self.train[:, :1])), int)
        epochs = torch.arange(1, 1 + (self.recipe.epochs if self.recipe.shuffle else 1), device=self.device)
        for some in epochs.split(EPOCHS_AT_ONCE):
            ids = self._epoch_order(some)
            room = np.maximum(room, self.data.capacity(ids))
            rows = np.maximum(rows, self._rows_of(ids))
        return Capacity(*room.tolist()), tuple(rows.tolist())

    def _begin(self) -> None:
        self.epoch += 1
        self.step_number.zero_()
        self.total.zero_()
        self.order.copy_(self._epoch_order(self.epoch))
        steps = torch.arange(self.steps, device=self.device)
        self.keys.copy_(extended(extended(self.step_key, self.epoch).unsqueeze(1), steps))

    def _step(self) -> None:
        ids, key = (t.index_select(1, self.step_number.view(1)).squeeze(1) for t in (self.order, self.keys))
        batch = self.data.batch(ids, key, self.room)
        self.stack.base.rows = self.rows
        weight = self.own_weight if self._has_own_loss else 0.0
        losses = self.stack.step(batch, self.class_weight, weight)
        self.total += losses * (ids >= 0).sum(1)
        self.step_number += 1

    @property
    def _has_own_loss(self) -> bool:
        return self._own_weight_at(1) != 0.0

    def _own_weight_at(self, epoch: int) -> float:
        return self.recipe.own_weight(method_named(self.tasks[0].method), self.graphs.name, epoch)

    def _validate(self) -> dict[str, Tensor]:
        """[S] by name: loss, accuracy and the diagnostics of the validation graphs."""
        loss = count = right = weight = torch.zeros(len(self.best_loss), device=self.device)
        metrics: dict[str, Tensor] = {}
        for batch, there, rows in self.val:
            self.stack.base.rows = rows
            answer = self.stack.answer(self.stack.eval_state, batch)
            each = self.class_weight.gather(1, batch.y) * there
            if self.sample_weight is not None:
                each = each * self.sample_weight[batch.id]
            mean = torch.vmap(classification_loss)(answer.logits, batch.y, each)
            loss, weight = loss + mean * each.sum(1), weight + each.sum(1)
            right = right + ((answer.logits.argmax(2) == batch.y) * there).sum(1)
            count = count + there.sum(1)
            for name, value in answer.metrics.items():
                metrics[name] = metrics.get(name, 0.0) + value * there.sum(1, keepdim=True)
        told = {"val_loss": loss / weight.clamp(min=1e-12), "val_accuracy": right / count}
        return told | {name: value / count.unsqueeze(1) for name, value in metrics.items()}

    def _end(self) -> None:
        """Validate, remember the best weights and what is to be told."""
        told = {"train_loss": self.total / self.train.shape[1]} | self._validate()
        row = torch.cat([v.view(len(self.best_loss), -1) for v in told.values()], 1)
        if self.history is None:
            self.names = [(name, v[0].numel()) for name, v in told.items()]
            self.history = row.new_zeros(HISTORY, *row.shape)
        self.history.index_copy_(0, ((self.epoch - 1) % HISTORY).view(1), row.unsqueeze(0))
        active = self.epoch - self.best_epoch <= self.recipe.patience
        better = (told["val_loss"] < self.best_loss) & active
        self.best_loss.copy_(torch.where(better, told["val_loss"], self.best_loss))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))
        for name, value in self.stack.eval_state.items():
            best = self.best[name]
            best.copy_(torch.where(better.view(-1, *[1] * (value.ndim - 1)), value, best))

    def capture(self) -> None:
        """Make programs of the parts of an epoch. On a GPU each runs once uncaptured, as capturing needs; what that
        changed is put back."""
        state = (self.epoch, self.step_number, self.order, self.best_loss, self.best_epoch, self.total)
        before = [t.clone() for t in state]
        models, average, best = (
            {name: value.clone() for name, value in held.items()}
            for held in (self.stack.state, self.stack.average, self.best)
        )
        moments = {n: {p: v.clone() for p, v in m.items()} for n, m in self.stack.moments.items()}
        parts = {"begin": self._begin, "step": self._step, "end": self._end}
        pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        if self.device.type == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for part in parts.values():
                    self._mode(part)
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
        self.programs = {}
        for name, part in parts.items():
            self.programs[name] = Program(partial(self._mode, part), self.device, pool)
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)
        for name, value in best.items():
            self.best[name].copy_(value)
        self.stack.restore(models, moments, average)

    def _mode(self, part: Any) -> None:
        self.stack.base.train(part == self._step)
        part()

    def run_epoch(self, epoch: int) -> None:
        """Launch one epoch; nothing is waited for."""
        self.own_weight.fill_(self._own_weight_at(epoch))
        self.stack.begin(epoch)
        self.programs["begin"]()
        for _ in range(self.steps):
            self.programs["step"]()
        self.programs["end"]()

    def set_dropout(self, epoch: int) -> bool:
        """Whether the dropout of this epoch differs from that of the captured step."""
        before, self.stack.base.dropout = self.stack.base.dropout, self.recipe.dropout_at(epoch)
        return before != self.stack.base.dropout

    def keep(self, splits: list[int]) -> None:
        """Go on with these splits alone."""
        chosen = self._put(splits)
        self.tasks = [self.tasks[s] for s in splits]
        self.encoders = [self.encoders[s] for s in splits]
        self.data.keep(chosen)
        self.stack.keep(chosen)
        self.best = {name: b[chosen] for name, b in self.best.items()}
        for name in ("class_weight", "train", "step_key", "order_key", "evaluation_key", "order", "keys", "best_loss",
                     "best_epoch", "total"):  # fmt: skip
            setattr(self, name, getattr(self, name)[chosen].clone())
        self.val = [Piece(Batch(*(t[chosen] for t in b)), there[chosen], rows) for b, there, rows in self.val]
        if self.history is not None:
            self.history = self.history[:, chosen].clone()
        self.programs = {}

    @torch.no_grad()
    def test(self) -> list[np.ndarray]:
        """The probabilities [n, classes] of each split's test graphs, by its best weights."""
        logits = []
        for batch, _, rows in self._evaluation_batches([task.split.test for task in self.tasks]):
            self.stack.base.rows = rows
            logits.append(self.stack.answer(self.best, batch).logits)
        every = torch.softmax(torch.cat(logits, 1).double(), 2).cpu().numpy()
        return [p[: len(task.split.test)] for p, task in zip(every, self.tasks, strict=True)]

    def told(self, epochs: range) -> list[list[dict[str, Any]]]:
        """For each split and each of these epochs, what the device remembers, by name. Waits for the device."""
        assert self.history is not None
        values = self.history[self._put([(epoch - 1) % HISTORY for epoch in epochs])].double().cpu()
        rows: list[list[dict[str, Any]]] = []
        for s in range(values.shape[1]):
            parts = [value[s].split([width for _, width in self.names]) for value in values]
            rows.append([self._row(part) for part in parts])
        return rows

    def _row(self, parts: Sequence[Tensor]) -> dict[str, Any]:
        scalars = ("train_loss", "val_loss", "val_accuracy")
        pairs = zip((name for name, _ in self.names), parts, strict=True)
        return {name: part.item() if name in scalars else part.tolist() for name, part in pairs}

    def best_of(self, split: int) -> dict[str, Tensor]:
        """The best weights of one split, with the buffers that go with them."""
        return {name: value[split] for name, value in self.best.items()}

    def state_of(self, split: int) -> dict[str, Tensor]:
        """All that the next epoch of one split needs, by the names of a checkpoint."""
        tensors = {f"now/{name}": value[split] for name, value in self.stack.state.items()}
        tensors |= {f"best/{name}": value for name, value in self.best_of(split).items()}
        tensors |= {f"average/{name}": value[split] for name, value in self.stack.average.items()}
        for name, parts in self.stack.moments.items():
            for part, value in parts.items():
                tensors[f"adam/{part}/{name}"] = value if part == "step" else value[split]
        return tensors

    def restore(self, epoch: int, states: Sequence[dict[str, Tensor]], best: Sequence[tuple[float, int]]) -> None:
        """Go on from saved states, one for each split, all of the same epoch."""

        def stacked(name: str) -> Tensor:
            return torch.stack([state[name] for state in states]).to(self.device)

        moments = {}
        for name in self.stack.params:
            parts = {part: stacked(f"adam/{part}/{name}") for part in MOMENTS if f"adam/{part}/{name}" in states[0]}
            moments[name] = parts | ({"step": parts["step"][0]} if "step" in parts else {})
        average = {name: stacked(f"average/{name}") for name in self.stack.average}
        self.stack.restore({name: stacked(f"now/{name}") for name in self.stack.state}, moments, average)
        self.best = {name: stacked(f"best/{name}") for name in self.best}
        self.epoch.fill_(epoch)
        self.best_loss.copy_(torch.tensor([loss for loss, _ in best]))
        self.best_epoch.copy_(torch.tensor([number for _, number in best]))
