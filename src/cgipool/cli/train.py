"""`cgipool train`."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.direct import with_import
from cgipool.cli.errors import Interrupted, exclude, one_error_for_all
from cgipool.cli.options import (
    CHANGES,
    DATA,
    METHOD,
    METRIC,
    POSITIVE,
    RECIPE,
    SAMPLE_WEIGHT,
    SPLIT_KINDS,
    SPLIT_PANEL,
    TIME,
    suggest_jobs,
    with_settings,
)
from cgipool.errors import UserError, unknown
from cgipool.training.presets import parse_settings, resolve_recipe
from cgipool.training.settings import merged

if TYPE_CHECKING:
    from cgipool.data import GraphSet, Split
    from cgipool.training.recipe import Recipe
    from cgipool.training.result import Result

SPLITS, RUN = SPLIT_PANEL, "Execution and output"

GIVEN = "given"
"""The kind of split that a column of the source gives."""


@one_error_for_all
@with_import
@with_settings
def train(
    data: DATA = "motifs",
    method: METHOD = "cgi",
    recipe: RECIPE = "paper",
    changes: CHANGES = None,
    ensemble: Annotated[int, typer.Option(min=1, help="Models per split whose probabilities are averaged.")] = 1,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Number of splits. Default: 1.", rich_help_panel=SPLITS)
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="Number of the first split. Default: 0.", rich_help_panel=SPLITS)
    ] = None,
    split_kind: Annotated[
        str | None,
        typer.Option(
            help=f"{SPLIT_KINDS}, or given (by the column split of imported data). Default: given if there is one, "
            "else random; for --folds, stratified.",
            rich_help_panel=SPLITS,
        ),
    ] = None,
    time: TIME = None,
    splits_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the splits, such as splits.json of a run; graphs in no split are left out.",
            rich_help_panel=SPLITS,
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=3, help="Number of folds for cross-validation.", rich_help_panel=SPLITS)
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the splits, the weights and all random draws.", rich_help_panel=SPLITS)
    ] = 0,
    device: Annotated[
        str, typer.Option(help="cpu, or cuda: all splits at once on a GPU.", rich_help_panel=RUN)
    ] = "cpu",
    jobs: Annotated[
        int,
        typer.Option(
            min=1, help="Splits trained in parallel on a CPU, one thread each if more than 1.", rich_help_panel=RUN
        ),
    ] = 1,
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="Train each model with all processes of torchrun.", rich_help_panel=RUN),
    ] = False,
    tf32: Annotated[
        bool, typer.Option("--tf32/--no-tf32", help="Use TF32 for matrix products on a GPU.", rich_help_panel=RUN)
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="Save the run in this folder. Default: not saved.", rich_help_panel=RUN)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.", rich_help_panel=RUN)] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in --out.", rich_help_panel=RUN)
    ] = False,
    metric: METRIC = None,
    sample_weight: SAMPLE_WEIGHT = None,
    positive: POSITIVE = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only a JSON object on stdout.", rich_help_panel=RUN)
    ] = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a pooling method on splits of a data set, and test each split once."""
    if time is not None:
        exclude("--splits-file", splits_file, "--time", time)
        split_kind = split_kind or "time"
    _check_options(splits, first, split_kind, splits_file, folds)
    exclude("--resume", resume, "--overwrite", overwrite)
    if (resume or overwrite) and out is None:
        raise UserError("--resume and --overwrite need --out DIR, the folder of the run")
    if distributed:
        check_launch(jobs, ensemble)

    choose = resolve_recipe(recipe, merged(settings, parse_settings(changes or [])))  # before torch is imported

    from cgipool.cli.errors import output
    from cgipool.cli.tables import result_tables
    from cgipool.pool import method_named
    from cgipool.task.metrics import BASELINES

    chosen = method_named(method)
    drawing: dict[str, Any] = {"count": splits, "first": first, "kind": split_kind, "file": splits_file, "folds": folds}
    checks: dict[str, Any] = {"positive": positive, "metric": metric}
    draw = functools.partial(draw_splits, data=data, seed=seed, time=time, **checks, **drawing)
    run = {"method": method, "seed": seed, "tf32": tf32, "out": out, "resume": resume, "overwrite": overwrite}
    run |= {"sample_weight": sample_weight}
    if distributed:
        result = train_by_all(data, draw, choose, device, run)
    else:
        more = {"device": device, "jobs": jobs, "ensemble": ensemble}
        result = train_alone(data, draw, choose, run | more)
    if result is None:
        return
    if positive is not None:
        result = result.of_class(positive)
    if as_json:
        typer.echo(json.dumps(result.to_json(), allow_nan=False))
    else:
        title = BASELINES[result.task] if chosen.architecture == "constant" else chosen.title
        output().print(*result_tables(result, title, out, metric), sep="\n")


