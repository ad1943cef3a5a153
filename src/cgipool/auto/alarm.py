"""End a computation that has no callback, such as the fit of a classical method, after some seconds."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class OutOfTime(Exception):
    """A training used up its share of the budget."""


@contextmanager
def alarm(seconds: float, error: Exception) -> Iterator[None]:
    """Raise an error in this context after some seconds, as soon as Python code runs. Outside the main thread, and on
    systems without timers, there is no limit."""
    main = threading.current_thread() is threading.main_thread()
    if not math.isfinite(seconds) or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> NoReturn:
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
