"""A job (the training of one split) and the reports of its progress."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from cgipool.data.features import Encoder
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.ops.draws import key_of, shuffled
from cgipool.pool import Sizes
from cgipool.task.metrics import described
from cgipool.training.recipe import Recipe

INIT, ORDER, STEP, EVALUATION, MEMBER = range(5)
"""Purposes of random keys. MEMBER derives the keys of an ensemble's members after the first."""


class Start(NamedTuple):
    """A trained model whose training continues. Only its weights change."""

    encoder: Encoder
    weights: Sequence[dict[str, Tensor]]
    """By member."""
    baseline: Sequence[float]
    sizes: Sizes
    scaling: Sequence[Sequence[float]]
    """The means and standard deviations of regression targets; empty for other tasks."""
    digest: str
    """Digest of the weights. A run can only be resumed with the same ones."""


@dataclass(frozen=True)
class Job:
    """One split to train, and where its files go."""

    method: str
    recipe: Recipe
    split: Split
    seed: int
    device: str
    folder: Path
    member: int = 0
    """Number in the split's ensemble; member 0 is identical to the training without an ensemble."""
    stacked: bool = True
    """Whether the job may train stacked with others, if its method and device allow it."""
    sample_weight: np.ndarray | None = field(default=None, compare=False, repr=False)
    """[G] weight of each graph of the data set in the losses; None: equal weights."""
    start: Start | None = field(default=None, compare=False, repr=False)
    """The model whose training continues; None: random initial weights."""

    @property
    def number(self) -> tuple[int, int]:
        """Split and member, which identify a training within a run."""
        return self.split.index, self.member

    def __str__(self) -> str:
        """The name used in messages."""
        return f"split {self.split.index}" + (f", member {self.member}" if self.member else "")

    def key(self, purpose: int, *more: int) -> int:
        """Return the random key for a purpose; it depends only on (seed, split, member)."""
        path = (MEMBER, self.member) if self.member else ()
        return key_of(self.seed, self.split.index, *path, purpose, *more)


def epoch_ids(job: Job, epoch: int, balance: Callable[[Tensor], Tensor] | None = None) -> Iterator[np.ndarray]:
    """Yield the graph ids of each step of an epoch. Without shuffling, all epochs use the same random order, because
    the archives are sorted by class. `balance` changes the order of an epoch."""
    order = shuffled(job.key(ORDER, epoch if job.recipe.shuffle else 0), len(job.split.train))
    order = order if balance is None else balance(order)
    ids, size = job.split.train[order.numpy()], job.recipe.batch_size
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


class Progress(NamedTuple):
    """Passed to the progress callback after every epoch, and once more at the end of a split."""

    split: int
    epoch: int
    val_loss: float
    """At the end of a split, that of the best epoch."""
    val_score: float
    """A metric of the validation graphs; at the end of a split, what early stopping watches, in the best epoch."""
    best_epoch: int
    metric: str
    """The name of `val_score`: the metric that early stopping watches. If it watches the loss, the task's primary
    metric, and at the end of a split "loss"."""
    done: bool = False
    member: int = 0

    @property
    def score(self) -> str:
        """The metric and its value in words."""
        return f"loss {self.val_loss:z.4f}" if self.metric == "loss" else described(self.metric, self.val_score)


ProgressCallback = Callable[[Progress], None]


def printing(every: int, ensemble: bool) -> ProgressCallback:
    """Return a callback that prints progress after every `every` epochs and at the end; 0 prints nothing."""

    def tell(progress: Progress) -> None:
        if every <= 0 or not (progress.done or progress.epoch % every == 0):
            return
        who = f"member {progress.member}, " if ensemble else ""
        if progress.done:
            end = f"done after {progress.epoch} epochs, best epoch {progress.best_epoch}"
            print(f"{who}{end}, validation {progress.score}", flush=True)
        else:
            found = f"validation loss {progress.val_loss:z.4f}, {progress.score}"
            print(f"{who}epoch {progress.epoch}: {found}, best epoch {progress.best_epoch}", flush=True)

    return tell


def reported(job: Job, primary: str, epoch: int, scores: Mapping[str, float], best_epoch: int) -> Progress:
    """Return the progress report of an epoch. `scores` are its validation loss and metrics; `primary` is the task's."""
    metric = primary if job.recipe.stop_by == "loss" else job.recipe.stop_by
    found = scores["val_loss"], scores[f"val_{metric}"]
    return Progress(job.split.index, epoch, *found, best_epoch, metric, member=job.member)


def finished(job: Job, epochs: int, val_loss: float, best_epoch: int, score: float | None = None) -> Progress:
    """Return the final progress report of a job. `score` is the metric in the best epoch that early stopping watches;
    None: it watches the loss."""
    found, metric = (val_loss, "loss") if score is None else (score, job.recipe.stop_by)
    return Progress(job.split.index, epochs, val_loss, found, best_epoch, metric, done=True, member=job.member)


class Diverged(UserError):
    """The loss became NaN or infinite. Holds the epoch, the job, and where the best weights are, if they are kept."""

    def __init__(self, epoch: int, what: str = "", kept: str = "") -> None:
        super().__init__(epoch, what, kept)  # all arguments, so that the exception can be pickled between processes
        self.epoch, self.what, self.kept = epoch, what, kept

    def __str__(self) -> str:
        """The message, in one line."""
        message = f"the loss became NaN or infinite in epoch {self.epoch}"
        return (f"{self.what}: " if self.what else "") + message + (f"; {self.kept}" if self.kept else "")
