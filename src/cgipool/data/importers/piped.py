"""Molecules from standard input: copied to a file of its own, whose format is told by its content."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cgipool.data.importers.lines import Asked
from cgipool.data.importers.smiles import USUAL
from cgipool.data.importers.table import plain
from cgipool.data.importers.text import BLOCK, GZIP, MAX_SIZE, Text
from cgipool.errors import UserError
from cgipool.files import parsing
from cgipool.words import in_bytes

STDIN = "-"
"""What stands for standard input in the place of a path."""


@contextmanager
def from_stdin(data: str, asked: Asked) -> Iterator[str]:
    """The path of an input: where that is standard input, of a temporary file with its content."""
    if data != STDIN:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        copy = Path(folder, "standard-input")
        _copy(copy, asked.max_size or MAX_SIZE)
        yield str(copy.rename(copy.with_name(f"standard-input{_ending(copy, asked)}")))


def _copy(path: Path, limit: int) -> None:
    count = 0
    with parsing("standard input"), path.open("wb") as file:
        while block := sys.stdin.buffer.read(BLOCK):
            count += len(block)
            if count > limit:
                raise UserError(f"standard input has more than {in_bytes(limit)}; --max-size allows more")
            file.write(block)


def _ending(path: Path, asked: Asked) -> str:
    """How the name of a file with this content would end."""
    with path.open("rb") as file:
        start = file.read(BLOCK)
    packed = start.startswith(GZIP)
    if start.startswith(b"PAR1"):
        return ".parquet"
    first: list[str] = []
    for line in Text(path, asked.max_size).lines():
        first.append(line)
        if len(first) == 4:
            break
    zipped = ".gz" if packed else ""
    if any(line.rstrip().endswith(("V2000", "V3000")) for line in first):
        return f".sdf{zipped}"
    header = next((line for line in first if line.strip()), "")
    names = {plain(name) for delimiter in ",;\t" for name in header.split(delimiter)}
    is_table = names & set(USUAL) or asked.smiles is not None or asked.id is not None or asked.keep
    return f".csv{zipped}" if is_table else f".smi{zipped}"
