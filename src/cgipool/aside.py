"""Private folders to write in before what is written gets its place, and the locks that tell who still writes."""

import errno
import glob
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO

from cgipool.files import open_without_links

LOCK = "alive"
"""In a private folder: a file that its process holds locked, and in which its machine is named."""

PREVIOUS = "previous"
"""In a private folder, for a moment: what it is about to replace."""


def lock(file: IO[str], *, wait: bool) -> bool | None:
    """Lock an open file until it is closed or the process ends. False: another has it, and `wait` was not asked for.
    None: there are no locks here, as on some network file systems."""
    try:
        fcntl = import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def open_lock(path: Path, *, create: bool = True) -> IO[str]:
    """A file to be locked, open for reading and writing. What it holds stays; a link or a pipe is an error."""
    flags = os.O_RDWR | (os.O_CREAT if create else 0) | getattr(os, "O_NONBLOCK", 0)
    handle = open_without_links(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(handle, "r+", encoding="utf-8")


@contextmanager
def private_folder(place: Path) -> Iterator[Path]:
    """An empty folder beside `place`, gone in the end; those that killed processes left there for it are removed."""
    clear(place)
    with tempfile.TemporaryDirectory(prefix=_prefix(place), dir=place.parent) as name, ExitStack() as stack:
        file = stack.enter_context(Path(name, f"{LOCK}.tmp").open("w", encoding="utf-8"))
        if lock(file, wait=False):
            file.write(socket.gethostname())
            file.flush()
            os.replace(file.name, Path(name, LOCK))  # under this name it has never been unlocked
        yield Path(name)


def clear(place: Path) -> None:
    """Remove the private folders that processes of this machine left beside a place when they were killed; what one was
    killed replacing is put back. Those of other machines are left: a lock may not be seen from here."""
    for folder in place.parent.glob(f"{glob.escape(_prefix(place))}*"):
        if "-" in folder.name.removeprefix(_prefix(place)):  # of a place whose name is longer
            continue
        with suppress(OSError, UnicodeError), open_lock(folder / LOCK, create=False) as file:
            if file.read() == socket.gethostname() and lock(file, wait=False):
                if (folder / PREVIOUS).exists() and not place.exists():
                    os.replace(folder / PREVIOUS, place)
                shutil.rmtree(folder)


def _prefix(place: Path) -> str:
    return f".{place.name}-"
