"""Import a file or folder into the cache, once: commands can then be given the file itself."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from cgipool.caches import cache_folder
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import ImportOptions, Saved
from cgipool.data.importers.read import detect, import_to
from cgipool.data.spill import ImportProgress, nobody
from cgipool.data.store import is_saved
from cgipool.errors import UserError
from cgipool.files import check_regular, lock, open_lock, sha256_of_file
from cgipool.version import __version__

READER = 2
"""Raised when an import of the same file gives other arrays, so that earlier entries are not used."""


def needs_import(path: Path) -> bool:
    """Whether a path is a table, an SDF file or another source that `load_dataset` cannot read directly."""
    if not path.exists() or is_saved(path):
        return False
    try:
        return detect(path) != "tu"
    except UserError:
        return False  # the TU reader says what is wrong with it


def import_cached(
    path: Path, options: ImportOptions, tell: ImportProgress = nobody, jobs: int = 1
) -> tuple[Path, Saved | None]:
    """The folder in the cache that holds the imported set, and the import; None if it was imported before.

    An entry belongs to the content of the file and the options of the import.
    """
    check_regular(path)
    entry = cache_folder() / "imported" / f"{path.resolve().name}-{_fingerprint(path, options)}"
    with _one_at_a_time(entry):
        if _is_whole(entry):
            return entry, None
        return entry, import_to(path, entry, options=options, tell=tell, jobs=jobs)


def _is_whole(entry: Path) -> bool:
    if not is_saved(entry):
        return False
    with suppress(UserError):
        GraphSet.load(entry, mmap=True)
        return True
    return False


@contextmanager
def _one_at_a_time(entry: Path) -> Iterator[None]:
    """Only one process at a time imports a file into a cache that several may share."""
    locks = cache_folder() / "locks"
    with ExitStack() as stack:
        with suppress(OSError):
            locks.mkdir(parents=True, exist_ok=True)
            lock(stack.enter_context(open_lock(locks / entry.name)), wait=True)
        yield


def _fingerprint(path: Path, options: ImportOptions) -> str:
    """A hash of the options and of the file; of a folder, its place and the names, sizes and times of its files."""
    digest = hashlib.sha256(f"{__version__} {READER} {json.dumps(asdict(options), sort_keys=True)}".encode())
    try:
        if path.is_dir():
            digest.update(os.fsencode(path.resolve()))
            for file in sorted(path.iterdir()):
                status = file.stat()
                digest.update(os.fsencode(file.name) + f" {status.st_size} {status.st_mtime_ns}\n".encode())
        else:
            digest.update(sha256_of_file(path).encode())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()[:24]
