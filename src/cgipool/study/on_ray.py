"""Running the cells of a study as tasks of Ray, on this machine or on a cluster; the results come to this store.

A cell in hand is claimed here, as by any other run on the store, and trained from its start by whichever worker is
free. Data sets travel with the tasks, and what a worker made comes back as plain values: the machines of a cluster
need neither a common file system nor a network beyond Ray's own, only the package.
"""

import importlib
import os
import signal
import socket
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cgipool.data.sources import load_dataset
from cgipool.errors import UserError
from cgipool.study.cell import Cell
from cgipool.study.claims import Claim
from cgipool.study.estimate import predicted
from cgipool.study.ray_task import train_cell
from cgipool.study.run import Outcome, Stop, Watcher, reason_of, take_in_hand
from cgipool.study.store import Store
from cgipool.training.split import Progress

LOOK_SECONDS = 0.5
"""How often the workers' news are read, and whether it is time to stop."""

ANSWER_SECONDS = 10.0
"""How long a cluster may take to accept a connection."""

END_SECONDS = 15.0
"""How long tasks that are cancelled may take to remove their folders."""

STARTS = 3
"""How often a runtime of one's own is started, if it does not come up."""

TRIES = 4
"""How often a cell is begun whose workers or nodes die; Ray's own retries have no end where memory is short."""


def address_of(on: str) -> str | None:
    """What `ray.init` is to join, of "ray", "ray:ADDRESS" or "ray://HOST:PORT"; None: as RAY_ADDRESS says, else a
    runtime that is up on this machine, else one that is started for this run alone."""
    if on == "ray" or on.startswith("ray://"):
        return None if on == "ray" else on
    if on.startswith("ray:") and on != "ray:":
        return on.removeprefix("ray:")
    raise UserError(f"--on {on!r} is not of the form ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT")


def needs_of(device: str, jobs: int) -> dict[str, int]:
    """What a cell needs of a node, by Ray's names."""
    if device not in ("cpu", "cuda"):
        raise UserError(f"on Ray, --device is cpu or cuda, not {device!r}: Ray chooses which GPU")
    return {"CPU": jobs} if device == "cpu" else {"CPU": 1, "GPU": 1}


@contextmanager
def connected(on: str, device: str, jobs: int) -> Iterator[int]:
    """Ray at hand meanwhile; gives how many cells its nodes can train at a time."""
    address, needs, ray, before = (
        address_of(on),
        needs_of(device, jobs),
        ray_package(),
        signal.getsignal(signal.SIGTERM),
    )
    _check_answers(address or os.environ.get("RAY_ADDRESS", ""))
    try:
        _join(ray, address)
    except Exception as error:  # of many kinds, by what is wrong with the address or the runtime
        where = "on this machine" if address is None else f"at {address}"
        raise UserError(f"cannot use Ray {where}: {_last(error)}") from None
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray's own would end the process at once
    try:
        count = _room(ray, needs)
        if count == 0:
            wanted = " and ".join(f"{amount} {name}" for name, amount in needs.items())
            raise UserError(f"no node of the Ray cluster has {wanted}, which every cell needs")
        yield count
    finally:
        ray.shutdown()


def _join(ray: Any, address: str | None) -> None:
    """Join a runtime, or start one here; on a busy machine its parts may take longer to come up than Ray waits."""
    starts = address in (None, "local") and "RAY_ADDRESS" not in os.environ
    for left in reversed(range(STARTS if starts else 1)):
        try:
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            return
        except Exception:
            if left == 0:
                raise
            ray.shutdown()


def _check_answers(address: str) -> None:
    """An error unless something answers at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UserError(f"no Ray answers at {address}: {reason_of(error)}") from None


def _room(ray: Any, needs: dict[str, int]) -> int:
    """How many cells the nodes that are up can train at a time."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(min(int(node.get(name, 0) // amount) for name, amount in needs.items()) for node in nodes)


@dataclass
class _InHand:
    """A cell that a task trains."""

    cell: Cell
    claim: Claim
    tries: int = 0
    begun: bool = False
    """Whether its watcher knows of it."""


