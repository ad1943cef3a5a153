"""Printing to a terminal. Names and texts from data, models and stores must not control it."""

import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.segment import Segment

from cgipool.errors import UnusedDataWarning, UserError, excerpt, printable


class PlainConsole(Console):
    """A console that prints control characters of the given text as replacement characters. Its own escape sequences,
    for colours and progress bars, stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """The parts of what is printed, their text made harmless."""
        for part in super().render(renderable, options):
            yield part if part.is_control else part._replace(text=printable(part.text))


def say(text: object, *, err: bool = False) -> None:
    """Print a line that may quote text from outside."""
    typer.echo(printable(str(text)), err=err)


UsageError = typer.BadParameter.__mro__[1]
"""The error of an unknown option or a value out of range. typer has its own copy of click in some versions, and none of
them exports this class."""

LONGEST = 1500
"""Characters of an error, at most: a text from a file may be long, and may hold what a terminal obeys."""

MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""How torch says that there is too little memory; on a CPU it is a plain RuntimeError."""


class Interrupted(Exception):
    """Ctrl-C; the message says how to continue."""


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """A SIGTERM inside is a KeyboardInterrupt, so that folders that pass are removed and checkpoints written; the list
    then holds its number. A second one ends the process at once."""
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
    """Inside, a warning about the user's data is one line on stderr, said once. Other warnings stay as they are."""
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
    """An error if both options have a value."""
    if first not in (None, False) and second not in (None, False):
        raise UserError(f"{one} and {other} cannot be used together")


def one_line(error: BaseException) -> tuple[str, int]:
    """What to print, one line except for an exception in a user's own pool, and the exit code; an error that no user
    causes is raised again."""
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
    """The traceback of an exception in a pool of the user's own; None for others."""
    if "torch" not in sys.modules:  # without it no pool has run
        return None
    from cgipool.pool.own import OwnCodeError, own_traceback

    return str(error) if isinstance(error, OwnCodeError) else own_traceback(error)


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "cgipool"
    said = _setting(error) or getattr(error, "format_message", error.__str__)()
    return f"{excerpt(said, LONGEST).removesuffix('.')} (see {path} --help)"


def _setting(error: BaseException) -> str | None:
    """What to write in the place of an option that there is not, where --set has a setting of this name."""
    context, option = getattr(error, "ctx", None), getattr(error, "option_name", "")
    if context is None or type(error).__name__ != "NoSuchOption":
        return None
    if not any("--set" in parameter.opts for parameter in context.command.params):
        return None
    from cgipool.training.recipe import SETTINGS

    name = option.lstrip("-").replace("-", "_")
    return (
        f"No such option: {option}; it is a setting of the recipe, so use --set {name}=VALUE"
        if name in SETTINGS
        else None
    )


def _flat(error: BaseException) -> str:
    return excerpt(str(error), LONGEST)
