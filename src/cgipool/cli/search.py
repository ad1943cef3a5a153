"""`cgipool study search`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgipool.cli.errors import Interrupted
from cgipool.cli.options import AT_ONCE, DEVICES, LIMIT, METRIC, STORE
from cgipool.cli.study import AGAIN, kinds_checked
from cgipool.errors import counted

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.run import Outcome
    from cgipool.study.search import Round
    from cgipool.study.search_file import Search
    from cgipool.study.store import Store


def search(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A search file, such as studies/search.toml.")],
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Use only one family of data sets: molecules, proteins or social."),
    ] = None,
    metric: METRIC = None,
    store: STORE = Path("runs/store"),
    device: DEVICES = "cpu",
    limit: LIMIT = None,
    at_once: AT_ONCE = 1,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Retry cells that failed before. By default their setting is dropped."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the remaining work and the scores so far; train nothing.")
    ] = False,
) -> None:
    """Search for settings that work well for all methods and data sets of a file, by validation results only.

    Settings are drawn at random and evaluated on a few splits. The best advance to the next rung, always together with
    the base recipe. Scores are printed at the end and saved in STORE/searches/NAME.json. After an interruption, the
    same command continues; no cell is trained twice.

    With --family or --metric, this is a separate search, NAME-FAMILY-METRIC. It draws the same settings and, by the
    same metric, shares trained cells.

    Exit codes: 0 there is a winner; 2 invalid file or option, or the base itself fails; 75 work is left because of
    --limit, SIGTERM or other runs (run again); 130 Ctrl-C.
    """
    from cgipool.cli.errors import output
    from cgipool.cli.study_tables import result_lines, search_plan_lines
    from cgipool.study.search import Results, rounds
    from cgipool.study.search_file import read_search
    from cgipool.study.store import Store

    asked = read_search(file, family, metric)
    devices = kinds_checked(device) * at_once
    if dry_run:
        there = Store(store) if (store / "cells").is_dir() else None  # --dry-run creates nothing
        lines, code = search_plan_lines(asked, rounds(asked, Results(there, asked.metric_name)), there, devices), 0
    else:
        found, stopped = _run(asked, store, devices, limit, retry_failed)
        lines, code = result_lines(asked, found, store, stopped), AGAIN if found[-1].waiting else 0
    output().print(*lines, sep="\n")
    if code:
        raise typer.Exit(code)


def _run(
    search: "Search", folder: Path, devices: list[str], limit: float | None, retry_failed: bool
) -> tuple[list["Round"], bool]:
    """Train round after round until no cell is left. Return the rounds, and whether the run was stopped before that."""
    from cgipool.study.search import Results, rounds, write_summary
    from cgipool.study.store import Store, now
    from cgipool.training.run import check_device

    for name in set(devices):
        check_device(name)
    began, store = time.monotonic(), Store(folder)
    retry_before = now() if retry_failed else ""
    results = Results(store, search.metric_name, retry_before)
    outcome = None
    while True:
        found = rounds(search, results)
        write_summary(folder, search, found, results)
        if not found[-1].waiting or (outcome is not None and (outcome.stopped or outcome.elsewhere)):
            return found, outcome is not None and outcome.stopped
        minutes = None if limit is None else max(0.0, limit - (time.monotonic() - began) / 60)
        cells = [cell for group in found[-1].cells.values() for cell in group]
        outcome = _train(search, found[-1].rung.name, cells, store, devices, minutes, retry_before)


def _train(
    search: "Search",
    rung: str,
    cells: list["Cell"],
    store: "Store",
    devices: list[str],
    minutes: float | None,
    retry_before: str,
) -> "Outcome":
    """Run the cells of a round with progress on stderr, which shows validation results."""
    from cgipool.cli.study_progress import watching
    from cgipool.study.estimate import Estimate
    from cgipool.study.local import run_on

    estimate = Estimate(store, cells, devices[0])
    try:
        with watching(cells, store, estimate, len(devices)) as watcher:
            watcher.validation, watcher.metric = True, search.metric_name
            watcher.print(f"{rung}: {counted(len(cells), 'cell')}")
            return run_on(cells, store, devices, minutes, watcher, retry_before=retry_before)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; run the same command to continue from {store.folder}") from None
