"""Build sorted, symmetric CSR rows from edge lists in any order. N nodes, R given rows, E stored edges."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgipool.errors import UserError

Ints = NDArray[np.int64]

CHUNK = 1 << 17
"""Edges processed at a time where a formula has many passes, so that temporaries stay in the CPU cache."""


def whole(what: str, values: ArrayLike) -> Ints:
    """Return whole numbers as integers. Raise UserError for other values, which NumPy would truncate silently."""
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):
        numbers = given.astype(np.int64)
    if not np.array_equal(numbers, given):
        raise UserError(f"{what} must be whole numbers, not {given[numbers != given].tolist()[0]!r}")
    return numbers


def pointer(counts: NDArray[Any]) -> Ints:
    """Return [len + 1] the start of consecutive rows of these lengths, and the end."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers starts[i] … starts[i] + counts[i] − 1 for every i, concatenated."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words in place (the splitmix64 finaliser); equal words stay equal, others look random."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def pieces(ptr: Ints) -> Iterator[tuple[slice, Ints]]:
    """Yield the edges of a CSR, `CHUNK` at a time, with the row of each edge."""
    for start in range(0, int(ptr[-1]), CHUNK):
        stop = min(start + CHUNK, int(ptr[-1]))
        first, last = np.searchsorted(ptr, [start, stop - 1], side="right") - 1
        counts = np.diff(ptr[first : last + 2].clip(start, stop))
        yield slice(start, stop), np.repeat(np.arange(first, last + 1), counts)


def is_symmetric(ptr: Ints, disp: NDArray[np.int32]) -> bool:
    """Whether every edge of a CSR without repeats has its reverse, tested with an order-independent hash.

    Each edge adds a hash of its pair of ends, forward edges with plus and backward ones with minus: modulo 2⁶⁴ the sum
    is 0 when each pair occurs in both directions; otherwise it is 0 only with probability 2⁻⁶⁴.
    """
    total = 0
    for piece, row in pieces(ptr):
        step = disp[piece].astype(np.int64)
        word = (row + np.minimum(step, 0)).view(np.uint64)
        word <<= np.uint64(31)
        word += np.abs(step).view(np.uint64)
        word = mix(word)
        total += int(np.sum(word, where=step > 0)) - int(np.sum(word, where=step < 0))
    return total % 2**64 == 0


@dataclass(frozen=True)
class CoalescedEdges:
    """Coalesced edges of N nodes."""

    ptr: Ints
    """[N + 1]"""
    disp: NDArray[np.int32]
    """[E]"""
    columns: list[NDArray[Any] | None]
    """[E, …] the given edge columns, in the order of the stored edges."""
    dropped: dict[str, int]
    """The number of self-loops and repeats removed and of reverses added; zeros are omitted."""
    added: NDArray[np.bool_] | None = None
    """[E] which are added reverses; None if there are none."""


def coalesce(
    n_nodes: int, source: NDArray[Any], target: NDArray[Any], *columns: NDArray[Any] | None, directed: bool = False
) -> CoalescedEdges:
    """Sort edges into rows, remove self-loops and repeats (the first is kept) and complete one-way edges.

    Edge columns [R, …] are reordered too; an added reverse copies the columns of its edge. Without columns, the origin
    of each edge is not tracked and large sets are sorted faster. With `directed`, added reverses are not counted in
    `dropped`.
    """
    _check_ends(n_nodes, source, target, *columns)
    dropped = {}
    key = _keys(n_nodes, source, target)
    origin = None if all(c is None for c in columns) else np.flatnonzero(source != target)
    if len(key) < len(source):
        dropped["self-loops"] = len(source) - len(key)
    rows = len(key)
    key, origin = _unique(key, origin)
    if rows > len(key):
        dropped["repeated edges"] = rows - len(key)
    ptr, disp = _rows(n_nodes, key)
    added = None
    if not is_symmetric(ptr, disp):
        row, column = np.divmod(key, n_nodes)
        both = np.concatenate([key, column * n_nodes + row])
        both, origin = _unique(both, None if origin is None else np.concatenate([origin, origin]))
        if directed:
            added = ~np.isin(both, key)
        else:
            dropped["one-way edges completed"] = len(both) - len(key)
        ptr, disp = _rows(n_nodes, both)
    return CoalescedEdges(ptr, disp, [None if c is None else c[origin] for c in columns], dropped, added)


def _check_ends(n_nodes: int, source: NDArray[Any], target: NDArray[Any], *columns: NDArray[Any] | None) -> None:
    if len(source) != len(target):
        raise UserError(f"{len(source)} edge sources but {len(target)} edge targets")
    for column in columns:
        if column is not None and len(column) != len(source):
            raise UserError(f"an edge column has {len(column)} entries for {len(source)} edges")
    if len(source) == 0:
        return
    if source.dtype.kind not in "iu" or target.dtype.kind not in "iu":
        raise UserError(f"edge ends must be whole numbers, not {source.dtype} and {target.dtype}")
    low, high = min(source.min(), target.min()), max(source.max(), target.max())
    if low < 0 or high >= n_nodes:
        raise UserError(f"an edge names node {low if low < 0 else high}; nodes go from 0 to {n_nodes - 1}")


def _keys(n_nodes: int, source: NDArray[Any], target: NDArray[Any]) -> Ints:
    """Return source · N + target of every row that is not a self-loop; chunked, as allocation dominates the time."""
    keys = np.empty(len(source), dtype=np.int64)
    kept = 0
    for start in range(0, len(source), CHUNK):
        row, column = (ends[start : start + CHUNK].astype(np.int64) for ends in (source, target))
        key = (row * n_nodes + column)[row != column]
        keys[kept : kept + len(key)] = key
        kept += len(key)
    return keys[:kept]


def _unique(key: Ints, origin: Ints | None) -> tuple[Ints, Ints | None]:
    """Return sorted unique keys and the origin of the first occurrence of each."""
    if np.all(key[1:] > key[:-1]):
        return key, origin
    if origin is None:
        key = np.sort(key)
    else:
        order = np.argsort(key, kind="stable")
        key, origin = key[order], origin[order]
    first = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    return key[first], None if origin is None else origin[first]


def _rows(n_nodes: int, key: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """Return CSR pointer and displacements from sorted keys source · N + target."""
    ptr = np.searchsorted(key, np.arange(n_nodes + 1) * n_nodes)
    disp = np.empty(len(key), dtype=np.int32)
    for piece, row in pieces(ptr):
        disp[piece] = key[piece] - row * (n_nodes + 1)
    return ptr, disp
