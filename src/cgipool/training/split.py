"""Training on one split: pure in (data, method, recipe, split, seed, member); it does not know what runs beside it."""

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool.baselines import build_model
from cgipool.data.batch import Batcher
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.files import write_atomically, write_json
from cgipool.layers import InputSize
from cgipool.network import Model
from cgipool.ops.draws import key_of, shuffled
from cgipool.pool import Sizes, method_named
from cgipool.training.checkpoint import State, copy_of, load_state, save_state, save_tensors
from cgipool.training.evaluate import Chunks, Evaluation, chunks, evaluate
from cgipool.training.log import Log
from cgipool.training.metrics import report
from cgipool.training.objective import class_weights, classification_loss, objective
from cgipool.training.recipe import Recipe

INIT, ORDER, STEP, EVALUATION, MEMBER = range(5)
"""What a key of random draws is for; the last leads to the keys of an ensemble's further members."""

CHECKPOINT = "checkpoint.safetensors"
"""In a split's folder while it trains."""

METRICS = "metrics.jsonl"
"""In a split's folder: a line for each epoch."""

SAVE_SECONDS = 2.0
"""A checkpoint is written at most this often, so that short epochs are not spent on writing."""


class Diverged(UserError):
    """The loss became NaN or infinite."""


class Progress(NamedTuple):
    """What is told after every epoch, and once more when a split is done."""

    split: int
    epoch: int
    val_loss: float
    val_accuracy: float
    best_epoch: int
    done: bool = False
    member: int = 0


Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Task:
    """One split to train, and where its files go."""

    method: str
    recipe: Recipe
    split: Split
    seed: int
    device: str
    folder: Path
    member: int = 0
    """Which of the split's ensemble; the first is what the split gives without one."""

    @property
    def number(self) -> tuple[int, int]:
        """Split and member: what tells the tasks of a run apart."""
        return self.split.index, self.member

    def __str__(self) -> str:
        """How messages call it."""
        return f"split {self.split.index}" + (f", member {self.member}" if self.member else "")

    def key(self, purpose: int, *more: int) -> int:
        """The key of this task's draws for a purpose; it depends on (seed, split, member) alone."""
        way = (MEMBER, self.member) if self.member else ()
        return key_of(self.seed, self.split.index, *way, purpose, *more)


def fit_encoder(task: Task, graphs: GraphSet) -> Encoder:
    """The encoder of the input features, fitted on the split's training graphs."""
    recipe = task.recipe
    return Encoder.fit(
        graphs,
        task.split.train,
        source=recipe.features,
        vocabulary=recipe.vocabulary,
        attributes=recipe.attributes,
    )


def initial_model(task: Task, graphs: GraphSet, encoder: Encoder) -> Model:
    """The model with its initial weights, which depend on (seed, split, member) alone."""
    train = task.split.train
    shares = np.bincount(graphs.y[train], minlength=graphs.n_classes) / len(train)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.key(INIT))
        model = model_of(task.method, task.recipe, encoder, shares.tolist(), Sizes.of(graphs.sizes[train]))
    model.compact = torch.device(task.device).type == "cpu" or not method_named(task.method).fast
    return model.to(task.device)


def model_of(method: str, recipe: Recipe, encoder: Encoder, shares: Sequence[float], sizes: Sizes) -> Model:
    """The model of a method with a recipe's settings; shares of classes and sizes are those of the training graphs."""
    return build_model(
        method,
        InputSize(encoder.columns, encoder.n_floats, encoder.others),
        shares,
        form=recipe.form,
        conv=recipe.conv,
        norm=recipe.norm,
        gate=recipe.gate,
        width=recipe.width,
        levels=recipe.levels,
        readout=recipe.readout,
        jumping=recipe.jumping,
        ratio=recipe.ratio,
        dropout=recipe.dropout,
        mi=recipe.mi,
        sizes=sizes,
    )


