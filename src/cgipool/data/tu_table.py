"""Read tables of numbers from text without a header, in all formats of the TU collection.

pyarrow parses the standard format block by block. A block that it rejects is converted to the standard format and
parsed again. If that fails as well, a slow scan finds the line for the message.
"""

import math
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from cgipool.data.archive import COLUMNS, LINE, TuFiles
from cgipool.data.check import not_finite
from cgipool.errors import UserError, counted, excerpt
from cgipool.processes import until_error

BLOCK = 1 << 20

THREADS, AHEAD = 2, 4
"""Number of threads that parse a file, and of blocks to read ahead."""

KINDS: dict[str, type] = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64}
"""Column type → its NumPy type."""

FLOATS = ("float32", "float64")

BOM = b"\xef\xbb\xbf"

EXACT = 2.0**53
"""Larger whole numbers are not exact as floats."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)

# Possessive quantifiers (*+) keep long runs of blanks from taking quadratic time.
_EDGES = re.compile(rb"^[ \t]++|(?<=[^ \t,\n])[ \t]*+(?:,[ \t]*+)?$", re.MULTILINE)
_SEPARATOR = re.compile(rb"[ \t]*+,[ \t]*+|[ \t]++")
_PLUS = re.compile(rb"(^|,)\+(?=[0-9.])", re.MULTILINE)


def read_blocks(files: TuFiles, part: str, kind: str, columns: int | None = None) -> Iterator[NDArray[Any]]:
    """Yield the rows [n, columns] of NAME_part.txt, block by block. An empty file gives one block without rows.

    By default, the first line determines the number of columns.
    """
    first = next((fields for _, fields in _lines(files, part)), None)
    width = columns or len(first or "1")
    if width > COLUMNS:
        raise UserError(f"{files.where(part)} has {width:,} columns, and {COLUMNS:,} are allowed")
    if first is None:
        yield np.empty((0, width), KINDS[kind])
        return
    plain = True

    def parse(text: bytes, error: Exception | None) -> NDArray[Any] | None:
        nonlocal plain
        if error is not None:
            raise error
        rows = _parse(text, kind, width) if plain else None
        if rows is None:
            plain, rows = False, _parse_tidied(text, kind, width)
        return rows

    # The next blocks are decompressed and parsed while the caller works on this one. Leaving the context waits for the
    # threads, also after an error.
    with files.open(part) as stream, ThreadPoolExecutor(THREADS) as pool:
        texts = until_error(_blocks(files, part, stream))
        waiting = deque(pool.submit(parse, *text) for text in islice(texts, AHEAD))
        while waiting:
            rows = waiting.popleft().result()
            if rows is None:
                raise _explain(files, part, kind, width)
            if (text := next(texts, None)) is not None:
                waiting.append(pool.submit(parse, *text))
            if len(rows):
                yield rows


class RowReader:
    """The rows of NAME_part.txt in order. The file must have `expected` rows, one per node or edge (`things`)."""

    def __init__(self, files: TuFiles, part: str, kind: str, expected: int, things: str) -> None:
        self._files, self._part, self._kind = files, part, kind
        self._expected, self._things = expected, things
        self._blocks = read_blocks(files, part, kind)
        self._buffer = [next(self._blocks)]
        self._taken = 0

    def take(self, count: int) -> NDArray[Any]:
        """The next rows. Raise UserError if the file has too few or too many."""
        while sum(map(len, self._buffer)) < count and (block := next(self._blocks, None)) is not None:
            self._buffer.append(block)
        read = np.concatenate(self._buffer)
        rows, self._buffer = read[:count], [read[count:]]
        self._taken += len(rows)
        if len(rows) < count:
            last = line_of_row(self._files, self._part, self._taken - 1) if self._taken else 0
            ends = f"{self._files.where(self._part)} ends at line {last}"
            raise UserError(f"{ends}: {counted(self._taken, 'row')} for {self._expected} {self._things}")
        if self._taken == self._expected and (len(read) > count or next(self._blocks, None) is not None):
            raise at_row(self._files, self._part, self._expected, f"there are only {self._expected} {self._things}")
        if self._kind in FLOATS and not np.isfinite(rows).all():
            raise self._not_finite()
        return rows

    def _not_finite(self) -> UserError:
        """The error for the first value that is NaN or infinite: its line, column, and node or edge."""
        files, part = self._files, self._part
        before = count = 0
        found: tuple[int, int, float] | None = None
        for block in read_blocks(files, part, self._kind):
            bad = np.argwhere(~np.isfinite(block))
            if found is None and len(bad):
                row, column = bad[0].tolist()
                found = before + row, column, float(block[row, column])
            before, count = before + len(block), count + len(bad)
        assert found is not None
        row, column, value = found
        story = f"column {column} is {value:g} for {_thing_of(files, part, row)}"
        return at_row(files, part, row, story + (f"; the file has {not_finite(count)}" if count > 1 else ""))


def _thing_of(files: TuFiles, part: str, row: int) -> str:
    """The node or edge that a row of a table is about, and its graph, all counted from 1 as in the files."""
    ends = [row + 1] if part.startswith("node") else _row(files, "A", row, 2)
    nodes = f"node {ends[0]}" if len(ends) == 1 else f"the edge from node {ends[0]} to node {ends[1]}"
    return f"{nodes}, in graph {_row(files, 'graph_indicator', ends[0] - 1, 1)[0]}"


def _row(files: TuFiles, part: str, row: int, columns: int) -> list[int]:
    for block in read_blocks(files, part, "int32", columns):
        if row < len(block):
            return block[row].tolist()
        row -= len(block)
    raise UserError(f"{files.where(part)} changed while it was read")


def at_row(files: TuFiles, part: str, row: int, problem: str) -> UserError:
    """The error for a row, counted from 0, with the number of its line."""
    return UserError(f"{files.where(part)}, line {line_of_row(files, part, row)}: {problem}")


def line_of_row(files: TuFiles, part: str, row: int) -> int:
    """The line number, from 1, of a row, from 0. Blank lines are not rows."""
    for count, (line, _) in enumerate(_lines(files, part)):
        if count == row:
            return line
    raise UserError(f"{files.where(part)} changed while it was read")


def _blocks(files: TuFiles, part: str, stream: IO[bytes]) -> Iterator[bytes]:
    """Yield whole lines, some at a time."""
    is_start = True
    while text := stream.read(BLOCK):
        if not text.endswith(b"\n"):
            text += _line(files, part, stream)
        yield text.removeprefix(BOM) if is_start else text
        is_start = False


def _line(files: TuFiles, part: str, stream: IO[bytes]) -> bytes:
    line = stream.readline(LINE + 1)
    if len(line) > LINE:
        raise UserError(f"{files.where(part)} has a line of more than {LINE >> 20} MB")
    return line


def _parse(text: bytes, kind: str, columns: int) -> NDArray[Any] | None:
    """Parse lines in the standard format; None if a line is in another format."""
    if kind not in FLOATS and (b"x" in text or b"X" in text):  # pyarrow would read 0x10 as 16
        return None
    names = [str(j) for j in range(columns)]
    # The text is copied to memory that pyarrow owns: its threads may outlive an error, and freeing Python's memory
    # while the interpreter exits would abort the process.
    memory = pa.BufferOutputStream()
    memory.write(text)
    try:
        table = csv.read_csv(
            pa.BufferReader(memory.getvalue()),
            csv.ReadOptions(column_names=names, block_size=len(text), use_threads=False),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.type_for_alias(kind)), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    return np.stack([values.to_numpy() for values in table.columns], axis=1)


def _parse_tidied(text: bytes, kind: str, columns: int) -> NDArray[Any] | None:
    """Parse lines in any known format; None if that fails."""
    tidy = _tidied(text)
    if not tidy.strip():
        return np.empty((0, columns), KINDS[kind])
    rows = _parse(tidy, kind, columns)
    if rows is not None or kind in FLOATS or b"x" in tidy or b"X" in tidy:
        return rows
    floats = _parse(tidy, "float64", columns)  # whole numbers may be written as 1.0 or 1e3
    if floats is None or not (np.abs(floats) <= min(EXACT, np.iinfo(KINDS[kind]).max)).all():
        return None
    rows = floats.astype(KINDS[kind])
    return rows if np.array_equal(rows, floats) else None


def _tidied(text: bytes) -> bytes:
    """Convert lines to the standard format: commas between numbers, no blanks, plus signs or trailing commas."""
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return _PLUS.sub(rb"\1", _SEPARATOR.sub(b",", _EDGES.sub(b"", text)))


def _lines(files: TuFiles, part: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each non-blank line."""
    number = 0
    with files.open(part) as stream:
        while line := _line(files, part, stream):
            line = line if number else line.removeprefix(BOM)
            for piece in line.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                number += 1
                if text := _tidied(piece):
                    yield number, text.decode("utf-8", "replace").split(",")


def _explain(files: TuFiles, part: str, kind: str, columns: int) -> UserError:
    """The error for the first line that cannot be read."""
    for number, fields in _lines(files, part):
        place = f"{files.where(part)}, line {number}"
        if len(fields) != columns:
            return UserError(f"{place}: {counted(columns, 'value')} expected, {len(fields)} found")
        for text in fields:
            if problem := _problem(text, kind):
                return UserError(f"{place}: {problem}")
    return UserError(f"{files.where(part)} cannot be read")


def _problem(text: str, kind: str) -> str | None:
    """A description of what is wrong with a number; None if it is valid."""
    shown = excerpt(text)
    if kind in FLOATS:
        return None if NUMBER.fullmatch(text) or NOT_FINITE.fullmatch(text) else f"{shown!r} is not a number"
    if NUMBER.fullmatch(text) is None:
        return f"{shown!r} is not a whole number"
    value = float(text)
    if not math.isfinite(value) or abs(value) > np.iinfo(KINDS[kind]).max:
        return f"{shown} is too large"
    if value != int(value):
        return f"{shown!r} is not a whole number"
    plain = text.lstrip("+-").isdigit()
    return None if plain or abs(value) <= EXACT else f"{shown} is too large to be exact with a point or an exponent"
