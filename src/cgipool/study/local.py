"""A study on several devices of one machine: one process per device; they share the store by its claims."""

import logging
import multiprocessing
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cgipool.errors import UserError
from cgipool.processes import SIGNALS, end_with_parent, signals_waiting
from cgipool.study.cell import Cell
from cgipool.study.estimate import predicted
from cgipool.study.run import Outcome, Runner, Stop, Watcher
from cgipool.study.store import Store
from cgipool.training.job import Progress

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
"""The environment variables by which processes find the service (NVIDIA's MPS)."""

log = logging.getLogger("cgipool")


def shared(devices: Sequence[str]) -> AbstractContextManager[bool]:
    """Start the service if several processes will use one GPU."""
    twice = [name for name in devices if name.startswith("cuda") and devices.count(name) > 1]
    return mps() if twice else nullcontext(False)


@contextmanager
def mps() -> Iterator[bool]:
    """Start the service for processes started in this context, and end it afterwards. Yields whether it runs.

    A service that the environment names already is used and left running. Without the service, cells on one GPU still
    run, taking turns.
    """
    if PIPES in os.environ:
        yield True
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-mps-") as folder:
        place = {PIPES: folder, LOGS: folder}
        if not _started(place):
            yield False
            return
        os.environ |= place
        try:
            yield True
        finally:
            subprocess.run([CONTROL], input="quit\n", text=True, capture_output=True)
            for name in place:
                del os.environ[name]


def _started(place: dict[str, str]) -> bool:
    if shutil.which(CONTROL) is None:
        log.warning("%s was not found: cells on one GPU take turns, so training them in parallel gains little", CONTROL)
        return False
    done = subprocess.run([CONTROL, "-d"], env=os.environ | place, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        log.warning("MPS did not start (%s): cells on one GPU take turns", said[-1] if said else done.returncode)
    return done.returncode == 0


LOOK_SECONDS = 0.5
"""Seconds between two checks that the processes are alive."""


class _Sender(Watcher):
    """Reports progress to the parent process."""

    def __init__(self, messages: Any) -> None:
        self.messages = messages

    def begins(self, cell: Cell) -> None:
        self.messages.put(("begins", cell.key, None))

    def epoch(self, cell: Cell, progress: Progress) -> None:
        self.messages.put(("epoch", cell.key, progress))

    def ended(self, cell: Cell, how: str) -> None:
        self.messages.put(("ended", cell.key, how))


def _work(cells: Sequence[Cell], store: Path, device: str, minutes: float | None, options: Any, messages: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it as well and ends this process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=end_with_parent, daemon=True).start()
    runner = Runner(Store(store), device, stop=Stop(minutes), watcher=_Sender(messages), **options)
    messages.put(("outcome", device, asdict(runner.run(cells))))


def run_on(
    cells: Sequence[Cell], store: Store, devices: Sequence[str], minutes: float | None, watcher: Watcher, **options: Any
) -> Outcome:
    """Train cells on one device, in this process, or on several; `options` are those of `Runner`."""
    if len(devices) > 1:
        return run_spread(cells, store.folder, devices, minutes=minutes, watcher=watcher, **options)
    return Runner(store, devices[0], stop=Stop(minutes), watcher=watcher, **options).run(cells)


def run_spread(
    cells: Sequence[Cell],
    store: Path,
    devices: Sequence[str],
    *,
    minutes: float | None = None,
    watcher: Watcher | None = None,
    **options: Any,
) -> Outcome:
    """Train cells on several devices. A free device takes the longest unclaimed cell, so that all end at about the same
    time. A device given twice trains two cells at once. `options` are those of `Runner`."""
    cells = sorted(cells, key=lambda cell: predicted(cell, devices[0]), reverse=True)
    stop, watcher = Stop(), watcher or Watcher()
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    workers: list[BaseProcess] = [
        context.Process(target=_work, args=(cells, store, device, minutes, options, messages)) for device in devices
    ]
    with shared(devices), stop.on_sigterm(at_once=False):
        try:
            with signals_waiting():
                for worker in workers:
                    worker.start()
            outcomes = _heard(workers, messages, stop, watcher, {cell.key: cell for cell in cells})
        except BaseException:  # Ctrl-C included
            _end(workers)
            raise
        finally:
            for worker in workers:
                if worker.pid is not None:  # it has started
                    worker.join()
    for worker, device in zip(workers, devices, strict=True):
        if worker.exitcode and not stop.asked:
            raise UserError(
                f"the process on {device} ended with code {worker.exitcode}; run the same command to continue"
            )
    whole = _joined(outcomes, cells)
    whole.stopped = whole.stopped or stop.asked
    return whole


def _heard(
    workers: Sequence[BaseProcess], messages: Any, stop: Stop, watcher: Watcher, cells: dict[str, Cell]
) -> list[dict[str, Any]]:
    """Pass on the workers' reports until all have ended, and end them on request. Return their outcomes."""
    outcomes: list[dict[str, Any]] = []
    reported: set[str] = set()
    ended = False
    while any(worker.is_alive() for worker in workers) or not messages.empty():
        if stop.asked and not ended:
            ended = True
            _end(workers)
        try:
            kind, key, what = messages.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            continue
        if kind == "outcome":
            outcomes.append(what)
        elif kind == "ended" and what not in ("there", "elsewhere") and key not in reported:
            reported.add(key)
            watcher.ended(cells[key], what)
        elif kind == "begins":
            watcher.begins(cells[key])
        elif kind == "epoch":
            watcher.epoch(cells[key], what)
    return outcomes


def _end(workers: Sequence[BaseProcess]) -> None:
    for worker in workers:
        if worker.is_alive():
            worker.terminate()


def _joined(outcomes: Sequence[dict[str, Any]], cells: Sequence[Cell]) -> Outcome:
    """Combine several outcomes: each cell once, with its best outcome."""
    whole = Outcome(stopped=any(outcome["stopped"] for outcome in outcomes))
    for cell in cells:
        for how in ("done", "there", "failed", "elsewhere"):
            if any(cell.key in outcome[how] for outcome in outcomes):
                getattr(whole, how).append(cell.key)
                break
    return whole
