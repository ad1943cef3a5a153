"""What `study plan` and `study status` print."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from cgipool.cli.data import ELSEWHERE
from cgipool.cli.tables import plain_table
from cgipool.study.estimate import Estimate, in_words
from cgipool.words import counted

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.claims import Claims
    from cgipool.study.plan import Study
    from cgipool.study.records import Book
    from cgipool.study.store import Store


def plan_lines(
    study: "Study", cells: Sequence["Cell"], store: "Store | None", estimate: Estimate, devices: Sequence[str]
) -> Iterator[Table | str]:
    """The cells with their estimates, the sum, and the data sets that are not at hand."""
    yield f"{study.title} · {counted(len(cells), 'cell')}"
    table = plain_table(*study.axes, "splits", "estimate", "", left=len(study.axes))
    left = 0.0
    for cell in cells:
        there = store is not None and store.has(cell.key)
        left += 0.0 if there else estimate(cell)
        state = "done" if there else "failed" if store is not None and store.failure(cell.key) else ""
        table.add_row(*map(str, cell.at.values()), str(cell.protocol.splits), in_words(estimate(cell)), state)
    yield table
    yield left_line(left, estimate, devices)
    yield fetch_line(cell.dataset for cell in cells if cell.path is None)


def left_line(seconds: float, estimate: Estimate, devices: Sequence[str]) -> str:
    """How long the rest will take on all devices together, and what that estimate rests on."""
    known = estimate.measured
    basis = f"by {counted(known, 'finished cell')}" if known else "to a factor of two; no cell is finished"
    return f"left: about {in_words(seconds / len(devices))} on {', '.join(devices)} (estimated {basis})"


def fetch_line(datasets: Iterable[str]) -> str:
    """Which data sets must be fetched beforehand, and how."""
    from cgipool.data.sources import find

    missing = [name for name in dict.fromkeys(datasets) if name not in ELSEWHERE and find(name) is None]
    return f"fetch beforehand: cgipool data fetch {' '.join(missing)}" if missing else "all data sets are at hand"


def status_lines(book: "Book", claims: "Claims") -> Iterator[Table | str]:
    """Each study in a row, then who is at work, failures with reasons, and problems of the store."""
    table = plain_table("study", "cells", "done", "failed", "at work", "missing")
    wanted = {cell.key: cell for study in book.studies for cell in study.cells}
    holders = {key: claims.holder(key) for key in wanted if key not in book.records}
    for study in book.studies:
        keys = {cell.key for cell in study.cells}
        done, failed = keys & book.records.keys(), (keys - book.records.keys()) & book.failed.keys()
        busy = {key for key in keys - done - failed if (holder := holders.get(key)) is not None and not holder.expired}
        counts = (len(keys), len(done), len(failed), len(busy), len(keys - done - failed - busy))
        table.add_row(study.name, *map(str, counts))
    yield table
    for key, holder in holders.items():
        if holder is not None:
            state = "looks dead" if holder.expired else f"seen {holder.age:.0f} s ago"
            yield f"at work: {wanted[key].name}: {holder.host}, process {holder.pid}, {state}"
    for key, reason in book.failed.items():
        if key not in book.records:
            name = wanted[key].name if key in wanted else key
            yield f"failed: {name}: {reason} (--retry-failed tries again; the log is in failed/{key}.json)"
    for problem in book.problems:
        yield f"problem: {problem}"
