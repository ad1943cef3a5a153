"""The work of `cgipool train` after its options are read: draw splits, train them and report progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cgipool.cli.errors import Interrupted
from cgipool.cli.launched import tell_of_jobs
from cgipool.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgipool.data import GraphSet, Split
    from cgipool.training.recipe import Recipe
    from cgipool.training.result import Result


GIVEN = "given"
"""The kind of split that a column of the source gives."""


def draw_splits(
    graphs: "GraphSet",
    data: str,
    seed: int,
    count: int | None,
    first: int | None,
    kind: str | None,
    file: Path | None,
    folds: int | None,
    positive: str | None = None,
    metric: str | None = None,
    time: str | None = None,
) -> "Sequence[Split]":
    """Return the splits of a file, of a cross-validation, of the source, or random ones. Raise an error, before
    anything is trained, if no class is named `positive` or if the task does not have the metric."""
    from cgipool.data import fold_splits, random_splits, read_splits
    from cgipool.task.metrics import check_metric, classes_of

    check_metric(graphs.task, metric)
    if positive is not None:
        classes_of(graphs).but(positive)
    if kind == GIVEN or (kind is None and count is None and first is None and file is None and folds is None):
        file = _given(data, asked=kind == GIVEN)
    if file is not None:
        splits = read_splits(file, graphs.n_graphs)
        _tell_of_left_out(splits, graphs.n_graphs)
        return splits
    if folds is not None:
        return fold_splits(graphs, folds, seed, kind or "stratified", time)
    start = first or 0
    indices = range(start, start + (count or 1))
    return random_splits(graphs, seed=seed, indices=indices, kind=kind or "random", time=time)


def _given(data: str, asked: bool) -> Path | None:
    """The file with the split that a column of the source gives, if there is one."""
    from cgipool.data.importers.imported import GIVEN as FILE

    file = Path(data, FILE)
    if file.is_file():
        typer.echo(f"using the split in the column 'split' of the source ({file})", err=True)
        return file
    if asked:
        raise UserError(f"{data} has no {FILE}: its source had no column 'split' with train, val and test")
    return None


def _tell_of_left_out(splits: "Sequence[Split]", count: int) -> None:
    """Warn if splits name only some graphs of a set, as they may have been made for another set."""
    import numpy as np

    named = len(np.unique(np.concatenate([ids for each in splits for ids in (each.train, each.val, each.test)])))
    if named < count:
        typer.echo(f"the splits use {named:,} of the {count:,} graphs; the others are left out", err=True)


def train_alone(
    data: str, draw: "Callable[[GraphSet], Sequence[Split]]", choose: "Callable[..., Recipe]", run: dict[str, Any]
) -> "Result":
    """Train in this process and its worker processes, with the recipe for the family of the data set."""
    from cgipool.cli.progress import downloading, reporting
    from cgipool.data import load_dataset
    from cgipool.study.estimate import on_a_cpu
    from cgipool.training.run import check_device, check_jobs, train_checked

    check_device(run["device"])
    check_jobs(run["jobs"], run["device"])
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    splits, recipe = draw(graphs), choose(graphs.family, graphs.has_own_attributes, graphs.directed)
    _tell_of_new_run(run)
    trainings = len(splits) * run["ensemble"]
    seconds = on_a_cpu(run["method"], recipe, trainings, graphs.n_nodes)
    tell_of_jobs(trainings, seconds, run["device"], run["jobs"])
    with _stopped(run["out"]), reporting(len(splits), recipe.epochs, recipe.patience, run["ensemble"]) as tell:
        return train_checked(graphs, splits, recipe=recipe, tell=tell, **run)


def train_by_all(
    data: str,
    draw: "Callable[[GraphSet], Sequence[Split]]",
    choose: "Callable[..., Recipe]",
    device: str,
    run: dict[str, Any],
) -> "Result | None":
    """Train in all processes that torchrun started. Return the result in the first of them."""
    from cgipool.cli.progress import downloading, reporting
    from cgipool.training.distributed.process_group import process_group
    from cgipool.training.distributed.train import train_distributed
    from cgipool.training.reading import warn_of_unread

    with process_group(device) as ranks:
        with downloading() as progress:
            graphs = ranks.open(data, progress)
        run = run | {"recipe": choose(graphs.family, graphs.has_own_attributes, graphs.directed)}
        splits = ranks.splits_of_first(lambda: draw(graphs))
        if not ranks.first:
            try:
                return train_distributed(graphs, ranks, splits=splits, **run)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None
        warn_of_unread(graphs, run["method"], run["recipe"])
        _tell_of_new_run(run)
        with _stopped(run["out"]), reporting(len(splits), run["recipe"].epochs, run["recipe"].patience) as tell:
            return train_distributed(graphs, ranks, splits=splits, tell=tell, **run)


def _tell_of_new_run(run: dict[str, Any]) -> None:
    """Warn if there is nothing to resume, as the folder may be wrong."""
    from cgipool.training.folder import is_free

    if run["resume"] and is_free(run["out"]):
        typer.echo(f"there is no run in {run['out']} yet: starting a new one", err=True)


@contextmanager
def _stopped(out: Path | None) -> Iterator[None]:
    """Let Ctrl-C end with a line that says how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        how = (
            f"run the same command with --resume to continue from {out}"
            if out
            else "nothing was saved, as there is no --out DIR"
        )
        raise Interrupted(f"stopped; {how}") from None
