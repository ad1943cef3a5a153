"""Running the cells of a study on this machine, one after another. Finished cells are not run again.

A running cell is claimed, so that several runs can share a store. Its training folder is in the store, and any run can
resume it from its last checkpoint. If a cell fails, the reason is stored and the run continues.
"""

import os
import platform
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from cgipool.data.digests import content_read
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.files import read_json
from cgipool.study.cell import Cell
from cgipool.study.claims import Claim
from cgipool.study.gather import RunHistory, commit_of, processor, split_rows
from cgipool.study.sets import graphs_of
from cgipool.study.store import Store, now
from cgipool.task.metrics import classes_of, primary_of
from cgipool.training.folder import split_folder
from cgipool.training.job import Job, Progress
from cgipool.training.objective import checked_weights
from cgipool.training.run import check_device, train_splits
from cgipool.version import __version__


class Stopped(KeyboardInterrupt):
    """The time limit was reached, or the user asked to stop; running cells can be resumed."""


class Stop:
    """When to stop: at a deadline, or after SIGTERM. It is checked between epochs, so that nothing is lost."""

    def __init__(self, minutes: float | None = None) -> None:
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.asked = False

    @property
    def due(self) -> bool:
        """Whether to stop now."""
        return self.asked or (self.deadline is not None and time.monotonic() >= self.deadline)

    @contextmanager
    def on_sigterm(self, at_once: bool) -> Iterator[None]:
        """Stop after SIGTERM in this context; at once if the epochs run in other processes."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.asked = True
            if at_once:
                raise Stopped

        before = signal.signal(signal.SIGTERM, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


@dataclass
class Outcome:
    """The outcome of a run: what happened to each cell, by key."""

    done: list[str] = field(default_factory=list)
    """Finished by this run."""
    there: list[str] = field(default_factory=list)
    """Finished before this run, or by another run in the meantime."""
    failed: list[str] = field(default_factory=list)
    """Failed, in this run or before."""
    elsewhere: list[str] = field(default_factory=list)
    """Claimed by other runs."""
    stopped: bool = False
    """Whether the run stopped before it had tried all cells."""

    def add(self, cell: Cell, how: str) -> None:
        """Record the outcome of a cell; `how` is as in `Watcher.ended`."""
        getattr(self, how if how in ("done", "there", "elsewhere") else "failed").append(cell.key)


class Watcher:
    """Receives the progress of a run; this one ignores it."""

    def begins(self, cell: Cell) -> None:
        """A cell starts."""

    def epoch(self, cell: Cell, progress: Progress) -> None:
        """A split has finished an epoch, or all of its training."""

    def ended(self, cell: Cell, how: str) -> None:
        """A cell has ended: "done", "there" (finished before), "elsewhere" (claimed by another run), or the reason of
        its failure."""


def take_in_hand(store: Store, cell: Cell, retry_before: str) -> Claim | str:
    """Claim a cell for training. Return the claim, or how the cell has ended already. A cell that failed before
    `retry_before` is tried again."""
    if store.has(cell.key):
        return "there"
    failure = store.failure(cell.key)
    if failure is not None and failure[1] >= retry_before:
        return failure[0]
    claim = store.claims.take(cell.key)
    if claim is None:
        return "elsewhere"
    try:
        if store.has(cell.key):  # another run has finished it since the first check
            claim.release()
            return "there"
        store.set_damaged_aside(cell.key)
        if failure is not None:
            store.forget_failure(cell.key)
        store.clear_links(cell.key)
    except BaseException:
        claim.release()
        raise
    return claim


def reason_of(error: Exception) -> str:
    """Return an error as one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return reason if isinstance(error, UserError) else f"{type(error).__name__}: {reason}"


