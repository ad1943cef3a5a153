"""The folder of a run: its lock, what identifies the run, and the files of a split.

DIR/run.json       everything that determines the result: data, method, recipe, seed, versions
DIR/splits.json    the splits
DIR/split-000/     metrics.jsonl, weights.safetensors, probabilities.npy, result.json (a checkpoint during training);
                   an ensemble has these in member-00/ …, next to its own probabilities.npy and result.json
DIR/result.json    the whole result
"""

import contextlib
import hashlib
import json
import math
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from cgipool.data.digests import content_read
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, write_splits
from cgipool.errors import UserError
from cgipool.files import lock, open_without_links, read_json, write_atomically, write_json
from cgipool.task.base import Task
from cgipool.task.metrics import classes_of
from cgipool.training.checkpoint import save_tensors
from cgipool.training.initial import reads_edges
from cgipool.training.job import Diverged, Job
from cgipool.training.presets import ADDED
from cgipool.training.recipe import Recipe
from cgipool.training.result import PROBABILITIES, Log, Result, read_row, write_row
from cgipool.version import __version__

LOCK = ".lock"
"""Exists in a run's folder while a process trains there. The process holds a lock on it, which ends with the
process."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Create the folder and lock it; raises UserError if another process is training there."""
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
        stack.callback(path.unlink, missing_ok=True)  # runs before the file is closed, while it is still locked
        yield


def make_folder(folder: Path) -> None:
    """Create a folder and its parents; raises UserError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror or error}") from error


def _is_open(path: Path, handle: int) -> bool:
    """Whether the open file is still at this path: a run that has just ended may have removed it."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False


def split_folder(folder: Path, index: int) -> Path:
    """Return the folder of one split in the folder of a run."""
    return folder / f"split-{index:03d}"


def member_folder(folder: Path, member: int) -> Path:
    """Return the folder of one member in the folder of a split."""
    return folder / f"member-{member:02d}"


@contextlib.contextmanager
def run_folder(out: str | Path | None) -> Iterator[Path]:
    """Yield the run's folder, locked against other runs; a temporary folder if `out` is None."""
    if out is not None:
        check_free(Path(out))
        with alone_in(Path(out)):
            yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-") as name:
        try:
            yield Path(name)
        except Diverged as error:  # the temporary folder is removed, and the kept weights with it
            raise Diverged(error.epoch, error.what) from None


def check_free(folder: Path) -> None:
    """Raise UserError if the folder holds something other than a run."""
    if not (folder / "run.json").exists() and not is_free(folder):
        raise UserError(f"{folder} is not empty and is not a run; choose another folder")


def is_free(folder: Path) -> bool:
    """Whether the folder is empty, except for remains of a run that never started."""
    return not folder.exists() or all(p.name == "splits.json" or p.name.startswith(".") for p in folder.iterdir())


def prepare(folder: Path, identity: dict, splits: Sequence[Split], resume: bool, overwrite: bool) -> None:
    """Prepare the folder. Raises UserError if it holds another run, or this one without `resume` or `overwrite`."""
    known = folder / "run.json"
    if known.exists() and overwrite:
        for part in ("run.json", "splits.json", "result.json"):
            (folder / part).unlink(missing_ok=True)
        for old in folder.glob("split-*"):
            shutil.rmtree(old)
    elif known.exists() and resume:
        before, now = (
            {"ensemble": 1, "sample_weight": None, "start": None} | made for made in (_table(known, "recipe"), identity)
        )
        if not isinstance(before["recipe"], dict):
            raise UserError(f"{known} is damaged: its recipe is not a table")
        before["recipe"] = ADDED | before["recipe"]
        differs = [name for name in now if name != "made_with" and before.get(name) != now[name]]
        if differs:
            raise UserError(f"{folder} holds a run with a different {_named(differs, before, now)}; cannot resume it")
        write_splits(folder / "splits.json", splits)  # the same splits; the file may be damaged
        return
    elif known.exists():
        raise UserError(f"{folder} already holds a run; resume it (--resume) or replace it (--overwrite)")
    else:
        check_free(folder)
    make_folder(folder)
    write_splits(folder / "splits.json", splits)
    write_json(known, identity)


def _named(differs: list[str], before: dict, now: dict) -> str:
    """Describe the first difference, for an error message."""
    name = differs[0]
    if name == "recipe":
        then, here = before["recipe"], now["recipe"]
        settings = [key for key in here | then if then.get(key) != here.get(key)]  # an older version has fewer settings
        return f"{settings[0]} ({then.get(settings[0])} then, {here.get(settings[0])} now)" if settings else "recipe"
    hashed = {
        "content": "data set content",
        "splits_content": "division into splits",
        "descriptors": "content of descriptors",
        "sample_weight": "sample_weight",
        "start": "model to continue",
    }
    return hashed[name] if name in hashed else f"{name} ({before.get(name)} then, {now[name]} now)"


