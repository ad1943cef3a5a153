"""Show the progress of a study on stderr: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import Progress, TaskID

from cgipool.cli.progress import SECONDS, bars_of, name_of, stderr
from cgipool.errors import counted, rounded
from cgipool.study.estimate import Estimate, in_words, trainings_of
from cgipool.study.records import validation_score
from cgipool.study.run import Watcher
from cgipool.task.metrics import KNOWN, primary_of

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.store import Store
    from cgipool.training.job import Progress as TrainingProgress


@contextmanager
def watching(cells: Sequence["Cell"], store: "Store", estimate: Estimate, devices: int) -> Iterator["StudyLines"]:
    """Yield a watcher that shows the progress of a study run."""
    console, bars = stderr()
    if not bars:
        yield StudyLines(console, cells, store, estimate, devices)
        return
    with bars_of(console, width=20) as progress:
        yield StudyBars(progress, cells, store, estimate, devices)


class StudyLines(Watcher):
    """Plain lines: the start and end of cells, and their progress every few seconds."""

    def __init__(
        self, console: Console, cells: Sequence["Cell"], store: "Store", estimate: Estimate, devices: int
    ) -> None:
        self.console, self.store, self.devices = console, store, devices
        self.cost = {cell.key: estimate(cell) for cell in cells}
        self.done = {cell.key for cell in cells if store.has(cell.key)}
        self.spent = self.expected = 0.0
        """Seconds that the cells of this run took, and the estimate for them."""
        self.began: dict[str, float] = {}
        self.validation = False
        """Whether to show validation results of finished cells; test results otherwise."""
        self.metric: str | None = None
        """The metric to show; None: the primary one of each task."""
        self.last = time.monotonic()

    def begins(self, cell: "Cell") -> None:
        """The training of a cell starts."""
        self.began[cell.key] = time.monotonic()
        self.print(f"{cell.name}: starting ({len(self.done)} of {counted(len(self.cost), 'cell')} done{self.left()})")

    def epoch(self, cell: "Cell", progress: "TrainingProgress") -> None:
        """A split has trained one more epoch, or is done."""
        now = time.monotonic()
        if not progress.done and now - self.last >= SECONDS:
            self.last = now
            name = name_of(progress, cell.protocol.splits, cell.protocol.trainings)
            self.print(f"{cell.name}: {name}, epoch {progress.epoch}, best {progress.best_epoch}")

    def ended(self, cell: "Cell", how: str) -> None:
        """A cell has ended. `how` is "done", "there" (done before), "elsewhere" (in another run) or why it failed."""
        if how in ("done", "there"):
            self.done.add(cell.key)
        if how == "there":
            return
        seconds = time.monotonic() - self.began.pop(cell.key, time.monotonic())
        if how == "done":
            self.spent, self.expected = self.spent + seconds, self.expected + self.cost[cell.key]
        self.print(f"{cell.name}: {self._outcome(cell, how, seconds)}")

    def left(self) -> str:
        """Describe how long the rest will take, based on the time of the cells in this run."""
        factor = self.spent / self.expected if self.expected else 1.0
        seconds = factor * sum(cost for key, cost in self.cost.items() if key not in self.done) / self.devices
        return f", about {in_words(seconds)} left"

    def print(self, line: str) -> None:
        """Print one line."""
        self.console.print(line, soft_wrap=True, markup=False)

    def _outcome(self, cell: "Cell", how: str, seconds: float) -> str:
        if how == "elsewhere":
            return "in progress in another run"
        if how != "done":
            return f"failed: {how}"
        metric = self.metric or primary_of(cell.task)
        try:
            rows = self.store.content(cell.key)["splits"]
            found = [validation_score(row, metric) if self.validation else row["test"][metric] for row in rows]
        except KeyError:
            found = []
        values = KNOWN[metric].scale * np.array([value for value in found if value is not None], dtype=np.float64)
        if not values.size:
            return f"done in {in_words(seconds)}"
        digits, unit = KNOWN[metric].digits, " %" if KNOWN[metric].percent else f" ({KNOWN[metric].title})"
        error = f" ± {rounded(values.std(ddof=1) / np.sqrt(len(values)), digits)}" if len(values) > 1 else ""
        return f"{rounded(values.mean(), digits)}{error}{unit} in {in_words(seconds)}"


class StudyBars(StudyLines):
    """One bar for the study, by estimated time, and one for each running cell."""

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
        """The training of a cell starts."""
        self.began[cell.key] = time.monotonic()
        self.bars[cell.key] = self.progress.add_task(cell.name, total=self.cost[cell.key], state="")
        self.ends[cell.key] = set()

    def epoch(self, cell: "Cell", progress: "TrainingProgress") -> None:
        """A split has trained one more epoch, or is done."""
        ends = self.ends[cell.key]
        if progress.done:
            ends.add((progress.split, progress.member))
        trainings = counted(trainings_of(cell), "split" if cell.protocol.trainings == 1 else "member")
        state = f"epoch {progress.epoch}, {len(ends)}/{trainings} done"
        spent = time.monotonic() - self.began[cell.key]
        self.progress.update(self.bars[cell.key], completed=min(spent, 0.98 * self.cost[cell.key]), state=state)

    def ended(self, cell: "Cell", how: str) -> None:
        """A cell has ended, see `StudyLines.ended`."""
        super().ended(cell, how)
        if cell.key in self.bars:
            self.progress.remove_task(self.bars.pop(cell.key))
        self._show()

    def _show(self) -> None:
        completed = sum(self.cost[key] for key in self.done)
        state = f"{len(self.done)}/{counted(len(self.cost), 'cell')}{self.left()}"
        self.progress.update(self.whole, completed=completed, state=state)
