"""Training on one split: pure in (data, method, recipe, split, seed, member); it does not know what runs beside it."""

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
from cgipool.training.checkpoint import State, copy_of, load_state, save_state
from cgipool.training.evaluate import Chunks, Evaluation, chunks, evaluate
from cgipool.training.folder import CHECKPOINT, METRICS, Outcome, finish_split, give_up
from cgipool.training.initial import fit_encoder, initial_model, write_encoder
from cgipool.training.job import EVALUATION, STEP, Job, Progress, ProgressCallback, epoch_ids, finished
from cgipool.training.metrics import report
from cgipool.training.objective import class_weights, classification_loss, objective, sample_weights
from cgipool.training.optimiser import Adam
from cgipool.training.result import Log

SAVE_SECONDS = 2.0
"""A checkpoint is written at most this often, so that short epochs are not spent on writing."""


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Numbers below 1e-38 count as 0. Adam's moments of weights with vanishing gradients are full of them, and on a CPU
    each costs as much as a hundred ordinary ones. The flag is a thread's own, and threads that torch starts for its
    parallel loops inherit it, so it is set before anything else is computed."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Training:
    """The loop over epochs of one split."""

    def __init__(self, task: Job, graphs: GraphSet) -> None:
        self.began = time.perf_counter()
        self.task, self.recipe = task, task.recipe
        self.encoder = self._encoder(graphs)
        self.batcher = Batcher(graphs, self.encoder.encode(graphs), task.device)
        network = initial_model(task, graphs, self.encoder)
        self.state = State(network, self._optimizer(network), copy_of(network))
        if self.recipe.average > 0.0 and self.state.optimizer is not None:
            self.state.average = copy.deepcopy(network)
        weights = class_weights(graphs.y[task.split.train], graphs.n_classes, self.recipe.class_weight)
        self.class_weight = weights.to(task.device)
        self.sample_weight = sample_weights(task.sample_weight, task.device)
        self.val_y = torch.from_numpy(graphs.y[task.split.val]).to(task.device)
        self.step_losses: list[float] = []
        """The loss of each step of the last epoch."""

    def _encoder(self, graphs: GraphSet) -> Encoder:
        return fit_encoder(self.task, graphs)

    def _optimizer(self, network: Model) -> Adam | None:
        """None for a model that has nothing to learn."""
        weights = list(network.parameters())
        if not weights:
            return None
        return Adam(weights, self.recipe.lr, self.recipe.weight_decay)

    def own_weight(self, epoch: int) -> float:
        """The weight of the method's own loss in an epoch."""
        return self.recipe.own_weight(method_named(self.task.method), self.batcher.graphs.name, epoch)

    def step(self, ids: np.ndarray, key: int, own_weight: float) -> Tensor:
        """The gradients of the loss of one batch, in place of those before; the loss."""
        batch, network = self.batcher.batch(ids, key), self.state.network
        output = network(batch)
        smoothing, weight = self.recipe.label_smoothing, self.sample_weight
        loss = objective(output, batch, self.class_weight, own_weight, smoothing=smoothing, sample_weight=weight)
        network.zero_grad(set_to_none=True)
        loss.backward()
        network.update(output.buffers)
        return loss.detach()

    def train_epoch(self) -> float:
        """One pass over the training graphs; the mean loss over graphs."""
        network, optimizer = self.state.network, self.state.optimizer
        assert optimizer is not None, "nothing to learn"
        epoch = self.state.epoch + 1
        own_weight = self.own_weight(epoch)
        network.dropout = self.recipe.dropout_at(epoch)
        optimizer.rate = self.recipe.rate_at(epoch)
        network.train()
        losses, graphs = [], []
        for step, ids in enumerate(epoch_ids(self.task, epoch)):
            losses.append(self.step(ids, self.task.key(STEP, epoch, step), own_weight))
            if self.recipe.clip > 0.0:
                torch.nn.utils.clip_grad_norm_(network.parameters(), self.recipe.clip)
            optimizer.step()
            self.state.follow(self.recipe.average)
            graphs.append(len(ids))
        self.step_losses = self.whole_losses(torch.stack(losses).double()).tolist()
        self.state.epoch = epoch
        return float(np.dot(self.step_losses, graphs)) / len(self.task.split.train)

    def whole_losses(self, losses: Tensor) -> Tensor:
        """[steps] the losses of whole batches, from what `step` gave."""
        return losses

    @cached_property
    def _val(self) -> Chunks:
        return Chunks(self.batcher, self.task.split.val, self.task.key(EVALUATION))

    def ask_validation(self) -> Evaluation:
        """What the network says of the validation graphs."""
        return evaluate(self.state.eval_state, self._val)

    def ask_test(self) -> Evaluation:
        """What the network says of the test graphs."""
        return evaluate(self.state.eval_state, chunks(self.batcher, self.task.split.test, self.task.key(EVALUATION)))

    def validate(self) -> tuple[float, float, Evaluation]:
        """Cross-entropy (which early stopping watches) and accuracy on the validation graphs, and the whole answer."""
        answer = self.ask_validation()
        weight = self.class_weight[self.val_y]
        if self.sample_weight is not None:
            weight = weight * self.sample_weight[torch.from_numpy(self.task.split.val).to(weight.device)]
        loss = classification_loss(answer.logits, self.val_y, weight)
        accuracy = (answer.logits.argmax(1) == self.val_y).float().mean()
        return float(loss), float(accuracy), answer

    def run(self, tell: ProgressCallback, log: Log) -> None:
        """Epochs until patience or the cap ends them."""
        state = self.state
        if state.optimizer is None:
            state.note(self.validate()[0])
            return
        saved = time.monotonic()
        while state.epoch < self.recipe.epochs and state.epoch - state.best_epoch < self.recipe.patience:
            start = time.perf_counter()
            train_loss = self.train_epoch()
            seconds = time.perf_counter() - start
            val_loss, val_accuracy, answer = self.validate()
            if not (math.isfinite(train_loss) and math.isfinite(val_loss)):
                give_up(self.task, state.epoch, state.best, state.best_epoch)
            state.note(val_loss)
            row = {"epoch": state.epoch, "train_loss": train_loss, "val_loss": val_loss, "val_accuracy": val_accuracy}
            log.append(row | {"seconds": seconds} | answer.metrics)
            if time.monotonic() - saved >= SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            numbers = (state.epoch, val_loss, val_accuracy, state.best_epoch)
            try:
                tell(Progress(self.task.split.index, *numbers, member=self.task.member))
            except KeyboardInterrupt:  # who is told may end the training; nothing of it is lost
                self.save()
                raise

    def save(self) -> None:
        """Write a checkpoint."""
        save_state(self.task.folder / CHECKPOINT, self.state, self.seconds)

    @property
    def seconds(self) -> float:
        """Spent on this split, by this training and those before it that it goes on from."""
        return self.state.seconds + time.perf_counter() - self.began

    def test(self) -> tuple[dict[str, Any], np.ndarray]:
        """Restore the best weights and read the test graphs, once: metrics and probabilities [n, classes]."""
        self.state.eval_state.load_state_dict(self.state.best)
        p = torch.softmax(self.ask_test().logits.double(), 1).cpu().numpy()
        return report(self.batcher.graphs.y[self.task.split.test], p), p


def train_split(
    task: Job, graphs: GraphSet, tell: ProgressCallback, training: Callable[[Job, GraphSet], Training] = Training
) -> None:
    """Train one split to the end, or go on from its checkpoint; the folder then holds weights, metrics and result."""
    task.folder.mkdir(parents=True, exist_ok=True)
    with flushed_denormals():
        _train_split(training(task, graphs), tell)


def _train_split(training: Training, tell: ProgressCallback) -> None:
    task = training.task
    log = Log(task.folder / METRICS)
    write_encoder(task.folder, training.encoder)
    checkpoint = task.folder / CHECKPOINT
    if checkpoint.exists():
        load_state(checkpoint, training.state)
    log.cut_back_to(training.state.epoch)
    training.run(tell, log)

    metrics, probabilities = training.test()
    state = training.state
    weights = sum(p.numel() for p in state.network.parameters())
    outcome = Outcome(weights, state.epoch, state.best_epoch, state.best_loss, metrics, probabilities)
    finish_split(task, state.best, outcome, log, training.seconds)
    tell(finished(task, state.epoch, state.best_loss, state.best_epoch))
