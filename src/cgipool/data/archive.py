"""The files of a TU data set in an archive or a folder, and limits on their size."""

import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cgipool.errors import UserError, excerpt
from cgipool.files import check_regular

VARIABLE = "CGIPOOL_MAX_SIZE"

RATIO, HARMLESS, LARGEST = 100, 1 << 26, 1 << 34
"""Text may be 100 times as large as its compressed form, or 64 MB if that is more, and 16 GB at most.

COLLAB, the largest common set, is 35 times its compressed size; sets of identical lines reach several hundred.
"""

LINE = 1 << 22
"""Maximum bytes in a line of a table."""

COLUMNS = 1 << 14
"""Maximum columns of a table."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def allowed(compressed: int, max_size: int | None = None) -> int:
    """Return the bytes that compressed data may expand to; `max_size` or CGIPOOL_MAX_SIZE override the limits."""
    if max_size is not None:
        return max_size
    if chosen := os.environ.get(VARIABLE):
        return parse_size(VARIABLE, chosen)
    return min(max(RATIO * compressed, HARMLESS), LARGEST)


def parse_size(what: str, text: str) -> int:
    """Parse a number of bytes as users write it: 500M, 20G, 20GB, 1000000."""
    number, unit = text.strip().upper().removesuffix("B"), ""
    if number[-1:] in UNITS:
        number, unit = number[:-1], number[-1:]
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise UserError(f"{what} must be a size such as 500MB or 20GB, not {excerpt(text)!r}")
    return int(number) * UNITS[unit]


def too_large(what: str, size: int, limit: int) -> UserError:
    """Return the error for data that expand beyond the limit."""
    raised = f"if you trust it, raise --max-size or {VARIABLE}, for example to {max(2 * size >> 30, 1)}GB"
    return UserError(f"{what} expands to {size:,} bytes, and {limit:,} are allowed; {raised}")


DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    MemoryError,
)
"""Exceptions raised when reading a truncated, tampered or encrypted member."""

LOCAL = b"PK\x03\x04"
"""The first bytes of a member's header, which precedes its data."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type name if the message is empty."""
    return excerpt(next(iter(str(error).splitlines()), "")) or type(error).__name__


class TuFiles:
    """The files NAME_A.txt, NAME_graph_labels.txt, … of one data set; `name` is NAME."""

    def __init__(self, path: Path, max_size: int | None = None) -> None:
        """`max_size` limits the total bytes of the files in an archive; for the default see `allowed`."""
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        self._opened: list[IO[bytes]] = []
        if path.is_dir():
            self._members = _files(path)
        else:
            check_regular(path)
            self._zip = _open_zip(path)
            try:
                self._members = _safe_members(path, self._zip, max_size)
            except BaseException:
                self._zip.close()
                raise
        stems = sorted(name.removesuffix("_A.txt") for name in self._members if name.endswith("_A.txt"))
        if not stems:
            raise UserError(f"{path} is not a TU data set: it contains no NAME_A.txt")
        if len(stems) > 1:
            raise UserError(f"{path}: it contains several data sets ({excerpt(', '.join(stems))}); one is expected")
        self.name = stems[0]

    def __enter__(self) -> "TuFiles":
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files, including those that an error left half read."""
        for stream in self._opened:
            stream.close()
        if self._zip is not None:
            self._zip.close()

    @property
    def title(self) -> str:
        """The data set's name as valid text: file names may hold bytes that cannot be printed or saved."""
        return self.name.encode("utf-8", "replace").decode()

    @property
    def size(self) -> int:
        """The total bytes of all files."""
        if self._zip is None:
            return sum((self.path / member).stat().st_size for member in self._members.values())
        return sum(self._zip.getinfo(member).file_size for member in self._members.values())

    def has(self, part: str) -> bool:
        """Whether there is a NAME_part.txt."""
        return f"{self.name}_{part}.txt" in self._members

    def where(self, part: str) -> str:
        """Return the name of NAME_part.txt for messages."""
        return f"{self.path}: {excerpt(self.title)}_{part}.txt"

    @contextmanager
    def open(self, part: str) -> Iterator[IO[bytes]]:
        """Open NAME_part.txt as a byte stream; damage found while reading becomes a UserError that names the file."""
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


def _files(folder: Path) -> dict[str, str]:
    """Return the files of a folder. Raise UserError for a pipe: skipping it would silently lose a column."""
    for file in folder.glob("*.txt"):
        check_regular(file)
    return {file.name: file.name for file in folder.iterdir() if file.is_file()}


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise UserError(f"cannot open {path}: {error.strerror or error}") from None
    except (*DAMAGE, ValueError, IndexError, OverflowError):
        raise UserError(f"{path} is not a zip archive, or is truncated") from None


def _safe_members(path: Path, archive: zipfile.ZipFile, max_size: int | None) -> dict[str, str]:
    """Map file names to members. Raise UserError if one points outside the archive or the size is not credible."""
    members: dict[str, str] = {}
    limit, total = allowed(path.stat().st_size, max_size), 0
    for info in archive.infolist():
        shown = excerpt(info.filename)
        inside = PurePosixPath(info.filename.replace("\\", "/"))
        if not info.filename:
            raise UserError(f"{path}: a member has no name; refused")
        if inside.is_absolute() or ".." in inside.parts or ":" in "".join(inside.parts[:1]):
            raise UserError(f"{path}: member {shown!r} points outside the archive; refused")
        total += info.file_size
        if info.file_size > limit:
            raise too_large(f"{path}: member {shown!r}", info.file_size, limit)
        if info.is_dir() or not inside.name or inside.name.startswith("."):  # macOS adds a ._NAME_A.txt
            continue
        if inside.name in members:
            first = excerpt(members[inside.name])
            raise UserError(f"{path}: {excerpt(inside.name)} is in the archive twice, as {first} and {shown}")
        members[inside.name] = info.filename
    if total > limit:
        raise too_large(str(path), total, limit)
    try:
        whole = _lists_all(archive)
    except (OSError, ValueError, OverflowError):  # for example an offset before the start of the file
        whole = False
    if not whole:
        raise UserError(f"{path} is damaged: its directory does not list the files it contains")
    return members


def _lists_all(archive: zipfile.ZipFile) -> bool:
    """Whether the directory at the archive's end lists every member under its name.

    zipfile compares the two when a member is opened. A label file that the directory omits or misnames is
    never opened, so its column would be lost silently.
    """
    stream = archive.fp
    assert stream is not None
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [*(info.header_offset for info in infos[1:]), archive.start_dir]
    if infos and _begins_member(stream, 0, infos[0].header_offset):
        return False
    for info, following in zip(infos, ends, strict=True):
        stream.seek(info.header_offset)
        header = stream.read(30)
        if len(header) < 30 or not header.startswith(LOCAL):
            return False
        flags, length, extra = struct.unpack("<6xH18xHH", header)
        name = stream.read(length)
        if name.decode("utf-8" if flags & 0x800 else "cp437", "replace") != info.orig_filename:
            return False
        if _begins_member(stream, info.header_offset + 30 + length + extra + info.compress_size, following):
            return False
    return True


def _begins_member(stream: IO[bytes], start: int, end: int) -> bool:
    """Whether another member begins in a gap, at once or after the up to 24 bytes that may follow a member's data."""
    stream.seek(start)
    return end > start and LOCAL in stream.read(min(end - start, 28))
