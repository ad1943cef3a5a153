"""`train`: one method on one data set over several splits, in a folder that can be resumed, with an ensemble of models
in each split if asked for."""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from cgipool.data.computed import writing
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import Split, check_graphs, check_splits, random_splits
from cgipool.errors import UserError, whole_number
from cgipool.pool import method_named
from cgipool.task.metrics import PER_COLUMN
from cgipool.task.registry import task_of
from cgipool.training.folder import (
    METRICS,
    finish_run,
    identity_of,
    member_folder,
    prepare,
    run_folder,
    save_array,
    split_folder,
)
from cgipool.training.job import Job, ProgressCallback, Start, finished
from cgipool.training.loop import train_split
from cgipool.training.objective import check_task, weights_of
from cgipool.training.parallel import train_in_processes
from cgipool.training.presets import resolve_recipe
from cgipool.training.reading import check_edges, has_edge_features, warn_of_unread
from cgipool.training.recipe import Recipe
from cgipool.training.result import PROBABILITIES, RESULT, Log, Result, read_probabilities, read_row, write_row
from cgipool.training.stacked.host import stackable, train_together, tried


def train(
    data: GraphSet | str | Path,
    *,
    method: str = "cgi",
    recipe: str | Recipe = "paper",
    splits: int | Sequence[Split] = 1,
    first: int = 0,
    split_kind: str = "random",
    seed: int = 0,
    ensemble: int = 1,
    device: str = "cpu",
    jobs: int = 1,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tf32: bool = True,
    sample_weight: ArrayLike | str | None = None,
    time: str | None = None,
    tell: ProgressCallback = lambda progress: None,
    **settings: Any,
) -> Result:
    """Train a method on splits of a data set (a GraphSet, a name or a path) and test each split once.

    `splits` is a number of random splits, the first of which is number `first`, or the splits themselves. `settings`
    change single settings of the recipe (ratio=0.5, epochs=20, …). `ensemble` models are trained in each split, with
    different random draws, and the mean of their probabilities is tested; a classical method (wl, wl-oa) is fitted only
    once. `out` is the folder of the run. `jobs` splits or members are trained in parallel on a CPU, each with one
    thread; on a GPU all train at once. `tf32` lets a GPU round the factors of matrix products to 10 bits, which is
    faster. `sample_weight` [G] holds the weight of each graph in the training and validation losses, or names a column
    with them. `time` is the column with the times, for `split_kind="time"`. `tell` is called with a `Progress` after
    each epoch and at the end of each split or member. A warning lists parts of the data set that are not used.
    """
    method_named(method)
    choose = resolve_recipe(recipe, settings)
    check_device(device)
    seed, first = whole_number("seed", seed), whole_number("first", first)
    jobs, ensemble = check_jobs(jobs, device), whole_number("ensemble", ensemble, 1)
    graphs = data if isinstance(data, GraphSet) else load_dataset(data)
    if isinstance(splits, Sequence):
        check_graphs(graphs)
        check_splits(splits, graphs.n_graphs)
    else:
        indices = range(first, first + whole_number("splits", splits, 1))
        splits = random_splits(graphs, seed=seed, indices=indices, kind=split_kind, time=time)  # checks the graphs
    return train_checked(
        graphs,
        splits,
        method=method,
        recipe=choose(graphs.family, graphs.has_own_attributes, graphs.directed),
        seed=seed,
        ensemble=ensemble,
        device=device,
        jobs=jobs,
        out=out,
        resume=resume,
        overwrite=overwrite,
        tf32=tf32,
        sample_weight=sample_weight,
        tell=tell,
    )


def train_checked(
    graphs: GraphSet,
    splits: Sequence[Split],
    *,
    method: str,
    recipe: Recipe,
    seed: int,
    device: str,
    out: str | Path | None,
    sample_weight: ArrayLike | str | None = None,
    start: Start | None = None,
    **options: Any,
) -> Result:
    """Run `train` with checked graphs, splits, recipe and device, perhaps from a trained model. `options` are passed to
    `train_splits`."""
    weight = weights_of(graphs, sample_weight, splits)
    warn_of_unread(graphs, method, recipe)
    with run_folder(out) as folder:
        more: dict[str, Any] = {"sample_weight": weight, "start": start}
        # The stacked engine does not compare with the weights it starts from.
        more["stacked"] = start is None
        trainings = [
            Job(method, recipe, split, seed, device, split_folder(folder, split.index), **more) for split in splits
        ]
        return train_splits(trainings, graphs, folder, **options)


