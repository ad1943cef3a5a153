"""Names of values, coded 0, 1, 2, … in sorted order, and names of graphs and nodes, as flat arrays of text."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, overload
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import pointer, ranges
from cgipool.errors import UserError, counted

Names = tuple[str, ...]


def sort_key(name: str) -> tuple[bool, float, str]:
    """Order numbers as numbers, before all other names."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (False, number, name) if math.isfinite(number) else (True, 0.0, name)


def natural_key(name: str) -> tuple[bool, float, list[tuple[str, int, str]]]:
    """Like `sort_key`, but digits inside other names count as numbers too: roi2 is before roi10."""
    is_text, number, _ = sort_key(name)
    *parts, last = re.split("([0-9]{1,18})", name)
    pairs = [(text, int(digits), digits) for text, digits in zip(parts[::2], parts[1::2], strict=True)]
    return is_text, number, [*pairs, (last, -1, "")]


def printable(text: str) -> str:
    """Make an untrusted name safe to print: characters that control a terminal become escapes such as \\x1b."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" or category(c) == "Zs" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def encode(values: NDArray[Any]) -> tuple[NDArray[np.int32], Names]:
    """Values (whole numbers or strings) [N] as codes [N], and the sorted names of the values that occur."""
    distinct, codes = np.unique(values, return_inverse=True)
    names = list(map(str, distinct.tolist()))
    order = sorted(range(len(names)), key=lambda i: sort_key(names[i]))
    rank = np.empty(len(names), dtype=np.int32)
    rank[order] = np.arange(len(names))
    return rank[codes.reshape(-1)], tuple(names[i] for i in order)


def encode_columns(values: NDArray[Any]) -> tuple[NDArray[np.int32], tuple[Names, ...]]:
    """Columns [N, K] as codes [N, K], and the names of each column."""
    coded = [encode(column) for column in values.T]
    return np.stack([codes for codes, _ in coded], axis=1), tuple(names for _, names in coded)


def look_up(values: NDArray[Any], names: Names, what: str) -> NDArray[np.int32]:
    """Values [N] as codes into given names. Raise UserError for a value that is not among them."""
    codes, found = encode(values)
    place = {name: code for code, name in enumerate(names)}
    for name in found:
        if name not in place:
            raise UserError(f"{what} {name!r} is not among the given names: {', '.join(names)}")
    return np.array([place[name] for name in found], dtype=np.int32)[codes]


def end_to_end(what: str, parts: Sequence[NDArray[Any] | None], rows: Sequence[int]) -> NDArray[Any] | None:
    """Concatenate a group of columns of all graphs to [sum of rows, K]; None if no graph has it.

    A graph without rows does not need to have the columns.
    """
    filled = [(i, part) for i, (part, count) in enumerate(zip(parts, rows, strict=True)) if count or part is not None]
    widths: dict[int, int] = {}
    for i, part in filled:
        if part is not None and len(part) != rows[i]:
            raise UserError(f"graph {i}: {what} has {counted(len(part), 'row')} but needs {rows[i]}")
        widths.setdefault(0 if part is None else part.shape[1], i)
    if len(widths) > 1:
        (one, i), (other, j) = list(widths.items())[:2]
        raise UserError(f"graphs {i} and {j} differ: {one} and {other} columns of {what}")
    present = [part for _, part in filled if part is not None]
    return np.concatenate(present) if present else None


class Texts(Sequence[str]):
    """A sequence of texts. Text i is the UTF-8 bytes of `data` from `ptr[i]` up to `ptr[i + 1]`."""

    __slots__ = ("data", "ptr")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ptr: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        self.ptr = ptr
        """[n + 1]"""
        self.data = data
        """All texts, one after another."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Texts":
        """These texts. Characters that UTF-8 cannot encode (lone surrogates) are replaced."""
        if isinstance(texts, Texts):
            return texts
        encoded = [str(text).encode("utf-8", "replace") for text in texts]
        return cls(pointer(np.array([len(text) for text in encoded], np.int64)), np.frombuffer(b"".join(encoded), "u1"))

    @classmethod
    def join(cls, parts: Sequence["Texts"]) -> "Texts":
        """The texts of all parts, in order."""
        sizes = np.concatenate([np.diff(part.ptr) for part in parts])
        return cls(pointer(sizes), np.concatenate([part.data for part in parts]))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        return self.data[int(self.ptr[number]) : int(self.ptr[number + 1])].tobytes().decode("utf-8", "replace")

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Texts):
            return NotImplemented
        return np.array_equal(self.ptr, other.ptr) and np.array_equal(self.data, other.data)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"Texts([{shown}{', …' if len(self) > 3 else ''}], {len(self)} in all)"

    def take(self, places: NDArray[np.int64]) -> "Texts":
        """The texts at these positions. Only their bytes are read."""
        first, last = np.asarray(self.ptr[places]), np.asarray(self.ptr[places + 1])
        if np.any(first < 0) or np.any(last < first) or np.any(last > len(self.data)):
            raise ValueError("a text lies outside its array")
        return Texts(pointer(last - first), np.asarray(self.data[ranges(first, last - first)]))

    def find(self, text: str) -> list[int]:
        """The positions of this text."""
        wanted = np.frombuffer(text.encode("utf-8", "replace"), "u1")
        first = np.asarray(self.ptr[:-1])[np.diff(self.ptr) == len(wanted)]
        places = np.flatnonzero(np.diff(self.ptr) == len(wanted))
        for offset, byte in enumerate(wanted):
            same = self.data[first + offset] == byte
            first, places = first[same], places[same]
        return places.tolist()

    def check(self, what: str, count: int, thing: str) -> None:
        """Raise UserError unless there is one text for each of `count` things, and the arrays fit together."""
        for name, values, dtype in (("pointer", self.ptr, np.int64), ("text", self.data, np.uint8)):
            if not isinstance(values, np.ndarray) or values.dtype != dtype or values.ndim != 1:
                raise UserError(f"the {name} of {what} must be a 1-d array of {np.dtype(dtype).name}")
        if len(self) != count:
            raise UserError(f"{what} has {len(self):,} texts, not one for each of the {count:,} {thing}s")
        if self.ptr[0] != 0 or self.ptr[-1] != len(self.data) or np.any(self.ptr[1:] < self.ptr[:-1]):
            raise UserError(f"the pointer of {what} does not fit its text")
