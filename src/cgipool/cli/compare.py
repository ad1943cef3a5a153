"""`cgipool compare`."""

from pathlib import Path
from typing import Annotated

import typer

from cgipool.errors import UserError


def compare(
    data: Annotated[
        str,
        typer.Argument(metavar="NAME|PATH", help="A name of `cgipool data list`, a TU archive or folder, a saved set."),
    ],
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="Pooling methods, or all; `cgipool methods` lists them. Default: the paper's eight and two controls.",
            show_default=False,
        ),
    ] = "set2set,dgcnn,diffpool,topk,sag,asap,vip,cgi,none,majority",
    recipe: Annotated[str, typer.Option(help="All settings at once: paper, released or strong.")] = "paper",
    splits: Annotated[int, typer.Option(min=1, help="How many random splits.")] = 20,
    split_kind: Annotated[
        str, typer.Option(help="random, stratified, distinct, or scaffold for molecules.")
    ] = "random",
    seed: Annotated[int, typer.Option(min=0, help="Of splits, weights and all draws.")] = 0,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the recipe, such as epochs=100; a wrong name lists them. May be repeated.",
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder that keeps results. Default: runs/compare-NAME.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the report. Default: STORE/report.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or several: cuda:0,cuda:1.")] = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="On a CPU, splits trained at a time, one thread each.")] = 1,
    limit: Annotated[
        float | None, typer.Option(min=0, metavar="MINUTES", help="Stop after so long; the same command goes on.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try again what failed before; otherwise it is skipped.")
    ] = False,
) -> None:
    """Compare pooling methods on your own data set: the paper's protocol, its statistics, and a page to look at.

    What is finished is kept; killed, the same command goes on. The page is index.html in the report's folder. On
    molecules (an import of SMILES or SDF) a random forest on ECFP fingerprints is one more row.
    """
    from cgipool.cli.progress import downloading
    from cgipool.cli.study import conclude, run_cells
    from cgipool.data import load_dataset
    from cgipool.pool import METHODS
    from cgipool.report import write_report
    from cgipool.study import fingerprints
    from cgipool.study.compare import comparison

    names = list(METHODS) if methods == "all" else [name.strip() for name in methods.split(",")]
    if fingerprints.NAME not in names and fingerprints.smiles_of(data) is not None:
        names.append(fingerprints.NAME)
    if len(set(names)) < len(names):
        raise UserError("--methods names a method twice")
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    study = comparison(graphs, data, names, recipe, splits, split_kind, seed, changes or [])
    folder = store or Path("runs") / study.name
    outcome = run_cells(study, study.cells, folder, device, jobs, limit, retry_failed)
    written = write_report(folder, out or folder / "report", [study.name])
    typer.echo((out or folder / "report").joinpath(f"{study.name}.md").read_text(encoding="utf-8"))
    typer.echo(f"page: {next(path for path in written.files if path.name == 'index.html')}")
    for problem in written.problems:
        typer.echo(f"problem: {problem}")
    conclude(outcome, study.cells, folder)
