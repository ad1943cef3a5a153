"""Parquet files as tables of text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cgipool.data.importers.table import Table
from cgipool.data.importers.text import FREE, MAX_LINE, MAX_SIZE, RATIO
from cgipool.data.names import printable
from cgipool.errors import UserError, excerpt
from cgipool.files import check_regular, parsing
from cgipool.words import in_bytes

ROWS = 4096
"""Rows that are read at a time."""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    with parsing(path):
        try:
            yield
        except pa.ArrowException as error:
            raise UserError(f"{path} cannot be read: {excerpt(str(error))}") from None


class ParquetTable(Table):
    """A Parquet file. Missing values are empty texts; lists and structs cannot be read."""

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
        """The columns of these numbers, block after block."""
        fields = [self._schema.field(j) for j in columns]
        for field in fields:
            if pa.types.is_nested(field.type):
                raise _not_text(self.path, field.name, field.type)
        wanted = [field.name for field in fields]
        texts = [field.name for field in fields if _is_text(field.type)]
        # By read_dictionary a text that a small file repeats often is held once, until its length is known.
        with _reading(self.path), pq.ParquetFile(self.path, read_dictionary=texts, pre_buffer=False) as file:
            for batch in file.iter_batches(ROWS, columns=wanted, use_threads=False):
                yield [self._text(batch.column(name), name) for name in wanted]

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


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _not_text(path: Path, name: str, kind: pa.DataType) -> UserError:
    return UserError(f"{path}: column {excerpt(name)!r} holds {excerpt(str(kind))}, which is not text")
