"""Results that take long to compute from a data set, kept in the cache folder for other commands and processes.

Training writes them (see `writing`); predictions of many graphs would only fill the disk. An entry is an index,
`KEY.json`, and one .npy file per array. The key is a hash of what was computed and of the values it was computed from;
the index holds the digests of the arrays. An entry that is damaged is computed again.
"""

import hashlib
import io
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.caches import cache_folder
from cgipool.data.digests import of_array
from cgipool.errors import UserError
from cgipool.files import (
    DIGEST,
    NOT_AN_ARRAY,
    lock,
    open_lock,
    read_regular,
    sealed,
    sha256_of_file,
    unsealed,
    write_atomically,
    write_json,
)

Arrays = Mapping[str, NDArray[Any]]

LONG = 0.2
"""Minimum seconds of a computation that is worth an entry."""

LARGEST, LIMIT = 1 << 30, 4 << 30
"""Maximum bytes of one entry, and of all entries; the least recently used are deleted first."""


_WRITES = ContextVar("writes", default=False)


@contextmanager
def writing() -> Iterator[None]:
    """In this context, results that took long are written to the cache."""
    token = _WRITES.set(True)
    try:
        yield
    finally:
        _WRITES.reset(token)


def kept(what: str, reads: Iterable[NDArray[Any] | None], compute: Callable[[], Arrays]) -> Arrays:
    """Return `compute()`, or its result from the cache. `what` names the computation with its arguments and a version,
    and `reads` are all arrays that it depends on. If several processes would write the same result, they wait for the
    first."""
    try:
        folder = cache_folder() / "computed"
    except UserError:
        return compute()
    content = [what]
    content += [
        "" if values is None else f"{values.dtype} {values.shape} {of_array(np.asarray(values))}" for values in reads
    ]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
    if not _WRITES.get():
        return _read(folder, key) or compute()
    with _one_at_a_time(folder, key):
        if (found := _read(folder, key)) is not None:
            return found
        began = time.monotonic()
        made = compute()
        if time.monotonic() - began >= LONG and sum(values.nbytes for values in made.values()) <= LARGEST:
            with suppress(OSError, UserError):  # without a writable cache it is computed again next time
                _write(folder, key, made)
        return made


@contextmanager
def _one_at_a_time(folder: Path, key: str) -> Iterator[None]:
    """Hold one of 256 locks; one lock per key would leave a file for each."""
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            lock(stack.enter_context(open_lock(folder / f"{key[:2]}.lock")), wait=True)
        yield


def _read(folder: Path, key: str) -> Arrays | None:
    """The arrays of an entry; None if it is missing or damaged."""
    place = folder / f"{key}.json"
    found: dict[str, NDArray[Any]] = {}
    try:
        index = json.loads(read_regular(place, follow=False))
        if DIGEST not in index:
            return None
        for name, digest in unsealed(index)["arrays"].items():
            data = read_regular(_array(folder, key, name), follow=False)
            if hashlib.sha256(data).hexdigest() != digest:
                return None
            found[name] = np.load(io.BytesIO(data), allow_pickle=False)
        os.utime(place)
    except (OSError, *NOT_AN_ARRAY, AttributeError, KeyError, RecursionError, MemoryError):
        return None
    return found


def _write(folder: Path, key: str, made: Arrays) -> None:
    """Write an entry, its index last."""
    digests = {}
    for name, values in made.items():

        def fill(temporary: Path, name: str = name, values: NDArray[Any] = values) -> None:
            with temporary.open("wb") as file:
                np.save(file, values, allow_pickle=False)
            digests[name] = sha256_of_file(temporary)

        write_atomically(_array(folder, key, name), fill, follow=False)
    write_json(folder / f"{key}.json", sealed({"arrays": digests}), follow=False)
    _shrink(folder)


def _array(folder: Path, key: str, name: str) -> Path:
    return folder / f"{key}.{name}.npy"


def _shrink(folder: Path) -> None:
    """Delete the least recently used entries until the rest is within the limit."""
    used, arrays = {}, defaultdict(list)
    for file in folder.iterdir():
        key, status = file.name.partition(".")[0], file.lstat()
        if file.suffix == ".json":
            used[key] = status.st_mtime
        elif file.suffix == ".npy" and key:
            arrays[key].append((file, status.st_size))
    total = 0
    for key in sorted(used, key=lambda each: used[each], reverse=True):
        total += sum(size for _, size in arrays[key])
        if total > LIMIT:
            for file in (folder / f"{key}.json", *(file for file, _ in arrays[key])):
                file.unlink(missing_ok=True)
