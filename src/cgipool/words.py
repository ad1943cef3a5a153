"""Text for people: numbers in sentences, one way to round, and text from outside made safe to show. No NumPy."""

import unicodedata
from typing import Any

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
