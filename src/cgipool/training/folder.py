"""The folder of a run: who may write to it, and what a split leaves in it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from torch import Tensor

from cgipool.errors import UserError
from cgipool.files import lock, open_without_links, write_atomically
from cgipool.training.checkpoint import save_tensors
from cgipool.training.job import Diverged, Job
from cgipool.training.result import PROBABILITIES, Log, write_row

LOCK = ".lock"
"""In a run's folder while a process trains there; locked by it, so that its death releases the folder."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and keep other runs out of it; an error of one line if another process is training there."""
    path = folder / LOCK
    with contextlib.ExitStack() as stack:
        make_folder(folder)
        try:
            handle = open_without_links(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error
        file = stack.enter_context(os.fdopen(handle, "r+", encoding="utf-8"))
        if lock(file, wait=False) is False or not _is_open(path, handle):
            raise UserError(f"another process is training in {folder}; wait until it ends, or choose another folder")
        stack.callback(path.unlink, missing_ok=True)  # runs before the file is closed, so while it is still locked
        yield


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; an error of one line if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror or error}") from error


def _is_open(path: Path, handle: int) -> bool:
    """Whether the open file is still the one at this path: a run that ended in between has removed it."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False


CHECKPOINT = "checkpoint.safetensors"
"""In a split's folder while it trains."""

METRICS = "metrics.jsonl"
"""In a split's folder: a line for each epoch."""


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


def finish_split(task: Job, best: dict[str, Tensor], outcome: Outcome, log: Log, seconds: float) -> None:
    """Write what a finished split leaves in its folder; the result last, as its presence means that all is there."""
    if not np.isfinite(outcome.probabilities).all():
        raise UserError(f"{task}: the model's outputs on the test graphs are not finite, so they cannot be evaluated")
    save_tensors(task.folder / "weights.safetensors", best, {"epoch": str(outcome.best_epoch)})
    save_array(task.folder / PROBABILITIES, outcome.probabilities)
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
    write_row(task.folder, result)
    (task.folder / CHECKPOINT).unlink(missing_ok=True)


def give_up(task: Job, epoch: int, best: dict[str, Tensor], best_epoch: int) -> NoReturn:
    """A training whose loss is no number any more keeps its best weights, and is an error."""
    weights = task.folder / "weights.safetensors"
    save_tensors(weights, best, {"epoch": str(best_epoch)})
    raise Diverged(epoch, str(task), f"the weights of epoch {best_epoch} are kept in {weights}")


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an array as .npy, atomically."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, values)

    write_atomically(path, write)
