"""One-line errors that a user can cause, and text helpers: counts, rounding, safe excerpts. No NumPy."""

import difflib
import operator
import sys
import unicodedata
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


class UserError(Exception):
    """An error that the user can fix. The message is one line that says what is wrong and what is expected."""


class UnusedDataWarning(UserWarning):
    """Part of the user's data is not read or not used. The message is one line."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, pointing at the first line of the call stack outside this package."""
    frame, level = sys._getframe(), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def excerpt(text: str, limit: int = 200) -> str:
    """Return untrusted text for a message: one line of printable characters, at most `limit` long."""
    line = " ".join(text[: 4 * limit].split())
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    return safe if len(safe) <= limit and len(text) <= 4 * limit else f"{safe[: limit - 1]}…"


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """Return an argument as a Python int. NumPy integers are accepted; UserError if it is not whole or too small."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UserError(f"{name} must be a whole number, not {value!r}") from None
    if least is not None and number < least:
        raise UserError(f"{name} must be at least {least}, not {number}")
    return number


def meant(name: str, names: Iterable[str]) -> str:
    """ "; did you mean 'NAME'?" with the nearest known name, or nothing."""
    lowered = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean {excerpt(lowered[near[0]], 60)!r}?" if near else ""


def unknown(kind: str, name: str, names: Iterable[str]) -> UserError:
    """Return the error for an unknown name; it suggests the nearest known name and lists all of them."""
    known = sorted(names)
    lowered = {n.lower(): n for n in known}
    starts = sorted((n for n in lowered if len(n) > 2 and name.lower().startswith(n)), key=len)  # cgipool: cgi
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.8)
    near = near or starts[-1:] or difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    hint = f"; did you mean {lowered[near[0]]!r}?" if near else ";"
    return UserError(f"unknown {kind} {name!r}{hint} known: {', '.join(known)}")


FORMULA = tuple(
    "=+-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
"""A spreadsheet reads a cell that begins with one of these as a formula."""

INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control and format characters, lone surrogates, and line and paragraph separators."""

UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}


def counted(count: int, thing: str) -> str:
    """ "1 epoch", "2,000 epochs": a count with its noun; give the noun in the singular."""
    ending = "" if count == 1 else "es" if thing.endswith("s") else "s"
    return f"{count:,} {thing}{ending}"


def are(count: int) -> str:
    """Return "is" or "are" to agree with a count."""
    return "is" if count == 1 else "are"


def in_bytes(count: int) -> str:
    """ "4 MB", "16 GB": a number of bytes, rounded to three digits."""
    for unit, size in UNITS.items():
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return counted(count, "byte")


def rounded(value: float, digits: int = 2, sign: bool = False) -> str:
    """Format a number with fixed decimals; tables, pages and the terminal all use this.

    The value is first rounded to twelve significant digits, so that equal quantities print equally however they were
    computed: the mean of percentages and 100 times the mean of shares differ in their last bits. Zero has no minus.
    """
    return f"{float(f'{value:.12g}'):{'+' if sign else ''}z.{digits}f}"


def printable(text: str) -> str:
    """Return untrusted text that is safe on a terminal: control characters, which start escape sequences, are replaced.

    Line feeds and tabs are kept.
    """
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if c not in "\n\t" and unicodedata.category(c) in INVISIBLE else c for c in text
    )


def csv_cell(value: Any) -> Any:
    """Return a value as our CSV files store it: safe in a spreadsheet and in a terminal.

    Text that a spreadsheet would run as a formula gets a leading apostrophe. Numbers are unchanged, even when they are
    given as text.
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


def check_ratio(ratio: float | int) -> float | int:
    """Return the ratio if it is a share in (0, 1] or a number of nodes that fits into 64 bits."""
    if isinstance(ratio, Integral) and not isinstance(ratio, bool) and 1 <= ratio < 2**63:
        return int(ratio)
    if isinstance(ratio, Real) and not isinstance(ratio, Integral) and 0.0 < ratio <= 1.0:
        return float(ratio)
    raise UserError(f"ratio must be a share in (0, 1] or a whole number of nodes from 1, not {ratio!r}")
