"""What a split has in its folder: a log and a checkpoint while it trains, and what it leaves there."""

from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from torch import Tensor

from cgipool.errors import UserError
from cgipool.files import write_atomically
from cgipool.training.checkpoint import save_tensors
from cgipool.training.log import Log
from cgipool.training.result import PROBABILITIES, write_row
from cgipool.training.task import Diverged, Task

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


def finish_split(task: Task, best: dict[str, Tensor], outcome: Outcome, log: Log, seconds: float) -> None:
    """Write what a finished split leaves in its folder; the result last, as its presence means that all is there."""
    if not np.isfinite(outcome.probabilities).all():
        raise UserError(f"{task}: the model's answers on the test graphs are not finite, so they cannot be scored")
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


def give_up(task: Task, epoch: int, best: dict[str, Tensor], best_epoch: int) -> NoReturn:
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
