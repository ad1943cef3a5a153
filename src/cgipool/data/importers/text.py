"""Read text files as UTF-8, within limits, block by block.

A file may be compressed with gzip. It is UTF-8, or UTF-16 if it begins with a byte order mark; bytes that are not UTF-8
are read as Windows-1252 (cp1252), which spreadsheets write.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cgipool.errors import UserError, in_bytes
from cgipool.files import check_regular, parsing

MAX_SIZE = 16 * 10**9
"""Default maximum bytes of text, after decompression."""

MAX_LINE = 4 * 10**6
"""Maximum bytes of a line."""

RATIO, FREE = 100, 64 * 10**6
"""A compressed file may expand by this factor, or to this many bytes if that is more."""

BLOCK = 1 << 20
"""Bytes to read at a time."""

GZIP = b"\x1f\x8b"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
FALLBACK = "cgipool-cp1252"


class TextFile:
    """A text file. `max_size` replaces the limits on its size and on its expansion."""

    def __init__(self, path: Path, max_size: int | None = None) -> None:
        self.path, self._max_size = path, max_size
        self.is_cp1252 = False
        """Whether any text read so far was not UTF-8."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the text as UTF-8, some whole lines at a time; only the last line may lack its line end."""
        with self._reading(), self._open() as stream:
            text, first = bytearray(), True
            for raw in self._encoded(stream):
                text += raw.removeprefix(codecs.BOM_UTF8) if first else raw
                first = False
                end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
                if len(text) - end > MAX_LINE:
                    raise UserError(f"{self.path} has a line of more than {in_bytes(MAX_LINE)}")
                if end:
                    yield self._utf8(bytes(text[:end]))
                    del text[:end]
            if text:
                yield self._utf8(bytes(text))

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends."""
        after_cr = False
        for block in self.blocks():
            if after_cr and block.startswith(b"\n"):
                block = block[1:]  # the second half of a line end
            after_cr = block.endswith(b"\r")
            text = block.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
            yield from text.removesuffix("\n").split("\n") if text else ()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with parsing(self.path):
            try:
                yield
            except (EOFError, zlib.error) as error:
                raise UserError(f"cannot read {self.path}: {error}") from None

    def _open(self) -> BinaryIO | gzip.GzipFile:
        check_regular(self.path)
        with self.path.open("rb") as stream:
            packed = stream.read(len(GZIP)) == GZIP
        return gzip.open(self.path) if packed else self.path.open("rb")

    def _encoded(self, stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
        """Yield the content in an encoding that contains ASCII: UTF-8 or Windows-1252."""
        start = stream.read(4)
        recode = codecs.getincrementaldecoder("utf-16")() if start[:2] in UTF16 else None
        limit = self._limit(isinstance(stream, gzip.GzipFile))
        read, raw = 0, start
        while raw:
            read += len(raw)
            if read > limit:
                way = "--max-size allows more"
                raise UserError(f"{self.path} expands to more than {in_bytes(limit)}, which is refused; {way}")
            plain = raw if recode is None else recode.decode(raw).encode()
            if b"\0" in plain:
                raise UserError(f"{self.path} is not text: it holds zero bytes")
            yield plain
            raw = stream.read(BLOCK)
        if recode is not None and (rest := recode.decode(b"", final=True)):
            yield rest.encode()

    def _limit(self, packed: bool) -> int:
        if self._max_size is not None:
            return self._max_size
        return min(MAX_SIZE, max(FREE, RATIO * self.path.stat().st_size)) if packed else MAX_SIZE

    def _utf8(self, lines: bytes) -> bytes:
        if lines.isascii():
            return lines
        try:
            lines.decode("utf-8")
        except UnicodeDecodeError:
            self.is_cp1252 = True
            try:
                return lines.decode("utf-8", FALLBACK).encode()
            except UnicodeDecodeError:
                raise UserError(f"{self.path} is neither UTF-8 nor Windows-1252 text") from None
        return lines


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows-1252, which may fail too."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252"), error.end


codecs.register_error(FALLBACK, _as_cp1252)
