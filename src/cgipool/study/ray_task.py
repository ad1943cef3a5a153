"""What a Ray worker does: it trains one cell in a folder of its own, and returns what a store keeps of it.

Nothing is read from or written to the store of the study, which may lie on another machine.
"""

import multiprocessing
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cgipool.data.graphs import GraphSet
from cgipool.study.cell import Cell
from cgipool.study.run import Runner, Watcher
from cgipool.study.store import Store
from cgipool.training.split import Progress

TELL_SECONDS = 0.5
"""The epochs of a cell are told at most this often; the ends of its splits always."""

WAKE_SECONDS = 1.0
"""How soon a task notices that it is cancelled."""


class _Sender(Watcher):
    """Tells a mailbox what happens here, and waits for no answer."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox, self.last = mailbox, 0.0

    def begins(self, cell: Cell) -> None:
        self.mailbox.put.remote(cell.key, None)

    def epoch(self, cell: Cell, progress: Progress) -> None:
        now = time.monotonic()
        if progress.done or now - self.last >= TELL_SECONDS:
            self.last = now
            # As a plain tuple: to unpack a Progress the mailbox would have to import torch.
            self.mailbox.put.remote(cell.key, tuple(progress))


def train_cell(cell: Cell, graphs: GraphSet, device: str, jobs: int, mailbox: Any) -> dict[str, Any]:
    """Train a cell from its start; what `Store.told` has of it then, finished or failed."""
    with _noticing_cancellation(), tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        store = Store(Path(folder))
        runner = Runner(store, device, jobs=jobs, watcher=_Sender(mailbox))
        runner.graphs[cell.dataset] = graphs
        try:
            runner.one(cell)
        finally:
            for child in multiprocessing.active_children():  # cancelled, those of several jobs still write there
                child.join()
        return store.told(cell.key)


@contextmanager
def _noticing_cancellation() -> Iterator[None]:
    """Ray cancels a task by a mark that Python looks at when it next computes. A thread that waits for the processes of
    several jobs does not, unless a timer wakes it."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
