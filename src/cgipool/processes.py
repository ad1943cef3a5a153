"""Worker processes: they start without being interrupted, end with their parent, and give results in order."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from cgipool.errors import UserError

SIGNALS = {signal.SIGINT, signal.SIGTERM}
"""The signals that stop a run."""

AHEAD = 2
"""Items that are read ahead for each process."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(start: Callable[[], Callable[[Item], Result]], items: Iterator[Item], jobs: int) -> Iterator[Result]:
    """Yield `start()(item)` for every item, in order, computed by `jobs` processes that call `start` once each.

    An error is raised where one process would raise it: after the results of all items before.
    """
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin, (start,))
    waiting: deque[Future[Result]] = deque()
    left = until_error(items)
    failed: Exception | None = None
    try:
        while True:
            for item, failed in islice(left, AHEAD * jobs - len(waiting)):
                if failed is None:
                    with signals_waiting():
                        waiting.append(pool.submit(_work, item))
            if not waiting:
                break
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise UserError("a worker process ended: it ran out of memory (use fewer jobs), or it was killed") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if failed is not None:
        raise failed


def until_error(items: Iterator[Item]) -> Iterator[tuple[Any, Exception | None]]:
    """Yield the items and, if reading them fails, the error as the last."""
    try:
        for item in items:
            yield item, None
    except Exception as error:
        yield None, error


_worker: dict[str, Any] = {}
"""What a worker process does with an item."""


def _begin(start: Callable[[], Callable[[Any], Any]]) -> None:
    for number in SIGNALS:  # the parent receives them too, and ends the workers
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _worker["start"] = start


def _work(item: Any) -> Any:
    if "do" not in _worker:  # here, since an error in an initializer is lost
        _worker["do"] = _worker["start"]()
    return _worker["do"](item)


@contextlib.contextmanager
def signals_waiting() -> Iterator[None]:
    """Delay signals in this process until the context ends, and in a process started inside until it is ready.

    A process inherits the signals that this thread blocks. Another thread of this process may still receive a blocked
    signal, which would interrupt this thread, so the handler only records it.
    """
    received: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # only the main thread may set handlers
        for number in SIGNALS:
            if signal.getsignal(number) is not None:  # a handler set outside Python cannot be restored
                handlers[number] = signal.signal(number, lambda number, frame: received.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in received:
            signal.raise_signal(each)


def end_with_parent() -> None:
    """End this worker when its parent ends. Otherwise, after the parent is killed, it would write to the folder of the
    resumed run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
