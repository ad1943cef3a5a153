"""Running the cells of a study as tasks of Ray, on this machine or on a cluster; the results come to this store.

A running cell is claimed here, as by any other run on the store, and trained from its start by any free worker. Data
sets are sent with the tasks, and results come back as plain values: the machines of a cluster need neither a shared
file system nor a network besides Ray's own, only the package.
"""

import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cgipool.errors import UserError
from cgipool.study.cell import Cell
from cgipool.study.claims import Claim
from cgipool.study.estimate import predicted
from cgipool.study.ray.cluster import able, last_line, needs_of, ray_package, room_of
from cgipool.study.run import Outcome, Stop, Watcher, claim_cell, reason_of
from cgipool.study.sets import graphs_of
from cgipool.study.store import Store
from cgipool.training.job import Progress

LOOK_SECONDS = 0.5
"""Seconds between two checks for news from workers and for a request to stop."""

END_SECONDS = 15.0
"""Seconds that cancelled tasks have to remove their folders."""

TRIES = 4
"""Attempts at a cell whose workers or nodes die or have problems. Ray's own retries are unlimited when memory is short.
"""


@dataclass
class _RunningCell:
    """A cell that a task trains."""

    cell: Cell
    claim: Claim
    tries: int = 0
    begun: bool = False
    """Whether its start was reported."""
    avoids: set[str] = field(default_factory=set)
    """Nodes that had problems with it."""


