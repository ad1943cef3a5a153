"""Several trainings at a time on a CPU, each in a process with one thread: steps are too small to share among cores."""

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch

from cgipool.data.graphs import GraphSet
from cgipool.data.store import folder_of
from cgipool.errors import UserError
from cgipool.pool.own import OwnCodeError, own_traceback
from cgipool.training.job import Job, Progress, ProgressCallback
from cgipool.training.loop import train_split

SIGNALS = {signal.SIGINT, signal.SIGTERM}
"""By which a run is stopped."""


def train_in_processes(tasks: list[Job], graphs: GraphSet, jobs: int, tell: ProgressCallback) -> None:
    """Train so many at a time. Where one fails, or Ctrl-C comes, the others write their checkpoints first."""
    context = multiprocessing.get_context("spawn")
    messages, stop = context.Queue(), context.Event()
    try:
        with _hearing(messages, stop, tell), _folder_of(graphs) as folder:
            arguments = (folder, messages, stop)
            workers = min(jobs, len(tasks))
            with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=arguments) as pool:
                try:
                    with signals_waiting():
                        futures = [pool.submit(_train_in_worker, task) for task in tasks]
                    for done in as_completed(futures):
                        done.result()
                except BaseException:  # Ctrl-C included: the pool would wait for all that is still to do
                    stop.set()
                    # Those at work write their checkpoints, and one that just starts must find what it is given.
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
    except BrokenProcessPool:
        raise UserError(
            "a worker process ended: it ran out of memory (use fewer jobs), it was killed, or the script calls "
            "train(jobs=…) without the guard `if __name__ == '__main__':`"
        ) from None


@contextlib.contextmanager
def signals_waiting() -> Iterator[None]:
    """Inside, signals wait: here until the end, and in a process that is started here until it is ready for them.

    A process inherits which signals this thread blocks. One that is blocked here may still be taken by another thread
    of this process, and would then interrupt this one: so it is only noted meanwhile.
    """
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # the only one that Python lets interrupt
        for number in SIGNALS:
            if signal.getsignal(number) is not None:  # that of another library could not be put back
                handlers[number] = signal.signal(number, lambda number, frame: came.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


@contextlib.contextmanager
def _hearing(messages: "multiprocessing.Queue[Progress | None]", stop: Event, tell: ProgressCallback) -> Iterator[None]:
    """Inside, a thread passes what workers put into the queue on to `tell`. If that fails the workers are stopped, and
    its error is raised when they have ended."""
    failed: list[BaseException] = []

    def listen() -> None:
        while (message := messages.get()) is not None:
            if failed:
                continue  # a worker cannot end before the queue is rid of all that it told
            try:
                tell(message)
            except BaseException as error:
                failed.append(error)
                stop.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    finally:
        messages.put(None)
        listener.join()
        if failed:
            raise failed[0] from None


@contextlib.contextmanager
def _folder_of(graphs: GraphSet) -> Iterator[Path]:
    """Where other processes can map a set from: its own folder, if it lies on disk, else one that passes."""
    if folder := folder_of(graphs):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-") as shared:
        graphs.save(Path(shared, "graphs"))
        yield Path(shared, "graphs")


_worker: dict[str, Any] = {}
"""What a worker process was started with: its data set, mapped from disk, what it tells its progress to, and whether to
stop."""


def _start_worker(folder: Path, messages: "multiprocessing.Queue[Progress | None]", stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it as well and sets `stop`
    threading.Thread(target=end_with_parent, daemon=True).start()
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))  # sent to all, the parent has it as well
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    torch.set_num_threads(1)

    def tell(progress: Progress) -> None:
        if told or stop.is_set():
            raise KeyboardInterrupt  # on which a checkpoint is written
        messages.put(progress)

    _worker.update(graphs=GraphSet.load(folder, mmap=True), tell=tell, stop=stop)


def end_with_parent() -> None:
    """Left behind by a parent that was killed, a worker would write into the folder beside the resumed run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _train_in_worker(task: Job) -> None:
    if _worker["stop"].is_set():
        return
    try:
        train_split(task, _worker["graphs"], _worker["tell"])
    except UserError:
        raise
    except Exception as error:
        if (text := own_traceback(error)) is None:
            raise
        raise OwnCodeError(text) from None  # a traceback does not come to the other process


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """On small graphs a second thread gains nothing; beside other work, waiting for it took ten times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
