"""The host side of the engine: launches epochs, reads their results, and writes logs, checkpoints and results. A custom
pool first passes a trial with several splits at once."""

import logging
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.pool import is_own, method_named
from cgipool.pool.own import one_line
from cgipool.training.checkpoint import Best, best_of, header_of, load_checkpoint, save_tensors, seconds_of
from cgipool.training.folder import CHECKPOINT, METRICS, SplitOutcome, finish_split, give_up, tested
from cgipool.training.initial import Prepared, prepared, write_encoder
from cgipool.training.job import Job, Progress, ProgressCallback, finished, reported
from cgipool.training.objective import best_score, watched
from cgipool.training.result import Log
from cgipool.training.stacked.group import HISTORY, Group

LOOK_SECONDS, SAVE_SECONDS = 0.3, 10.0
"""How often the host reads results from the device, and how often it writes checkpoints."""

THIN = 2 / 3
"""A group shrinks when at most this share of its splits is still training. Capturing again takes a second or two."""

MOST_EPOCHS = HISTORY // 2
"""Maximum number of epochs launched before reading results."""

GRAPHS = 8
"""Maximum number of graphs from each part of a split in the trial of a custom pool."""

log = logging.getLogger("cgipool")


def stackable(job: Job) -> bool:
    """Whether the engine can train a job: its method has weights and static shapes."""
    return job.stacked and method_named(job.method).learns and method_named(job.method).fast


def train_together(trainings: Sequence[Job], graphs: GraphSet, tell: ProgressCallback) -> None:
    """Train splits or ensemble members, as many at once as have the same shapes and fit into the device's memory."""
    for job in trainings:
        job.folder.mkdir(parents=True, exist_ok=True)
    for group in alike(trainings, graphs):
        _train(group, graphs, tell)


def alike(trainings: Sequence[Job], graphs: GraphSet) -> list[list[Prepared]]:
    """Group the trainings that can be stacked: same number of steps, same shapes, same epoch reached."""
    groups: dict[Any, list[Prepared]] = {}
    for job in trainings:
        ready = prepared(job, graphs)
        shapes = tuple(tuple(p.shape) for p in ready.model.parameters())
        groups.setdefault((len(job.split.train), shapes, _saved_epoch(job)), []).append(ready)
    return list(groups.values())


def _saved_epoch(job: Job) -> int:
    path = job.folder / CHECKPOINT
    return int(load_checkpoint(path)[1]["epoch"]) if path.exists() else 0


def _train(group: list[Prepared], graphs: GraphSet, tell: ProgressCallback) -> None:
    trainings = [ready.job for ready in group]
    try:
        Run(group, graphs, tell).to_the_end()
    except (torch.OutOfMemoryError, MemoryError):
        if len(trainings) == 1:
            raise
        half = (len(trainings) + 1) // 2
        log.warning("not enough memory for %d splits at once; continuing with %d", len(trainings), half)
        torch.cuda.empty_cache()
    else:
        return
    waiting = [job for job in trainings if not (job.folder / "result.json").exists()]
    for part in (waiting[:half], waiting[half:]):
        for group in alike(part, graphs):
            _train(group, graphs, tell)


