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

if TYPE_CHECKING:
    from cgipool.training.split import Progress as Told
    from cgipool.training.split import Tell

SECONDS = 5.0
"""Plain lines about a split that is still training come at most this often."""


def _stderr() -> tuple[Console, bool]:
    """The console, and whether it can draw bars."""
    console = Console(stderr=True, highlight=False)
    return console, console.is_terminal and not console.is_dumb_terminal


@contextmanager
def reporting(splits: int, epochs: int, patience: int) -> Iterator["Tell"]:
    """Gives what `train` tells its progress to."""
    console, bars = _stderr()
    if not bars:
        yield Lines(console, epochs)
        return
    columns = (TextColumn("{task.description}"), BarColumn(10), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bars(progress, splits, epochs, patience)


class Bars:
    """One bar per split that is training and, with several splits, one for all."""

    def __init__(self, progress: Progress, splits: int, epochs: int, patience: int) -> None:
        self.progress, self.splits, self.epochs, self.patience = progress, splits, epochs, patience
        self.all = progress.add_task("splits", total=splits, state=f"0/{splits}", visible=splits > 1)
        self.bars: dict[int, TaskID] = {}
        self.done = 0

    def __call__(self, told: "Told") -> None:
        """Takes what `train` tells."""
        if told.done:
            self._finish(told)
            return
        if told.split not in self.bars:
            self.bars[told.split] = self.progress.add_task(f"split {told.split}", total=self.epochs, state="")
        # Short, as all of it must fit into 80 columns: "12/100" is epochs since the best of the patience.
        val = f"val loss {told.val_loss:.4f}  acc {100 * told.val_accuracy:.1f} %"
        since = f"best {told.epoch - told.best_epoch}/{self.patience} ago"
        state = f"{told.epoch}/{self.epochs}  {val}  {since}"
        self.progress.update(self.bars[told.split], completed=told.epoch, state=state)

    def _finish(self, told: "Told") -> None:
        self.done += 1
        if told.split in self.bars:
            self.progress.remove_task(self.bars.pop(told.split))
        self.progress.console.print(ending(told))
        self.progress.update(self.all, completed=self.done, state=f"{self.done}/{self.splits}")


class Lines:
    """Plain lines: the end of each split, and how it goes every few seconds."""

    def __init__(self, console: Console, epochs: int) -> None:
        self.console, self.epochs = console, epochs
        self.last: dict[int, float] = {}

    def __call__(self, told: "Told") -> None:
        """Takes what `train` tells."""
        now = time.monotonic()
        if told.done:
            self._print(ending(told))
        elif now - self.last.setdefault(told.split, now) >= SECONDS:
            self.last[told.split] = now
            val = f"validation loss {told.val_loss:.4f}, accuracy {100 * told.val_accuracy:.1f} %"
            best = f"best epoch {told.best_epoch}"
            self._print(f"split {told.split}: epoch {told.epoch} of at most {self.epochs}, {val}, {best}")

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)


def ending(told: "Told") -> str:
    """The line about a split that is done."""
    return f"split {told.split}: {told.epoch} epochs, best {told.best_epoch} with validation loss {told.val_loss:.4f}"


@contextmanager
def downloading(name: str = "data set") -> Iterator[Callable[[int, int | None], None]]:
    """Gives what a download tells its bytes to; nothing is shown unless there is one."""
    console, bars = _stderr()
    columns = (TextColumn("{task.description}"), BarColumn(24), DownloadColumn(), TransferSpeedColumn())
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
