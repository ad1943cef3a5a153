"""The host's side of the engine: launches epochs, looks at what they gave, writes logs, checkpoints and results."""

import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import torch

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.pool import method_named
from cgipool.training.checkpoint import header_of, load_checkpoint, save_tensors, seconds_of
from cgipool.training.folder import CHECKPOINT, METRICS, Outcome, finish_split, give_up
from cgipool.training.initial import fit_encoder, initial_model, write_encoder
from cgipool.training.job import Job, Progress, ProgressCallback, finished
from cgipool.training.metrics import report
from cgipool.training.result import Log
from cgipool.training.stacked.group import HISTORY, Group

LOOK_SECONDS, SAVE_SECONDS = 0.3, 10.0
"""How often the host looks at the device, and how often checkpoints are written."""

THIN = 2 / 3
"""A group shrinks when no more than this share of its splits still trains. Capturing anew takes a second or two."""

MOST_EPOCHS = HISTORY // 2
"""Epochs launched before the next look, at most."""

log = logging.getLogger("cgipool")


def stackable(task: Job) -> bool:
    """Whether the engine can train a task: its method has weights, and its shapes do not depend on the data."""
    return task.stacked and task.method != "majority" and method_named(task.method).fast


def train_together(tasks: Sequence[Job], graphs: GraphSet, tell: ProgressCallback) -> None:
    """Train splits or members of ensembles to the end, as many at once as have the same shapes and fit into the
    device's memory."""
    for task in tasks:
        task.folder.mkdir(parents=True, exist_ok=True)
    for group in alike(tasks, graphs):
        _train(group, graphs, tell)


def alike(tasks: Sequence[Job], graphs: GraphSet) -> list[list[Job]]:
    """The tasks in groups that can be stacked: equally many steps, equal shapes, standing at the same epoch."""
    groups: dict[Any, list[Job]] = {}
    for task in tasks:
        model = initial_model(task, graphs, fit_encoder(task, graphs))
        shapes = tuple(tuple(p.shape) for p in model.parameters())
        groups.setdefault((len(task.split.train), shapes, _saved_epoch(task)), []).append(task)
    return list(groups.values())


def _saved_epoch(task: Job) -> int:
    path = task.folder / CHECKPOINT
    return int(load_checkpoint(path)[1]["epoch"]) if path.exists() else 0


def _train(tasks: list[Job], graphs: GraphSet, tell: ProgressCallback) -> None:
    try:
        Run(tasks, graphs, tell).to_the_end()
    except (torch.OutOfMemoryError, MemoryError):
        if len(tasks) == 1:
            raise
        half = (len(tasks) + 1) // 2
        log.warning("not enough memory for %d splits at once; going on with %d", len(tasks), half)
        torch.cuda.empty_cache()
    else:
        return
    waiting = [task for task in tasks if not (task.folder / "result.json").exists()]
    for part in (waiting[:half], waiting[half:]):
        for group in alike(part, graphs):
            _train(group, graphs, tell)


