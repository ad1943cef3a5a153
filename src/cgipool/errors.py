"""Errors that a user can cause, one line each, and text for people: counts, rounding, safe excerpts. No NumPy."""

import difflib
import operator
import sys
import unicodedata
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


FORMULA = tuple(
    "=+-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
"""A spreadsheet takes a cell that begins with one of these for a formula."""

INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of control and format characters, lone surrogates, and separators of lines and paragraphs."""

UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}


def counted(count: int, thing: str) -> str:
    """ "1 epoch", "2,000 epochs": a number and what it counts, which is given in the singular."""
    ending = "" if count == 1 else "es" if thing.endswith("s") else "s"
    return f"{count:,} {thing}{ending}"


def are(count: int) -> str:
    """The verb that goes with a number."""
    return "is" if count == 1 else "are"


def in_bytes(count: int) -> str:
    """ "4 MB", "16 GB": a number of bytes in round figures."""
    for unit, size in UNITS.items():
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return counted(count, "byte")


def rounded(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number with a fixed number of decimals: the one rounding of tables, pages and the terminal.

    Twelve significant digits are kept first, so that the same quantity reads the same whichever way it was computed:
    the mean of percentages and 100 times the mean of shares differ in their last bits. Zero has no minus.
    """
    return f"{float(f'{value:.12g}'):{'+' if sign else ''}z.{digits}f}"


def printable(text: str) -> str:
    """Text from outside as a terminal may show it: control characters, which begin escape sequences, are replaced.

    Line feeds and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if c not in "\n\t" and unicodedata.category(c) in INVISIBLE else c for c in text
    )


def csv_cell(value: Any) -> Any:
    """A value as every CSV file of ours holds it: harmless in a spreadsheet and in a terminal.

    Text that a spreadsheet would run as a formula gets an apostrophe in front of it. Numbers stay as they are, also
    where they are given as text.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python allows between digits
