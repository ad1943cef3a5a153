"""What `study search` prints: the work that is left, the scores of each rung, the winner."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from cgipool.cli.study_tables import fetch_line, left_line
from cgipool.cli.tables import plain_table
from cgipool.study.cell import plain
from cgipool.study.estimate import Estimate, in_words
from cgipool.study.halving import ranked
from cgipool.study.search import cells_of, options_of, winner_of
from cgipool.study.space import BASE
from cgipool.words import counted, rounded

if TYPE_CHECKING:
    from cgipool.study.halving import Mean
    from cgipool.study.search import Round
    from cgipool.study.search_file import Rung, Search
    from cgipool.study.space import Trial
    from cgipool.study.store import Store


def plan_lines(
    search: "Search", found: Sequence["Round"], store: "Store | None", devices: Sequence[str]
) -> Iterator[Table | str]:
    """Each rung with its cells and how long those left will take; then what is known of the scores."""
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
    """Settings and cells of a rung, how many cells are left, and their seconds. A rung whose settings are not chosen
    yet has as many as it may, each as long as those drawn are on average."""
    for one in found:
        if one.rung is rung:
            cells = sum(map(len, one.cells.values()))
            return len(one.trials), cells, len(one.waiting), sum(map(estimate, one.waiting))
    if len(found) > len(search.rungs) - 1 and not found[-1].waiting:
        return 0, 0, 0, 0.0  # the base has won: there is nothing to take apart
    drawn = found[0].trials.values()
    costs = [estimate(cell) for trial in drawn for cell in cells_of(search, rung, trial)]
    cells = rung.count * len(rung.places)
    return rung.count, cells, cells, sum(costs) / len(costs) * cells


def result_lines(search: "Search", found: Sequence["Round"], folder: Path, stopped: bool) -> Iterator[Table | str]:
    """The scores of all rungs that are over, and the winner; or what is left."""
    yield from _score_lines(search, found)
    last = found[-1]
    if last.waiting:
        why = "stopped before the end" if stopped else "in the hands of other runs"
        yield f"{last.rung.name}: {counted(len(last.waiting), 'cell')} left, {why}; the same command goes on"
    yield f"kept in {folder / 'searches' / f'{search.name}.json'}"


def _score_lines(search: "Search", found: Sequence["Round"]) -> Iterator[Table | str]:
    for one in found:
        if one.scores:
            yield ""
            yield _title(one)
            yield _scores(one)
    winner = winner_of(search, found)
    if winner is not None:
        yield ""
        yield from _winner_lines(search, found[len(search.rungs) - 1], winner)


def _title(one: "Round") -> str:
    rung = one.rung
    judges = f"{', '.join(rung.methods)} on {', '.join(rung.datasets)}"
    return f"{rung.name} · {judges} · splits {_numbers(rung)} · validation accuracy, % ± SE"


def _numbers(rung: "Rung") -> str:
    first, last = rung.protocol.first, rung.protocol.first + rung.protocol.splits - 1
    return str(first) if first == last else f"{first}–{last}"


def _scores(one: "Round") -> Table:
    """The trials of a round, best first, those that failed last."""
    table = plain_table("setting", "accuracy", "difference to base")
    table.add_column("changes")
    names = ranked(one.scores)
    for name in [*names, *(name for name in one.scores if name not in names)]:
        score, words = one.scores[name], Text(_words(one.trials[name]), overflow="fold")
        if score is None:
            table.add_row(name, "failed", "", words)
        else:
            difference = "" if name == BASE else _percent(score.difference, sign=True)
            table.add_row(name, _percent(score.accuracy), difference, words)
    return table


def _winner_lines(search: "Search", one: "Round", winner: "Trial") -> Iterator[Table | str]:
    score = one.scores[winner.name]
    if not winner.changes or score is None:
        yield "no setting is better than the base, which wins"
        return
    yield f"the winner is setting {winner.name}: {_percent(score.difference, sign=True)} beside the base"
    table = plain_table("judged by", "difference to base")
    for name, difference in (score.datasets | score.methods).items():
        table.add_row(name, _percent(difference, sign=True))
    yield table
    recipe = search.space.recipe(winner)
    yield f"\n[settings]\nrecipe = {json.dumps(recipe.name)}"
    for name, value in recipe.settings().items():
        yield f"{name} = {json.dumps('none' if value is None else value)}"
    yield f"\n{options_of(recipe)}\n"


def _words(trial: "Trial") -> str:
    return " ".join(f"{name}={plain(value)}" for name, value in trial.changes.items())


def _percent(mean: "Mean", sign: bool = False) -> str:
    error = "" if mean.se is None else f" ± {rounded(100 * mean.se)}"
    return f"{rounded(100 * mean.value, sign=sign)}{error}"
