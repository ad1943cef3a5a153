"""What a Ray worker does: it trains one cell in a folder of its own, and returns what a store keeps of it.

Nothing is read from or written to the store of the study, which may lie on another machine.
"""

import multiprocessing
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cgipool.data.graphs import GraphSet
from cgipool.study.cell import Cell
from cgipool.study.run import Runner, Watcher, reason_of
from cgipool.study.store import Store
from cgipool.training.job import Progress

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


class _Guest(Runner):
    """Trains on a machine that may be at fault itself."""

    def _failed(self, cell: Cell, error: Exception) -> str:
        if isinstance(error, OSError | ImportError) or isinstance(error.__context__, OSError | ImportError):
            raise error  # no room on the disk, a module or a file that is not there: another machine may do better
        return super()._failed(cell, error)


def train_cell(cell: Cell, graphs: GraphSet, device: str, jobs: int, mailbox: Any) -> dict[str, Any]:
    """Train a cell from its start; what `Store.told` has of it then, finished or failed. What is wrong with the machine
    is raised."""
    with _noticing_cancellation(), tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        store = Store(Path(folder))
        runner = _Guest(store, device, jobs=jobs, watcher=_Sender(mailbox))
        runner.graphs[cell.dataset] = graphs
        try:
            runner.one(cell)
        finally:
            for child in multiprocessing.active_children():  # cancelled, those of several jobs still write there
                child.join()
        return store.told(cell.key)


def train_or_tell(given: list[Any], device: str, jobs: int, mailbox: Any) -> dict[str, Any]:
    """Train a cell on its graphs, both given as references; or tell what trouble this node has, and which it is."""
    import ray

    try:
        cell, graphs = ray.get(given)
        return train_cell(cell, graphs, device, jobs, mailbox)
    except Exception as error:
        node = ray.get_runtime_context().get_node_id()
        return {"trouble": reason_of(error), "node": node, "log": traceback.format_exc(), "useless": False}


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