class Run:
    """One group of splits, from where it stands to the end."""

    def __init__(self, tasks: list[Job], graphs: GraphSet, tell: ProgressCallback) -> None:
        self.began = self.saved = time.monotonic()
        self.group, self.tell = Group(tasks, graphs), tell
        self.recipe = self.group.recipe
        self.epoch = 0
        self.pace = 1.0
        """Seconds of an epoch, as last measured."""
        self.settled = False
        """Whether device, logs and `best` stand at the same epoch, so that a checkpoint would be whole."""
        self.best = {task.number: (math.inf, 0) for task in tasks}
        """By numbers of split and member, the lowest validation loss and the epoch of it."""
        self.before = {task.number: 0.0 for task in tasks}
        """The seconds until the checkpoint that each goes on from."""
        self.stopped: set[tuple[int, int]] = set()
        if (tasks[0].folder / CHECKPOINT).exists():
            self._resume()
        for task, encoder in zip(tasks, self.group.encoders, strict=True):
            write_encoder(task.folder, encoder)
            _log(task).cut_back_to(min(self.epoch, self.epoch_of(task)))  # one that has stopped logs no more
        self._note_stopped()

    def to_the_end(self) -> None:
        """Epochs until every split has stopped."""
        try:
            while active := self._active():
                self.settled = False
                if len(active) <= THIN * len(self.group.tasks):
                    self._finish()
                    self.group.keep(active)
                if self.group.set_dropout(self.epoch + 1) or not self.group.programs:
                    self.group.capture()
                self._advance(self._epochs_ahead())
                if time.monotonic() - self.saved >= SAVE_SECONDS:
                    self._save()
        except KeyboardInterrupt:
            if self.settled:
                self._save()
            raise
        self._finish()

    def _active(self) -> list[int]:
        """Places in the group of the splits that have not stopped."""
        return [s for s, task in enumerate(self.group.tasks) if task.number not in self.stopped]

    def _epochs_ahead(self) -> int:
        """How many epochs to launch before the next look: none after which a split may have stopped, so that no split
        trains for longer than it would alone."""
        patience = min(self.best[self.group.tasks[s].number][1] for s in self._active()) + self.recipe.patience
        until = min(patience, self.recipe.epochs)
        loud = self.recipe.dropout_epochs
        if loud is not None and self.epoch < loud:
            until = min(until, loud)
        return max(1, min(until - self.epoch, MOST_EPOCHS, int(LOOK_SECONDS / max(self.pace, 1e-6))))

    def _advance(self, count: int) -> None:
        """Launch epochs, then log and tell what they gave."""
        start, first = time.perf_counter(), self.epoch + 1
        for _ in range(count):
            self.epoch += 1
            self.group.run_epoch(self.epoch)
        rows = self.group.told(range(first, self.epoch + 1))
        self.pace = (time.perf_counter() - start) / count
        told = [
            self._note(self.group.tasks[s], epoch, row)
            for s in self._active()
            for epoch, row in zip(range(first, self.epoch + 1), rows[s], strict=True)
        ]
        self._note_stopped()
        self.settled = True
        for progress in told:
            self.tell(progress)

    def _note(self, task: Job, epoch: int, row: dict[str, Any]) -> Progress:
        number, loss = task.number, row["val_loss"]
        if not (math.isfinite(row["train_loss"]) and math.isfinite(loss)):
            give_up(task, epoch, self.group.best_of(self.group.tasks.index(task)), self.best[number][1])
        if loss < self.best[number][0]:
            self.best[number] = (loss, epoch)
        _log(task).append({"epoch": epoch, **row, "seconds": self.pace})
        numbers = (epoch, loss, row["val_accuracy"], self.best[number][1])
        return Progress(task.split.index, *numbers, member=task.member)

    def _note_stopped(self) -> None:
        for number, (_, best_epoch) in self.best.items():
            if self.epoch >= self.recipe.epochs or self.epoch - best_epoch >= self.recipe.patience:
                self.stopped.add(number)

    def _finish(self) -> None:
        """Test the splits that have stopped, and write what they leave."""
        probabilities = self.group.test()
        for s, task in enumerate(self.group.tasks):
            if task.number not in self.stopped:
                continue
            loss, best_epoch = self.best[task.number]
            metrics = report(self.group.graphs.y[task.split.test], probabilities[s])
            outcome = Outcome(
                self.group.stack.parameters, self.epoch_of(task), best_epoch, loss, metrics, probabilities[s]
            )
            finish_split(task, self.group.best_of(s), outcome, _log(task), self._seconds(task))
            self.tell(finished(task, outcome.epochs, loss, best_epoch))

    def epoch_of(self, task: Job) -> int:
        """The epoch after which a split stopped."""
        return min(self.recipe.epochs, self.best[task.number][1] + self.recipe.patience)

    def _seconds(self, task: Job) -> float:
        """Spent on a split, by this run and those before it."""
        return self.before[task.number] + time.monotonic() - self.began

    def _save(self) -> None:
        """A checkpoint of each split, as the plain loop writes it."""
        for s, task in enumerate(self.group.tasks):
            loss, best_epoch = self.best[task.number]
            header = header_of(self.epoch, best_epoch, loss, self._seconds(task))
            save_tensors(task.folder / CHECKPOINT, self.group.state_of(s), header)
        self.saved = time.monotonic()

    def _resume(self) -> None:
        states = []
        for task in self.group.tasks:
            path = task.folder / CHECKPOINT
            tensors, header = load_checkpoint(path)
            states.append(tensors)
            try:
                self.epoch = int(header["epoch"])
                self.best[task.number] = (float.fromhex(header["best_loss"]), int(header["best_epoch"]))
                self.before[task.number] = seconds_of(header)
            except (KeyError, ValueError) as error:
                raise UserError(f"{path} does not match this training: {error}") from None
        try:
            self.group.restore(self.epoch, states, [self.best[task.number] for task in self.group.tasks])
        except (KeyError, RuntimeError) as error:
            path = self.group.tasks[0].folder / CHECKPOINT
            raise UserError(f"{path} does not match this training: {' '.join(str(error).split())}") from None


def _log(task: Job) -> Log:
    return Log(task.folder / METRICS)
