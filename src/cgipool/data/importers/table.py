"""Tables with named columns, read a block at a time: CSV, TSV, .smi and Parquet, plain or compressed."""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cgipool.data.archive import first_line
from cgipool.data.further import few
from cgipool.data.importers.text import FREE, MAX_LINE, MAX_SIZE, RATIO, TextFile
from cgipool.data.names import printable
from cgipool.errors import UserError, counted, excerpt, in_bytes
from cgipool.files import check_regular, parsing

DELIMITERS = (",", "\t", ";")


class Table(ABC):
    """A table on disk. Only the header is read when it is opened."""

    path: Path
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What a user should know about how it was read; complete after the last row."""

    @abstractmethod
    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """Yield the columns with these numbers, block by block."""

    def batches(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """Yield the columns with these numbers, block by block, without white space around a field."""
        for batch in self.as_written(*columns):
            yield [pa.compute.utf8_trim_whitespace(column) for column in batch]

    def rows(self, *columns: int, start: int = 0) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the row number, from 1, and the fields of these columns, row by row, after skipping `start` rows."""
        yield from enumerate(rows_from(self.batches(*columns), start), start + 1)

    @property
    def readable(self) -> tuple[str, ...]:
        """The names of the columns that can be read as text."""
        return self.columns

    def count(self) -> int:
        """The number of rows; reads the whole table."""
        return sum(len(rows) for (rows,) in self.as_written(0))

    def column(self, name: str) -> int:
        """The number of the column with this name, which must occur once."""
        places = [j for j, known in enumerate(self.columns) if known == name]
        if len(places) == 1:
            return places[0]
        if places:
            raise UserError(f"{self.path}: column {excerpt(name)!r} appears {len(places)} times in the header")
        raise UserError(f"{self.path} has no column {excerpt(name)!r}; its columns: {few(self.columns)}")

    def usual(self, names: Sequence[str]) -> int | None:
        """The number of the column with the first of these names that occurs, comparing letters and digits only and
        ignoring case."""
        found = {plain(name): j for j, name in reversed(list(enumerate(self.columns)))}
        place = next((found[name] for name in names if name in found), None)
        return None if place is None else self.column(self.columns[place])


def open_table(path: Path, max_size: int | None = None) -> Table:
    """Open a table: Parquet by the ending, .smi by the ending and the first line, text otherwise."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        return ParquetTable(path, max_size)
    if name.endswith((".smi", ".smi.gz")):
        return open_smi(path, max_size)
    return TextTable(path, max_size)


class TextTable(Table):
    """A table of text. The delimiter is the one that splits the header into the most columns."""

    def __init__(self, path: Path, max_size: int | None = None) -> None:
        self.path, self._text = path, TextFile(path, max_size)
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
        """Yield the columns with these numbers, block by block."""
        names = [str(j) for j in range(len(self.columns))]
        wanted = [names[j] for j in columns]
        convert = pa.csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False
        )
        parse = pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        skip = 1
        for block in self._row_blocks():
            # One thread, and a buffer that pyarrow owns: its threads may outlive an error and abort the process.
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
        """Yield the text in whole rows, starting with the header."""
        rows, text, first = _rows_pattern(self._delimiter), b"", True
        for block in self._text.blocks():
            text = (text + block).lstrip(b"\r\n")
            end = len(text)
            if b'"' in text:
                match = rows.match(text)
                end = match.end() if match else 0
            if len(text) - end > MAX_LINE:
                raise UserError(f"{self.path} has a row of more than {in_bytes(MAX_LINE)}; is a quote not closed?")
            if end:
                yield text[:end]
                text, first = text[end:], False
        if text.strip(b"\r\n") or first:
            yield text

    def _header(self, text: str, delimiter: str) -> list[str]:
        try:
            return next(row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)
        except csv.Error as error:
            raise UserError(f"{self.path}: the header cannot be read: {excerpt(str(error))}") from None

    def _explain(self, error: Exception) -> UserError:
        """Scan for the first row that cannot be read, and return the error for it."""
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
    """A pattern that matches all whole rows. A quote opens a quoted field only at the beginning of the field."""
    d = re.escape(delimiter)
    field = rf'(?:"(?:[^"]++|"")*+"[^{d}\r\n]*+|(?!")[^{d}\r\n]*+)'
    return re.compile(rf"(?:{field}(?:{d}{field})*+(?:\r\n|\r|\n))++".encode())


def rows_from(batches: Iterable[list[pa.StringArray]], start: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of blocks of columns, after skipping `start` rows without converting them."""
    for batch in batches:
        skipped = min(start, len(batch[0]))
        start -= skipped
        yield from zip(*(column[skipped:].to_pylist() for column in batch), strict=True)


