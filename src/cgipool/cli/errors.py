"""Printing to a terminal, which untrusted names and texts must not control, and errors as one line."""

import functools
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.segment import Segment

from cgipool.errors import UnusedDataWarning, UserError, excerpt, printable


class PlainConsole(Console):
    """A console that replaces control characters in the given text. Its own escape sequences, for colours and progress
    bars, are unchanged."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Return the parts of the output with control characters replaced."""
        for part in super().render(renderable, options):
            yield part if part.is_control else part._replace(text=printable(part.text))


def output() -> PlainConsole:
    """The console for stdout. A pipe has no width, so it gets one that is wide enough for all tables."""
    return PlainConsole(highlight=False, markup=False, width=None if sys.stdout.isatty() else 140)


def say(text: object, *, err: bool = False) -> None:
    """Print a line that may quote untrusted text."""
    typer.echo(printable(str(text)), err=err)


UsageError = typer.BadParameter.__mro__[1]
"""The error for an unknown option or a value out of range. Some versions of typer contain their own copy of click, and
none of them exports this class."""

LONGEST = 1500
"""Maximum length of an error message, because text from a file may be long."""

MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""Torch's messages for too little memory; on a CPU this is a plain RuntimeError."""


class Interrupted(Exception):
    """Ctrl-C; the message says how to continue."""


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """Turn SIGTERM into KeyboardInterrupt, so that temporary folders are removed and checkpoints written; the list then
    contains its number. A second SIGTERM ends the process at once."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # to which signals are reserved
        yield came
        return
    before = signal.signal(signal.SIGTERM, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning about the user's data once, as one line on stderr. Other warnings are unchanged."""
    said: set[str] = set()
    plain = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, UnusedDataWarning):
            plain(message, category, filename, lineno, file, line)
        elif str(message) not in said:
            said.add(str(message))
            print(f"cgipool: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnusedDataWarning)
        warnings.showwarning = show
        yield


def exclude(one: str, first: object, other: str, second: object) -> None:
    """Raise an error if both options have a value."""
    if first not in (None, False) and second not in (None, False):
        raise UserError(f"{one} and {other} cannot be used together")


def one_line(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code. The message is one line, except for an exception in a user's own pool. Any
    other error is raised again."""
    if isinstance(error, Interrupted | KeyboardInterrupt | typer.Abort):
        return _flat(error) or "stopped", 130
    if isinstance(error, UserError):
        return _flat(error), 2
    if isinstance(error, UsageError):
        return _usage(error), 2
    if text := _of_own_pool(error):
        return f"exception in the code of the pooling class:\n{text}", 1
    if isinstance(error, OSError):
        place = f"{excerpt(str(error.filename))}: " if error.filename else ""
        return f"{place}{error.strerror or _flat(error)}", 2
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(m in str(error) for m in MEMORY)):
        return "not enough memory; use a smaller --batch-size, --width or --jobs", 2
    raise error


def _of_own_pool(error: BaseException) -> str | None:
    """Return the traceback of an exception in a user's own pool; None for other exceptions."""
    if "torch" not in sys.modules:  # no pool has run if it is not imported
        return None
    from cgipool.pool.own import OwnCodeError, own_traceback

    return str(error) if isinstance(error, OwnCodeError) else own_traceback(error)


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "cgipool"
    said = getattr(error, "format_message", error.__str__)()
    return f"{excerpt(said, LONGEST).removesuffix('.')} (see {path} --help)"


def _flat(error: BaseException) -> str:
    return excerpt(str(error), LONGEST)


WAIT_SECONDS = 8.0
"""Maximum delay with which the first process raises an error that all processes raise."""


def one_error_for_all(command: Callable[..., None]) -> Callable[..., None]:
    """If several processes run a command, only one prints an error; the others wait until torchrun ends them.
    Processes that torchrun restarts do not print it again."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        if not given["distributed"]:
            command(**given)
            return
        from cgipool.training.distributed.process_group import Lives

        lives = Lives()
        if lives.refused:
            raise typer.Exit(2)
        try:
            command(**given)
        except UserError as error:
            _wait_for_first(error)
            if lives.refused:
                raise typer.Exit(2) from None
            if not _may_pass_on_restart(error):
                lives.note_refused()
            raise

    return run


def _wait_for_first(error: UserError) -> None:
    """Let the most informative process print an error: the first one, or the one that ended early."""
    from cgipool.training.distributed.process_group import Abandoned, is_first

    if isinstance(error, Abandoned):
        time.sleep(2 * WAIT_SECONDS)
    elif not is_first():
        time.sleep(WAIT_SECONDS)


def _may_pass_on_restart(error: UserError) -> bool:
    """Whether a restart may succeed: without the process that has ended, or when the disk has space again."""
    from cgipool.training.distributed.process_group import Abandoned

    return isinstance(error, Abandoned) or isinstance(error.__context__, OSError)