class Run:
    """The training of one group of splits, from its checkpoint to the end."""

    def __init__(self, ready: list[Prepared], graphs: GraphSet, tell: ProgressCallback) -> None:
        self.began = self.saved = time.monotonic()
        self.group, self.tell = Group(ready, graphs), tell
        trainings = self.group.trainings
        self.recipe = self.group.recipe
        self.epoch = 0
        self.pace = 1.0
        """Seconds per epoch, as last measured."""
        self.settled = False
        """Whether device, logs and `best` are at the same epoch, so that a checkpoint would be consistent."""
        self.best = {job.number: Best() for job in trainings}
        """By split and member."""
        self.before = {job.number: 0.0 for job in trainings}
        """By split and member: the seconds spent before the checkpoint that it resumed from."""
        self.stopped: set[tuple[int, int]] = set()
        if (trainings[0].folder / CHECKPOINT).exists():
            self._resume()
        for job, encoder in zip(trainings, self.group.encoders, strict=True):
            write_encoder(job.folder, encoder)
            _log(job).cut_back_to(min(self.epoch, self.epoch_of(job)))  # a stopped split has no later lines
        self._note_stopped()

    def to_the_end(self) -> None:
        """Train until every split has stopped."""
        try:
            while active := self._active():
                self.settled = False
                if len(active) <= THIN * len(self.group.trainings):
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
        """Return the indices in the group of the splits that have not stopped."""
        return [s for s, job in enumerate(self.group.trainings) if job.number not in self.stopped]

    def _epochs_ahead(self) -> int:
        """Return how many epochs to launch before reading results. A split can stop only after the last of them, so no
        split trains longer than it would alone."""
        patience = min(self.best[self.group.trainings[s].number].epoch for s in self._active()) + self.recipe.patience
        until = min(patience, self.recipe.epochs)
        dropout_epochs = self.recipe.dropout_epochs
        if dropout_epochs is not None and self.epoch < dropout_epochs:
            until = min(until, dropout_epochs)
        return max(1, min(until - self.epoch, MOST_EPOCHS, int(LOOK_SECONDS / max(self.pace, 1e-6))))

    def _advance(self, count: int) -> None:
        """Launch epochs, then log and report their results."""
        start, first = time.perf_counter(), self.epoch + 1
        for _ in range(count):
            self.epoch += 1
            self.group.run_epoch(self.epoch)
        rows = self.group.read_history(range(first, self.epoch + 1))
        self.pace = (time.perf_counter() - start) / count
        reports = [
            self._note(self.group.trainings[s], epoch, row)
            for s in self._active()
            for epoch, row in zip(range(first, self.epoch + 1), rows[s], strict=True)
        ]
        self._note_stopped()
        self.settled = True
        for progress in reports:
            self.tell(progress)

    def _note(self, job: Job, epoch: int, row: dict[str, Any]) -> Progress:
        number, loss = job.number, row["val_loss"]
        if not (math.isfinite(row["train_loss"]) and math.isfinite(loss)):
            give_up(job, epoch, self.group.best_of(self.group.trainings.index(job)), self.best[number].epoch)
        now = watched(self.group.task, self.recipe.stop_by, row)
        if now < self.best[number].watched:
            self.best[number] = Best(now, epoch, loss)
        _log(job).append({"epoch": epoch, **row, "seconds": self.pace})
        return reported(job, self.group.task.primary, epoch, row, self.best[number].epoch)

    def _note_stopped(self) -> None:
        for number, best in self.best.items():
            if self.epoch >= self.recipe.epochs or self.epoch - best.epoch >= self.recipe.patience:
                self.stopped.add(number)

    def _finish(self) -> None:
        """Test the splits that have stopped, and write their results."""
        probabilities, task = self.group.test(), self.group.task
        for s, job in enumerate(self.group.trainings):
            if job.number not in self.stopped:
                continue
            best = self.best[job.number]
            metrics = tested(job, task, self.group.graphs, probabilities[s])
            outcome = SplitOutcome(
                self.group.stack.parameters, self.epoch_of(job), best.epoch, best.loss, metrics, probabilities[s]
            )
            finish_split(job, self.group.best_of(s), outcome, _log(job), self._seconds(job))
            score = best_score(task, self.recipe.stop_by, best.watched)
            self.tell(finished(job, outcome.epochs, best.loss, best.epoch, score))

    def epoch_of(self, job: Job) -> int:
        """Return the epoch after which a split stopped."""
        return min(self.recipe.epochs, self.best[job.number].epoch + self.recipe.patience)

    def _seconds(self, job: Job) -> float:
        """Return the seconds spent on a split, including the time before a resume."""
        return self.before[job.number] + time.monotonic() - self.began

    def _save(self) -> None:
        """Write a checkpoint of each split, in the format of the loop over one split."""
        for s, job in enumerate(self.group.trainings):
            header = header_of(self.epoch, self.best[job.number], self._seconds(job))
            save_tensors(job.folder / CHECKPOINT, self.group.state_of(s), header)
        self.saved = time.monotonic()

    def _resume(self) -> None:
        states = []
        for job in self.group.trainings:
            path = job.folder / CHECKPOINT
            tensors, header = load_checkpoint(path)
            states.append(tensors)
            try:
                self.epoch = int(header["epoch"])
                self.best[job.number] = best_of(header)
                self.before[job.number] = seconds_of(header)
            except (KeyError, ValueError) as error:
                raise UserError(f"{path} does not match this training: {error}") from None
        try:
            self.group.restore(self.epoch, states, [self.best[job.number] for job in self.group.trainings])
        except (KeyError, RuntimeError) as error:
            path = self.group.trainings[0].folder / CHECKPOINT
            raise UserError(f"{path} does not match this training: {' '.join(str(error).split())}") from None


def _log(job: Job) -> Log:
    return Log(job.folder / METRICS)


def tried(trainings: Sequence[Job], graphs: GraphSet) -> list[Job]:
    """Return the trainings, set to train split by split if a custom pool fails the trial with several splits at once.
    The reason is logged in one line."""
    reason = slow_because(trainings[0], graphs)
    if reason is None:
        return list(trainings)
    log.warning("%s trains split by split: it cannot train several splits at once: %s", trainings[0].method, reason)
    return [replace(job, stacked=False) for job in trainings]


def slow_because(job: Job, graphs: GraphSet) -> str | None:
    """Return why the engine cannot train a job, in one line; None if it can. Only custom pools are tried, first on a
    CPU, where a failure cannot leave the device in a bad state."""
    if not (is_own(job.method) and method_named(job.method).fast):
        return None
    small, split = _few(graphs, job.split)
    # Weights are indexed by graphs of the whole data set, and a share of so few labels could be none.
    plain = replace(job, split=split, sample_weight=None, recipe=job.recipe.but(labelled=1.0))
    for device in dict.fromkeys(("cpu", job.device)):
        try:
            _one_epoch([replace(plain, device=device, member=member) for member in (0, 1)], small)
        except (UserError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            return one_line(error)
    return None


def _few(graphs: GraphSet, split: Split) -> tuple[GraphSet, Split]:
    """Return the first graphs of each part of a split, and the split of these graphs."""
    parts = [part[:GRAPHS] for part in (split.train, split.val, split.test)]
    ends = np.cumsum([len(part) for part in parts])
    few = graphs.subset(np.concatenate(parts))
    return few, Split(split.index, *np.split(np.arange(ends[-1]), ends[:-1]))


def _one_epoch(trainings: Sequence[Job], graphs: GraphSet) -> None:
    """Run one epoch, validation and test with the engine."""
    group = Group([prepared(job, graphs) for job in trainings], graphs)
    with _waiting_is_an_error(group.device):
        group.capture()
    group.run_epoch(1)
    group.read_history(range(1, 2))
    group.test()


@contextmanager
def _waiting_is_an_error(device: torch.device) -> Iterator[None]:
    """Raise an error in this context if an operation waits for the GPU. Such an operation cannot be captured, and a
    failed capture leaves torch's random generator unusable."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that this feature is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
