"""`cgipool fit --auto`."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgipool.cli.errors import Interrupted, say
from cgipool.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

    from cgipool.auto.fit import AutoResult


def fit_by_search(
    data: str, out: Path, budget: str, metric: str | None, seed: int, device: str, overwrite: bool
) -> None:
    """Search, and write the model to `out` and a page about it next to it."""
    from cgipool.auto.fit import fit_auto, seconds_of
    from cgipool.auto.page import auto_page
    from cgipool.cli.errors import output
    from cgipool.cli.progress import downloading
    from cgipool.data import load_dataset
    from cgipool.files import writable, write_text_atomically
    from cgipool.task.metrics import check_metric
    from cgipool.training.folder import make_folder
    from cgipool.training.run import check_device

    seconds = seconds_of(budget)
    make_folder(out.parent)
    writable(out)
    check_device(device)
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    check_metric(graphs.task, metric)
    folder, page = out.with_name(f"{out.name}.auto"), out.with_suffix(".html")
    if overwrite:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        with progress_lines() as (tell, doing):
            options: dict[str, Any] = {"metric": metric, "seed": seed, "device": device, "say": tell, "doing": doing}
            found = fit_auto(graphs, folder, budget=seconds, **options)
    except KeyboardInterrupt:
        raise Interrupted("stopped; run the same command again to continue") from None
    found.model.save(out)
    text = auto_page(found)
    write_text_atomically(page, lambda stream: stream.write(text))
    shutil.rmtree(folder, ignore_errors=True)
    output().print(table_of(found))
    for line in closing(found, out, page):
        say(line)


@contextmanager
def progress_lines() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Yield two functions: one prints a line with the elapsed time, the other shows on a terminal what is being
    trained."""
    from rich.console import Console
    from rich.text import Text

    began, console = time.monotonic(), Console(stderr=True, highlight=False)

    def clock() -> str:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        return f"{minutes}:{seconds:02d}"

    with console.status("") if console.is_terminal else nullcontext() as status:

        def doing(text: str) -> None:
            if status is not None:
                status.update(Text(f"{clock()}  {text}"))

        yield lambda text: say(f"{clock()}  {text}", err=True), doing


def table_of(found: "AutoResult") -> "Table":
    """The candidates, best first."""
    from cgipool.auto.search import NOT_TRIED
    from cgipool.cli.tables import plain_table
    from cgipool.task.metrics import KNOWN, written

    metric = found.estimate["metric"]
    title = KNOWN[metric].title + (", %" if KNOWN[metric].percent else "")
    table = plain_table("candidate", title, "scored on", "in the model", "seconds", "")
    for row in found.table:
        if row["note"] == NOT_TRIED:
            continue
        times = f"× {row['counts']}" if row["counts"] else ""
        table.add_row(
            row["name"], written(metric, row["score"]), row["scored on"], times, f"{row['seconds']:.0f}", row["note"]
        )
    return table


def closing(found: "AutoResult", out: Path, page: Path) -> list[str]:
    """The chosen model, its expected performance, and where it is saved."""
    from cgipool.auto.search import NOT_TRIED
    from cgipool.task.metrics import described, written

    about, estimate = found.model.about, found.estimate
    metric = estimate["metric"]
    low, high = (written(metric, estimate[name], 1) for name in ("low", "high"))
    value = described(metric, estimate.get(metric))
    left = [row["name"] for row in found.table if row["note"] == NOT_TRIED]
    return [
        "",
        *([f"not tried, as the budget was spent: {'; '.join(left)}"] if left else []),
        f"chosen: {found.crossed.model}, {_models(about['folds'], len(about['blend']))}",
        f"expected: {value} (95 % interval {low} to {high}) on {counted(estimate['graphs'], 'graph')} held out",
        f"model: {out}",
        f"page: {page}",
    ]


def _models(folds: int, candidates: int) -> str:
    """Of how many trainings a model consists."""
    each = " of each" if candidates > 1 else ""
    return f"{counted(folds, 'model')}{each}, one per fold" if folds > 1 else f"one model{each}, of one fold"
