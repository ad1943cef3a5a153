"""`train`: one method on one data set over S splits, in a folder that can be resumed."""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike

from cgipool.data.computed import writing
from cgipool.data.descriptors import warn_of_gaps
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import Split, check_graphs, check_splits, random_splits
from cgipool.errors import UserError, whole_number
from cgipool.files import write_json
from cgipool.pool import method_named
from cgipool.task.metrics import classes_of
from cgipool.task.registry import task_of
from cgipool.training.ensemble import combine, members_of
from cgipool.training.folder import identity_of, prepare, run_folder, split_folder
from cgipool.training.job import Job, ProgressCallback, Start, finished
from cgipool.training.loop import train_split
from cgipool.training.objective import check_stop_by, weights_of
from cgipool.training.parallel import train_in_processes
from cgipool.training.reading import check_edges, has_edge_features, warn_of_unread
from cgipool.training.recipe import Recipe, resolve_recipe
from cgipool.training.result import RESULT, Result, read_row
from cgipool.training.stacked.host import stackable, train_together
from cgipool.training.stacked.trial import tried


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

    `splits` is a number of random splits, drawn from number `first` on, or the splits themselves. `settings` change
    single settings of the recipe (ratio=0.5, epochs=20, …). `ensemble` is the number of members trained in each split;
    they differ in their random draws, and the mean of their probabilities is tested. A classical method (wl, wl-oa) has
    no members: it is fitted once in each split, on the CPU. `out` is a folder that keeps the run. `jobs` trains several
    splits (or members) in parallel on a CPU, each in a process with one thread; on a GPU all train at once. `tf32` lets
    a GPU use TF32 for matrix products, which rounds the factors to 10 bits and is faster. `sample_weight` [G] is the
    weight of each graph in the training and validation losses, or the name of a column of the data with these weights.
    `time` is the column with the times, for `split_kind="time"`. `tell` is called with a
    `Progress` after each epoch and at the end of each split, or of each member of an ensemble. A warning lists parts
    of the data set that training does not use.
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
    if recipe.impute == "mean" and method_named(method).reads("descriptors"):
        warn_of_gaps(graphs, recipe.descriptor_columns)
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
    check_stop_by(task_of(graphs), one.recipe.stop_by, splits, graphs)
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
    rows = [read_row(job.folder) for job in whole]
    seconds = time.perf_counter() - began
    recipe = one.recipe
    about = (graphs.name, one.method, recipe.name, recipe.changes(), one.seed, seconds, rows, ensemble)
    result = Result(*about, task=graphs.task, classes=classes_of(graphs) if graphs.task == "classification" else None)
    write_json(folder / "result.json", result.to_json())
    return result


def check_device(device: str) -> None:
    """Raise UserError unless torch can compute on the device."""
    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, ValueError) as error:
        gpu = re.fullmatch(r"cuda(:\d+)?", str(device))
        reason = str(error).splitlines()[0] if gpu else "it must be cpu, cuda or cuda:N"
        raise UserError(f"device {str(device)!r} cannot be used: {reason}") from None


def waiting(trainings: Sequence[Job], tell: ProgressCallback) -> list[Job]:
    """Return the trainings that are not finished yet, and report the finished ones to `tell`."""
    unfinished = []
    for job in trainings:
        if (job.folder / RESULT).exists():
            row = read_row(job.folder)
            tell(finished(job, row["epochs"], row["val_loss"], row["best_epoch"]))
        else:
            unfinished.append(job)
    return unfinished


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
