"""Parallel training on a CPU, one process with one thread per training: steps are too small to share among cores."""

import contextlib
import multiprocessing
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

from cgipool.classical import MODELS
from cgipool.data.graphs import GraphSet
from cgipool.data.store import folder_of
from cgipool.errors import UserError
from cgipool.pool import method_named
from cgipool.pool.own import OwnCodeError, own_traceback
from cgipool.processes import SIGNALS, end_with_parent, signals_waiting
from cgipool.training.initial import fit_encoder
from cgipool.training.job import Job, Progress, ProgressCallback
from cgipool.training.loop import train_split


def train_in_processes(trainings: list[Job], graphs: GraphSet, jobs: int, tell: ProgressCallback) -> None:
    """Run `jobs` trainings at a time. If one fails, or on Ctrl-C, the others write checkpoints before they end."""
    compute_inputs(trainings[0], graphs)
    context = multiprocessing.get_context("spawn")
    messages, stop = context.Queue(), context.Event()
    try:
        with _hearing(messages, stop, tell), _folder_of(graphs) as folder:
            arguments = (folder, messages, stop)
            workers = min(jobs, len(trainings))
            with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=arguments) as pool:
                try:
                    with signals_waiting():
                        futures = [pool.submit(_train_in_worker, job) for job in trainings]
                    for done in as_completed(futures):
                        done.result()
                except BaseException:  # also Ctrl-C: the pool would wait for all trainings
                    stop.set()
                    # Running workers write checkpoints, and a worker that is just starting must still find its data.
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
    except BrokenProcessPool:
        raise UserError(
            "a worker process ended: it ran out of memory (use fewer jobs), it was killed, or the script calls "
            "train(jobs=…) without the guard `if __name__ == '__main__':`"
        ) from None


COMPUTED = ("wl", "rwse", "lappe", "rdkit_descriptors", "fingerprints")
"""Settings of a recipe that ask for inputs which are computed once for a data set."""


def compute_inputs(job: Job, graphs: GraphSet) -> None:
    """Compute what all trainings read of the structure or of molecules, so that the processes find it in the cache."""
    if method_named(job.method).classical:
        MODELS[job.method].prepare(graphs)
        return
    if any(getattr(job.recipe, name) for name in COMPUTED):
        fit_encoder(job, graphs).encode(graphs)


@contextlib.contextmanager
def _hearing(messages: "multiprocessing.Queue[Progress | None]", stop: Event, tell: ProgressCallback) -> Iterator[None]:
    """Run a thread that passes the workers' messages on to `tell`. If `tell` fails, the workers are stopped, and its
    error is raised once they have ended."""
    failed: list[BaseException] = []

    def listen() -> None:
        while (message := messages.get()) is not None:
            if failed:
                continue  # keep emptying the queue: a worker cannot end while its messages are in it
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
    """Yield a folder from which other processes can map a data set: its own if it is on disk, else a temporary one."""
    if folder := folder_of(graphs):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-") as shared:
        graphs.save(Path(shared, "graphs"))
        yield Path(shared, "graphs")


_worker: dict[str, Any] = {}
"""The arguments of a worker process: its data set, mapped from disk, its progress callback, and the stop event."""


def _start_worker(folder: Path, messages: "multiprocessing.Queue[Progress | None]", stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives it too and sets `stop`
    threading.Thread(target=end_with_parent, daemon=True).start()
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))  # the parent may receive it too
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    torch.set_num_threads(1)

    def tell(progress: Progress) -> None:
        if received or stop.is_set():
            raise KeyboardInterrupt  # makes the loop write a checkpoint
        messages.put(progress)

    _worker.update(graphs=GraphSet.load(folder, mmap=True), tell=tell, stop=stop)


def _train_in_worker(job: Job) -> None:
    if _worker["stop"].is_set():
        return
    try:
        train_split(job, _worker["graphs"], _worker["tell"])
    except UserError:
        raise
    except Exception as error:
        if (text := own_traceback(error)) is None:
            raise
        raise OwnCodeError(text) from None  # tracebacks are not passed between processes


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in this context. On small graphs a second thread gains nothing, and on a busy machine waiting for
    it took ten times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
