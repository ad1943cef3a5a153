"""What `study plan` and `study status` print."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from cgipool.cli.data import ELSEWHERE
from cgipool.cli.tables import plain_table
from cgipool.study.estimate import Estimate, in_words
from cgipool.words import counted

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.claims import Claims, Holder
    from cgipool.study.plan import Study
    from cgipool.study.records import Book, SearchRecord, Wanted
    from cgipool.study.store import Store

STATES = ("cells", "done", "failed", "at work", "missing")
"""How many cells there are, and what they may be."""


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


def status_lines(
    book: "Book", searches: Sequence["SearchRecord"], claims: "Claims", store: Path
) -> Iterator[Table | str]:
    """Each study and each rung of a search in a row, then who is at work and who was, failures with reasons, and
    problems of the store."""
    asked = [cell for study in book.studies for cell in study.cells]
    asked += [cell for search in searches for rung in search.rungs for cell in rung.cells]
    wanted = {cell.key: cell for cell in asked}
    holders = {key: claims.holder(key) for key in wanted if key not in book.records}
    if book.studies or not searches:
        table = plain_table("study", *STATES)
        for study in book.studies:
            table.add_row(study.name, *_counts(study.cells, book, holders))
        yield table
    if searches:
        yield _searches_table(searches, book, holders)
    for search in searches:
        yield _search_line(search, store)
    for key, holder in holders.items():
        if holder is not None:
            yield _holder_line(wanted[key].name, holder, claims.expiry)
    for key, reason in book.failed.items():
        if key not in book.records:
            name = wanted[key].name if key in wanted else key
            yield f"failed: {name}: {reason} (--retry-failed tries again; the log is in failed/{key}.json)"
    for problem in book.problems:
        yield f"problem: {problem}"


def _holder_line(name: str, holder: "Holder", expiry: float) -> str:
    """Who has a cell in hand, or had it."""
    who = f"{holder.host}, process {holder.pid}"
    if not holder.expired:
        return f"at work: {name}: {who}, seen {holder.age:.0f} s ago"
    why = "which is gone" if holder.age <= expiry else f"not seen for {in_words(holder.age)}"
    return f"left behind: {name}: by {who}, {why}; the next run takes it over"


def _counts(cells: Sequence["Wanted"], book: "Book", holders: Mapping[str, "Holder | None"]) -> Iterator[str]:
    """How many cells there are, and how many in each of the states."""
    keys = {cell.key for cell in cells}
    done, failed = keys & book.records.keys(), (keys - book.records.keys()) & book.failed.keys()
    busy = {key for key in keys - done - failed if (holder := holders.get(key)) is not None and not holder.expired}
    return map(str, map(len, (keys, done, failed, busy, keys - done - failed - busy)))


def _searches_table(searches: Sequence["SearchRecord"], book: "Book", holders: Mapping[str, "Holder | None"]) -> Table:
    """The rungs of searches; of one that has not begun nothing is known."""
    table = plain_table("search", "rung", "settings", *STATES, left=2)
    for search in searches:
        for place, rung in enumerate(search.rungs):
            counts = _counts(rung.cells, book, holders) if rung.cells else "–" * len(STATES)
            table.add_row("" if place else search.name, rung.name, str(rung.settings) if rung.cells else "–", *counts)
    return table


def _search_line(search: "SearchRecord", store: Path) -> str:
    """Who has won, or how to go on."""
    command = f"cgipool study search FILE --store {shlex.quote(str(store))}"
    if search.winner is None:
        return f"search {search.name}: `{command}`, with the options of before, goes on"
    return f"search {search.name}: the best setting is {search.winner} (`{command} --dry-run` shows the scores)"
