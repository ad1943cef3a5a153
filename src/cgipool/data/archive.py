"""The text files of a TU data set, read in place from a zip archive or a folder; nothing is ever extracted to disk."""

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cgipool.errors import UserError

LARGE, EXPANSION = 1 << 28, 1000
"""A member that claims to be both larger than this and more than this many times its compressed size is refused.

COLLAB, the largest common set, is 35 times its compressed size; deflate cannot pass 1032.
"""

DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, OSError)
"""What reading a truncated, tampered or encrypted member raises."""


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its kind where it says nothing."""
    return next(iter(str(error).splitlines()), type(error).__name__)


class TextFiles:
    """The files NAME_A.txt, NAME_graph_labels.txt, … of one data set; `name` is NAME."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        self._opened: list[IO[bytes]] = []
        if path.is_dir():
            self._members = {p.name: p.name for p in path.iterdir() if p.is_file()}
        else:
            self._zip = _open_zip(path)
            self._members = _safe_members(path, self._zip)
        stems = sorted(name.removesuffix("_A.txt") for name in self._members if name.endswith("_A.txt"))
        if not stems:
            raise UserError(f"{path}: no NAME_A.txt in it; it is not a TU data set")
        if len(stems) > 1:
            raise UserError(f"{path}: several data sets in it ({', '.join(stems)}); one is expected")
        self.name = stems[0]

    def __enter__(self) -> "TextFiles":
        return self

    def __exit__(self, *_: object) -> None:
        """Close all, also files that an error left half read."""
        for stream in self._opened:
            stream.close()
        if self._zip is not None:
            self._zip.close()

    @property
    def size(self) -> int:
        """The bytes of all files together."""
        if self._zip is None:
            return sum((self.path / member).stat().st_size for member in self._members.values())
        return sum(self._zip.getinfo(member).file_size for member in self._members.values())

    def has(self, part: str) -> bool:
        """Whether there is a NAME_part.txt."""
        return f"{self.name}_{part}.txt" in self._members

    def where(self, part: str) -> str:
        """How messages call NAME_part.txt."""
        return f"{self.path}: {self.name}_{part}.txt"

    @contextmanager
    def open(self, part: str) -> Iterator[IO[bytes]]:
        """NAME_part.txt as a stream of bytes; damage met while reading becomes a UserError that names the file."""
        member = self._members.get(f"{self.name}_{part}.txt")
        if member is None:
            raise UserError(f"{self.where(part)} is missing")
        try:
            if self._zip is None:
                with (self.path / member).open("rb") as stream:
                    self._opened.append(stream)
                    yield stream
            else:
                with self._zip.open(member) as stream:
                    self._opened.append(stream)
                    yield io.BufferedReader(_Exact(stream, self._zip.getinfo(member).file_size), 1 << 16)
        except DAMAGE as error:
            raise UserError(f"{self.where(part)} cannot be read: {first_line(error)}") from error


class _Exact(io.RawIOBase):
    """A zip member that must be as long as the archive declares: zipfile stops at that size but accepts less."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._left -= len(data)
        if not data and self._left:
            raise zipfile.BadZipFile(f"it is {self._left} bytes shorter than the archive declares")
        return len(data)


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise UserError(f"cannot open {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise UserError(f"{path} is not a zip archive, or only part of one") from None


def _safe_members(path: Path, archive: zipfile.ZipFile) -> dict[str, str]:
    """File name → member, once no member points outside the archive or claims an absurd size."""
    members: dict[str, str] = {}
    for info in archive.infolist():
        inside = PurePosixPath(info.filename.replace("\\", "/"))
        if inside.is_absolute() or ".." in inside.parts or ":" in "".join(inside.parts[:1]):
            raise UserError(f"{path}: member {info.filename!r} points outside the archive; refused")
        if info.file_size > LARGE and info.file_size > EXPANSION * max(info.compress_size, 1):
            raise UserError(f"{path}: member {info.filename!r} claims to expand to {info.file_size} bytes; refused")
        if info.is_dir() or not inside.name or inside.name.startswith("."):  # macOS adds a ._NAME_A.txt of its own
            continue
        if inside.name in members:
            raise UserError(f"{path}: {inside.name} stands twice in it, as {members[inside.name]} and {info.filename}")
        members[inside.name] = info.filename
    return members
