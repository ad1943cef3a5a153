"""A run: one method on one data set over S splits, in a folder that can be resumed.

DIR/run.json       all that determines the result: data, method, recipe, seed, versions
DIR/splits.json    the splits
DIR/split-000/     metrics.jsonl, weights.safetensors, probabilities.npy, result.json (and, while it runs, a checkpoint)
                   (of an ensemble: these in member-00/ …, beside probabilities.npy and result.json of the whole)
DIR/result.json    the whole result
"""

import contextlib
import hashlib
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike

from cgipool.data.describe import warn_of_unused
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import Split, check_graphs, check_splits, random_splits, write_splits
from cgipool.errors import UserError, whole_number
from cgipool.files import read_json, write_json
from cgipool.pool import method_named
from cgipool.training.ensemble import combine, members_of
from cgipool.training.folder import alone_in, make_folder
from cgipool.training.job import Diverged, Job, ProgressCallback, finished
from cgipool.training.loop import train_split
from cgipool.training.metrics import classes_of
from cgipool.training.objective import checked_weights
from cgipool.training.parallel import train_in_processes
from cgipool.training.recipe import ADDED, Recipe, recipe_named
from cgipool.training.result import RESULT, Result, read_row
from cgipool.training.stacked.host import stackable, train_together
from cgipool.training.stacked.trial import tried
from cgipool.version import __version__


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
    sample_weight: ArrayLike | None = None,
    tell: ProgressCallback = lambda progress: None,
    **settings: Any,
) -> Result:
    """Train a method on random splits of a data set (a GraphSet, a name or a path) and test each split once.

    `splits` is how many random splits to draw, beginning with number `first`, or the splits themselves. `settings`
    change single settings of the recipe (ratio=0.5, epochs=20, …). `ensemble` is how many members to train in each
    split, which differ in their random draws alone; the mean of their probabilities is tested. With `out` the run is
    kept in that folder. More than one of `jobs` trains so many splits (or members) at a time, each in a process with
    one thread; on a GPU all train at once anyway. There `tf32` lets matrix products round their factors to 10 bits, as
    the hardware does at full speed. `sample_weight` [G] is how much each graph counts in the losses of training and
    validation; without it all count the same. `tell` is called with a `Progress` after each epoch and at the end of
    each split, in an ensemble of each member. What the set holds and the training does not use, a warning says.
    """
    method_named(method)
    recipe_named(recipe).but(**settings)  # what is wrong with them is told before the data is read
    check_device(device)
    seed, first = whole_number("seed", seed), whole_number("first", first)
    jobs, ensemble = whole_number("jobs", jobs, 1), whole_number("ensemble", ensemble, 1)
    if jobs > 1 and torch.device(device).type == "cuda":
        raise UserError("jobs works on a CPU only; on a GPU all splits train at once")
    graphs = data if isinstance(data, GraphSet) else load_dataset(data)
    check_graphs(graphs)
    chosen = recipe_named(recipe, graphs.family).but(**settings)
    if not isinstance(splits, Sequence):
        indices = range(first, first + whole_number("splits", splits, 1))
        splits = random_splits(graphs, seed=seed, indices=indices, kind=split_kind)
    check_splits(splits, graphs.n_graphs)
    weight = None if sample_weight is None else checked_weights(sample_weight, graphs.n_graphs, splits)
    warn_of_unused(graphs, chosen.attributes)
    with run_folder(out) as folder:
        tasks = [
            Job(method, chosen, split, seed, device, split_folder(folder, split.index), sample_weight=weight)
            for split in splits
        ]
        return train_tasks(tasks, graphs, folder, ensemble, jobs, tf32, resume, overwrite, tell)


def train_tasks(
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
    """Train the splits of a run in its folder, which nobody else must be using. For the arguments see `train`."""
    one, splits = whole[0], [task.split for task in whole]
    identity = identity_of(graphs, one.method, one.recipe, one.seed, splits, one.device, tf32)
    identity |= {"ensemble": ensemble} if ensemble > 1 else {}
    if one.sample_weight is not None:
        identity["sample_weight"] = hashlib.sha256(one.sample_weight.tobytes()).hexdigest()
    prepare(folder, identity, splits, resume, overwrite)
    if torch.device(one.device).type == "cuda":
        whole = tried(whole, graphs)
    members = [members_of(task, ensemble) for task in whole]
    began = time.perf_counter()
    with matrix_precision(tf32):
        _train_all(waiting([task for tasks in members for task in tasks], tell), graphs, jobs, tell)
    if ensemble > 1:
        for task, parts in zip(whole, members, strict=True):
            combine(task, parts, graphs, at_once=_together(task))
    rows = [read_row(task.folder) for task in whole]
    seconds = time.perf_counter() - began
    recipe = one.recipe
    told = (graphs.name, one.method, recipe.name, recipe.changes(), one.seed, seconds, rows, ensemble)
    result = Result(*told, classes=classes_of(graphs))
    write_json(folder / "result.json", result.to_json())
    return result


def split_folder(folder: Path, index: int) -> Path:
    """Where a run keeps the files of one split."""
    return folder / f"split-{index:03d}"


def check_device(device: str) -> None:
    """An error unless torch can compute there. Of a GPU torch says why; of others it lists all that it ever knew."""
    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, ValueError) as error:
        gpu = re.fullmatch(r"cuda(:\d+)?", str(device))
        reason = str(error).splitlines()[0] if gpu else "it must be cpu, cuda or cuda:N"
        raise UserError(f"device {str(device)!r} cannot be used: {reason}") from None


