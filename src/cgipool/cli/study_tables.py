"""What `study plan`, `study status` and `study search` print."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from cgipool.cli.data import elsewhere
from cgipool.cli.tables import plain_table
from cgipool.errors import counted, rounded
from cgipool.study.cell import plain
from cgipool.study.estimate import Estimate, in_words
from cgipool.study.search import cells_of, options_of, winner_of
from cgipool.study.space import BASE

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.claims import Claims, Holder
    from cgipool.study.plan import Study
    from cgipool.study.records import Book, SearchRecord, Wanted
    from cgipool.study.search import Mean, Round
    from cgipool.study.search_file import Rung, Search
    from cgipool.study.space import Trial
    from cgipool.study.store import Store
    from cgipool.task.metrics import Metric

STATES = ("cells", "done", "failed", "running", "missing")
"""Columns of the status table: all cells, and the cells in each state."""


def plan_lines(
    study: "Study", cells: Sequence["Cell"], store: "Store | None", estimate: Estimate, devices: Sequence[str]
) -> Iterator[Table | str]:
    """The cells with their estimates, the sum, and the data sets to download."""
    yield f"{study.title} · {counted(len(cells), 'cell')}"
    nested = ["choice"] if any(cell.choice for cell in cells) else []
    heads = [*study.axes, *nested]
    table = plain_table(*heads, "splits", "estimate", "", left=len(heads))
    left = 0.0
    for cell in cells:
        there = store is not None and store.has(cell.key)
        left += 0.0 if there else estimate(cell)
        state = "done" if there else "failed" if store is not None and store.failure(cell.key) else ""
        place = [*map(str, cell.at.values()), *([cell.choice or ""] if nested else [])]
        table.add_row(*place, str(cell.protocol.splits), in_words(estimate(cell)), state)
    yield table
    yield left_line(left, estimate, devices)
    yield fetch_line(cell.dataset for cell in cells if cell.path is None)


def left_line(seconds: float, estimate: Estimate, devices: Sequence[str]) -> str:
    """The estimated time of the remaining cells on all devices, and the basis of the estimate."""
    known = estimate.measured
    basis = f"by {counted(known, 'finished cell')}" if known else "to a factor of two, as no cell is finished"
    return f"left: about {in_words(seconds / len(devices))} on {', '.join(devices)} (estimated {basis})"


def fetch_line(datasets: Iterable[str]) -> str:
    """The data sets to download first, and the command for it."""
    from cgipool.data.sources import find

    others = elsewhere()
    missing = [name for name in dict.fromkeys(datasets) if name not in others and find(name) is None]
    return f"download first: cgipool data fetch {' '.join(missing)}" if missing else "all data sets are available"


def status_lines(
    book: "Book", searches: Sequence["SearchRecord"], claims: "Claims", store: Path
) -> Iterator[Table | str]:
    """Each study and each rung of a search in a row; then running and abandoned cells, failures with reasons, and
    problems of the store."""
    asked = [cell for study in book.studies for cell in study.cells]
    asked += [cell for search in searches for rung in search.rungs for cell in rung.cells]
    wanted = {key: cell for cell in asked for key in cell.keys}
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
            yield f"failed: {name}: {reason} (use --retry-failed to try again; the log is in failed/{key}.json)"
    for problem in book.problems:
        yield f"problem: {problem}"


def _holder_line(name: str, holder: "Holder", expiry: float) -> str:
    """Which process trains a cell, or did so before it was abandoned."""
    who = f"{holder.host}, process {holder.pid}"
    if not holder.expired:
        return f"running: {name}: {who}, seen {holder.age:.0f} s ago"
    why = "which has ended" if holder.age <= expiry else f"not seen for {in_words(holder.age)}"
    return f"abandoned: {name}: by {who}, {why}; the next run takes it over"


def _counts(cells: Sequence["Wanted"], book: "Book", holders: Mapping[str, "Holder | None"]) -> Iterator[str]:
    """The number of cells, in total and in each state."""
    keys = {key for cell in cells for key in cell.keys}
    done, failed = keys & book.records.keys(), (keys - book.records.keys()) & book.failed.keys()
    busy = {key for key in keys - done - failed if (holder := holders.get(key)) is not None and not holder.expired}
    return map(str, map(len, (keys, done, failed, busy, keys - done - failed - busy)))


def _searches_table(searches: Sequence["SearchRecord"], book: "Book", holders: Mapping[str, "Holder | None"]) -> Table:
    """The rungs of searches that have started."""
    table = plain_table("search", "rung", "settings", *STATES, left=2)
    for search in searches:
        for place, rung in enumerate(search.rungs):
            counts = _counts(rung.cells, book, holders) if rung.cells else "–" * len(STATES)
            table.add_row("" if place else search.name, rung.name, str(rung.settings) if rung.cells else "–", *counts)
    return table


def _search_line(search: "SearchRecord", store: Path) -> str:
    """The winner, or how to continue."""
    command = f"cgipool study search FILE --store {shlex.quote(str(store))}"
    if search.winner is None:
        return f"search {search.name}: to continue, run `{command}` with the same options"
    return f"search {search.name}: the best setting is {search.winner} (`{command} --dry-run` shows the scores)"


def search_plan_lines(
    search: "Search", found: Sequence["Round"], store: "Store | None", devices: Sequence[str]
) -> Iterator[Table | str]:
    """Each rung with its cells and the time of the remaining ones; then the scores so far."""
    known = [cell for one in found for group in one.cells.values() for cell in group]
    estimate = Estimate(store, known, devices[0])
    space = f"{counted(search.space.size, 'combination')} of {counted(len(search.space.choices), 'setting')}"
    yield f"{search.title} · {space}"
    table = plain_table("rung", "settings", "methods", "data sets", "splits", "epochs", "cells", "left", "estimate")
    whole = 0.0
    for rung in search.all_rungs:
        settings, cells, left, seconds = _work(search, rung, found, estimate)
        whole += seconds
        numbers = (settings, len(rung.methods), len(rung.datasets), _numbers(rung))
        epochs = rung.budget.get("epochs", search.space.base.epochs)
        table.add_row(rung.name, *map(str, (*numbers, epochs, cells, left)), in_words(seconds / len(devices)))
    yield table
    yield left_line(whole, estimate, devices)
    yield fetch_line(name for name in search.datasets if name not in search.sets)
    yield from _score_lines(search, found)


def _work(search: "Search", rung: "Rung", found: Sequence["Round"], estimate: Estimate) -> tuple[int, int, int, float]:
    """Settings and cells of a rung, the number of remaining cells, and their seconds. A rung whose settings are not
    chosen yet counts with its maximum, at the average time of the drawn settings."""
    for one in found:
        if one.rung is rung:
            cells = sum(map(len, one.cells.values()))
            return len(one.trials), cells, len(one.waiting), sum(map(estimate, one.waiting))
    if len(found) > len(search.rungs) - 1 and not found[-1].waiting:
        return 0, 0, 0, 0.0  # the base has won, so there are no choices to test
    drawn = found[0].trials.values()
    costs = [estimate(cell) for trial in drawn for cell in cells_of(search, rung, trial)]
    cells = rung.count * len(rung.places)
    return rung.count, cells, cells, sum(costs) / len(costs) * cells


def result_lines(search: "Search", found: Sequence["Round"], folder: Path, stopped: bool) -> Iterator[Table | str]:
    """The scores of all finished rungs, and the winner or what is left to do."""
    yield from _score_lines(search, found)
    last = found[-1]
    if last.waiting:
        why = "stopped before the end" if stopped else "in progress in other runs"
        yield f"{last.rung.name}: {counted(len(last.waiting), 'cell')} left, {why}; run the same command to continue"
    yield f"saved in {folder / 'searches' / f'{search.name}.json'}"


def _score_lines(search: "Search", found: Sequence["Round"]) -> Iterator[Table | str]:
    for one in found:
        if one.scores:
            yield ""
            yield _title(one, search.metric)
            yield _scores(one, search.metric)
    winner = winner_of(search, found)
    if winner is not None:
        yield ""
        yield from _winner_lines(search, found[len(search.rungs) - 1], winner)


def _title(one: "Round", metric: "Metric") -> str:
    rung = one.rung
    judges = f"{', '.join(rung.methods)} on {', '.join(rung.datasets)}"
    percent = ", %" if metric.percent else ""
    return f"{rung.name} · {judges} · splits {_numbers(rung)} · validation {metric.title}{percent} ± SE"


def _numbers(rung: "Rung") -> str:
    first, last = rung.protocol.first, rung.protocol.first + rung.protocol.splits - 1
    return str(first) if first == last else f"{first}–{last}"


def _scores(one: "Round", metric: "Metric") -> Table:
    """The trials of a round, best first, failed ones last."""
    table = plain_table("setting", metric.title, "difference from base")
    table.add_column("changes")
    for name in [*one.names, *(name for name in one.scores if name not in one.names)]:
        score, words = one.scores[name], Text(_words(one.trials[name]), overflow="fold")
        if score is None:
            table.add_row(name, "failed", "", words)
        else:
            difference = "" if name == BASE else _shown(score.difference, metric, sign=True)
            table.add_row(name, _shown(score.accuracy, metric), difference, words)
    return table


def _winner_lines(search: "Search", one: "Round", winner: "Trial") -> Iterator[Table | str]:
    score = one.scores[winner.name]
    if not winner.changes or score is None:
        yield "no setting is better than the base"
        return
    difference = _shown(score.difference, search.metric, sign=True)
    yield f"the winner is setting {winner.name}: {difference} compared with the base"
    table = plain_table("judged by", "difference from base")
    for name, mean in (score.datasets | score.methods).items():
        table.add_row(name, _shown(mean, search.metric, sign=True))
    yield table
    recipe = search.space.recipe(winner)
    yield f"\n[settings]\nrecipe = {json.dumps(recipe.name)}"
    for name, value in recipe.settings().items():
        yield f"{name} = {json.dumps('none' if value is None else value)}"
    yield f"\n{options_of(recipe)}\n"


def _words(trial: "Trial") -> str:
    return " ".join(f"{name}={plain(value)}" for name, value in trial.changes.items())


def _shown(mean: "Mean", metric: "Metric", sign: bool = False) -> str:
    error = "" if mean.se is None else f" ± {rounded(metric.scale * mean.se, metric.digits)}"
    return f"{rounded(metric.scale * mean.value, metric.digits, sign)}{error}"
