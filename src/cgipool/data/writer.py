"""Write a saved GraphSet part by part. Only names and counts are kept in memory."""

import json
import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import SAVED
from cgipool.data.digests import of_files
from cgipool.data.further import names_of
from cgipool.data.join import COLUMNS, Union, check_same_columns, shared_columns
from cgipool.data.names import Names
from cgipool.errors import UserError
from cgipool.files import DIGEST, sealed, write_json

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

FORMAT = 2
"""Format 1 had no digests."""
INDEX, FEATURES = "graphset.json", "features.json"
STRETCH = 1 << 20
"""Rows to recode at a time."""


class GraphSetWriter:
    """Writes a set into an empty folder; a context manager that completes the files on exit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._arrays: dict[str, _Growing] = {}
        self._first: GraphSet | None = None
        """The first part without its graphs; the other parts must have the same columns."""
        self._names = {"category": Union(), "edge_category": Union()}
        self._columns: dict[str, Names] | None = None
        """The column names on which all parts agree."""
        self._dropped: Counter[str] = Counter()
        self.n_graphs = 0
        self._nodes = self._edges = 0

    def __enter__(self) -> "GraphSetWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._files:
            if kind is None:
                self._finish()

    def append(self, graphs: "GraphSet") -> None:
        """Append the graphs of a set, which must have the same class names and columns."""
        if self._first is None:
            self._first = graphs.subset([])
            for name, start in (("node_ptr", self._nodes), ("edge_ptr", self._edges)):
                self._array(name, graphs).append(np.array([start]))
        check_same_columns(self._first, graphs)
        if names_of(graphs) != names_of(self._first):
            raise UserError(f"{self._first.name} and {graphs.name} have different further columns")
        self._pointer("node_ptr", graphs, self._nodes)
        self._pointer("edge_ptr", graphs, self._edges)
        for name in ("edge_disp", "y", *COLUMNS):
            values = getattr(graphs, name)
            if values is not None:
                union = self._names.get(name)
                coded = values if union is None else union.add(values, getattr(graphs, f"{name}_names"))
                self._array(name, graphs).append(coded)
        self._append_texts("graph_ids", graphs, self.n_graphs, graphs.n_graphs)
        self._append_texts("node_names", graphs, self._nodes, graphs.n_nodes)
        width = len(names_of(graphs))
        self._append_texts("table", graphs, self.n_graphs * width, graphs.n_graphs * width)
        self._columns = shared_columns([graphs]) if self._columns is None else self._columns
        self._columns = {what: names for what, names in self._columns.items() if graphs.column_names.get(what) == names}
        self._dropped.update(graphs.dropped)
        self.n_graphs += graphs.n_graphs
        self._nodes += graphs.n_nodes
        self._edges += graphs.n_edges

    def _finish(self) -> None:
        """Sort the label codes by name and write the index."""
        if self._first is None:
            raise UserError("there are no graphs to save")
        self._drop_empty_texts()
        for array in self._arrays.values():
            array.finish()
        for name, union in self._names.items():
            if name in self._arrays and self._arrays[name].shape[0] and not union.is_ordered:
                self._put_in_order(name, union)
        for array in self._arrays.values():
            array.sync()
        digests = of_files(self._folder, self._arrays)
        index = {
            "format": FORMAT,
            "name": self._first.name,
            "class_names": self._first.class_names,
            "category_names": self._names["category"].names,
            "edge_category_names": self._names["edge_category"].names,
            "column_names": self._columns,
            "dropped": dict(self._dropped),
            "arrays": {
                name: {
                    "dtype": str(self._arrays[name].dtype),
                    "shape": self._arrays[name].shape,
                    DIGEST: digests[name],
                }
                for name in SAVED
                if name in self._arrays
            },
            "featurizer": self._first.featurizer,
        }
        if self._first.task != "classification":
            index["task"] = self._first.task
        if self._first.directed:
            index["directed"] = True
        if self._first.featurizer is not None:
            write_json(self._folder / FEATURES, self._first.featurizer)
        with (self._folder / INDEX).open("w", encoding="utf-8") as file:
            file.write(json.dumps(sealed(index), indent=1))
            file.flush()
            os.fsync(file.fileno())

    def _array(self, name: str, graphs: "GraphSet") -> "_Growing":
        values = getattr(graphs, name)
        return self._growing(name, values.dtype, values.shape[1:])

    def _growing(self, name: str, dtype: Any, row: tuple[int, ...] = ()) -> "_Growing":
        if name not in self._arrays:
            file = self._files.enter_context((self._folder / f"{name}.npy").open("wb"))
            self._arrays[name] = _Growing(file, np.dtype(dtype), row)
        return self._arrays[name]

    def _append_texts(self, what: str, graphs: "GraphSet", before: int, count: int) -> None:
        """Add the texts of a part. For parts without texts they are empty."""
        texts = getattr(graphs, what)
        if texts is None and what not in self._arrays:
            return
        if what not in self._arrays:
            self._growing(f"{what}_ptr", np.int64).append(np.zeros(before + 1, np.int64))
        end = self._growing(what, np.uint8).shape[0]
        ends = np.zeros(count, np.int64) if texts is None else texts.ptr[1:]
        self._arrays[f"{what}_ptr"].append(ends + end)
        if texts is not None:
            self._arrays[what].append(texts.data)

    def _drop_empty_texts(self) -> None:
        for what in ("graph_ids", "node_names"):
            if what in self._arrays and not self._arrays[what].shape[0]:
                for name in (what, f"{what}_ptr"):
                    del self._arrays[name]
                    (self._folder / f"{name}.npy").unlink()

    def _pointer(self, name: str, graphs: "GraphSet", start: int) -> None:
        values = getattr(graphs, name)[1:]
        self._arrays[name].append(values + start if start else values)

    def _put_in_order(self, name: str, union: Union) -> None:
        codes = np.lib.format.open_memmap(self._folder / f"{name}.npy", mode="r+")
        for start in range(0, len(codes), STRETCH):
            stretch = slice(start, start + STRETCH)
            codes[stretch] = union.in_order(codes[stretch])
        codes.flush()


class _Growing:
    """A .npy file that rows are appended to. NumPy's header has room for the number of rows to grow."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any], row: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape: tuple[int, ...] = (0, *row)
        self._file = file
        self._write_header()
        self._start = self._file.tell()

    def append(self, rows: NDArray[Any]) -> None:
        np.ascontiguousarray(rows, self.dtype).tofile(self._file)
        self.shape = (self.shape[0] + len(rows), *self.shape[1:])

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._start, "the header of an array is too large"
        self._file.flush()

    def sync(self) -> None:
        """Flush the file to disk, so that a power failure cannot leave a complete folder with empty files."""
        os.fsync(self._file.fileno())

    def _write_header(self) -> None:
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self._file, about)