class RayRunner:
    """Trains cells on a connected Ray runtime; otherwise like a `Runner`."""

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
        self.store, self.device, self.jobs, self.retry_before = store, device, jobs, retry_before
        self.stop, self.watcher, self.outcome = stop or Stop(), watcher or Watcher(), Outcome()
        self.ray, self.needs = ray_package(), needs_of(device, jobs)
        # Ray does not retry: `_settle` counts, and knows when to give up.
        options = {"num_cpus": self.needs["CPU"], "num_gpus": self.needs.get("GPU", 0), "max_retries": 0}
        self.task = _task(self.ray, options)
        self.mailbox = _mailbox(self.ray)
        self.letters = self.mailbox.take.remote()
        self.waiting: deque[Cell] = deque()
        self.running: dict[Any, _RunningCell] = {}
        """Running cells, by the reference to the task's result."""
        self.data: dict[str, Any] = {}
        """References to the data sets that the remaining cells need."""

    def run(self, cells: Sequence[Cell]) -> Outcome:
        """Train the cells that are neither finished nor claimed by another run, the longest first. Cells claimed by
        others are tried once more at the end, because those runs may have died."""
        with self.stop.on_sigterm(at_once=False):
            try:
                self._run(cells)
                again = [cell for cell in cells if cell.key in self.outcome.elsewhere]
                self.outcome.elsewhere = []
                self._run(again)
            except ConnectionError as error:
                raise UserError(
                    f"the connection to Ray is lost: {reason_of(error)}; run the same command to continue"
                ) from None
            finally:
                self._end()
        return self.outcome

    def _run(self, cells: Sequence[Cell]) -> None:
        self.waiting = deque(sorted(cells, key=lambda cell: -predicted(cell, self.device)))
        while self.waiting or self.running:
            if self.stop.due:
                self.outcome.stopped = True
                return
            self._fill()
            ready, _ = self.ray.wait(list(self.running), timeout=LOOK_SECONDS) if self.running else ([], [])
            self._hear()
            for ref in ready:
                self._settle(ref)
            self._leave_lost()
            self._free_stranded()
            needed = {cell.dataset for cell in self.waiting} | {entry.cell.dataset for entry in self.running.values()}
            self.data = {name: ref for name, ref in self.data.items() if name in needed}

    def _fill(self) -> None:
        """Submit as many cells as Ray can train at the same time; the others stay free for other runs on the store."""
        room = max(1, room_of(self.ray, self.needs)) if self.waiting else 0
        while self.waiting and len(self.running) < room and not self.stop.due:
            cell = self.waiting.popleft()
            claim = claim_cell(self.store, cell, self.retry_before)
            if isinstance(claim, str):
                self._ended(cell, claim)
                continue
            entry = _RunningCell(cell, claim)
            try:
                self._submit(entry)
            except BaseException:  # Ctrl-C included: the data set may be large
                claim.release()
                raise

    def _submit(self, entry: _RunningCell) -> None:
        cell = entry.cell
        entry.tries += 1
        try:
            graphs = None if cell.dataset in self.data else graphs_of(cell)
        except Exception as error:
            self._finish(entry, _failure(cell, reason_of(error), traceback.format_exc()))
            return
        if graphs is not None:
            self.data[cell.dataset] = self.ray.put(graphs)
        given = [self.ray.put(cell), self.data[cell.dataset]]
        ref = self._task_of(entry).remote(given, self.device, self.jobs, self.mailbox)
        self.running[ref] = entry

    def _task_of(self, entry: _RunningCell) -> Any:
        """The task, on a node other than those to avoid. These may be idle, and Ray would choose them first."""
        if not entry.avoids:
            return self.task
        with suppress(ValueError):  # a version of Ray without labels chooses any node
            return self.task.options(label_selector={"ray.io/node-id": f"!in({','.join(sorted(entry.avoids))})"})
        return self.task

    def _hear(self) -> None:
        """Pass on the workers' reports without waiting. Reports lost with a node do not matter."""
        if not self.ray.wait([self.letters], timeout=0)[0]:
            return
        by_key = {entry.cell.key: entry for entry in self.running.values()}
        with suppress(self.ray.exceptions.RayError):
            for key, progress in self.ray.get(self.letters):
                if key in by_key:
                    self._begins(by_key[key])
                    if progress is not None:
                        self.watcher.epoch(by_key[key].cell, Progress(*progress))
        self.letters = self.mailbox.take.remote()

    def _settle(self, ref: Any) -> None:
        """Handle the end of a task: store its result, or submit the cell again if the task was lost or its node had
        problems."""
        entry = self.running[ref]
        try:
            answer = self.ray.get(ref)
            trouble, log = answer.get("trouble"), answer.get("log", "")
        except self.ray.exceptions.RayError as error:
            answer, trouble, log = {}, f"its worker died: {last_line(error)}", str(error)
        if trouble is None:
            del self.running[ref]
            self._finish(entry, answer)
            return
        self.data.pop(entry.cell.dataset, None)  # it may be lost as well
        if answer.get("useless") and answer["node"] not in entry.avoids:
            # Each such node is tried once, so in the end the cell reaches a node that can train, if there is one.
            entry.tries -= 1
        entry.avoids |= {answer["node"]} if answer else set()
        if entry.avoids >= able(self.ray, self.needs):
            if answer.get("useless"):
                raise UserError(f"no node of Ray can train (is cgipool installed there?): {trouble}")
            entry.avoids = set()
        if entry.tries < TRIES:
            self._submit(entry)
            del self.running[ref]  # not before: if submitting it fails, its claim must still be released
        else:
            del self.running[ref]
            self._finish(
                entry, _failure(entry.cell, f"tried {TRIES} times without success; the last error: {trouble}", log)
            )

    def _free_stranded(self) -> None:
        """Let cells that avoid all available nodes run on them again."""
        for ref, entry in list(self.running.items()):
            if entry.avoids and entry.avoids >= able(self.ray, self.needs):
                self.ray.cancel(ref)
                entry.avoids = set()
                self._submit(entry)
                del self.running[ref]

    def _finish(self, entry: _RunningCell, answer: dict[str, Any]) -> None:
        with entry.claim:
            if entry.claim.look():
                self.store.take_over(entry.cell.key, answer)
        self._begins(entry)
        self._ended(entry.cell, "elsewhere" if entry.claim.lost else answer.get("reason", "done"))

    def _leave_lost(self) -> None:
        """Leave a cell to another run that has taken it over because this one looked dead."""
        for ref, entry in list(self.running.items()):
            if entry.claim.lost:
                del self.running[ref]
                self.ray.cancel(ref)
                entry.claim.release()
                self._ended(entry.cell, "elsewhere")

    def _begins(self, entry: _RunningCell) -> None:
        if not entry.begun:
            entry.begun = True
            self.watcher.begins(entry.cell)

    def _ended(self, cell: Cell, how: str) -> None:
        self.outcome.add(cell, how)
        self.watcher.ended(cell, how)

    def _end(self) -> None:
        """Stop: leave running cells to the next run, and give the workers time to clean up."""
        refs, entries = list(self.running), list(self.running.values())
        self.running = {}
        for entry in entries:
            entry.claim.release()
        with suppress(Exception):  # whatever happens to Ray: its tasks end with this process
            for ref in refs:
                self.ray.cancel(ref)
            left = self.ray.wait(refs, num_returns=len(refs), timeout=END_SECONDS)[1] if refs else []
            for ref in left:
                self.ray.cancel(ref, force=True)


def _failure(cell: Cell, reason: str, log: str) -> dict[str, Any]:
    """A failure in the form of `Store.content`."""
    return {"cell": cell.config, "reason": reason, "log": log}


def _task(ray: Any, options: dict[str, Any]) -> Any:
    """Return the function that trains a cell in a worker."""

    def train_cell(given: list[Any], device: str, jobs: int, mailbox: Any) -> dict[str, Any]:
        """Defined here it is pickled by value, so it can also report that a node lacks the package."""
        try:
            from cgipool.study.ray.worker import train_or_report
        except ImportError as error:
            import ray

            return {"trouble": str(error), "node": ray.get_runtime_context().get_node_id(), "log": "", "useless": True}
        return train_or_report(given, device, jobs, mailbox)

    return ray.remote(**options)(train_cell)


def _mailbox(ray: Any) -> Any:
    """Create the actor to which workers send their reports, and from which this process reads them."""

    class Mailbox:
        """Defined here it is pickled by value, and its process need not import torch."""

        def __init__(self) -> None:
            self.letters: list[tuple[str, tuple[Any, ...] | None]] = []

        def put(self, key: str, progress: tuple[Any, ...] | None) -> None:
            self.letters.append((key, progress))

        def take(self) -> list[tuple[str, tuple[Any, ...] | None]]:
            letters, self.letters = self.letters, []
            return letters

    return ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote()
