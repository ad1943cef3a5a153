"""Reading and writing files: atomic writes, damage detection, one-line errors and locks."""

import errno
import glob
import hashlib
import json
import math
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError, excerpt

DIGEST = "sha256"
"""The key under which a sealed JSON object holds the digest of everything else in it."""


def write_atomically(path: Path, write: Callable[[Path], object], *, follow: bool = True) -> None:
    """Call `write` on a temporary file next to path, then rename it; on failure the previous file is intact.

    With `follow`, as for a path that the user named, a symbolic link is kept and its target replaced, and a pipe or a
    device such as /dev/null is written to directly. Without it, as in stores and caches, a link is itself replaced.
    """
    temporary = None
    try:
        if follow and _is_special(path):
            write(path)
            return
        target = Path(os.path.realpath(path)) if follow else path
        temporary = _neighbour(target)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; an existing file is unchanged") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text_atomically(path: Path, write: Callable[[TextIO], object], *, follow: bool = True) -> None:
    """Like `write_atomically`, but `write` is called with an open text file; line ends are not translated."""

    def fill(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            write(stream)

    write_atomically(path, fill, follow=follow)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename in it survives a power failure. Ignored where unsupported."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_without_links(path: Path, flags: int, mode: int = 0o666) -> int:
    """Like `os.open`, but raise an OSError if the last part of path is a symbolic link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), mode)


def read_regular(path: Path, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file. Raise OSError for anything else: a pipe would block, a device never end.

    Without `follow`, a symbolic link is an error as well.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags) if follow else open_without_links(path, flags)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(
                errno.EINVAL, "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file", str(path)
            )
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def names_a_file(name: str) -> bool:
    """Whether a name is safe as a file name on any system and command line: letters, digits, '.', '_' and '-'."""
    return name[:1].isalnum() and all(c.isalnum() or c in "._-" for c in name)


def check_regular(path: Path) -> None:
    """Raise UserError for a pipe, a device or a socket, where reading would block or never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"cannot read {path}: it is not a regular file")


def writable(path: Path) -> None:
    """Raise UserError unless the file can be written. Call this before hours of work, not after."""
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder")
    if _is_special(path):
        return
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.parent}")
    _check_writable(path, Path(os.path.realpath(path)))


def writable_folder(path: Path) -> None:
    """Raise UserError unless files can be written into the folder, or the folder can be created."""
    existing = next(place for place in (path.absolute(), *path.absolute().parents) if os.path.lexists(place))
    if not existing.is_dir():
        raise UserError(f"cannot write {path}: {existing} is not a folder")
    _check_writable(path, existing / "file")


def _check_writable(path: Path, target: Path) -> None:
    """Raise UserError about `path` unless a file can be created next to target; permissions alone do not show this."""
    try:
        _neighbour(target).unlink()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def _neighbour(target: Path) -> Path:
    """Create an empty file with a unique name next to a target."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    return Path(name)


def _is_special(path: Path) -> bool:
    """Whether a path is a pipe or a device, or a system link to one: renaming a file to it would replace it."""
    special = path.exists() and not path.is_file() and not path.is_dir()
    return special or path.absolute().parent in (Path("/dev"), Path("/dev/fd"))


def _umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextmanager
def parsing(path: Path | str) -> Iterator[None]:
    """Turn whatever a parser of untrusted data raises into a one-line UserError that names the file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or excerpt(str(error))}") from None
    except RecursionError:
        raise UserError(f"{path} is damaged: nested too deeply") from None
    except MemoryError:
        raise UserError(f"cannot read {path}: not enough memory") from None
    except (ValueError, OverflowError, UnicodeError) as error:
        raise UserError(f"{path} is damaged: {excerpt(str(error))}") from None


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the digest of its content added. `unsealed` checks it."""
    content = {name: part for name, part in value.items() if name != DIGEST}
    return content | {DIGEST: _digest(content)}


def unsealed(value: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a sealed object, unchecked if it has no digest. Raise ValueError if it was changed.

    An object whose digest key is misspelt counts as damaged.
    """
    content = dict(value)
    if DIGEST in content:
        if content.pop(DIGEST) != _digest(content):
            raise ValueError("its content does not match its SHA-256")
    elif any(len(name) == len(DIGEST) and sum(map(str.__ne__, name, DIGEST)) == 1 for name in content):
        raise ValueError("the name of its SHA-256 is misspelt")
    return content


def _digest(content: dict[str, Any]) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def write_json(path: Path, value: Any, *, follow: bool = True) -> None:
    """Write plain values as JSON, one key per line. For `follow` see `write_atomically`."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"), follow=follow)


def read_json(path: Path) -> Any:
    """Read JSON. Raise a UserError that names the file if it is damaged."""
    with parsing(path):
        text = read_regular(path).decode("utf-8")
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a surrogate pair could be parsed, but never be written or printed
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value


NOT_AN_ARRAY = (ValueError, TypeError, EOFError, SyntaxError, TokenError)
"""What NumPy raises for a damaged .npy file, depending on which bytes are wrong."""


def read_array(path: Path, *, mmap: bool = False) -> NDArray[Any]:
    """Read or memory-map a .npy file. Raise a UserError that names the file if it is damaged.

    The size that the header declares is compared with the size of the file before memory is allocated.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            declared = start_of_data(file)
            if declared is not None and declared != os.fstat(file.fileno()).st_size:
                raise ValueError(f"it has {os.fstat(file.fileno()).st_size} bytes, its header declares {declared}")
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (*NOT_AN_ARRAY, OverflowError, RecursionError, MemoryError) as error:
        reason = next(iter(str(error).splitlines()), "") or "it is not an array"
        raise UserError(f"{path} is damaged: {excerpt(reason)}") from None


def start_of_data(file: IO[bytes]) -> int | None:
    """Move an open .npy file to its first byte after the header.

    Returns the file size that the header implies; None for arrays of objects, which NumPy refuses to load.
    """
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(file)
    return None if dtype.hasobject else file.tell() + math.prod(shape) * dtype.itemsize


LOCK = "alive"
"""In a private folder: a file that the owning process keeps locked and that names its machine."""

PREVIOUS = "previous"
"""In a private folder, briefly: the previous version of what is being replaced."""


def lock(file: IO[str], *, wait: bool) -> bool | None:
    """Lock an open file until it is closed or the process ends. Returns False if another process
    holds it and `wait` is not set, and None where locks are not supported, as on some network file systems."""
    try:
        fcntl = import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def open_lock(path: Path, *, create: bool = True) -> IO[str]:
    """Open a file for locking, for reading and writing. Its content is kept. Raise OSError for a link or a pipe."""
    flags = os.O_RDWR | (os.O_CREAT if create else 0) | getattr(os, "O_NONBLOCK", 0)
    handle = open_without_links(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(handle, "r+", encoding="utf-8")


@contextmanager
def private_folder(place: Path) -> Iterator[Path]:
    """Yield an empty folder next to `place`, deleted at the end. Folders left there by killed processes are removed."""
    clear(place)
    with tempfile.TemporaryDirectory(prefix=_prefix(place), dir=place.parent) as name, ExitStack() as stack:
        file = stack.enter_context(Path(name, f"{LOCK}.tmp").open("w", encoding="utf-8"))
        if lock(file, wait=False):
            file.write(socket.gethostname())
            file.flush()
            os.replace(file.name, Path(name, LOCK))  # under this name it has never been unlocked
        yield Path(name)


def clear(place: Path) -> None:
    """Remove the private folders that killed processes of this machine left next to a place, and restore what they were
    replacing. Folders of other machines are kept, because their locks may not be visible here."""
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
