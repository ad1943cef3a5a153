"""Show progress on stderr: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from cgipool.cli.errors import PlainConsole
from cgipool.errors import counted, rounded
from cgipool.study.estimate import Estimate, in_words, trainings_of
from cgipool.study.records import validation_score
from cgipool.study.run import Watcher
from cgipool.task.metrics import KNOWN, METRICS, primary_of

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.study.store import Store
    from cgipool.training.job import Progress as TrainingProgress
    from cgipool.training.job import ProgressCallback

SECONDS = 5.0
"""Minimum time between two plain lines about a split that is still training."""


def stderr() -> tuple[Console, bool]:
    """The console, and whether it can draw bars."""
    console = PlainConsole(stderr=True, highlight=False)
    return console, console.is_terminal and not console.is_dumb_terminal


def _bars(console: Console, width: int) -> Progress:
    """Bars with a description, the state of the task and the elapsed time."""
    description, state = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[state]}"))
    return Progress(description, BarColumn(width), state, TimeElapsedColumn(), console=console, transient=True)


@contextmanager
def reporting(splits: int | None, epochs: int, patience: int, ensemble: int = 1) -> Iterator["ProgressCallback"]:
    """Yield a callback for the progress of `train`. `ensemble` is the number of members per split. If `splits` is None,
    one model or one ensemble is trained."""
    console, bars = stderr()
    if not bars:
        yield Lines(console, splits, epochs, ensemble)
        return
    with _bars(console, width=10) as progress:
        yield Bars(progress, splits, epochs, patience, ensemble)


class Bars:
    """One bar per split (or member of an ensemble) that is training and, with several, one for all."""

    def __init__(self, progress: Progress, splits: int | None, epochs: int, patience: int, ensemble: int = 1) -> None:
        self.progress, self.epochs, self.patience = progress, epochs, patience
        self.splits, self.ensemble = splits, ensemble
        self.count = count = (splits or 1) * ensemble
        what = "splits" if ensemble == 1 else "members"
        self.all = progress.add_task(what, total=count, state=f"0/{count}", visible=count > 1)
        self.bars: dict[tuple[int, int], TaskID] = {}
        self.done = 0

    def __call__(self, report: "TrainingProgress") -> None:
        """Show a progress report of `train`."""
        if report.done:
            self._finish(report)
            return
        number = report.split, report.member
        # Short, as all of it must fit into 80 columns: "split 3.1" is member 1 of split 3, "12/100" is epochs since the
        # best of the patience.
        if number not in self.bars:
            name = name_of(report, self.splits, self.ensemble).replace(", member ", ".")
            self.bars[number] = self.progress.add_task(name, total=self.epochs, state="")
        val = f"val loss {report.val_loss:.4f}  {report.score}"
        since = f"best {report.epoch - report.best_epoch}/{self.patience} ago"
        state = f"{report.epoch}/{self.epochs}  {val}  {since}"
        self.progress.update(self.bars[number], completed=report.epoch, state=state)

    def _finish(self, report: "TrainingProgress") -> None:
        self.done += 1
        if (report.split, report.member) in self.bars:
            self.progress.remove_task(self.bars.pop((report.split, report.member)))
        self.progress.console.print(ending(report, self.splits, self.ensemble))
        self.progress.update(self.all, completed=self.done, state=f"{self.done}/{self.count}")


class Lines:
    """Plain lines: the end of each split, and its progress every few seconds."""

    def __init__(self, console: Console, splits: int | None, epochs: int, ensemble: int = 1) -> None:
        self.console, self.splits, self.epochs, self.ensemble = console, splits, epochs, ensemble
        self.last: dict[tuple[int, int], float] = {}

    def __call__(self, report: "TrainingProgress") -> None:
        """Show a progress report of `train`."""
        now, number = time.monotonic(), (report.split, report.member)
        if report.done:
            self._print(ending(report, self.splits, self.ensemble))
        elif now - self.last.setdefault(number, now) >= SECONDS:
            self.last[number] = now
            val = f"validation loss {report.val_loss:.4f}, {report.score}"
            best = f"best epoch {report.best_epoch}"
            name = name_of(report, self.splits, self.ensemble)
            self._print(f"{name}: epoch {report.epoch} of at most {self.epochs}, {val}, {best}")

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)


def name_of(report: "TrainingProgress", splits: int | None, ensemble: int) -> str:
    """The name of what is training: a split, a member of its ensemble, the model, or a member of the model."""
    member = f"member {report.member}" if ensemble > 1 else ""
    if splits is None:
        return member or "model"
    return f"split {report.split}" + (f", {member}" if member else "")


def ending(report: "TrainingProgress", splits: int | None, ensemble: int) -> str:
    """The line about a finished split, member or model."""
    best = f"best {report.best_epoch} with validation {report.score}"
    return f"{name_of(report, splits, ensemble)}: {counted(report.epoch, 'epoch')}, {best}"


@contextmanager
def downloading(name: str = "data set") -> Iterator[Callable[[int, int | None], None]]:
    """Yield a callback for the bytes of a download. Nothing is shown if nothing is downloaded."""
    console, bars = stderr()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not bars) as progress:
        seen: dict[str, int] = {}

        def tell(done: int, total: int | None) -> None:
            if not seen:
                seen["bar"] = progress.add_task(f"downloading {name}", total=total)
            seen["bytes"] = done
            progress.update(TaskID(seen["bar"]), completed=done, total=total)

        yield tell
    if seen:
        console.print(f"downloaded {name}: {seen['bytes'] / 1e6:.1f} MB", soft_wrap=True, markup=False)


@contextmanager
def watching(cells: Sequence["Cell"], store: "Store", estimate: Estimate, devices: int) -> Iterator["StudyLines"]:
    """Yield a watcher that shows the progress of a study run."""
    console, bars = stderr()
    if not bars:
        yield StudyLines(console, cells, store, estimate, devices)
        return
    with _bars(console, width=20) as progress:
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
        """The metric to show, where a task has it; None: the primary metric of each task."""
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
        metric = self.metric if self.metric in METRICS[cell.task] and self.metric else primary_of(cell.task)
        try:
            rows = self.store.told(cell.key)["splits"]
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
