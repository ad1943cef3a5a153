"""`cgipool compare`."""

from pathlib import Path
from typing import Annotated

import typer

from cgipool.cli.errors import say
from cgipool.cli.options import CHANGES, DATA, JOBS, LIMIT, POSITIVE, RECIPE, RETRY_FAILED
from cgipool.errors import UserError


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
    recipe: RECIPE = "paper",
    splits: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 20,
    split_kind: Annotated[
        str, typer.Option(help="random, stratified, distinct, or scaffold (molecules only).")
    ] = "random",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits, the weights and all random draws.")] = 0,
    ensemble: Annotated[int, typer.Option(min=1, help="Models per split whose probabilities are averaged.")] = 1,
    changes: CHANGES = None,
    positive: POSITIVE = None,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results. Default: runs/compare-NAME.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the report. Default: STORE/report.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or a list such as cuda:0,cuda:1.")] = "cpu",
    jobs: JOBS = 1,
    limit: LIMIT = None,
    retry_failed: RETRY_FAILED = False,
) -> None:
    """Compare pooling methods on your own data set by the paper's protocol and statistics, and write a report.

    Finished results are kept: after an interruption, the same command continues. The report opens with index.html. For
    molecules (imported from SMILES or SDF), a random forest on ECFP fingerprints is added as a control.
    """
    from cgipool.cli.progress import downloading
    from cgipool.cli.study import conclude, run_cells
    from cgipool.data import load_dataset
    from cgipool.data.describe import warn_of_unused
    from cgipool.files import writable_folder
    from cgipool.pool import METHODS
    from cgipool.report import write_report
    from cgipool.study.compare import comparison, replaced_by
    from cgipool.training.metrics import classes_of

    names = list(METHODS) if methods == "all" else [name.strip() for name in methods.split(",")]
    if len(set(names)) < len(names):
        raise UserError("--methods lists a method twice")
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    if positive is not None:
        classes_of(graphs).but(positive)  # a wrong name is an error before anything is trained
    names += _control(data, names)
    study = comparison(graphs, data, names, recipe, splits, split_kind, seed, changes or [], ensemble)
    warn_of_unused(graphs, study.cells[0].recipe.attributes)
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
    written = write_report(folder, report, [study.name], positive)
    say(report.joinpath(f"{study.name}.md").read_text(encoding="utf-8"))
    say(f"page: {next(path for path in written.files if path.name == 'index.html')}")
    for problem in written.problems:
        say(f"problem: {problem}")
    conclude(outcome, study.cells, folder)


def _control(data: str, names: list[str]) -> list[str]:
    """The control that a set of molecules gets beside the methods asked for. What it needs is checked here, before
    anything trains."""
    from cgipool.study import fingerprints

    if fingerprints.NAME in names:
        fingerprints.check(data)
        return []
    if fingerprints.smiles_of(data) is None:
        return []
    if missing := fingerprints.missing():
        typer.echo(f"left out: {missing}", err=True)
        return []
    return [fingerprints.NAME]
