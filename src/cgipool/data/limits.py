"""How much text compressed data may expand to, and how long a line may be."""

import os

from cgipool.errors import UserError, excerpt

VARIABLE = "CGIPOOL_MAX_SIZE"

RATIO, HARMLESS, LARGEST = 100, 1 << 26, 1 << 34
"""Text may be 100 times as large as its compressed form, or 64 MB if that is more, and 16 GB at most.

COLLAB, the largest common set, is 35 times its compressed size; sets of identical lines reach several hundred.
"""

LINE = 1 << 22
"""Bytes that a line of a table may have."""

COLUMNS = 1 << 14
"""Columns that a table may have."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def allowed(compressed: int, max_size: int | None = None) -> int:
    """The bytes that compressed data of a size may expand to; `max_size` or CGIPOOL_MAX_SIZE override the limits."""
    if max_size is not None:
        return max_size
    if chosen := os.environ.get(VARIABLE):
        return parse_size(VARIABLE, chosen)
    return min(max(RATIO * compressed, HARMLESS), LARGEST)


def parse_size(what: str, text: str) -> int:
    """A number of bytes as a user writes it: 500M, 20G, 20GB, 1000000."""
    number, unit = text.strip().upper().removesuffix("B"), ""
    if number[-1:] in UNITS:
        number, unit = number[:-1], number[-1:]
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise UserError(f"{what} must be a size such as 500MB or 20GB, not {excerpt(text)!r}")
    return int(number) * UNITS[unit]


def too_large(what: str, size: int, limit: int) -> UserError:
    """The error for data that expand beyond the limit."""
    raised = f"if you trust it, raise --max-size or {VARIABLE}, for example to {max(2 * size >> 30, 1)}GB"
    return UserError(f"{what} expands to {size:,} bytes, and {limit:,} are allowed; {raised}")