class Runner:
    """Trains cells on one device."""

    def __init__(
        self,
        store: Store,
        device: str,
        *,
        jobs: int = 1,
        stop: Stop | None = None,
        watcher: Watcher | None = None,
        retry_before: str = "",
    ) -> None:
        self.store, self.device, self.jobs = store, device, jobs
        self.stop, self.watcher = stop or Stop(), watcher or Watcher()
        self.retry_before = retry_before
        """Cells that failed before this time (in the format of `now`) are tried again."""
        self.graphs: dict[str, GraphSet] = {}
        self.commit = commit_of(Path(__file__).parent)
        self._why: type[BaseException] | None = None
        """The exception that ends the current training, set by the thread that listens to workers and raised in the
        main thread."""

    def run(self, cells: Sequence[Cell]) -> Outcome:
        """Train the cells that are neither finished nor claimed by another run. Cells claimed by others are tried once
        more at the end, because those runs may have died."""
        outcome = Outcome()
        with self.stop.on_sigterm(at_once=self.jobs > 1):
            self._run(cells, outcome)
            again = [cell for cell in cells if cell.key in outcome.elsewhere]
            outcome.elsewhere = []
            self._run(again, outcome)
        return outcome

    def _run(self, cells: Sequence[Cell], outcome: Outcome) -> None:
        for cell in cells:
            if self.stop.due or outcome.stopped:
                outcome.stopped = True
                return
            try:
                how = self.one(cell)
            except Stopped:
                outcome.stopped = True
                return
            outcome.add(cell, how)
            self.watcher.ended(cell, how)

    def one(self, cell: Cell) -> str:
        """Train one cell unless it is finished or claimed by another run. Return how it ended (see `Watcher.ended`)."""
        claim = take_in_hand(self.store, cell, self.retry_before)
        if isinstance(claim, str):
            return claim
        with claim:
            self.watcher.begins(cell)
            return self._train(cell, claim)

    def _train(self, cell: Cell, claim: Claim) -> str:
        began, self._why = time.monotonic(), None
        legs = RunHistory(self.store.work(cell.key))
        legs.begin(now(), self._versions(), self.commit)
        try:
            self._fit(cell, claim)
            legs.end(time.monotonic() - began)
            if not claim.look():
                return "elsewhere"
            work = self.store.work(cell.key)
            rows = split_rows(work, primary_of(cell.task), cell.recipe.stop_by)
            self.store.finish(cell.key, cell.config, rows, self._provenance(cell, legs))
        except Lost:
            return "elsewhere"
        except KeyboardInterrupt:
            if self._why is Lost:
                return "elsewhere"
            legs.end(time.monotonic() - began)
            if self._why is Stopped or self.stop.due:
                raise Stopped from None
            raise
        except Exception as error:
            # If another run took over the cell, it may have removed the folder; then the cell has not failed.
            return self._failed(cell, error) if claim.look() else "elsewhere"
        finally:
            if self.device.startswith("cuda"):
                torch.cuda.empty_cache()
        return "done"

    def _failed(self, cell: Cell, error: Exception) -> str:
        """Store and return the reason of a failure."""
        reason = reason_of(error)
        self.store.fail(cell.key, cell.config, reason, traceback.format_exc())
        return reason

    def _fit(self, cell: Cell, claim: Claim) -> None:
        folder, protocol = self.store.work(cell.key), cell.protocol
        if cell.dataset not in self.graphs:
            self.graphs[cell.dataset] = graphs_of(cell)
        kind, begun = torch.device(self.device).type, folder / "run.json"
        elsewhere = begun.exists() and read_json(begun).get("device") != kind
        if not begun.exists() and folder.exists():  # killed before run.json was written
            shutil.rmtree(folder)
        check_device(self.device)
        graphs = self.graphs[cell.dataset]
        splits, given = protocol.draw(graphs), protocol.weights(graphs)
        weight = None if given is None else checked_weights(given, graphs.n_graphs, splits)
        train_splits(
            [
                Job(
                    cell.method,
                    cell.recipe,
                    split,
                    protocol.seed,
                    self.device,
                    split_folder(folder, split.index),
                    sample_weight=weight,
                )
                for split in splits
            ],
            graphs,
            folder,
            protocol.trainings,
            self.jobs,
            resume=not elsewhere,  # a run started on another kind of device cannot be resumed
            overwrite=elsewhere,
            tell=partial(self._told, cell, claim),
        )

    def _told(self, cell: Cell, claim: Claim, progress: Progress) -> None:
        self.watcher.epoch(cell, progress)
        due = Lost if claim.lost else Stopped if self.stop.due else None
        if due is None or self._why is not None:
            return
        if threading.current_thread() is threading.main_thread():
            raise due
        self._why = due
        # With several jobs a thread listens to them; the main one must end the training. It waits for them, and only a
        # signal of the system's wakes it: `interrupt_main` would be noticed when the next split is done.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _versions(self) -> dict[str, str]:
        return {
            "cgipool": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        }

    def _provenance(self, cell: Cell, legs: RunHistory) -> dict[str, Any]:
        run = read_json(self.store.work(cell.key) / "run.json")
        kind = torch.device(self.device).type
        cuda = kind == "cuda"
        told = {
            "command": cell.command(self.device),
            "versions": self._versions(),
            "commit": self.commit,
            "device": torch.cuda.get_device_name(self.device) if cuda else f"{processor()}, {os.cpu_count()} cores",
            "kind": kind,
            "precision": run["precision"],
            "started": legs.legs[0]["started"],
            "finished": now(),
            "seconds": round(legs.seconds, 3),
            # Without edge data, which only some methods read: cells of one data set are compared across methods.
            "data": content_read(self.graphs[cell.dataset]),
            "splits": run["splits_content"],
        }
        graphs = self.graphs[cell.dataset]
        if graphs.task == "classification":
            told["classes"] = classes_of(graphs).to_json()
        else:
            told |= {"task": graphs.task, "columns": list(graphs.target_names)}
        return told | ({"legs": legs.legs} if len(legs.legs) > 1 else {})


class Lost(Exception):
    """Another run took over the cell because this run looked dead."""
