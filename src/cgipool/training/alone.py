"""One run at a time in a folder."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cgipool.aside import lock
from cgipool.errors import UserError
from cgipool.files import open_without_links

LOCK = ".lock"
"""In a run's folder while a process trains there; locked by it, so that its death releases the folder."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and keep other runs out of it; an error of one line if another process is training there."""
    path = folder / LOCK
    with contextlib.ExitStack() as stack:
        make_folder(folder)
        try:
            handle = open_without_links(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error
        file = stack.enter_context(os.fdopen(handle, "r+", encoding="utf-8"))
        if lock(file, wait=False) is False or not _is_open(path, handle):
            raise UserError(
                f"another process is training in {folder}; wait until it has ended, or choose another folder"
            )
        stack.callback(path.unlink, missing_ok=True)  # runs before the file is closed, so while it is still locked
        yield


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; an error of one line if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror or error}") from error


def _is_open(path: Path, handle: int) -> bool:
    """Whether the open file is still the one at this path: a run that ended in between has removed it."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False
