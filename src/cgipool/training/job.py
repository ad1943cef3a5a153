"""A task, the training of one split, and what is told of it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.ops.draws import key_of, shuffled
from cgipool.training.recipe import Recipe

INIT, ORDER, STEP, EVALUATION, MEMBER = range(5)
"""What a key of random draws is for; the last leads to the keys of an ensemble's further members."""


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
    """Which of the split's ensemble; the first is what the split gives without one."""
    stacked: bool = True
    """Whether it may train in one program with others, if its method and device allow that."""
    sample_weight: np.ndarray | None = field(default=None, compare=False, repr=False)
    """[G] how much each graph of the data set counts in a loss; None: all the same."""

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


def epoch_ids(task: Job, epoch: int) -> Iterator[np.ndarray]:
    """The graph ids of each step of an epoch. Without shuffling there still is one random order, kept for all epochs:
    the archives are sorted by class."""
    order = shuffled(task.key(ORDER, epoch if task.recipe.shuffle else 0), len(task.split.train)).numpy()
    ids, size = task.split.train[order], task.recipe.batch_size
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


class Progress(NamedTuple):
    """What is told after every epoch, and once more when a split is done."""

    split: int
    epoch: int
    val_loss: float
    val_accuracy: float
    best_epoch: int
    done: bool = False
    member: int = 0


ProgressCallback = Callable[[Progress], None]


def printing(every: int, ensemble: bool) -> ProgressCallback:
    """Prints progress after every so many epochs, and at the end; 0 prints nothing."""

    def tell(told: Progress) -> None:
        if every <= 0 or not (told.done or told.epoch % every == 0):
            return
        who = f"member {told.member}, " if ensemble else ""
        if told.done:
            end = f"done after {told.epoch} epochs, best epoch {told.best_epoch}"
            print(f"{who}{end}, validation loss {told.val_loss:.4f}", flush=True)
        else:
            found = f"validation loss {told.val_loss:.4f}, accuracy {100 * told.val_accuracy:.1f} %"
            print(f"{who}epoch {told.epoch}: {found}, best epoch {told.best_epoch}", flush=True)

    return tell


def finished(task: Job, epochs: int, val_loss: float, best_epoch: int) -> Progress:
    """What is told of a task that is done."""
    return Progress(task.split.index, epochs, val_loss, math.nan, best_epoch, done=True, member=task.member)


class Diverged(UserError):
    """The loss became NaN or infinite: in which epoch, of what, and where the best weights are, if they are kept."""

    def __init__(self, epoch: int, what: str = "", kept: str = "") -> None:
        super().__init__(epoch, what, kept)  # all of it, so that it comes whole from another process
        self.epoch, self.what, self.kept = epoch, what, kept

    def __str__(self) -> str:
        """One line."""
        said = f"the loss became NaN or infinite in epoch {self.epoch}"
        return (f"{self.what}: " if self.what else "") + said + (f"; {self.kept}" if self.kept else "")
