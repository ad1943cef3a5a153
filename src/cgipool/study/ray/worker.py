"""A Ray worker: trains one cell in a temporary folder and returns what the store will hold of it.

It neither reads nor writes the study's store, which may be on another machine.
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
"""Minimum seconds between two reports of epochs; the ends of splits are always reported."""

WAKE_SECONDS = 1.0
"""Seconds until a task notices that it was cancelled."""


class _Sender(Watcher):
    """Sends progress to a mailbox and does not wait for an answer."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox, self.last = mailbox, 0.0

    def begins(self, cell: Cell) -> None:
        self.mailbox.put.remote(cell.key, None)

    def epoch(self, cell: Cell, progress: Progress) -> None:
        now = time.monotonic()
        if progress.done or now - self.last >= TELL_SECONDS:
            self.last = now
            # A plain tuple: to unpickle a Progress, the mailbox would have to import torch.
            self.mailbox.put.remote(cell.key, tuple(progress))


class _Guest(Runner):
    """Trains on a machine that may itself be the cause of an error."""

    def _failed(self, cell: Cell, error: Exception) -> str:
        if isinstance(error, OSError | ImportError) or isinstance(error.__context__, OSError | ImportError):
            raise error  # full disk, missing module or file: it may work on another machine
        return super()._failed(cell, error)


def train_cell(cell: Cell, graphs: GraphSet, device: str, jobs: int, mailbox: Any) -> dict[str, Any]:
    """Train a cell from its start. Return it in the form of `Store.content`, finished or failed. Errors of the machine
    are raised."""
    with _noticing_cancellation(), tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        store = Store(Path(folder))
        runner = _Guest(store, device, jobs=jobs, watcher=_Sender(mailbox))
        runner.graphs[cell.dataset] = graphs
        try:
            runner.one(cell)
        finally:
            for (
                child
            ) in multiprocessing.active_children():  # if cancelled, the processes of several jobs still write there
                child.join()
        return store.content(cell.key)


def train_or_report(given: list[Any], device: str, jobs: int, mailbox: Any) -> dict[str, Any]:
    """Train a cell, given references to it and its graphs; if the node has problems, return them and the node's id."""
    import ray

    try:
        cell, graphs = ray.get(given)
        return train_cell(cell, graphs, device, jobs, mailbox)
    except Exception as error:
        node = ray.get_runtime_context().get_node_id()
        return {"trouble": reason_of(error), "node": node, "log": traceback.format_exc(), "useless": False}


@contextmanager
def _noticing_cancellation() -> Iterator[None]:
    """Let Ray cancel a task that waits. Ray sets a mark that Python checks when it next computes; a thread that waits
    for the processes of several jobs needs a timer to wake it."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
