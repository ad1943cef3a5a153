"""The training loop on a GPU, for all splits at once.

Shapes: S splits, B graphs. The state of all splits, including early stopping, is on the device; the host only launches
epochs and reads their results from time to time.
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
from cgipool.task.base import Truth
from cgipool.task.registry import task_of
from cgipool.training.checkpoint import Best
from cgipool.training.initial import Prepared, constants_of
from cgipool.training.job import EVALUATION, ORDER, STEP
from cgipool.training.labels import Balance, task_weights
from cgipool.training.objective import own_weight, scores_of, watched
from cgipool.training.optimiser import MOMENTS, by_decay
from cgipool.training.stacked.batches import Resident, near_dense
from cgipool.training.stacked.stack import Program, Stack

HISTORY = 256
"""Epochs whose results the device keeps; the host reads them more often than that."""

EPOCHS_AT_ONCE = 32
"""Epochs whose orders are drawn at once to find the largest step; limits the memory for it."""

EVALUATED_ROWS = 500_000
"""Positions of all splits in one evaluation batch; limits its memory."""


class Piece(NamedTuple):
    """A fixed evaluation batch of every split."""

    batch: Batch
    there: Tensor
    """[S, B] 1 for a graph, 0 for an empty slot."""
    rows: tuple[int, ...]
    """Maximum number of nodes after each pool, if it is known."""


class Group:
    """Splits that train together: same method, recipe and data set, same shapes."""

    def __init__(self, ready: Sequence[Prepared], graphs: GraphSet) -> None:
        trainings = self.trainings = [each.job for each in ready]
        self.recipe, self.graphs = trainings[0].recipe, graphs
        self.device = torch.device(trainings[0].device)
        self.encoders = [each.encoder for each in ready]
        self.data = self._resident()
        sample_weight = self._sample_weight()
        self.task = task_of(graphs)
        models = [each.model for each in ready]
        decays = by_decay(dict(models[0].named_parameters()), self.recipe, trainings[0].method)
        self.stack = Stack(models, self.device, self.recipe, self.task, decays, sample_weight)
        self.constants = torch.stack([constants_of(job, graphs) for job in trainings]).to(self.device)
        self.train = self._ids([job.split.train for job in trainings])
        self.balance = self._balance()
        self.batch_size = min(self.recipe.batch_size, self.train.shape[1])
        self.steps = math.ceil(self.train.shape[1] / self.batch_size)
        self.step_key, self.order_key, self.evaluation_key = (
            self._put([job.key(purpose) for job in trainings]) for purpose in (STEP, ORDER, EVALUATION)
        )
        self.val = self._evaluation_batches([job.split.val for job in trainings])
        self._reset()
        self.programs: dict[str, Program] = {}
        self.room, self.rows = self._training_room()

    def _resident(self) -> Resident:
        tiled = self.device.type == "cuda" and near_dense(self.graphs)
        try:
            return Resident(self.graphs, [e.encode(self.graphs) for e in self.encoders], self.device, tiled)
        except (torch.OutOfMemoryError, MemoryError):
            if len(self.trainings) > 1:  # fewer splits need less memory, as each has its own columns
                raise
            raise UserError(
                f"{self.graphs.name} does not fit into the memory of {self.device}, which must hold the whole data "
                "set; to read it batch by batch: torchrun --nproc-per-node 1 -m cgipool train … --distributed"
            ) from None

    def _sample_weight(self) -> Tensor | None:
        """[S, G] the weights of all graphs in the task's loss; None if all are 1."""
        weights = [task_weights(job, self.graphs) for job in self.trainings]
        given = [weight for weight in weights if weight is not None]
        return torch.from_numpy(np.stack(given)).to(self.device) if given else None

    def _balance(self) -> Balance | None:
        """That of all splits, [S, n]; they have the same number of training graphs."""
        each = [balance for job in self.trainings if (balance := Balance.of(job, self.graphs)) is not None]
        return Balance(*(torch.stack(tables).to(self.device) for tables in zip(*each, strict=True))) if each else None

    def _put(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def _ids(self, parts: Sequence[np.ndarray]) -> Tensor:
        """[S, n] graph ids, padded with −1."""
        longest = max(map(len, parts))
        padded = [np.pad(part, (0, longest - len(part)), constant_values=-1) for part in parts]
        return self._put(np.stack(padded))

    def _reset(self) -> None:
        splits, device = len(self.trainings), self.device
        self.epoch, self.step_number = self._put(0), self._put(0)
        self.order = torch.full((splits, self.steps, self.batch_size), -1, device=device)
        self.keys = torch.zeros(splits, self.steps, dtype=torch.int64, device=device)
        self.best_watched = torch.full((splits,), torch.inf, device=device)
        self.best_epoch = torch.zeros(splits, dtype=torch.int64, device=device)
        self.best = {name: value.clone() for name, value in self.stack.state.items()}
        self.total = torch.zeros(splits, device=device)
        self.own_weight = torch.zeros((), device=device)
        self.history: Tensor | None = None
        self.names: list[tuple[str, int]] = []

    def _evaluation_batches(self, parts: Sequence[np.ndarray]) -> list[Piece]:
        """Return fixed batches over these graphs of every split."""
        ids = self._ids(parts)
        nodes = max(1, int(self.data.size[ids.clamp(min=0)].sum()))
        pieces = min(ids.shape[1], math.ceil(nodes / EVALUATED_ROWS))
        batches = []
        for piece in ids.tensor_split(pieces, 1):
            batch = self.data.batch(piece, self.evaluation_key, self.data.capacity(piece))
            batches.append(Piece(batch, (piece >= 0).float(), self._rows_of(piece)))
        return batches

    def _epoch_order(self, epoch: Tensor) -> Tensor:
        """[…, S, steps, B] the training graphs of an epoch in order, padded with −1; epoch has any shape."""
        number = epoch if self.recipe.shuffle else torch.zeros_like(epoch)
        order = shuffled(extended(self.order_key, number.unsqueeze(-1)), self.train.shape[1])
        order = order if self.balance is None else self.balance.reordered(order)
        ids = self.train.expand_as(order).gather(-1, order)
        empty = self.steps * self.batch_size - self.train.shape[1]
        return torch.nn.functional.pad(ids, (0, empty), value=-1).unflatten(-1, (self.steps, self.batch_size))

    def _rows_of(self, ids: Tensor) -> tuple[int, ...]:
        """Return the positions that each level needs on these batches, if the method's selection sizes are known."""
        if not method_named(self.trainings[0].method).selects:
            return ()
        return self.data.rows(ids, self.recipe.ratio, self.recipe.levels)

    def _training_room(self) -> tuple[Capacity, tuple[int, ...]]:
        """Return the capacity of the largest step of any epoch, and the positions after each pool. The orders of all
        epochs follow from the seeds."""
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
        losses = self.stack.step(batch, self.constants, weight)
        self.total += losses * (ids >= 0).sum(1)
        self.step_number += 1

    @property
    def _has_own_loss(self) -> bool:
        return self._own_weight_at(1) != 0.0

    def _own_weight_at(self, epoch: int) -> float:
        return own_weight(self.recipe, self.trainings[0].method, self.graphs.name, epoch)

    def _validate(self) -> dict[str, Tensor]:
        """[S] by name: loss, metrics and diagnostics of the validation graphs."""
        loss = count = mass = torch.zeros(len(self.best_watched), device=self.device)
        metrics: dict[str, Tensor] = {}
        outputs: list[Tensor] = []
        every = self.stack.sample_weight
        for batch, there, rows in self.val:
            self.stack.base.rows = rows
            answer = self.stack.answer(self.stack.eval_state, batch)
            weight = there if every is None else there * every.gather(1, batch.id)
            truth = Truth(batch.y, batch.targets)
            mean = torch.vmap(self.task.loss)(answer.logits, truth, self.constants, weight)
            part = torch.vmap(self.task.mass)(truth, self.constants, weight)
            loss, mass = loss + mean * part, mass + part
            outputs.append(answer.logits)
            count = count + there.sum(1)
            for name, value in answer.metrics.items():
                metrics[name] = metrics.get(name, 0.0) + value * there.sum(1, keepdim=True)
        truth = Truth(*(torch.cat([getattr(p.batch, name) for p in self.val], 1) for name in Truth._fields))
        there = torch.cat([piece.there for piece in self.val], 1)
        scores = torch.vmap(partial(scores_of, self.task, self.recipe.stop_by))(
            torch.cat(outputs, 1), truth, self.constants, there
        )
        values = {"val_loss": loss / mass.clamp(min=1e-12)} | scores
        return values | {name: value / count.unsqueeze(1) for name, value in metrics.items()}

    def _end(self) -> None:
        """Validate, store the results in the history and keep the best weights."""
        scores = {"train_loss": self.total / self.train.shape[1]} | self._validate()
        row = torch.cat([v.view(len(self.best_watched), -1).float() for v in scores.values()], 1)
        if self.history is None:
            self.names = [(name, v[0].numel()) for name, v in scores.items()]
            self.history = row.new_zeros(HISTORY, *row.shape)
        self.history.index_copy_(0, ((self.epoch - 1) % HISTORY).view(1), row.unsqueeze(0))
        active = self.epoch - self.best_epoch <= self.recipe.patience
        now = watched(self.task, self.recipe.stop_by, scores).float()
        better = (now < self.best_watched) & active
        self.best_watched.copy_(torch.where(better, now, self.best_watched))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))
        for name, value in self.stack.eval_state.items():
            best = self.best[name]
            best.copy_(torch.where(better.view(-1, *[1] * (value.ndim - 1)), value, best))

    def capture(self) -> None:
        """Make programs of the parts of an epoch. On a GPU each part runs once before it is captured, as CUDA graphs
        require; afterwards the state is restored."""
        state = (self.epoch, self.step_number, self.order, self.best_watched, self.best_epoch, self.total)
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
        """Launch one epoch without waiting for it."""
        self.own_weight.fill_(self._own_weight_at(epoch))
        self.stack.begin(epoch)
        self.programs["begin"]()
        for _ in range(self.steps):
            self.programs["step"]()
        self.programs["end"]()

    def set_dropout(self, epoch: int) -> bool:
        """Set the dropout of this epoch; returns whether it differs from the captured step's."""
        before, self.stack.base.dropout = self.stack.base.dropout, self.recipe.dropout_at(epoch)
        return before != self.stack.base.dropout

    def keep(self, splits: list[int]) -> None:
        """Keep only these splits."""
        chosen = self._put(splits)
        self.trainings = [self.trainings[s] for s in splits]
        self.encoders = [self.encoders[s] for s in splits]
        self.data.keep(chosen)
        self.stack.keep(chosen)
        self.best = {name: b[chosen] for name, b in self.best.items()}
        self.balance = None if self.balance is None else Balance(*(table[chosen] for table in self.balance))
        for name in ("constants", "train", "step_key", "order_key", "evaluation_key", "order", "keys", "best_watched",
                     "best_epoch", "total"):  # fmt: skip
            setattr(self, name, getattr(self, name)[chosen].clone())
        self.val = [Piece(Batch(*(t[chosen] for t in b)), there[chosen], rows) for b, there, rows in self.val]
        if self.history is not None:
            self.history = self.history[:, chosen].clone()
        self.programs = {}

    @torch.no_grad()
    def test(self) -> list[np.ndarray]:
        """The predictions [n, outputs] for each split's test graphs, with its best weights."""
        logits = []
        for batch, _, rows in self._evaluation_batches([job.split.test for job in self.trainings]):
            self.stack.base.rows = rows
            logits.append(self.stack.answer(self.best, batch).logits)
        every = self.task.predictions(torch.cat(logits, 1), self.constants).cpu().numpy()
        return [p[: len(job.split.test)] for p, job in zip(every, self.trainings, strict=True)]

    def read_history(self, epochs: range) -> list[list[dict[str, Any]]]:
        """Return the results of each split and each of these epochs, by name. Waits for the device."""
        assert self.history is not None
        values = self.history[self._put([(epoch - 1) % HISTORY for epoch in epochs])].double().cpu()
        rows: list[list[dict[str, Any]]] = []
        for s in range(values.shape[1]):
            parts = [value[s].split([width for _, width in self.names]) for value in values]
            rows.append([self._row(part) for part in parts])
        return rows

    def _row(self, parts: Sequence[Tensor]) -> dict[str, Any]:
        pairs = zip((name for name, _ in self.names), parts, strict=True)
        scalar = ("train_loss", "val_")
        return {name: part.item() if name.startswith(scalar) else part.tolist() for name, part in pairs}

    def best_of(self, split: int) -> dict[str, Tensor]:
        """Return the best weights of one split, with their buffers."""
        return {name: value[split] for name, value in self.best.items()}

    def state_of(self, split: int) -> dict[str, Tensor]:
        """Return everything that the next epoch of one split needs, by the names of a checkpoint."""
        tensors = {f"now/{name}": value[split] for name, value in self.stack.state.items()}
        tensors |= {f"best/{name}": value for name, value in self.best_of(split).items()}
        tensors |= {f"average/{name}": value[split] for name, value in self.stack.average.items()}
        for name, parts in self.stack.moments.items():
            for part, value in parts.items():
                tensors[f"adam/{part}/{name}"] = value if part == "step" else value[split]
        return tensors

    def restore(self, epoch: int, states: Sequence[dict[str, Tensor]], best: Sequence[Best]) -> None:
        """Restore saved states, one for each split, all of the same epoch."""

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
        self.best_watched.copy_(torch.tensor([each.watched for each in best]))
        self.best_epoch.copy_(torch.tensor([each.epoch for each in best]))
