"""`cgipool study run | plan | status | merge | export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.errors import Interrupted, say
from cgipool.cli.options import AT_ONCE, DEVICES, JOBS, LIMIT, POSITIVE, RETRY_FAILED, STORE, suggest_jobs
from cgipool.errors import UserError, are, counted

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.plan import Study
    from cgipool.study.run import Outcome

app = typer.Typer(help="Run studies from a file, and keep their results in a store.", add_completion=False)

STUDY = Annotated[Path, typer.Argument(metavar="FILE", help="A study file, such as studies/table1.toml.")]
ONLY = Annotated[
    list[str] | None,
    typer.Option(
        metavar="AXIS=VALUE,…", help="Only these cells, such as method=cgi,method=topk,dataset=NCI1. Can be repeated."
    ),
]
AGAIN = 75
"""Exit code: stopped with work left; the same command continues. (EX_TEMPFAIL, on which job schedulers requeue.)"""


@app.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    file: STUDY,
    store: STORE = Path("runs/store"),
    device: DEVICES = "cpu",
    jobs: JOBS = 1,
    only: ONLY = None,
    limit: LIMIT = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Run only part I of N. Default: the part of this SLURM array task, else all cells."
        ),
    ] = None,
    at_once: AT_ONCE = 1,
    retry_failed: RETRY_FAILED = False,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="ray[:ADDRESS]",
            help="Train the cells on Ray. ray: the runtime at RAY_ADDRESS, else a running local one, else a new one; "
            "ray:auto or ray:HOST:PORT: a cluster that includes this machine; ray://HOST:PORT: a remote cluster, by "
            "Ray Client. Default: no Ray.",
        ),
    ] = None,
) -> None:
    """Train all cells of a study that are not in its store yet.

    After an interruption, the same command continues. Several runs may share a store: no cell is trained twice.

    Exit codes: 0 all cells are done; 1 some failed; 2 invalid file or option; 75 work is left because of --limit,
    SIGTERM or other runs (run again); 130 Ctrl-C.
    """
    from cgipool.study.plan import read_study

    study = read_study(file, parse_only(only))
    cells = _chosen(study, only, shard, device)
    outcome = run_cells(study, cells, store, device, jobs, limit, retry_failed, on, at_once)
    conclude(outcome, cells, store)


def run_cells(
    study: "Study",
    cells: list["Cell"],
    folder: Path,
    device: str,
    jobs: int,
    limit: float | None,
    retry_failed: bool,
    on: str | None = None,
    at_once: int = 1,
) -> "Outcome":
    """Run cells with progress on stderr; `on` says which Ray, if any."""
    from cgipool.cli.study_progress import watching
    from cgipool.study.estimate import Estimate, trainings_of
    from cgipool.study.local import run_on
    from cgipool.study.run import Stop
    from cgipool.study.store import Store, now
    from cgipool.training.run import check_device

    devices = devices_of(device)
    for name in devices if on is None else []:  # on Ray, it is the workers' device
        check_device(name)
    if jobs > 1 and any(name != "cpu" for name in devices):
        raise UserError("--jobs works on a CPU only; on a GPU all splits train at once")
    if at_once > 1 and on is not None:
        raise UserError("--at-once cannot be used with --on: on Ray, the resources of the nodes decide")
    store = Store(folder)
    store.remember(study.to_json(), study.skipped)
    estimate = Estimate(store, study.cells, devices[0], jobs)
    if on is None:
        left = [cell for cell in cells if not store.has(cell.key)]
        suggest_jobs(max(map(trainings_of, left), default=0), sum(map(estimate, left)), device, max(jobs, at_once))
    options: dict[str, Any] = {"jobs": jobs, "retry_before": now() if retry_failed else ""}
    try:
        if on is not None:
            from cgipool.study.ray.cluster import connected
            from cgipool.study.ray.runner import RayRunner

            with connected(on, device, jobs) as count, watching(cells, store, estimate, count) as watcher:
                return RayRunner(store, device, stop=Stop(limit), watcher=watcher, **options).run(cells)
        devices *= at_once
        with watching(cells, store, estimate, len(devices)) as watcher:
            return run_on(cells, store, devices, limit, watcher, **options)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; run the same command to continue from {folder}") from None


def devices_of(text: str) -> list[str]:
    """ "cuda:0,cuda:1" → the devices."""
    return [name.strip() for name in text.split(",")]


def kinds_checked(text: str) -> list[str]:
    """Return the devices. A plan only needs to know whether they are CPUs or GPUs; they need not exist here."""
    devices = devices_of(text)
    if any(name.split(":")[0] not in ("cpu", "cuda") for name in devices):
        raise UserError(f"--device must be cpu, cuda or cuda:N, not {text!r}")
    return devices


def _chosen(study: "Study", only: list[str] | None, shard: str | None, device: str) -> list["Cell"]:
    from cgipool.study.estimate import predicted
    from cgipool.study.share import parse_shard, share_of

    number, count = parse_shard(shard)
    cells = study.only(parse_only(only))
    if not cells:
        raise UserError("--only matches no cell")
    mine = share_of(cells, lambda cell: predicted(cell, device), number, count)
    if not mine:
        raise UserError(
            f"part {number} of {count} is empty: there {are(len(cells))} only {counted(len(cells), 'cell')}"
        )
    return mine


def parse_only(texts: list[str] | None) -> dict[str, list[str]]:
    """["method=cgi,method=topk", "dataset=NCI1"] → the values by axis."""
    wanted: dict[str, list[str]] = {}
    for part in ",".join(texts or ()).split(",") if texts else ():
        axis, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"--only must have the form AXIS=VALUE, not {part!r}")
        wanted.setdefault(axis.strip(), []).append(value.strip())
    return wanted


def conclude(outcome: "Outcome", cells: list["Cell"], folder: Path) -> None:
    """Print the outcome of the cells, and exit with its code."""
    from cgipool.study.store import Store

    store = Store(folder)
    there = {cell.key for cell in cells if store.has(cell.key)}
    failed = {cell.key for cell in cells if cell.key not in there and store.failure(cell.key) is not None}
    left = len(cells) - len(there) - len(failed)
    found = f"{len(there)} of {counted(len(cells), 'cell')} {are(len(there))} in {folder}"
    words = [f"{found}, {len(outcome.done)} of them new"]
    if failed:
        words.append(f"{len(failed)} failed (`cgipool study status {folder}` shows why)")
    if left:
        why = "stopped before the end" if outcome.stopped else "in progress in other runs"
        words.append(f"{left} left, {why}; run the same command to continue")
    say("; ".join(words))
    if left or failed:
        raise typer.Exit(AGAIN if left else 1)


@app.command()
def plan(
    file: STUDY,
    store: STORE = Path("runs/store"),
    device: DEVICES = "cpu",
    only: ONLY = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Show only part I of N.")] = None,
) -> None:
    """Show the cells of a study, the estimated time, and the data sets to download first."""
    from cgipool.cli.errors import output
    from cgipool.cli.study_tables import plan_lines
    from cgipool.study.estimate import Estimate
    from cgipool.study.plan import read_study
    from cgipool.study.store import Store

    study = read_study(file, parse_only(only))
    cells = _chosen(study, only, shard, device)
    devices = kinds_checked(device)
    there = Store(store) if (store / "cells").is_dir() else None
    estimate = Estimate(there, study.cells, devices[0])
    output().print(*plan_lines(study, cells, there, estimate, devices), sep="\n")


@app.command()
def status(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder with the results.")] = Path("runs/store"),
) -> None:
    """Show the finished, running, failed and missing cells of a store, with the reasons of failures."""
    from cgipool.cli.errors import output
    from cgipool.cli.study_tables import status_lines
    from cgipool.study.claims import Claims
    from cgipool.study.records import read_book, read_searches

    book = read_book(store)
    searches = read_searches(store, book)
    output().print(*status_lines(book, searches, Claims(store / "claims"), store), sep="\n")


@app.command()
def merge(
    into: Annotated[Path, typer.Argument(metavar="STORE", help="Store to merge into; created if it does not exist.")],
    others: Annotated[list[Path], typer.Argument(metavar="OTHER...", help="Stores to merge.")],
) -> None:
    """Merge stores into one. If a cell has two different results, both are kept and the conflict is reported."""
    from cgipool.study.exchange import merge as merge_stores

    merged = merge_stores(into, others)
    say(f"{counted(merged.cells, 'cell')} copied to {into}, {merged.same} already there")
    for key in merged.conflicts:
        say(f"conflict: cell {key} has two results; the one that was there before is shown")
    for problem in merged.problems:
        say(f"problem: {problem}")


@app.command()
def export(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder with the results.")],
    out: Annotated[Path, typer.Option(help="Archive, NAME.zip. The table is written to NAME.csv.")],
    positive: POSITIVE = None,
) -> None:
    """Export a store as an archive, and as a table with one row for each split of each cell."""
    from cgipool.study.exchange import export as export_store
    from cgipool.study.exchange import write_csv

    archive = out if out.suffix == ".zip" else out.with_name(f"{out.name}.zip")
    problems = write_csv(store, archive.with_suffix(".csv"), positive)
    export_store(store, archive)
    say(f"{archive}\n{archive.with_suffix('.csv')}")
    for problem in problems:
        say(f"problem: {problem}")
