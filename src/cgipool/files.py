"""Writing files so that a reader, or a full disk, never meets half of one."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary neighbour of path, then rename it; on failure the previous file is intact.

    A link stays one: the file it leads to is replaced. A pipe or a device such as /dev/null is written to as it is.
    """
    temporary = None
    try:
        if _is_special(path):
            write(path)
            return
        target = Path(os.path.realpath(path))
        temporary = _neighbour(target)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; what was there before is intact") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def names_a_file(name: str) -> bool:
    """Whether files can be named so, on any system and in any command line: letters, digits, '.', '_' and '-'."""
    return name[:1].isalnum() and all(c.isalnum() or c in "._-" for c in name)


def writable(path: Path) -> None:
    """An error unless a file can be written there: told before hours of work, not after."""
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder")
    if _is_special(path):
        return
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.parent}")
    _try(path, Path(os.path.realpath(path)))


def writable_folder(path: Path) -> None:
    """An error unless files can be written into a folder, or it can be made where it is not there yet."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise UserError(f"cannot write {path}: {there} is no folder")
    _try(path, there / "file")


def _try(path: Path, target: Path) -> None:
    """An error about `path` unless a file can be made beside a target: permissions alone do not tell."""
    try:
        _neighbour(target).unlink()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def _neighbour(target: Path) -> Path:
    """A new file beside a target, empty and with a name of its own."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    return Path(name)


def _is_special(path: Path) -> bool:
    """Whether a path is a pipe or a device, or a link of the system to one: renaming a file to it would replace it."""
    special = path.exists() and not path.is_file() and not path.is_dir()
    return special or path.absolute().parent in (Path("/dev"), Path("/dev/fd"))


def _umask() -> int:
    """The process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_json(path: Path, value: Any) -> None:
    """Write plain values, one key a line."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Read plain values; a damaged file is an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from None


def read_array(path: Path, *, mmap: bool = False) -> NDArray[Any]:
    """Read an array of a .npy file, or map it; a damaged file is an error that names it."""
    try:
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, SyntaxError, TokenError) as error:  # by which bytes of it are wrong
        raise UserError(f"{path} is damaged: {next(iter(str(error).splitlines()), 'it is no array')}") from None