class RayRunner:
    """Trains cells on a Ray runtime that is `connected`; otherwise like a `Runner`."""

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
        self.task = self.ray.remote(**options)(train_cell)
        self.mailbox = _mailbox(self.ray)
        self.letters = self.mailbox.take.remote()
        self.waiting: deque[Cell] = deque()
        self.in_hand: dict[Any, _InHand] = {}
        """By the reference to what the task will return."""
        self.data: dict[str, Any] = {}
        """References to the data sets that cells still need."""

    def run(self, cells: Sequence[Cell]) -> Outcome:
        """Finish these cells, the longest first, as far as they are not finished or in other hands. Those in other
        hands are looked at once more at the end: their runs may have died."""
        with self.stop.on_sigterm(at_once=False):
            try:
                self._run(cells)
                again = [cell for cell in cells if cell.key in self.outcome.elsewhere]
                self.outcome.elsewhere = []
                self._run(again)
            except ConnectionError as error:
                raise UserError(f"the connection to Ray is lost: {reason_of(error)}; run again to go on") from None
            finally:
                self._end()
        return self.outcome

    def _run(self, cells: Sequence[Cell]) -> None:
        self.waiting = deque(sorted(cells, key=lambda cell: -predicted(cell, self.device)))
        while self.waiting or self.in_hand:
            if self.stop.due:
                self.outcome.stopped = True
                return
            self._fill()
            ready, _ = self.ray.wait(list(self.in_hand), timeout=LOOK_SECONDS) if self.in_hand else ([], [])
            self._hear()
            for ref in ready:
                self._settle(ref)
            self._leave_lost()
            needed = {cell.dataset for cell in self.waiting} | {hand.cell.dataset for hand in self.in_hand.values()}
            self.data = {name: ref for name, ref in self.data.items() if name in needed}

    def _fill(self) -> None:
        """Give as many cells to Ray as it can train at a time; the others stay free for other runs on the store."""
        room = max(1, _room(self.ray, self.needs)) if self.waiting else 0
        while self.waiting and len(self.in_hand) < room and not self.stop.due:
            cell = self.waiting.popleft()
            claim = take_in_hand(self.store, cell, self.retry_before)
            if isinstance(claim, str):
                self._ended(cell, claim)
                continue
            hand = _InHand(cell, claim)
            try:
                self._submit(hand)
            except BaseException:  # Ctrl-C included: the data set may be large
                claim.release()
                raise

    def _submit(self, hand: _InHand) -> None:
        cell = hand.cell
        hand.tries += 1
        try:
            graphs = None if cell.dataset in self.data else load_dataset(cell.path or cell.dataset)
        except Exception as error:
            self._finish(hand, _failure(cell, reason_of(error), traceback.format_exc()))
            return
        if graphs is not None:
            self.data[cell.dataset] = self.ray.put(graphs)
        ref = self.task.remote(cell, self.data[cell.dataset], self.device, self.jobs, self.mailbox)
        self.in_hand[ref] = hand

    def _hear(self) -> None:
        """Pass on what the workers told. Waits for nothing; news that were lost with a node are no loss."""
        if not self.ray.wait([self.letters], timeout=0)[0]:
            return
        hands = {hand.cell.key: hand for hand in self.in_hand.values()}
        with suppress(self.ray.exceptions.RayError):
            for key, progress in self.ray.get(self.letters):
                if key in hands:
                    self._begins(hands[key])
                    if progress is not None:
                        self.watcher.epoch(hands[key].cell, Progress(*progress))
        self.letters = self.mailbox.take.remote()

    def _settle(self, ref: Any) -> None:
        """A task has ended: keep what it made, or begin its cell again if it was lost."""
        hand, errors = self.in_hand[ref], self.ray.exceptions
        try:
            told = self.ray.get(ref)
        except errors.RayError as error:
            if isinstance(error, errors.RayTaskError) and isinstance(error.cause, ImportError):
                # Whatever is wrong with a cell is told as its failure; this is wrong with all of them. Another node may
                # do better where it is anything else, such as a full disk.
                raise UserError(f"a worker of Ray cannot train (is cgipool installed there?): {_last(error)}") from None
            del self.in_hand[ref]
            self.data.pop(hand.cell.dataset, None)  # it may have been lost as well
            if hand.tries < TRIES:
                self._submit(hand)
                return
            told = _failure(hand.cell, f"its worker died {TRIES} times, at last: {_last(error)}", str(error))
        self.in_hand.pop(ref, None)
        self._finish(hand, told)

    def _finish(self, hand: _InHand, told: dict[str, Any]) -> None:
        with hand.claim:
            if not hand.claim.lost:
                self.store.take_over(hand.cell.key, told)
        self._begins(hand)
        self._ended(hand.cell, "elsewhere" if hand.claim.lost else told.get("reason", "done"))

    def _leave_lost(self) -> None:
        """A cell that another run took over, as this one looked dead, is left to it."""
        for ref, hand in list(self.in_hand.items()):
            if hand.claim.lost:
                del self.in_hand[ref]
                self.ray.cancel(ref)
                hand.claim.release()
                self._ended(hand.cell, "elsewhere")

    def _begins(self, hand: _InHand) -> None:
        if not hand.begun:
            hand.begun = True
            self.watcher.begins(hand.cell)

    def _ended(self, cell: Cell, how: str) -> None:
        self.outcome.add(cell, how)
        self.watcher.ended(cell, how)

    def _end(self) -> None:
        """Leave what is in hand to the next run, and give the workers time to clear up."""
        refs, hands = list(self.in_hand), list(self.in_hand.values())
        self.in_hand = {}
        for hand in hands:
            hand.claim.release()
        with suppress(Exception):  # whatever is wrong with Ray now: its tasks end with this process
            for ref in refs:
                self.ray.cancel(ref)
            left = self.ray.wait(refs, num_returns=len(refs), timeout=END_SECONDS)[1] if refs else []
            for ref in left:
                self.ray.cancel(ref, force=True)


def _failure(cell: Cell, reason: str, log: str) -> dict[str, Any]:
    """A failure as `Store.told` has it."""
    return {"cell": cell.config, "reason": reason, "log": log}


def _last(error: Exception) -> str:
    """The last line of what Ray says, which is its cause."""
    return [type(error).__name__, *filter(None, map(str.strip, str(error).splitlines()))][-1]


def _mailbox(ray: Any) -> Any:
    """What workers leave their news in, and this process takes them from: an actor."""

    class Mailbox:
        """Made in here it travels by value, and its process need not import torch."""

        def __init__(self) -> None:
            self.letters: list[tuple[str, tuple[Any, ...] | None]] = []

        def put(self, key: str, progress: tuple[Any, ...] | None) -> None:
            self.letters.append((key, progress))

        def take(self) -> list[tuple[str, tuple[Any, ...] | None]]:
            letters, self.letters = self.letters, []
            return letters

    return ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote()


def ray_package() -> Any:
    """The package, which reads on import whether it may report its use over the network."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise UserError("--on ray needs Ray: pip install 'cgipool[ray]'") from None
