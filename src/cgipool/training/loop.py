"""Training of one split: a pure function of (data, method, recipe, split, seed, member)."""

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgipool.data.batch import Batcher
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.model.network import Model
from cgipool.pool import method_named
from cgipool.task.base import Truth
from cgipool.task.registry import task_of
from cgipool.training.checkpoint import State, copy_of, load_state, save_state
from cgipool.training.classical import train_classical
from cgipool.training.evaluate import Chunks, Evaluation, chunks, evaluate
from cgipool.training.folder import CHECKPOINT, METRICS, SplitOutcome, finish_split, give_up, tested
from cgipool.training.initial import constants_of, fit_encoder, prepared, write_encoder
from cgipool.training.job import EVALUATION, STEP, Job, ProgressCallback, epoch_ids, finished, reported
from cgipool.training.labels import Balance, task_weights
from cgipool.training.objective import best_score, objective, own_weight, scores_of, truth_of, watched
from cgipool.training.optimiser import Adam, by_decay
from cgipool.training.result import Log

SAVE_SECONDS = 2.0
"""Minimum time between two checkpoints, so that short epochs are not dominated by writing."""


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as 0 in this context. Adam's moments of weights with vanishing gradients are full of
    them, and on a CPU each costs as much as a hundred ordinary numbers. The flag belongs to a thread, and threads that
    torch starts later inherit it, so set it before computing anything else."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Training:
    """The loop over epochs of one split."""

    def __init__(self, job: Job, graphs: GraphSet) -> None:
        self.began = time.perf_counter()
        self.job, self.recipe = job, job.recipe
        self.encoder = self._encoder(graphs)
        self.batcher = Batcher(graphs, self.encoder.encode(graphs), job.device)
        network = prepared(job, graphs, self.encoder).model
        self.weights = list(network.parameters())
        self.state = State(network, self._optimizer(network), copy_of(network))
        if self.recipe.average > 0.0 and self.state.optimizer is not None:
            self.state.average = copy.deepcopy(network)
        self.task = task_of(graphs)
        self.constants = constants_of(job, graphs).to(job.device)
        self.balance = Balance.of(job, graphs)
        weight = task_weights(job, graphs)
        self.sample_weight = None if weight is None else torch.from_numpy(weight).to(job.device)
        self.val = Truth(*(values.to(job.device) for values in truth_of(graphs, job.split.val)))
        self.step_losses: list[float] = []
        """The loss at each step of the last epoch."""

    def _encoder(self, graphs: GraphSet) -> Encoder:
        return fit_encoder(self.job, graphs)

    def _optimizer(self, network: Model) -> Adam | None:
        """Return Adam, or None for a model without trainable weights."""
        weights = dict(network.named_parameters())
        if not weights:
            return None
        groups = by_decay(weights, self.recipe, self.job.method)
        decays = {decay: [weights[name] for name in names] for decay, names in groups.items()}
        return Adam(weights.values(), self.recipe.lr, decays)

    def own_weight(self, epoch: int) -> float:
        """Return the weight of the method's own loss in an epoch."""
        return own_weight(self.recipe, self.job.method, self.batcher.graphs.name, epoch)

    def step(self, ids: np.ndarray, key: int, own_weight: float) -> Tensor:
        """Compute the gradients of one batch's loss, replacing earlier ones, and return the loss."""
        batch, network = self.batcher.batch(ids, key), self.state.network
        output = network(batch)
        smoothing, weight, focal = self.recipe.label_smoothing, self.sample_weight, self.recipe.focal
        loss = objective(output, batch, self.task, self.constants, own_weight, smoothing, weight, focal)
        for weight in self.weights:
            weight.grad = None
        loss.backward()
        network.update(output.buffers)
        return loss.detach()

    def train_epoch(self) -> float:
        """Make one pass over the training graphs and return the mean loss over graphs."""
        network, optimizer = self.state.network, self.state.optimizer
        assert optimizer is not None, "no trainable weights"
        epoch = self.state.epoch + 1
        own_weight = self.own_weight(epoch)
        network.dropout = self.recipe.dropout_at(epoch)
        optimizer.rate = self.recipe.rate_at(epoch)
        network.train()
        losses, graphs = [], []
        balanced = None if self.balance is None else self.balance.reordered
        for step, ids in enumerate(epoch_ids(self.job, epoch, balanced)):
            losses.append(self.step(ids, self.job.key(STEP, epoch, step), own_weight))
            if self.recipe.clip > 0.0:
                torch.nn.utils.clip_grad_norm_(network.parameters(), self.recipe.clip)
            optimizer.step()
            self.state.follow(self.recipe.average)
            graphs.append(len(ids))
        self.step_losses = self.whole_losses(torch.stack(losses).double()).tolist()
        self.state.epoch = epoch
        return float(np.dot(self.step_losses, graphs)) / len(self.job.split.train)

    def whole_losses(self, losses: Tensor) -> Tensor:
        """[steps] the losses of whole batches, from the values that `step` returned."""
        return losses

    @cached_property
    def _val(self) -> Chunks:
        return Chunks(self.batcher, self.job.split.val, self.job.key(EVALUATION))

    def ask_validation(self) -> Evaluation:
        """Evaluate the network on the validation graphs."""
        return evaluate(self.state.eval_state, self._val)

    def ask_test(self) -> Evaluation:
        """Evaluate the network on the test graphs."""
        return evaluate(self.state.eval_state, chunks(self.batcher, self.job.split.test, self.job.key(EVALUATION)))

    def validate(self) -> tuple[dict[str, float], Evaluation]:
        """Loss and metrics of the validation graphs by name, and the network's outputs."""
        answer = self.ask_validation()
        there = weight = torch.ones(len(self.val.y), device=self.constants.device)
        if self.sample_weight is not None:
            weight = self.sample_weight[torch.from_numpy(self.job.split.val).to(weight.device)]
        loss = self.task.loss(answer.logits, self.val, self.constants, weight)
        scores = scores_of(self.task, self.recipe.stop_by, answer.logits, self.val, self.constants, there)
        return {"val_loss": float(loss)} | {name: float(score) for name, score in scores.items()}, answer

    def run(self, tell: ProgressCallback, log: Log) -> None:
        """Train until early stopping or the maximum number of epochs."""
        state = self.state
        if state.optimizer is None:
            loss = self.validate()[0]["val_loss"]
            state.note(loss, loss)
            return
        if self.job.start is not None and state.epoch == 0:  # it is kept unless an epoch improves on it
            scores, _ = self.validate()
            state.note(watched(self.task, self.recipe.stop_by, scores), scores["val_loss"])
        saved = time.monotonic()
        while state.epoch < self.recipe.epochs and state.epoch - state.best_epoch < self.recipe.patience:
            start = time.perf_counter()
            train_loss = self.train_epoch()
            seconds = time.perf_counter() - start
            scores, answer = self.validate()
            val_loss = scores["val_loss"]
            if not (math.isfinite(train_loss) and math.isfinite(val_loss)):
                give_up(self.job, state.epoch, state.best, state.best_epoch)
            state.note(watched(self.task, self.recipe.stop_by, scores), val_loss)
            row = {"epoch": state.epoch, "train_loss": train_loss} | scores
            log.append(row | {"seconds": seconds} | answer.metrics)
            if time.monotonic() - saved >= SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            try:
                tell(reported(self.job, self.task.primary, state.epoch, scores, state.best_epoch))
            except KeyboardInterrupt:  # the callback may end the training; nothing is lost
                self.save()
                raise

    def save(self) -> None:
        """Write a checkpoint."""
        save_state(self.job.folder / CHECKPOINT, self.state, self.seconds)

    @property
    def seconds(self) -> float:
        """Seconds spent on this split, including the time before a resume."""
        return self.state.seconds + time.perf_counter() - self.began

    def test(self) -> tuple[dict[str, Any], np.ndarray]:
        """Restore the best weights and evaluate the test graphs once: metrics and predictions [n, outputs]."""
        self.state.eval_state.load_state_dict(self.state.best)
        p = self.task.predictions(self.ask_test().logits, self.constants).cpu().numpy()
        return tested(self.job, self.task, self.batcher.graphs, p), p


def train_split(
    job: Job, graphs: GraphSet, tell: ProgressCallback, training: Callable[[Job, GraphSet], Training] = Training
) -> None:
    """Train one split, or resume it from its checkpoint, and write weights and result to its folder."""
    if method_named(job.method).classical:
        train_classical(job, graphs, tell)
        return
    job.folder.mkdir(parents=True, exist_ok=True)
    with flushed_denormals():
        _train_split(training(job, graphs), tell)


def _train_split(training: Training, tell: ProgressCallback) -> None:
    job = training.job
    log = Log(job.folder / METRICS)
    write_encoder(job.folder, training.encoder)
    checkpoint = job.folder / CHECKPOINT
    if checkpoint.exists():
        load_state(checkpoint, training.state)
    log.cut_back_to(training.state.epoch)
    training.run(tell, log)

    metrics, probabilities = training.test()
    state = training.state
    weights = sum(p.numel() for p in state.network.parameters())
    outcome = SplitOutcome(weights, state.epoch, state.best_epoch, state.record.loss, metrics, probabilities)
    finish_split(job, state.best, outcome, log, training.seconds)
    best = best_score(training.task, job.recipe.stop_by, state.record.watched)
    tell(finished(job, state.epoch, state.record.loss, state.best_epoch, best))
