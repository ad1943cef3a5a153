"""What is shown on stderr while something runs: bars on a terminal, a few plain lines elsewhere."""

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

from cgipool.cli.terminal import PlainConsole
from cgipool.words import counted

if TYPE_CHECKING:
    from cgipool.training.task import Progress as Told
    from cgipool.training.task import Tell

SECONDS = 5.0
"""Plain lines about a split that is still training come at most this often."""


def stderr() -> tuple[Console, bool]:
    """The console, and whether it can draw bars."""
    console = PlainConsole(stderr=True, highlight=False)
    return console, console.is_terminal and not console.is_dumb_terminal


@contextmanager
def reporting(splits: int | None, epochs: int, patience: int, ensemble: int = 1) -> Iterator["Tell"]:
    """Gives what `train` tells its progress to; each split has so many members of an ensemble. Without splits it is one
    model that trains, or one ensemble."""
    console, bars = stderr()
    if not bars:
        yield Lines(console, splits, epochs, ensemble)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(10),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
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

    def __call__(self, told: "Told") -> None:
        """Takes what `train` tells."""
        if told.done:
            self._finish(told)
            return
        number = told.split, told.member
        # Short, as all of it must fit into 80 columns: "split 3.1" is member 1 of split 3, "12/100" is epochs since the
        # best of the patience.
        if number not in self.bars:
            name = name_of(told, self.splits, self.ensemble).replace(", member ", ".")
            self.bars[number] = self.progress.add_task(name, total=self.epochs, state="")
        val = f"val loss {told.val_loss:.4f}  acc {100 * told.val_accuracy:.1f} %"
        since = f"best {told.epoch - told.best_epoch}/{self.patience} ago"
        state = f"{told.epoch}/{self.epochs}  {val}  {since}"
        self.progress.update(self.bars[number], completed=told.epoch, state=state)

    def _finish(self, told: "Told") -> None:
        self.done += 1
        if (told.split, told.member) in self.bars:
            self.progress.remove_task(self.bars.pop((told.split, told.member)))
        self.progress.console.print(ending(told, self.splits, self.ensemble))
        self.progress.update(self.all, completed=self.done, state=f"{self.done}/{self.count}")


class Lines:
    """Plain lines: the end of each split, and how it goes every few seconds."""

    def __init__(self, console: Console, splits: int | None, epochs: int, ensemble: int = 1) -> None:
        self.console, self.splits, self.epochs, self.ensemble = console, splits, epochs, ensemble
        self.last: dict[tuple[int, int], float] = {}

    def __call__(self, told: "Told") -> None:
        """Takes what `train` tells."""
        now, number = time.monotonic(), (told.split, told.member)
        if told.done:
            self._print(ending(told, self.splits, self.ensemble))
        elif now - self.last.setdefault(number, now) >= SECONDS:
            self.last[number] = now
            val = f"validation loss {told.val_loss:.4f}, accuracy {100 * told.val_accuracy:.1f} %"
            best = f"best epoch {told.best_epoch}"
            name = name_of(told, self.splits, self.ensemble)
            self._print(f"{name}: epoch {told.epoch} of at most {self.epochs}, {val}, {best}")

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)


def name_of(told: "Told", splits: int | None, ensemble: int) -> str:
    """What is training: a split, one of so many members of its ensemble, or without splits the model or its member."""
    member = f"member {told.member}" if ensemble > 1 else ""
    if splits is None:
        return member or "model"
    return f"split {told.split}" + (f", {member}" if member else "")


def ending(told: "Told", splits: int | None, ensemble: int) -> str:
    """The line about a split, a member or a model that is done."""
    best = f"best {told.best_epoch} with validation loss {told.val_loss:.4f}"
    return f"{name_of(told, splits, ensemble)}: {counted(told.epoch, 'epoch')}, {best}"


@contextmanager
def downloading(name: str = "data set") -> Iterator[Callable[[int, int | None], None]]:
    """Gives what a download tells its bytes to; nothing is shown unless there is one."""
    console, bars = stderr()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not bars) as progress:
        told: dict[str, int] = {}

        def tell(done: int, total: int | None) -> None:
            if not told:
                told["bar"] = progress.add_task(f"downloading {name}", total=total)
            told["bytes"] = done
            progress.update(TaskID(told["bar"]), completed=done, total=total)

        yield tell
    if told:
        console.print(f"downloaded {name}: {told['bytes'] / 1e6:.1f} MB", soft_wrap=True, markup=False)
