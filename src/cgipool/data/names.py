"""Values as a source names them, and their codes 0, 1, 2, … in sorted order; per-graph columns put end to end."""

import math
import re
from collections.abc import Sequence
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError
from cgipool.words import are, counted

Names = tuple[str, ...]


def sort_key(name: str) -> tuple[bool, float, str]:
    """Order numbers as numbers, before all other names."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (False, number, name) if math.isfinite(number) else (True, 0.0, name)


def natural_key(name: str) -> tuple[bool, float, list[tuple[str, int, str]]]:
    """The same, but digits inside other names count as numbers as well: roi2 is before roi10."""
    is_text, number, _ = sort_key(name)
    *parts, last = re.split("([0-9]{1,18})", name)
    pairs = [(text, int(digits), digits) for text, digits in zip(parts[::2], parts[1::2], strict=True)]
    return is_text, number, [*pairs, (last, -1, "")]


def printable(text: str) -> str:
    """A name from outside, safe to print: what may control a terminal is written as an escape, such as \\x1b."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" or category(c) == "Zs" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def encode(values: NDArray[Any]) -> tuple[NDArray[np.int32], Names]:
    """Values (whole numbers or strings) [N] as codes [N] and the sorted names of those that occur."""
    distinct, codes = np.unique(values, return_inverse=True)
    names = list(map(str, distinct.tolist()))
    order = sorted(range(len(names)), key=lambda i: sort_key(names[i]))
    rank = np.empty(len(names), dtype=np.int32)
    rank[order] = np.arange(len(names))
    return rank[codes.reshape(-1)], tuple(names[i] for i in order)


def encode_columns(values: NDArray[Any]) -> tuple[NDArray[np.int32], tuple[Names, ...]]:
    """Columns [N, K] as codes [N, K] and the names of each column."""
    coded = [encode(column) for column in values.T]
    return np.stack([codes for codes, _ in coded], axis=1), tuple(names for _, names in coded)


def look_up(values: NDArray[Any], names: Names, what: str) -> NDArray[np.int32]:
    """Values [N] as codes into given names; one that is not among them is a UserError."""
    codes, found = encode(values)
    place = {name: code for code, name in enumerate(names)}
    for name in found:
        if name not in place:
            raise UserError(f"{what} {name!r} is not among the names given: {', '.join(names)}")
    return np.array([place[name] for name in found], dtype=np.int32)[codes]


def end_to_end(what: str, parts: Sequence[NDArray[Any] | None], rows: Sequence[int]) -> NDArray[Any] | None:
    """One column group [sum of rows, K] from those of the graphs; None where no graph has it.

    A graph without rows fits any: it need not have the column.
    """
    filled = [(i, part) for i, (part, count) in enumerate(zip(parts, rows, strict=True)) if count or part is not None]
    widths: dict[int, int] = {}
    for i, part in filled:
        if part is not None and len(part) != rows[i]:
            raise UserError(f"graph {i}: {what} has {counted(len(part), 'row')} where {rows[i]} {are(rows[i])} due")
        widths.setdefault(0 if part is None else part.shape[1], i)
    if len(widths) > 1:
        (one, i), (other, j) = list(widths.items())[:2]
        raise UserError(f"graphs {i} and {j} differ: {one} and {other} columns of {what}")
    present = [part for _, part in filled if part is not None]
    return np.concatenate(present) if present else None