def plain(name: str) -> str:
    """A column name reduced to lower-case letters and digits: "Compound_ID" is "compoundid"."""
    return "".join(filter(str.isalnum, name.lower()))


COLUMNS = ("smiles", "id")
LINES = 1 << 14
"""Lines in a block."""

HEADERS = ("smiles", "canonicalsmiles", "isomericsmiles")
"""First words of a header line. None of them is a SMILES."""


def open_smi(path: Path, max_size: int | None = None) -> Table:
    """Open a .smi file. If its first line is a header of several columns, it is read as a table with a delimiter."""
    first = next((line for line in TextFile(path, max_size).lines() if line.strip()), None)
    if first is None:
        raise UserError(f"{path} is empty")
    headed = plain((first.replace(",", " ").replace(";", " ").split() or [""])[0]) in HEADERS
    if headed and any(delimiter in first for delimiter in DELIMITERS):
        return TextTable(path, max_size)
    return SmiTable(path, headed, max_size)


class SmiTable(Table):
    """Lines with a SMILES and, optionally, a name."""

    columns = COLUMNS

    def __init__(self, path: Path, headed: bool, max_size: int | None = None) -> None:
        self.path, self._headed, self._text = path, headed, TextFile(path, max_size)

    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """Yield the columns with these numbers, block by block."""
        filled = (line for line in self._text.lines() if line.strip())
        lines = islice(filled, int(self._headed), None)
        while some := [[*line.split(maxsplit=1), ""][:2] for line in islice(lines, LINES)]:
            yield [pa.array([fields[j] for fields in some], pa.string()) for j in columns]


ROWS = 4096
"""Rows to read at a time."""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    with parsing(path):
        try:
            yield
        except pa.ArrowException as error:
            raise UserError(f"{path} cannot be read: {excerpt(str(error))}") from None


class ParquetTable(Table):
    """A Parquet file. Missing values are read as empty text; lists and structs cannot be read."""

    def __init__(self, path: Path, max_size: int | None = None) -> None:
        self.path = path
        check_regular(path)
        with _reading(path):
            about = pq.read_metadata(path)
            self._schema = pq.read_schema(path)
            claimed = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        self.columns = tuple(printable(name.strip()) for name in self._schema.names)
        limit = max_size or min(MAX_SIZE, max(FREE, RATIO * path.stat().st_size))
        if claimed > limit:
            raise UserError(f"{path} expands to more than {in_bytes(limit)}, which is refused; --max-size allows more")

    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """Yield the columns with these numbers, block by block."""
        fields = [self._schema.field(j) for j in columns]
        for field in fields:
            if pa.types.is_nested(field.type):
                raise _not_text(self.path, field.name, field.type)
        wanted = [field.name for field in fields]
        texts = [field.name for field in fields if _is_text(field.type)]
        # With read_dictionary, a repeated text is stored once until its length is known.
        with _reading(self.path), pq.ParquetFile(self.path, read_dictionary=texts, pre_buffer=False) as file:
            for batch in file.iter_batches(ROWS, columns=wanted, use_threads=False):
                yield [self._text(batch.column(name), name) for name in wanted]

    @property
    def readable(self) -> tuple[str, ...]:
        """The names of the columns with text, numbers, dates or Booleans."""
        types = zip(self.columns, self._schema.types, strict=True)
        return tuple(name for name, kind in types if _is_text(kind) or any(is_plain(kind) for is_plain in PLAIN))

    def _text(self, column: pa.Array, name: str) -> pa.StringArray:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary.cast(pa.binary())).take(column.indices)
            if (pc.sum(lengths).as_py() or 0) > 16 * MAX_LINE or (pc.max(lengths).as_py() or 0) > MAX_LINE:
                raise UserError(f"{self.path}: column {excerpt(name)!r} has texts that are too long")
            column = column.dictionary_decode()
        try:
            return pc.fill_null(column.cast(pa.string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _not_text(self.path, name, column.type) from None


PLAIN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _not_text(path: Path, name: str, kind: pa.DataType) -> UserError:
    return UserError(f"{path}: column {excerpt(name)!r} holds {excerpt(str(kind))}, which is not text")
