"""Tables with a header: CSV, TSV or separated by semicolons, plain or compressed, read a block at a time.

Every field is read as text; what it means is decided by who asks. Rows count from 1 after the header, and blank lines
do not count.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from cgipool.data.archive import first_line
from cgipool.errors import UserError
from cgipool.words import counted

BLOCK = 1 << 22
"""Bytes read at a time; also the longest row that can be read."""

DELIMITERS = (",", "\t", ";")
SHOWN = 10
"""Columns that a message names."""


class Table:
    """A table on disk, of which only the header has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        headers = {delimiter: self._header(delimiter) for delimiter in DELIMITERS}
        self.delimiter = max(DELIMITERS, key=lambda delimiter: len(headers[delimiter]))
        self.columns: tuple[str, ...] = tuple(name.strip() for name in headers[self.delimiter])

    def batches(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """The columns of these numbers, block after block, without space around a field."""
        for batch in self.as_written(*columns):
            yield [pa.compute.utf8_trim_whitespace(column) for column in batch]

    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """The columns of these numbers, block after block."""
        names = [str(j) for j in range(len(self.columns))]
        wanted = [names[j] for j in columns]
        try:
            with pa.input_stream(str(self.path)) as stream:
                reader = pa.csv.open_csv(
                    stream,
                    pa.csv.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=BLOCK),
                    pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    pa.csv.ConvertOptions(
                        include_columns=wanted,
                        column_types=dict.fromkeys(wanted, pa.string()),
                        strings_can_be_null=False,
                    ),
                )
                for batch in reader:
                    yield batch.columns
        except pa.ArrowInvalid as error:
            raise self._explain(error) from None
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror or first_line(error)}") from None

    def rows(self, *columns: int, start: int = 0) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Row number and the fields of these columns, row after row; the first `start` rows are passed over."""
        yield from enumerate(rows_from(self.batches(*columns), start), start + 1)

    def column(self, name: str) -> int:
        """The number of the column of this name; one that is missing or stands twice is an error."""
        places = [j for j, known in enumerate(self.columns) if known == name]
        if len(places) == 1:
            return places[0]
        if places:
            raise UserError(f"{self.path}: column {name!r} stands {len(places)} times in the header")
        raise UserError(f"{self.path} has no column {name!r}; its columns: {few(self.columns)}")

    def _header(self, delimiter: str) -> list[str]:
        try:
            return next(self._slowly(delimiter))
        except StopIteration:
            raise UserError(f"{self.path} is empty") from None
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror or first_line(error)}") from None
        except (UnicodeDecodeError, csv.Error):
            raise UserError(f"{self.path} is not UTF-8 text") from None

    def _slowly(self, delimiter: str) -> Iterator[list[str]]:
        """All rows, the header first, as Python reads them."""
        with pa.input_stream(str(self.path)) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            yield from (row for row in csv.reader(text, delimiter=delimiter) if row)

    def _explain(self, error: Exception) -> UserError:
        """The error for the first row that cannot be read, which a slow scan finds."""
        try:
            for number, row in enumerate(self._slowly(self.delimiter)):
                if len(row) != len(self.columns):
                    counts = f"{counted(len(self.columns), 'field')} expected, {len(row)} found"
                    return UserError(f"{self.path}, row {number}: {counts}; text with a delimiter needs quotes")
        except UnicodeDecodeError:
            return UserError(f"{self.path} is not UTF-8 text")
        except (OSError, csv.Error):
            pass
        return UserError(f"{self.path} cannot be read: {first_line(error)}")


def rows_from(batches: Iterable[list[pa.StringArray]], start: int) -> Iterator[tuple[str, ...]]:
    """The rows of blocks of columns; the first `start` are passed over, which takes no time of Python's."""
    for batch in batches:
        skipped = min(start, len(batch[0]))
        start -= skipped
        yield from zip(*(column[skipped:].to_pylist() for column in batch), strict=True)


def few(names: Sequence[str]) -> str:
    """Names for a message; of many only the first."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names):,} in all)"