def train_splits(
    whole: Sequence[Job],
    graphs: GraphSet,
    folder: Path,
    ensemble: int = 1,
    jobs: int = 1,
    tf32: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    tell: ProgressCallback = lambda progress: None,
) -> Result:
    """Train the splits of a run in its folder, which no other process may use. For the arguments see `train`."""
    one, splits = whole[0], [job.split for job in whole]
    if method_named(one.method).classical:
        ensemble = 1  # members would be the same model, or are what a forest has anyway
    check_edges([one.method], one.recipe, has_edge_features(graphs))
    check_task(graphs, one.recipe, splits)
    identity = identity_of(graphs, one.method, one.recipe, one.seed, splits, one.device, tf32, one.sample_weight)
    identity |= {"ensemble": ensemble} if ensemble > 1 else {}
    if one.start is not None:
        identity["start"] = one.start.digest
    prepare(folder, identity, splits, resume, overwrite)
    if torch.device(one.device).type == "cuda":
        whole = tried(whole, graphs)
    members = [members_of(job, ensemble) for job in whole]
    began = time.perf_counter()
    with matrix_precision(tf32), writing():
        _train_all(waiting([job for trainings in members for job in trainings], tell), graphs, jobs, tell)
    if ensemble > 1:
        for job, parts in zip(whole, members, strict=True):
            combine(job, parts, graphs, at_once=_together(job))
    return finish_run(folder, graphs, whole, time.perf_counter() - began, ensemble)


def members_of(job: Job, count: int) -> list[Job]:
    """Return the trainings of an ensemble, which differ in initial weights, order of graphs and dropout. With one
    member, return the job unchanged."""
    if count == 1:
        return [job]
    return [replace(job, folder=member_folder(job.folder, member), member=member) for member in range(count)]


def combine(job: Job, members: Sequence[Job], graphs: GraphSet, *, at_once: bool) -> None:
    """Average the members' probabilities and write the ensemble's files to the split's folder, the result last.

    `at_once` says whether the members trained at the same time, so that the split took as long as the slowest one.
    """
    rows, task = [read_row(member.folder) for member in members], task_of(graphs)
    mean = np.mean([read_probabilities(member.folder) for member in members], axis=0)
    seconds = [row["seconds"] for row in rows]
    result = {
        "split": job.split.index,
        "epochs": max(row["epochs"] for row in rows),
        "best_epoch": max(row["best_epoch"] for row in rows),
        "val_loss": float(np.mean([row["val_loss"] for row in rows])),
        "test": task.evaluate(task.targets(graphs, job.split.test), mean),
        "parameters": sum(row["parameters"] for row in rows),
        "epoch_seconds": float(np.median([row["epoch_seconds"] for row in rows])),
        "seconds": max(seconds) if at_once else sum(seconds),
        "members": [_member(row, task.primary) for row in rows],
    }
    save_array(job.folder / PROBABILITIES, mean)
    write_row(job.folder, result)


def _member(row: dict[str, Any], primary: str) -> dict[str, Any]:
    plain = {name: row[name] for name in ("epochs", "best_epoch", "val_loss")}
    test = {name: value for name, value in row["test"].items() if name != PER_COLUMN}
    return {f"test_{primary}": row["test"][primary], "test": test} | plain


def check_device(device: str) -> None:
    """Raise UserError unless torch can compute on the device."""
    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, ValueError) as error:
        gpu = re.fullmatch(r"cuda(:\d+)?", str(device))
        reason = str(error).splitlines()[0] if gpu else "it must be cpu, cuda or cuda:N"
        if gpu and "not compiled with CUDA" in reason:  # torch's words do not say what to do
            reason = f"PyTorch {torch.__version__} is built without CUDA; install a CUDA build from pytorch.org"
        raise UserError(f"device {str(device)!r} cannot be used: {reason}") from None


def waiting(trainings: Sequence[Job], tell: ProgressCallback) -> list[Job]:
    """Return the trainings that are not finished yet, and report the finished ones to `tell`."""
    unfinished = []
    for job in trainings:
        if (job.folder / RESULT).exists():
            row = read_row(job.folder)
            tell(finished(job, row["epochs"], row["val_loss"], row["best_epoch"], _best_score(job, row["best_epoch"])))
        else:
            unfinished.append(job)
    return unfinished


def _best_score(job: Job, epoch: int) -> float | None:
    """The metric that early stopping watched, in the best epoch of a finished training; None if it is not logged."""
    rows = Log(job.folder / METRICS).rows(epoch)
    return rows[-1].get(f"val_{job.recipe.stop_by}") if rows and job.recipe.stop_by != "loss" else None


def _together(job: Job) -> bool:
    """Whether the trainings run stacked on a GPU."""
    return torch.device(job.device).type == "cuda" and stackable(job)


def check_jobs(jobs: int, device: str) -> int:
    """Return the number of parallel jobs. Raise UserError for several on a GPU."""
    if whole_number("jobs", jobs, 1) > 1 and torch.device(device).type == "cuda":
        raise UserError("jobs works on a CPU only; on a GPU all splits train at once")
    return jobs


@contextlib.contextmanager
def matrix_precision(tf32: bool) -> Iterator[None]:
    """Switch TF32 for float32 matrix products on a GPU on or off in this context."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _train_all(trainings: list[Job], graphs: GraphSet, jobs: int, tell: ProgressCallback) -> None:
    if trainings and _together(trainings[0]):
        train_together(trainings, graphs, tell)
    elif jobs > 1 and trainings:
        train_in_processes(trainings, graphs, jobs, tell)
    else:
        for job in trainings:
            train_split(job, graphs, tell)