def _table(path: Path, *names: str) -> dict[str, Any]:
    """Read the JSON object in a file of a run. Raise UserError if one of these names is missing."""
    held = read_json(path)
    missing = [name for name in names if not isinstance(held, dict) or name not in held]
    if missing:
        raise UserError(f"{path} is damaged: it has no {missing[0]}")
    return held


def identity_of(
    graphs: GraphSet,
    method: str,
    recipe: Recipe,
    seed: int,
    splits: Sequence[Split],
    device: str,
    tf32: bool,
    sample_weight: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return everything that determines a run's result, and the versions used, which are not compared on resume."""
    drawn = hashlib.sha256()
    for split in splits:
        for side in (split.train, split.val, split.test):
            drawn.update(side.tobytes())
    more: dict[str, Any] = {}
    if recipe.descriptor_columns:
        texts = [graphs.column(name) for name in recipe.descriptor_columns]
        more["descriptors"] = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    if sample_weight is not None:
        more["sample_weight"] = hashlib.sha256(sample_weight.tobytes()).hexdigest()
    return more | {
        "dataset": graphs.name,
        "graphs": graphs.n_graphs,
        "content": content_read(graphs, reads_edges(recipe, method)),
        "method": method,
        "recipe": recipe.to_json(),
        "seed": seed,
        "device": torch.device(device).type,
        "precision": "tf32" if tf32 and torch.device(device).type == "cuda" else "float32",
        "splits": [split.index for split in splits],
        "splits_content": drawn.hexdigest(),
        "made_with": {"cgipool": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


CHECKPOINT = "checkpoint.safetensors"
"""Exists in a split's folder during training."""

METRICS = "metrics.jsonl"
"""In a split's folder: one line per epoch."""


class SplitOutcome(NamedTuple):
    """The outcome of training one split."""

    parameters: int
    epochs: int
    best_epoch: int
    best_loss: float
    metrics: dict[str, Any]
    """On the test graphs."""
    probabilities: np.ndarray
    """[n, classes], on the test graphs."""


def tested(job: Job, task: Task, graphs: GraphSet, predictions: np.ndarray) -> dict[str, Any]:
    """Return the metrics of the predictions [n, outputs] for a split's test graphs. Raise UserError if they are not
    finite."""
    if not np.isfinite(predictions).all():
        raise UserError(f"{job}: the model's outputs on the test graphs are not finite, so they cannot be evaluated")
    return task.evaluate(task.targets(graphs, job.split.test), predictions)


def finish_split(job: Job, best: dict[str, Tensor], outcome: SplitOutcome, log: Log, seconds: float) -> None:
    """Write the files of a finished split. The result comes last: its presence means that the split is complete."""
    if not math.isfinite(outcome.best_loss):
        raise UserError(f"{job}: stop_by {job.recipe.stop_by!r} was not defined in any epoch, so no epoch is the best")
    save_tensors(job.folder / "weights.safetensors", best, {"epoch": str(outcome.best_epoch)})
    save_array(job.folder / PROBABILITIES, outcome.probabilities)
    result = {
        "split": job.split.index,
        "epochs": outcome.epochs,
        "best_epoch": outcome.best_epoch,
        "val_loss": outcome.best_loss,
        "test": outcome.metrics,
        "parameters": outcome.parameters,
        "epoch_seconds": float(np.median(log.column("seconds") or [0.0])),
        "seconds": seconds,
    }
    write_row(job.folder, result)
    (job.folder / CHECKPOINT).unlink(missing_ok=True)


def finish_run(folder: Path, graphs: GraphSet, jobs: Sequence[Job], seconds: float, ensemble: int = 1) -> Result:
    """Collect the rows of all splits and write the whole result."""
    one, recipe = jobs[0], jobs[0].recipe
    result = Result(
        graphs.name,
        one.method,
        recipe.name,
        recipe.changes(),
        one.seed,
        seconds,
        [read_row(job.folder) for job in jobs],
        ensemble,
        task=graphs.task,
        classes=classes_of(graphs) if graphs.task == "classification" else None,
        columns=graphs.target_names,
    )
    write_json(folder / "result.json", result.to_json())
    return result


def give_up(job: Job, epoch: int, best: dict[str, Tensor], best_epoch: int) -> NoReturn:
    """Save the best weights of a training whose loss is not finite, and raise `Diverged`."""
    weights = job.folder / "weights.safetensors"
    save_tensors(weights, best, {"epoch": str(best_epoch)})
    raise Diverged(epoch, str(job), f"the weights of epoch {best_epoch} are kept in {weights}")


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an array as .npy atomically."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, values)

    write_atomically(path, write)
