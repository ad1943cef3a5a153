"""The rows of edges.csv or nodes.csv, grouped by consecutive graphs, so that each group can be read by itself."""

from array import array
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cgipool.data.importers.table import open_table
from cgipool.data.spill import Work, nameless
from cgipool.errors import UserError, excerpt

Ints = NDArray[np.int64]


class Bucket(NamedTuple):
    """The rows of one range of graphs, in file order."""

    path: Path
    row: Ints
    """The number of each row, from 1."""
    graph: Ints
    """The number of the graph of each row."""
    named: list[pa.ChunkedArray]
    """The columns with the names of nodes."""
    further: list[pa.ChunkedArray]
    """The other columns, as text."""


class Divided:
    """A table with a column `graph`, divided into ranges of graphs. Rows of graphs without a number are skipped.

    It is a context manager, because its rows may be in a temporary file.
    """

    def __init__(
        self,
        path: Path,
        named: tuple[str, ...],
        number: dict[str, int],
        cuts: Ints,
        work: Work,
        max_size: int | None = None,
    ) -> None:
        self.path, self._named, self._number, self.cuts = path, named, number, cuts
        table = open_table(path, max_size)
        first = ("graph", *named)
        self.further = [column for column in table.columns if column not in first]
        columns = [table.column(column) for column in (*first, *self.further)]
        self._kinds = {name: _Kind() for name in self.further}
        texts = [str(j) for j in range(len(named) + len(self.further))]
        fields = [("row", pa.int64()), ("graph", pa.int64()), *((name, pa.string()) for name in texts)]
        self._schema = pa.schema(fields)
        with ExitStack() as stack:
            self._batches = stack.enter_context(_Batches(self._schema, len(cuts) - 1, work))
            before = 0
            for graph, *rest in table.batches(*columns):
                self._add(graph, rest, before)
                before += len(graph)
                work.tell("rows", before)
            self._open = stack.pop_all()

    def __enter__(self) -> "Divided":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def bucket(self, number: int) -> Bucket:
        """The rows of the graphs from cuts[number] up to cuts[number + 1]."""
        table = pa.Table.from_batches(self._batches.of(number), self._schema)
        row, graph, *texts = table.columns
        count = len(self._named)
        return Bucket(self.path, row.to_numpy(), graph.to_numpy(), texts[:count], texts[count:])

    def is_float(self, name: str, any_number: bool) -> bool:
        """Whether a column contains only numbers and, unless `any_number`, some that are not whole. False for
        `label`."""
        kind = self._kinds[name]
        if any_number and not kind.numbers:
            raise UserError(f"{self.path}: column {excerpt(name)!r} must hold numbers")
        return name != "label" and kind.numbers and (any_number or kind.floating)

    def _add(self, graph: pa.Array, texts: list[pa.Array], before: int) -> None:
        numbers = self._numbers(graph, before)
        for name, text in zip(self.further, texts[len(self._named) :], strict=True):
            if (blank := pc.equal(text, "").to_numpy(zero_copy_only=False)).any():
                raise UserError(
                    f"{self.path}, row {before + int(np.argmax(blank)) + 1}: column {excerpt(name)!r} is empty"
                )
            self._kinds[name].look(text)
        bucket = np.searchsorted(self.cuts, numbers, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        order = order[np.count_nonzero(bucket < 0) :]
        rows = pa.array(before + 1 + np.arange(len(graph)))
        batch = pa.RecordBatch.from_arrays([rows, pa.array(numbers), *texts], schema=self._schema)
        batch, bucket = batch.take(pa.array(order)), bucket[order]
        starts = np.flatnonzero(np.diff(bucket, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(bucket)], strict=True):
            self._batches.append(int(bucket[start]), batch.slice(start, stop - start))

    def _numbers(self, column: pa.Array, before: int) -> Ints:
        """[rows] the number of each row's graph; −1 for a graph without a number."""
        coded = column.dictionary_encode()
        number = [self._number.get(identity, -2) for identity in coded.dictionary.to_pylist()]
        graph = np.array(number, dtype=np.int64)[coded.indices.to_numpy()]
        if (unknown := graph == -2).any():
            row = int(np.argmax(unknown))
            raise UserError(
                f"{self.path}, row {before + row + 1}: graph {excerpt(column[row].as_py())!r} is not in graphs.csv"
            )
        return graph


class _Kind:
    """The type of the values of a column, in the rows read so far."""

    def __init__(self) -> None:
        self.numbers, self.floating = True, False

    def look(self, text: pa.Array) -> None:
        if self.numbers:
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                self.numbers = False
        self.floating = self.floating or bool(pc.any(pc.match_substring_regex(text, "[^0-9+-]")).as_py())


class _Batches:
    """Batches of rows by bucket, in memory or in one temporary file; a context manager."""

    def __init__(self, schema: pa.Schema, buckets: int, work: Work) -> None:
        self._schema = schema
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]
        self._ends = [array("q") for _ in range(buckets)]
        """By bucket, start and end in the file of each of its batches."""
        self._file = None if work.folder is None else nameless(work.folder)

    def __enter__(self) -> "_Batches":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, bucket: int, batch: pa.RecordBatch) -> None:
        if self._file is None:
            self._held[bucket].append(batch)
        else:
            start = self._file.tell()
            self._file.write(batch.serialize())
            self._ends[bucket].extend((start, self._file.tell()))

    def of(self, bucket: int) -> list[pa.RecordBatch]:
        """The batches of a bucket."""
        if self._file is None:
            return self._held[bucket]
        found, ends = [], iter(self._ends[bucket])
        for start, end in zip(ends, ends, strict=True):
            self._file.seek(start)
            found.append(pa.ipc.read_record_batch(pa.py_buffer(self._file.read(end - start)), self._schema))
        return found
