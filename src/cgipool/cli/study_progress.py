"""What is shown on stderr while a study runs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cgipool.cli.progress import SECONDS, name_of, stderr
from cgipool.study.estimate import Estimate, in_words, trainings_of
from cgipool.study.run import Watcher
from cgipool.words import counted, rounded

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.store import Store
    from cgipool.training.task import Progress as Told


@contextmanager
def watching(cells: Sequence["Cell"], store: "Store", estimate: Estimate, devices: int) -> Iterator["Lines"]:
    """Gives what a run tells its progress to."""
    console, bars = stderr()
    if not bars:
        yield Lines(console, cells, store, estimate, devices)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bars(progress, cells, store, estimate, devices)


def _test_accuracy(row: dict[str, Any]) -> float:
    return row["test"]["accuracy"]


class Lines(Watcher):
    """Plain lines: what begins and ends, and how it goes every few seconds."""

    def __init__(
        self, console: Console, cells: Sequence["Cell"], store: "Store", estimate: Estimate, devices: int
    ) -> None:
        self.console, self.store, self.devices = console, store, devices
        self.cost = {cell.key: estimate(cell) for cell in cells}
        self.done = {cell.key for cell in cells if store.has(cell.key)}
        self.spent = self.expected = 0.0
        """Seconds that cells took in this run, and that had been estimated for them."""
        self.began: dict[str, float] = {}
        self.accuracy: Callable[[dict[str, Any]], float | None] = _test_accuracy
        """What is told of each split of a finished cell."""
        self.last = time.monotonic()

    def begins(self, cell: "Cell") -> None:
        """A cell is taken in hand."""
        self.began[cell.key] = time.monotonic()
        self.print(f"{cell.name}: begins ({len(self.done)} of {counted(len(self.cost), 'cell')} done{self.left()})")

    def epoch(self, cell: "Cell", progress: "Told") -> None:
        """A split has trained one epoch more, or is done."""
        now = time.monotonic()
        if not progress.done and now - self.last >= SECONDS:
            self.last = now
            name = name_of(progress, cell.protocol.splits, cell.protocol.ensemble)
            self.print(f"{cell.name}: {name}, epoch {progress.epoch}, best {progress.best_epoch}")

    def ended(self, cell: "Cell", how: str) -> None:
        """A cell is "done", was "there", is "elsewhere", or why it failed."""
        if how in ("done", "there"):
            self.done.add(cell.key)
        if how == "there":
            return
        seconds = time.monotonic() - self.began.pop(cell.key, time.monotonic())
        if how == "done":
            self.spent, self.expected = self.spent + seconds, self.expected + self.cost[cell.key]
        self.print(f"{cell.name}: {self._told(cell, how, seconds)}")

    def left(self) -> str:
        """How long the rest will take, in words, by what the cells of this run took so far."""
        factor = self.spent / self.expected if self.expected else 1.0
        seconds = factor * sum(cost for key, cost in self.cost.items() if key not in self.done) / self.devices
        return f", about {in_words(seconds)} left"

    def print(self, line: str) -> None:
        """One line."""
        self.console.print(line, soft_wrap=True, markup=False)

    def _told(self, cell: "Cell", how: str, seconds: float) -> str:
        if how == "elsewhere":
            return "in the hands of another run"
        if how != "done":
            return f"failed: {how}"
        try:
            rows = self.store.told(cell.key)["splits"]
            values = 100 * np.array([self.accuracy(row) for row in rows], dtype=np.float64)
        except KeyError:
            return f"done in {in_words(seconds)}"
        error = f" ± {rounded(values.std(ddof=1) / np.sqrt(len(values)))}" if len(values) > 1 else ""
        return f"{rounded(values.mean())}{error} % in {in_words(seconds)}"


class Bars(Lines):
    """One bar for the study, by estimated time, and one for each cell in hand."""

    def __init__(
        self, progress: Progress, cells: Sequence["Cell"], store: "Store", estimate: Estimate, devices: int
    ) -> None:
        super().__init__(progress.console, cells, store, estimate, devices)
        self.progress = progress
        self.whole = progress.add_task("study", total=sum(self.cost.values()), state="")
        self.bars: dict[str, TaskID] = {}
        self.ends: dict[str, set[tuple[int, int]]] = {}
        """By key, the splits and members whose trainings have ended."""
        self._show()

    def begins(self, cell: "Cell") -> None:
        """A cell is taken in hand."""
        self.began[cell.key] = time.monotonic()
        self.bars[cell.key] = self.progress.add_task(cell.name, total=self.cost[cell.key], state="")
        self.ends[cell.key] = set()

    def epoch(self, cell: "Cell", progress: "Told") -> None:
        """A split has trained one epoch more, or is done."""
        ends = self.ends[cell.key]
        if progress.done:
            ends.add((progress.split, progress.member))
        trainings = counted(trainings_of(cell), "split" if cell.protocol.ensemble == 1 else "member")
        state = f"epoch {progress.epoch}, {len(ends)}/{trainings} done"
        spent = time.monotonic() - self.began[cell.key]
        self.progress.update(self.bars[cell.key], completed=min(spent, 0.98 * self.cost[cell.key]), state=state)

    def ended(self, cell: "Cell", how: str) -> None:
        """A cell has ended in some way."""
        super().ended(cell, how)
        if cell.key in self.bars:
            self.progress.remove_task(self.bars.pop(cell.key))
        self._show()

    def _show(self) -> None:
        completed = sum(self.cost[key] for key in self.done)
        state = f"{len(self.done)}/{counted(len(self.cost), 'cell')}{self.left()}"
        self.progress.update(self.whole, completed=completed, state=state)