@contextlib.contextmanager
def run_folder(out: str | Path | None) -> Iterator[Path]:
    """The run's folder, which no other run can use meanwhile; without a name a temporary one."""
    if out is not None:
        check_free(Path(out))
        with alone_in(Path(out)):
            yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-") as name:
        try:
            yield Path(name)
        except Diverged as error:  # its weights go with the folder
            raise Diverged(error.epoch, error.what) from None


def identity_of(
    graphs: GraphSet, method: str, recipe: Recipe, seed: int, splits: Sequence[Split], device: str, tf32: bool
) -> dict[str, Any]:
    """What was asked for, and the versions that it was made with (which a resumed run does not compare)."""
    drawn = hashlib.sha256()
    for split in splits:
        for side in (split.train, split.val, split.test):
            drawn.update(side.tobytes())
    return {
        "dataset": graphs.name,
        "graphs": graphs.n_graphs,
        "content": content_of(graphs),
        "method": method,
        "recipe": recipe.to_json(),
        "seed": seed,
        "device": torch.device(device).type,
        "precision": "tf32" if tf32 and torch.device(device).type == "cuda" else "float32",
        "splits": [split.index for split in splits],
        "splits_content": drawn.hexdigest(),
        "made_with": {"cgipool": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def content_of(graphs: GraphSet) -> str:
    """A hash of all that a training reads of a data set."""
    content = hashlib.sha256()
    for array in (graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp, graphs.y, graphs.category, graphs.attributes):
        if array is not None:
            for start in range(0, len(array), 1 << 20):  # it may lie on disk and be larger than memory
                content.update(array[start : start + (1 << 20)].tobytes())
    return content.hexdigest()


def prepare(folder: Path, identity: dict, splits: Sequence[Split], resume: bool, overwrite: bool) -> None:
    """Make the folder ready for this run, or refuse: it holds another, or this one and nobody said `resume`."""
    known = folder / "run.json"
    if known.exists() and overwrite:
        for part in ("run.json", "splits.json", "result.json"):
            (folder / part).unlink(missing_ok=True)
        for old in folder.glob("split-*"):
            shutil.rmtree(old)
    elif known.exists() and resume:
        before, now = ({"ensemble": 1, "sample_weight": None} | made for made in (_table(known, "recipe"), identity))
        if not isinstance(before["recipe"], dict):
            raise UserError(f"{known} is damaged: its recipe is not a table")
        before["recipe"] = ADDED | before["recipe"]
        differs = [name for name in now if name != "made_with" and before.get(name) != now[name]]
        if differs:
            raise UserError(f"{folder} holds a run with a different {_named(differs, before, now)}; cannot resume it")
        write_splits(folder / "splits.json", splits)  # they are the same; what was there may be damaged
        return
    elif known.exists():
        raise UserError(f"{folder} already holds a run; resume it (--resume) or replace it (--overwrite)")
    else:
        check_free(folder)
    make_folder(folder)
    write_splits(folder / "splits.json", splits)
    write_json(known, identity)


def check_free(folder: Path) -> None:
    """An error if the folder holds something other than a run."""
    if not (folder / "run.json").exists() and not is_free(folder):
        raise UserError(f"{folder} is not empty and is not a run; choose another folder")


def is_free(folder: Path) -> bool:
    """Whether a run can begin there: nothing is in it, but perhaps what is left of one that never began."""
    return not folder.exists() or all(p.name == "splits.json" or p.name.startswith(".") for p in folder.iterdir())


def _named(differs: list[str], before: dict, now: dict) -> str:
    """The first difference in words."""
    name = differs[0]
    if name == "recipe":
        then, here = before["recipe"], now["recipe"]
        settings = [key for key in here | then if then.get(key) != here.get(key)]  # an older version has fewer
        return f"{settings[0]} ({then.get(settings[0])} then, {here.get(settings[0])} now)" if settings else "recipe"
    hashed = {"content": "data set content", "splits_content": "division into splits", "sample_weight": "sample_weight"}
    return hashed[name] if name in hashed else f"{name} ({before.get(name)} then, {now[name]} now)"


def waiting(tasks: Sequence[Job], tell: ProgressCallback) -> list[Job]:
    """The tasks that are still to be done; the others are told."""
    left = []
    for task in tasks:
        if (task.folder / RESULT).exists():
            row = read_row(task.folder)
            tell(finished(task, row["epochs"], row["val_loss"], row["best_epoch"]))
        else:
            left.append(task)
    return left


def _table(path: Path, *names: str) -> dict[str, Any]:
    """What a file of a run holds by name; one that lacks these names is an error that names it."""
    held = read_json(path)
    lacking = [name for name in names if not isinstance(held, dict) or name not in held]
    if lacking:
        raise UserError(f"{path} is damaged: it has no {lacking[0]}")
    return held


def _together(task: Job) -> bool:
    """Whether all tasks like this one train in one program."""
    return torch.device(task.device).type == "cuda" and stackable(task)


@contextlib.contextmanager
def matrix_precision(tf32: bool) -> Iterator[None]:
    """How a GPU reads the factors of float32 matrix products meanwhile."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _train_all(tasks: list[Job], graphs: GraphSet, jobs: int, tell: ProgressCallback) -> None:
    if tasks and _together(tasks[0]):
        train_together(tasks, graphs, tell)
    elif jobs > 1 and tasks:
        train_in_processes(tasks, graphs, jobs, tell)
    else:
        for task in tasks:
            train_split(task, graphs, tell)
