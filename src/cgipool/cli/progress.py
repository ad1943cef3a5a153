"""Show progress on stderr: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
from cgipool.errors import counted

if TYPE_CHECKING:
    from cgipool.training.job import Progress as TrainingProgress
    from cgipool.training.job import ProgressCallback

SECONDS = 5.0
"""Minimum time between two plain lines about a split that is still training."""


def stderr() -> tuple[Console, bool]:
    """The console, and whether it can draw bars."""
    console = PlainConsole(stderr=True, highlight=False)
    return console, console.is_terminal and not console.is_dumb_terminal


def bars_of(console: Console, width: int) -> Progress:
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
    with bars_of(console, width=10) as progress:
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
        val = f"val loss {report.val_loss:z.4f}  {report.score}"
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
            val = f"validation loss {report.val_loss:z.4f}, {report.score}"
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
