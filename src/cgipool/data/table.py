"""Tables of numbers from text without a header.

pyarrow parses one block while the next is decompressed. Where it fails, a slow scan finds the line to name.
"""

from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from cgipool.data.archive import TextFiles
from cgipool.errors import UserError

BLOCK = 1 << 20

KINDS: dict[str, tuple[type, Callable[[str], float], str]] = {
    "int32": (np.int32, int, "a whole number"),
    "int64": (np.int64, int, "a whole number"),
    "float32": (np.float32, float, "a number"),
}
"""Column type → its NumPy type, how one field is read in the slow scan, and what a message calls it."""


def read_table(files: TextFiles, part: str, kind: str, columns: int | None = None) -> list[NDArray[Any]]:
    """The columns of NAME_part.txt, `a, b` or `a,b` per line; their number is that of the first line unless given."""
    dtype = KINDS[kind][0]
    first = next((fields for _, fields in _lines(files, part)), None)
    if first is None:
        return [np.empty(0, dtype)] * (columns or 1)
    columns = columns or len(first)
    blocks: list[list[NDArray[Any]]] = [[] for _ in range(columns)]
    try:
        with files.open(part) as stream:
            for batch in _parse(stream, kind, columns):
                for column, values in zip(blocks, batch.columns, strict=True):
                    column.append(values.to_numpy())
    except pa.ArrowInvalid as error:
        raise _explain(files, part, kind, columns, error) from None
    return [np.concatenate(column) for column in blocks]


def line_of_row(files: TextFiles, part: str, row: int) -> int:
    """The 1-based line that row (0-based) of a parsed table stands on; blank lines are no rows."""
    for count, (line, _) in enumerate(_lines(files, part)):
        if count == row:
            return line
    raise UserError(f"{files.where(part)} changed while it was read")


def _parse(stream: IO[bytes], kind: str, columns: int) -> Iterator[pa.RecordBatch]:
    names = [str(j) for j in range(columns)]
    return csv.open_csv(
        stream,
        csv.ReadOptions(column_names=names, block_size=BLOCK),
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
            return UserError(f"{place}: {columns} values expected, {len(fields)} found")
        for text in fields:
            try:
                value = read(text)
            except ValueError:
                return UserError(f"{place}: {text.strip()!r} is not {wanted}")
            if dtype is not np.float32 and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                return UserError(f"{place}: {text.strip()} is too large")
    return UserError(f"{files.where(part)} cannot be read: {str(error).splitlines()[0]}")
