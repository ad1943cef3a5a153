"""Tables of numbers from text without a header.

pyarrow parses them block by block. Where it fails, a slow scan finds the line to name.
"""

from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from cgipool.data.archive import TextFiles
from cgipool.data.check import not_finite
from cgipool.errors import UserError
from cgipool.words import counted

BLOCK = 1 << 20

KINDS: dict[str, tuple[type, Callable[[str], float], str]] = {
    "int32": (np.int32, int, "a whole number"),
    "int64": (np.int64, int, "a whole number"),
    "float32": (np.float32, float, "a number"),
}
"""Column type → its NumPy type, how one field is read in the slow scan, and what a message calls it."""


def read_table(files: TextFiles, part: str, kind: str, columns: int | None = None) -> NDArray[Any]:
    """The rows [n, columns] of NAME_part.txt, `a, b` or `a,b` per line; as many columns as in the first line unless
    their number is given."""
    return np.concatenate(list(read_blocks(files, part, kind, columns)))


def read_blocks(files: TextFiles, part: str, kind: str, columns: int | None = None) -> Iterator[NDArray[Any]]:
    """The same rows, block after block; of an empty file one block without rows."""
    first = next((fields for _, fields in _lines(files, part)), None)
    width = columns or len(first or "1")
    if first is None:
        yield np.empty((0, width), KINDS[kind][0])
        return
    try:
        with files.open(part) as stream:
            while text := _block(stream):
                yield np.stack([values.to_numpy() for values in _parse(text, kind, width).columns], axis=1)
    except pa.ArrowInvalid as error:
        raise _explain(files, part, kind, width, error) from None


class Rows:
    """The rows of NAME_part.txt in order, as many at a time as are asked for; one is due for each of so many things."""

    def __init__(self, files: TextFiles, part: str, kind: str, wanted: int, things: str) -> None:
        self._files, self._part, self._kind = files, part, kind
        self._wanted, self._things = wanted, things
        self._blocks = read_blocks(files, part, kind)
        self._held = [next(self._blocks)]
        self._taken = 0

    def take(self, count: int) -> NDArray[Any]:
        """The next rows. An error where the file ends before, or goes on after the last that is due."""
        while sum(map(len, self._held)) < count and (block := next(self._blocks, None)) is not None:
            self._held.append(block)
        held = np.concatenate(self._held)
        rows, self._held = held[:count], [held[count:]]
        self._taken += len(rows)
        if len(rows) < count:
            last = line_of_row(self._files, self._part, self._taken - 1) if self._taken else 0
            ends = f"{self._files.where(self._part)} ends at line {last}"
            raise UserError(f"{ends}: {counted(self._taken, 'row')} for {self._wanted} {self._things}")
        if self._taken == self._wanted and (len(held) > count or next(self._blocks, None) is not None):
            raise at_row(self._files, self._part, self._wanted, f"there are only {self._wanted} {self._things}")
        if self._kind == "float32" and not np.isfinite(rows).all():
            raise self._not_finite()
        return rows

    def _not_finite(self) -> UserError:
        bad = sum((~np.isfinite(block)).sum(axis=0) for block in read_blocks(self._files, self._part, self._kind))
        column = int(np.flatnonzero(bad)[0])
        where = f"column {column} of {self._files.where(self._part)}"
        return UserError(f"{where} holds {not_finite(int(bad[column]))}")


def at_row(files: TextFiles, part: str, row: int, problem: str) -> UserError:
    """The error for a row, counted from 0; it names the line."""
    return UserError(f"{files.where(part)}, line {line_of_row(files, part, row)}: {problem}")


def line_of_row(files: TextFiles, part: str, row: int) -> int:
    """The 1-based line that row (0-based) of a parsed table stands on; blank lines are no rows."""
    for count, (line, _) in enumerate(_lines(files, part)):
        if count == row:
            return line
    raise UserError(f"{files.where(part)} changed while it was read")


def _block(stream: IO[bytes]) -> pa.Buffer:
    """The next whole lines, in memory of pyarrow's own. Its threads may outlive an error by an instant: were the memory
    or the stream Python's, letting go of it while the interpreter ends would abort the process."""
    memory = pa.BufferOutputStream()
    memory.write(stream.read(BLOCK))
    memory.write(stream.readline())
    return memory.getvalue()


def _parse(text: pa.Buffer, kind: str, columns: int) -> pa.Table:
    names = [str(j) for j in range(columns)]
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=names, block_size=len(text), use_threads=False),
        csv.ParseOptions(quote_char=False),
        csv.ConvertOptions(column_types=dict.fromkeys(names, pa.type_for_alias(kind)), null_values=[]),
    )


def _lines(files: TextFiles, part: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that is not blank."""
    with files.open(part) as stream:
        for number, line in enumerate(stream, start=1):
            if text := line.decode("utf-8", "replace").rstrip("\r\n"):
                yield number, text.split(",")


def _explain(files: TextFiles, part: str, kind: str, columns: int, error: Exception) -> UserError:
    """The error for the first line that cannot be read."""
    dtype, read, wanted = KINDS[kind]
    for number, fields in _lines(files, part):
        place = f"{files.where(part)}, line {number}"
        if len(fields) != columns:
            return UserError(f"{place}: {counted(columns, 'value')} expected, {len(fields)} found")
        for text in fields:
            try:
                value = read(text)
            except ValueError:
                return UserError(f"{place}: {text.strip()!r} is not {wanted}")
            if dtype is not np.float32 and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                return UserError(f"{place}: {text.strip()} is too large")
    return UserError(f"{files.where(part)} cannot be read: {str(error).splitlines()[0]}")
