"""Errors that a user can cause: one line each, shown by the command line without a traceback."""

import difflib
import operator
import sys
import warnings
from collections.abc import Iterable
from typing import Any


class UserError(Exception):
    """Something the user can mend. The message is one line that says what is wrong and what is expected."""


class UnusedDataWarning(UserWarning):
    """Part of the user's data is not read or not used. The message is one line."""


def warn_user(message: str, category: type[Warning]) -> None:
    """A warning that points at the first line outside this package, wherever in it the call comes from."""
    frame, level = sys._getframe(), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def excerpt(text: str, limit: int = 200) -> str:
    """Text from outside as it may appear in a message: one line of printable characters, at most `limit` long."""
    line = " ".join(text[: 4 * limit].split())
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    return safe if len(safe) <= limit and len(text) <= 4 * limit else f"{safe[: limit - 1]}…"


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """The value of an argument as Python's own whole number, NumPy's included; an error if it is none, or too small."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UserError(f"{name} must be a whole number, not {value!r}") from None
    if least is not None and number < least:
        raise UserError(f"{name} must be at least {least}, not {number}")
    return number


def unknown(kind: str, name: str, names: Iterable[str]) -> UserError:
    """The error for an unknown name: the nearest known one, then all of them."""
    known = sorted(names)
    lowered = {n.lower(): n for n in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    hint = f"; did you mean {lowered[near[0]]!r}?" if near else ";"
    return UserError(f"unknown {kind} {name!r}{hint} known: {', '.join(known)}")
