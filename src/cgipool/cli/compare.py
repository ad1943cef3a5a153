"""`cgipool compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.direct import with_import
from cgipool.cli.errors import say
from cgipool.cli.options import (
    CHANGES,
    DATA,
    JOBS,
    LIMIT,
    MARGIN,
    METRIC,
    POSITIVE,
    RECIPE,
    RETRY_FAILED,
    SAMPLE_WEIGHT,
    SPLIT_KINDS,
    SPLIT_PANEL,
    TIME,
    with_settings,
)
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.data import GraphSet


@with_import
@with_settings
def compare(
    data: DATA,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="Pooling methods (see `cgipool methods`), or all. Default: the paper's eight and two controls.",
            show_default=False,
        ),
    ] = "set2set,dgcnn,diffpool,topk,sag,asap,vip,cgi,none,majority",
    recipe: RECIPE = "strong",
    splits: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 20,
    split_kind: Annotated[
        str | None, typer.Option(help=f"{SPLIT_KINDS}. Default: random.", rich_help_panel=SPLIT_PANEL)
    ] = None,
    time: TIME = None,
    sample_weight: SAMPLE_WEIGHT = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits, the weights and all random draws.")] = 0,
    ensemble: Annotated[int, typer.Option(min=1, help="Models per split whose predictions are averaged.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings per split whose metrics are averaged.")] = 1,
    changes: CHANGES = None,
    positive: POSITIVE = None,
    metric: METRIC = None,
    margin: MARGIN = None,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results. Default: runs/compare-NAME.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the report. Default: STORE/report.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or a list such as cuda:0,cuda:1.")] = "cpu",
    jobs: JOBS = 1,
    limit: LIMIT = None,
    retry_failed: RETRY_FAILED = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Compare pooling methods on your own data set by the paper's protocol and statistics, and write a report.

    Finished results are kept: after an interruption, the same command continues. The report opens with index.html. For
    molecules (imported from SMILES or SDF), random forests on ECFP counts and on RDKit descriptors are added.
    """
    from cgipool.cli.progress import downloading
    from cgipool.cli.study import conclude, run_cells
    from cgipool.data import load_dataset
    from cgipool.data.describe import warn_of_unused
    from cgipool.files import writable_folder
    from cgipool.pool import METHODS
    from cgipool.report import write_report
    from cgipool.study.compare import comparison, replaced_by
    from cgipool.training.presets import parse_settings, resolve_recipe
    from cgipool.training.reading import unread_by
    from cgipool.training.settings import merged

    every = [name for name, method in METHODS.items() if not method.of_molecules]
    names = every if methods == "all" else [name.strip() for name in methods.split(",")]
    if len(set(names)) < len(names):
        raise UserError("--methods lists a method twice")
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    _check_measures(graphs, metric, margin, positive)
    names += _controls(graphs, names)
    choose = resolve_recipe(recipe, merged(settings, parse_settings(changes or [])))
    chosen = choose(graphs.family, graphs.has_own_attributes, graphs.directed)
    kind = split_kind or ("random" if time is None else "time")
    columns = {"time": time or "", "sample_weight": sample_weight or ""}
    study = comparison(graphs, data, names, chosen, splits, kind, seed, ensemble, seeds, **columns)
    warn_of_unused(graphs, unread_by(names, chosen))
    folder = store or Path("runs") / study.name
    report = out or folder / "report"
    writable_folder(report)
    before = replaced_by(study, folder)
    if before is not None:
        say(
            f"{folder} holds a comparison of other data, methods or settings ({before}); this run replaces it"
            f"{'' if out else ' and its report'} (to keep it, choose another folder with --store)",
            err=True,
        )
    outcome = run_cells(study, study.cells, folder, device, jobs, limit, retry_failed)
    written = write_report(folder, report, [study.name], positive, metric, margin)
    say(report.joinpath(f"{study.name}.md").read_text(encoding="utf-8"))
    say(f"page: {next(path for path in written.files if path.name == 'index.html')}")
    for problem in written.problems:
        say(f"problem: {problem}")
    conclude(outcome, study.cells, folder)


def _check_measures(graphs: "GraphSet", metric: str | None, margin: float | None, positive: str | None) -> None:
    """Raise UserError for a metric, a margin or a class that the report could not show, before anything is trained."""
    from cgipool.study.analysis import check_margin
    from cgipool.task.metrics import check_metric, classes_of

    check_metric(graphs.task, metric)
    if margin is not None:
        check_margin(margin)
    if positive is not None:
        if graphs.task != "classification":
            raise UserError(f"--positive names a class, but {graphs.name} is for {graphs.task}")
        classes_of(graphs).but(positive)


def _controls(graphs: "GraphSet", names: list[str]) -> list[str]:
    """The controls that a set of molecules gets beside the methods asked for, if RDKit is installed."""
    from cgipool.data.descriptors import check_molecules
    from cgipool.pool import METHODS

    added = [name for name, method in METHODS.items() if method.molecular_control and name not in names]
    if graphs.featurizer is None or not added:
        return []
    try:
        check_molecules(graphs, " and ".join(added))
    except UserError as missing:
        typer.echo(f"left out: {missing}", err=True)
        return []
    return added