def _check_options(
    splits: int | None, first: int | None, kind: str | None, file: Path | None, folds: int | None
) -> None:
    """Raise UserError for options on splits that contradict each other."""
    exclude("--splits-file", file, "--folds", folds)
    exclude("--splits-file", file, "--split-kind", kind)
    for given, value in (("--splits-file", file), ("--folds", folds), ("--split-kind given", kind == GIVEN or None)):
        for name, other in (("--splits", splits), ("--first", first)):
            exclude(given, value, name, other)
    if kind == GIVEN:
        exclude("--split-kind given", True, "--folds", folds)
    elif kind is not None:
        from cgipool.data.splits import KINDS

        if kind not in KINDS:
            raise unknown("kind of split", kind, (*KINDS, GIVEN))


def check_launch(jobs: int, ensemble: int) -> None:
    """Raise an error unless torchrun started this process for a training that can be distributed."""
    exclude("--distributed", True, "--jobs", jobs > 1)
    exclude("--distributed", True, "--ensemble", ensemble > 1)

    from cgipool.training.distributed.process_group import launched

    if not launched():
        raise UserError("--distributed needs torchrun: torchrun --nproc-per-node 2 -m cgipool train … --distributed")


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
    drawn = (count, first, folds) != (None, None, None)
    if kind == GIVEN or (kind is None and file is None):
        file = _given(data, asked=kind == GIVEN, drawn=drawn)
    if file is not None:
        splits = read_splits(file, graphs.n_graphs)
        _warn_of_left_out(splits, graphs.n_graphs)
        return splits
    if folds is not None:
        return fold_splits(graphs, folds, seed, kind or "stratified", time)
    start = first or 0
    indices = range(start, start + (count or 1))
    return random_splits(graphs, seed=seed, indices=indices, kind=kind or "random", time=time)


def _given(data: str, asked: bool, drawn: bool) -> Path | None:
    """The file with the split that a column of the source gives, if there is one and no others are to be drawn."""
    from cgipool.data.importers.imported import GIVEN as FILE

    file = Path(data, FILE)
    if file.is_file():
        if drawn:
            typer.echo(f"drawing new splits; the column 'split' of the source is not used ({file})", err=True)
            return None
        typer.echo(f"using the split in the column 'split' of the source ({file})", err=True)
        return file
    if asked:
        raise UserError(f"{data} has no {FILE}: its source had no column 'split' with train, val and test")
    return None


def _warn_of_left_out(splits: "Sequence[Split]", count: int) -> None:
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
    from cgipool.training.duration import cpu_seconds
    from cgipool.training.run import check_device, check_jobs, train_checked

    check_device(run["device"])
    check_jobs(run["jobs"], run["device"])
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    splits, recipe = draw(graphs), choose(graphs.family, graphs.has_own_attributes, graphs.directed)
    _warn_of_new_run(run)
    trainings = len(splits) * run["ensemble"]
    seconds = cpu_seconds(run["method"], recipe, trainings, graphs.n_nodes)
    suggest_jobs(trainings, seconds, run["device"], run["jobs"])
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
        _warn_of_new_run(run)
        with _stopped(run["out"]), reporting(len(splits), run["recipe"].epochs, run["recipe"].patience) as tell:
            return train_distributed(graphs, ranks, splits=splits, tell=tell, **run)


def _warn_of_new_run(run: dict[str, Any]) -> None:
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