def epoch_ids(task: Task, epoch: int) -> Iterator[np.ndarray]:
    """The graph ids of each step of an epoch. Without shuffling there still is one random order, kept for all epochs:
    the archives are sorted by class."""
    order = shuffled(task.key(ORDER, epoch if task.recipe.shuffle else 0), len(task.split.train)).numpy()
    ids, size = task.split.train[order], task.recipe.batch_size
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


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

    def __init__(self, task: Task, graphs: GraphSet) -> None:
        self.task, self.recipe = task, task.recipe
        self.encoder = self._encoder(graphs)
        self.batcher = Batcher(graphs, self.encoder.encode(graphs), task.device)
        network = initial_model(task, graphs, self.encoder)
        self.state = State(network, self._optimizer(network), copy_of(network))
        if self.recipe.average > 0.0 and self.state.optimizer is not None:
            self.state.average = copy.deepcopy(network)
        weights = class_weights(graphs.y[task.split.train], graphs.n_classes, self.recipe.class_weight)
        self.class_weight = weights.to(task.device)
        self.val_y = torch.from_numpy(graphs.y[task.split.val]).to(task.device)
        self.step_losses: list[float] = []
        """The loss of each step of the last epoch."""

    def _encoder(self, graphs: GraphSet) -> Encoder:
        return fit_encoder(self.task, graphs)

    def _optimizer(self, network: Model) -> torch.optim.Adam | None:
        """None for a model that has nothing to learn."""
        weights = list(network.parameters())
        if not weights:
            return None
        return torch.optim.Adam(weights, lr=self.recipe.lr, weight_decay=self.recipe.weight_decay, fused=True)

    def own_weight(self, epoch: int) -> float:
        """The weight of the method's own loss in an epoch."""
        return self.recipe.own_weight(method_named(self.task.method), self.batcher.graphs.name, epoch)

    def step(self, ids: np.ndarray, key: int, own_weight: float) -> Tensor:
        """The gradients of the loss of one batch, in place of those before; the loss."""
        batch, network = self.batcher.batch(ids, key), self.state.network
        output = network(batch)
        loss = objective(output, batch, self.class_weight, own_weight, smoothing=self.recipe.label_smoothing)
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
        quiet = self.recipe.dropout_epochs is not None and epoch > self.recipe.dropout_epochs
        network.dropout = 0.0 if quiet else self.recipe.dropout
        optimizer.param_groups[0]["lr"] = self.recipe.rate_at(epoch)
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
        return evaluate(self.state.judged, self._val)

    def ask_test(self) -> Evaluation:
        """What the network says of the test graphs."""
        return evaluate(self.state.judged, chunks(self.batcher, self.task.split.test, self.task.key(EVALUATION)))

    def validate(self) -> tuple[float, float, Evaluation]:
        """Cross-entropy (which early stopping watches) and accuracy on the validation graphs, and the whole answer."""
        answer = self.ask_validation()
        loss = classification_loss(answer.logits, self.val_y, self.class_weight[self.val_y])
        accuracy = (answer.logits.argmax(1) == self.val_y).float().mean()
        return float(loss), float(accuracy), answer

    def run(self, tell: Tell, log: Log) -> None:
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
                self._give_up(state)
            state.note(val_loss)
            row = {"epoch": state.epoch, "train_loss": train_loss, "val_loss": val_loss, "val_accuracy": val_accuracy}
            log.append(row | {"seconds": seconds} | answer.metrics)
            if time.monotonic() - saved >= SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            told = Progress(self.task.split.index, state.epoch, val_loss, val_accuracy, state.best_epoch)
            try:
                tell(told._replace(member=self.task.member))
            except KeyboardInterrupt:  # who is told may end the training; nothing of it is lost
                self.save()
                raise

    def save(self) -> None:
        """Write a checkpoint."""
        save_state(self.task.folder / CHECKPOINT, self.state)

    def _give_up(self, state: State) -> None:
        weights = self.task.folder / "weights.safetensors"
        save_tensors(weights, state.best, {"epoch": str(state.best_epoch)})
        raise Diverged(
            f"{self.task}: the loss became NaN or infinite in epoch {state.epoch}; "
            f"the weights of epoch {state.best_epoch} are kept in {weights}"
        )

    def test(self) -> tuple[dict[str, Any], np.ndarray]:
        """Restore the best weights and read the test graphs, once: metrics and probabilities [n, classes]."""
        self.state.judged.load_state_dict(self.state.best)
        p = torch.softmax(self.ask_test().logits.double(), 1).cpu().numpy()
        return report(self.batcher.graphs.y[self.task.split.test], p), p


def train_split(
    task: Task, graphs: GraphSet, tell: Tell, training: Callable[[Task, GraphSet], Training] = Training
) -> None:
    """Train one split to the end, or go on from its checkpoint; the folder then holds weights, metrics and result."""
    task.folder.mkdir(parents=True, exist_ok=True)
    with flushed_denormals():
        began = time.perf_counter()
        _train_split(training(task, graphs), tell, began)


def _train_split(training: Training, tell: Tell, began: float) -> None:
    task = training.task
    log = Log(task.folder / METRICS)
    write_json(task.folder / "encoder.json", training.encoder.to_json())
    checkpoint = task.folder / CHECKPOINT
    if checkpoint.exists():
        load_state(checkpoint, training.state)
    log.cut_back_to(training.state.epoch)
    training.run(tell, log)

    metrics, probabilities = training.test()
    state = training.state
    weights = sum(p.numel() for p in state.network.parameters())
    outcome = Outcome(weights, state.epoch, state.best_epoch, state.best_loss, metrics, probabilities)
    finish_split(task, state.best, outcome, log, time.perf_counter() - began)
    tell(finished(task, state.epoch, state.best_loss, state.best_epoch))


def finished(task: Task, epochs: int, val_loss: float, best_epoch: int) -> Progress:
    """What is told of a task that is done."""
    return Progress(task.split.index, epochs, val_loss, math.nan, best_epoch, done=True, member=task.member)


class Outcome(NamedTuple):
    """What the training of a split came to."""

    parameters: int
    epochs: int
    best_epoch: int
    best_loss: float
    metrics: dict[str, Any]
    """Of the test graphs."""
    probabilities: np.ndarray
    """[n, classes] of the test graphs."""


def finish_split(task: Task, best: dict[str, Tensor], outcome: Outcome, log: Log, seconds: float) -> None:
    """Write what a finished split leaves in its folder; the result last, as its presence means that all is there."""
    save_tensors(task.folder / "weights.safetensors", best, {"epoch": str(outcome.best_epoch)})
    save_array(task.folder / "probabilities.npy", outcome.probabilities)
    result = {
        "split": task.split.index,
        "epochs": outcome.epochs,
        "best_epoch": outcome.best_epoch,
        "val_loss": outcome.best_loss,
        "test": outcome.metrics,
        "parameters": outcome.parameters,
        "epoch_seconds": float(np.median(log.column("seconds") or [0.0])),
        "seconds": seconds,
    }
    write_json(task.folder / "result.json", result)
    (task.folder / CHECKPOINT).unlink(missing_ok=True)


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an array as .npy, atomically."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, values)

    write_atomically(path, write)
