"""Many short texts, such as the ids of graphs, as two flat arrays that can be saved and memory-mapped."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import pointer, ranges
from cgipool.errors import UserError


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
        """These texts. A character that UTF-8 cannot hold (a lone surrogate) is replaced."""
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
        """The texts at these places; only their bytes are read."""
        first, last = np.asarray(self.ptr[places]), np.asarray(self.ptr[places + 1])
        if np.any(first < 0) or np.any(last < first) or np.any(last > len(self.data)):
            raise ValueError("a text lies outside its array")
        return Texts(pointer(last - first), np.asarray(self.data[ranges(first, last - first)]))

    def find(self, text: str) -> list[int]:
        """The places where this text stands."""
        wanted = np.frombuffer(text.encode("utf-8", "replace"), "u1")
        first = np.asarray(self.ptr[:-1])[np.diff(self.ptr) == len(wanted)]
        places = np.flatnonzero(np.diff(self.ptr) == len(wanted))
        for offset, byte in enumerate(wanted):
            same = self.data[first + offset] == byte
            first, places = first[same], places[same]
        return places.tolist()

    def check(self, what: str, count: int, thing: str) -> None:
        """An error unless there is one text for each of `count` things, and the arrays fit together."""
        for name, values, dtype in (("pointer", self.ptr, np.int64), ("text", self.data, np.uint8)):
            if not isinstance(values, np.ndarray) or values.dtype != dtype or values.ndim != 1:
                raise UserError(f"the {name} of {what} must be a 1-d array of {np.dtype(dtype).name}")
        if len(self) != count:
            raise UserError(f"{what} has {len(self):,} texts, not one for each of the {count:,} {thing}s")
        if self.ptr[0] != 0 or self.ptr[-1] != len(self.data) or np.any(self.ptr[1:] < self.ptr[:-1]):
            raise UserError(f"the pointer of {what} does not fit its text")
