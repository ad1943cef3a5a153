"""`cgipool train`."""

import functools
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cgipool.cli.direct import with_import
from cgipool.cli.errors import exclude
from cgipool.cli.launched import check_launch, spoken_once
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
    with_settings,
)
from cgipool.cli.train_splits import GIVEN, draw_splits, train_alone, train_by_all
from cgipool.errors import UserError
from cgipool.training.presets import parse_settings, resolve_recipe
from cgipool.training.settings import merged

SPLITS, RUN = SPLIT_PANEL, "Execution and output"


@spoken_once
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

    title = method_named(method).title
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
