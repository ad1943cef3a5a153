"""Intermediate data of an import: arrays in memory or, where data may be larger than memory, in temporary files."""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

ImportProgress = Callable[[str, int], None]
"""Called with what is being read ("nodes", "edges", "graphs") and how many there are so far."""


def no_progress(what: str, count: int) -> None:
    """Ignore progress."""


def nameless(folder: Path) -> IO[bytes]:
    """A temporary file without a name, which is deleted when it is closed and no longer mapped."""
    return tempfile.TemporaryFile(dir=folder)


class Work(NamedTuple):
    """Where a reader stores intermediate data, and where it reports progress."""

    folder: Path | None = None
    """For temporary files; None to hold everything in memory."""
    tell: ImportProgress = no_progress
    jobs: int = 1
    """The number of processes that read molecules."""

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array with undefined values."""
        if self.folder is None or 0 in shape:
            return np.empty(shape, dtype)
        with nameless(self.folder) as file:
            if hasattr(os, "posix_fallocate"):
                # On a full disk this fails here; without it, writing to the map would end the process.
                os.posix_fallocate(file.fileno(), 0, int(np.prod(shape)) * np.dtype(dtype).itemsize)
            return np.memmap(file, dtype, "r+", shape=shape)


IN_MEMORY = Work()
"""Holds everything in memory and reports no progress."""


class Pile:
    """Rows of one type [n, …] that are appended block by block; a context manager that closes the file on exit."""

    def __init__(self, work: Work) -> None:
        self._blocks: list[NDArray[Any]] = []
        self._open, self._file = ExitStack(), None
        if work.folder is not None:
            self._file = self._open.enter_context(nameless(work.folder))
        self._rows = 0

    def __enter__(self) -> "Pile":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows; all must have the same shape but for their number."""
        self._rows += len(rows)
        if self._file is None:
            self._blocks.append(rows)
        else:
            self._blocks = [rows[:0]]
            np.ascontiguousarray(rows).tofile(self._file)

    def blocks(self) -> list[NDArray[Any]]:
        """All rows, in one block or several."""
        return self._blocks if self._file is None else [self.whole()]

    def whole(self) -> NDArray[Any]:
        """All rows; at least one block must have been added."""
        form = self._blocks[0]
        if self._file is None or not self._rows:
            return np.concatenate(self._blocks)
        self._file.flush()
        return np.memmap(self._file, form.dtype, "r", shape=(self._rows, *form.shape[1:]))
