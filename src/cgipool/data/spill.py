"""What an import holds meanwhile: arrays in memory or, where data may be larger than that, in nameless files."""

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


def nobody(what: str, count: int) -> None:
    """Is told and says nothing."""


def nameless(folder: Path) -> IO[bytes]:
    """A file without a name, gone when it is closed and no longer mapped."""
    return tempfile.TemporaryFile(dir=folder)


class Work(NamedTuple):
    """Where a reader puts what it must hold, and whom it tells how far it is."""

    folder: Path | None = None
    """For files that vanish when they are done with; None to hold everything in memory."""
    tell: ImportProgress = nobody

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array to be filled."""
        if self.folder is None or 0 in shape:
            return np.empty(shape, dtype)
        with nameless(self.folder) as file:
            if hasattr(os, "posix_fallocate"):
                # On a full disk this fails; writing to a page that has no place would end the process.
                os.posix_fallocate(file.fileno(), 0, int(np.prod(shape)) * np.dtype(dtype).itemsize)
            return np.memmap(file, dtype, "r+", shape=shape)


IN_MEMORY = Work()
"""Holds everything in memory, and tells nobody."""


class Pile:
    """Rows of one type [n, …], put one after another until the whole is asked for; a context that ends with that."""

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

    def whole(self) -> NDArray[Any]:
        """All rows; at least one block must have been added."""
        form = self._blocks[0]
        if self._file is None or not self._rows:
            return np.concatenate(self._blocks)
        self._file.flush()
        return np.memmap(self._file, form.dtype, "r", shape=(self._rows, *form.shape[1:]))
