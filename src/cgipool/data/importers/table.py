"""Tables with named columns: CSV, TSV or separated by semicolons, Parquet, and .smi, read a block at a time.

Every field is read as text; what it means is decided by who asks. Rows count from 1 after the header, and blank lines
do not count.
"""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from cgipool.data.archive import first_line
from cgipool.data.importers.text import MAX_LINE, Text
from cgipool.data.names import printable
from cgipool.errors import UserError, excerpt
from cgipool.words import counted, in_bytes

DELIMITERS = (",", "\t", ";")
SHOWN = 10
"""Columns that a message names."""


class Table(ABC):
    """A table on disk, of which only the header has been read."""

    path: Path
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What a user should know about how it was read, once it has been."""

    @abstractmethod
    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """The columns of these numbers, block after block."""

    def batches(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """The columns of these numbers, block after block, without space around a field."""
        for batch in self.as_written(*columns):
            yield [pa.compute.utf8_trim_whitespace(column) for column in batch]

    def rows(self, *columns: int, start: int = 0) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Row number and the fields of these columns, row after row; the first `start` rows are passed over."""
        yield from enumerate(rows_from(self.batches(*columns), start), start + 1)

    def count(self) -> int:
        """The number of rows, for which all of it is read."""
        return sum(len(rows) for (rows,) in self.as_written(0))

    def column(self, name: str) -> int:
        """The number of the column of this name; one that is missing or stands twice is an error."""
        places = [j for j, known in enumerate(self.columns) if known == name]
        if len(places) == 1:
            return places[0]
        if places:
            raise UserError(f"{self.path}: column {excerpt(name)!r} stands {len(places)} times in the header")
        raise UserError(f"{self.path} has no column {excerpt(name)!r}; its columns: {few(self.columns)}")

    def usual(self, names: Sequence[str]) -> int | None:
        """The first column that has one of these names, in the order of the names; upper case, spaces, underscores and
        the like do not count."""
        found = {plain(name): j for j, name in reversed(list(enumerate(self.columns)))}
        place = next((found[name] for name in names if name in found), None)
        return None if place is None else self.column(self.columns[place])


def open_table(path: Path, max_size: int | None = None) -> Table:
    """The table at a path: Parquet by its ending, .smi by its ending and its first line, text otherwise."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        from cgipool.data.importers.parquet import ParquetTable

        return ParquetTable(path, max_size)
    if name.endswith((".smi", ".smi.gz")):
        from cgipool.data.importers.smi import open_smi

        return open_smi(path, max_size)
    return TextTable(path, max_size)


class TextTable(Table):
    """A table of text. The separator is the one that gives the header most columns."""

    def __init__(self, path: Path, max_size: int | None = None) -> None:
        self.path, self._text = path, Text(path, max_size)
        start = next((block for block in self._text.blocks() if block.strip()), None)
        if start is None:
            raise UserError(f"{path} is empty")
        headers = {delimiter: self._header(start.decode("utf-8"), delimiter) for delimiter in DELIMITERS}
        self._delimiter = max(DELIMITERS, key=lambda delimiter: len(headers[delimiter]))
        self.columns = tuple(printable(name.strip()) for name in headers[self._delimiter])

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """See `Table`."""
        return (f"{self.path} is not UTF-8; it was read as Windows-1252",) if self._text.is_cp1252 else ()

    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """The columns of these numbers, block after block."""
        names = [str(j) for j in range(len(self.columns))]
        wanted = [names[j] for j in columns]
        convert = pa.csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False
        )
        parse = pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        skip = 1
        for block in self._row_blocks():
            # One thread and a buffer of pyarrow's own: its threads may outlive an error, and abort the process.
            buffer = pa.BufferReader(_copied(block))
            read = pa.csv.ReadOptions(
                column_names=names, skip_rows_after_names=skip, block_size=len(block), use_threads=False
            )
            skip = 0
            try:
                table = pa.csv.read_csv(buffer, read, parse, convert)
            except pa.ArrowInvalid as error:
                raise self._explain(error) from None
            for batch in table.to_batches():
                yield batch.columns

    def _row_blocks(self) -> Iterator[bytes]:
        """The text in whole rows, the header first, without blank lines before it."""
        rows, held, first = _rows_pattern(self._delimiter), b"", True
        for block in self._text.blocks():
            held = (held + block).lstrip(b"\r\n")
            end = len(held)
            if b'"' in held:
                match = rows.match(held)
                end = match.end() if match else 0
            if len(held) - end > MAX_LINE:
                raise UserError(f"{self.path} has a row of more than {in_bytes(MAX_LINE)}; is a quote not closed?")
            if end:
                yield held[:end]
                held, first = held[end:], False
        if held.strip(b"\r\n") or first:
            yield held

    def _header(self, text: str, delimiter: str) -> list[str]:
        try:
            return next(row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)
        except csv.Error as error:
            raise UserError(f"{self.path}: the header cannot be read: {excerpt(str(error))}") from None

    def _explain(self, error: Exception) -> UserError:
        """The error for the first row that cannot be read, which a slow scan finds."""
        try:
            lines = (f"{line}\n" for line in self._text.lines())
            rows = (row for row in csv.reader(lines, delimiter=self._delimiter) if row)
            for number, row in enumerate(rows):
                if len(row) != len(self.columns):
                    counts = f"{counted(len(self.columns), 'field')} expected, {len(row)} found"
                    return UserError(f"{self.path}, row {number}: {counts}; text with a delimiter needs quotes")
        except csv.Error:
            pass
        return UserError(f"{self.path} cannot be read: {excerpt(first_line(error))}")


def _copied(block: bytes) -> pa.Buffer:
    memory = pa.BufferOutputStream()
    memory.write(block)
    return memory.getvalue()


def _rows_pattern(delimiter: str) -> re.Pattern[bytes]:
    """Matches as many whole rows as there are. A quote opens a quoted field only at the field's beginning."""
    d = re.escape(delimiter)
    field = rf'(?:"(?:[^"]++|"")*+"[^{d}\r\n]*+|(?!")[^{d}\r\n]*+)'
    return re.compile(rf"(?:{field}(?:{d}{field})*+(?:\r\n|\r|\n))++".encode())


def rows_from(batches: Iterable[list[pa.StringArray]], start: int) -> Iterator[tuple[str, ...]]:
    """The rows of blocks of columns; the first `start` are passed over, which takes no time of Python's."""
    for batch in batches:
        skipped = min(start, len(batch[0]))
        start -= skipped
        yield from zip(*(column[skipped:].to_pylist() for column in batch), strict=True)


def plain(name: str) -> str:
    """A column name by its letters and digits alone: "Compound_ID" is "compoundid"."""
    return "".join(filter(str.isalnum, name.lower()))


def few(names: Sequence[str]) -> str:
    """Names for a message; of many only the first."""
    shown = ", ".join(excerpt(name, 60) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names):,} in all)"
