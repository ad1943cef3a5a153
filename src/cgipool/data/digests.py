"""SHA-256 digests of saved sets: of each array, and of the whole content.

A full check reads every byte, which takes longer than loading. A successful check is therefore recorded in the cache
folder, with the size, times and inode of every file. While these are unchanged, the files are not hashed again. For a
set that is read into memory, a check is valid for a day, so that disk errors are found too.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.caches import cache_folder
from cgipool.data.check import DTYPES
from cgipool.errors import UserError
from cgipool.files import DIGEST, read_json, sealed, start_of_data, unsealed, write_json

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

VALID = 24 * 3600.0
"""Seconds for which a check is valid, for a set that is read into memory."""

SETTLED = 2.0
"""Seconds after its last change until a file's times identify its content, because file times are coarse."""

STRETCH = 1 << 20


def of_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of the values in several .npy files, without the headers, which differ between NumPy versions.
    Hashing releases the interpreter lock, so threads are faster.
    """
    names = list(names)
    with ExitStack() as stack, ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        files = [stack.enter_context((folder / f"{name}.npy").open("rb")) for name in names]
        for file in files:  # not in threads: NumPy parses headers with ast, which can crash in a thread on Python 3.11
            start_of_data(file)
        digests = pool.map(lambda file: hashlib.file_digest(file, "sha256").hexdigest(), files)
        return dict(zip(names, digests, strict=True))


def of_array(values: NDArray[Any]) -> str:
    """The digest that `of_files` returns for these values after they are saved."""
    digest = hashlib.sha256()
    for start in range(0, len(values), STRETCH):  # the array may be mapped, and larger than memory
        digest.update(np.ascontiguousarray(values[start : start + STRETCH]).view(np.uint8).data)
    return digest.hexdigest()


def content(arrays: Mapping[str, str]) -> str:
    """The digest of a whole set, from the digests of its arrays.

    Names are not part of it, neither those of classes and labels: public copies of one set number them differently.
    """
    return hashlib.sha256(json.dumps([[name, arrays[name]] for name in DTYPES if name in arrays]).encode()).hexdigest()


def content_of(graphs: "GraphSet") -> str:
    """The same digest of a set in memory."""
    return content({name: of_array(getattr(graphs, name)) for name in DTYPES if getattr(graphs, name) is not None})


def content_read(graphs: "GraphSet", edges: bool = False) -> str:
    """Return a hash of all arrays of a data set that training reads; `edges` says whether it reads edge labels and edge
    attributes. Edge weights are always read."""
    content = hashlib.sha256()
    arrays: list[NDArray[Any] | None] = [
        graphs.node_ptr,
        graphs.edge_ptr,
        graphs.edge_disp,
        graphs.y,
        graphs.category,
        graphs.attributes,
    ]
    arrays += [graphs.targets, graphs.edge_weight]
    if edges:
        arrays += [graphs.edge_category, graphs.edge_attributes]
    for array in arrays:
        if array is not None:
            for start in range(0, len(array), 1 << 20):  # the array may be mapped and larger than memory
                content.update(array[start : start + (1 << 20)].tobytes())
    return content.hexdigest()


class Check:
    """Whether a saved set was checked before and is unchanged since then; `remember` records a check."""

    def __init__(self, folder: Path, names: Iterable[str], index: str | None, mmap: bool) -> None:
        """`index` is the digest of the set's index, None for sets saved before there were digests."""
        self._state = {name: _state(folder / f"{name}.npy") for name in names}
        self._about = {"folder": os.fsencode(folder.resolve()).hex(), "index": index, "files": self._state}
        self._lasts = mmap
        self._place: Path | None = None
        with suppress(UserError):
            key = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
            self._place = cache_folder() / "verified" / f"{key}.json"

    @property
    def is_known(self) -> bool:
        """Whether these files were checked recently and are unchanged."""
        if self._place is None or not self._place.is_file():
            return False
        try:
            kept = read_json(self._place)
            if not isinstance(kept, dict) or DIGEST not in kept:
                return False
            age = time.time() - float(unsealed(kept)["time"])
        except (UserError, ValueError, TypeError, KeyError):
            return False
        same = all(kept.get(part) == value for part, value in self._about.items())
        return same and age >= 0 and (self._lasts or age < VALID)

    def remember(self) -> None:
        """Record the check, unless a file changed so recently that its times do not identify its content."""
        changed = max((max(times) for _, *times, _, _ in self._state.values()), default=0) / 1e9
        if self._place is None or time.time() - changed < SETTLED:
            return
        with suppress(OSError, UserError):  # without a writable cache, the set is checked again next time
            self._place.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._place, sealed(self._about | {"time": time.time()}), follow=False)


def _state(path: Path) -> list[int]:
    """The size, modification time, change time, inode and device of a file."""
    try:
        found = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]
