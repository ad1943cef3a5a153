""".smi files: on each line a SMILES and, after white space, what the molecule is called."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from cgipool.data.importers.table import DELIMITERS, Table, TextTable, plain
from cgipool.data.importers.text import Text
from cgipool.errors import UserError

COLUMNS = ("smiles", "id")
LINES = 1 << 14
"""Lines that are held at a time."""

HEADERS = ("smiles", "canonicalsmiles", "isomericsmiles")
"""First words of a line that names columns. None of them is a molecule."""


def open_smi(path: Path, max_size: int | None = None) -> Table:
    """The table of a .smi file; one whose first line names several columns is read as any other table."""
    first = next((line for line in Text(path, max_size).lines() if line.strip()), None)
    if first is None:
        raise UserError(f"{path} is empty")
    headed = plain((first.replace(",", " ").replace(";", " ").split() or [""])[0]) in HEADERS
    if headed and any(delimiter in first for delimiter in DELIMITERS):
        return TextTable(path, max_size)
    return SmiTable(path, headed, max_size)


class SmiTable(Table):
    """Lines of SMILES and name; the name may be missing."""

    columns = COLUMNS

    def __init__(self, path: Path, headed: bool, max_size: int | None = None) -> None:
        self.path, self._headed, self._text = path, headed, Text(path, max_size)

    def as_written(self, *columns: int) -> Iterator[list[pa.StringArray]]:
        """The columns of these numbers, block after block."""
        filled = (line for line in self._text.lines() if line.strip())
        lines = islice(filled, int(self._headed), None)
        while some := [[*line.split(maxsplit=1), ""][:2] for line in islice(lines, LINES)]:
            yield [pa.array([fields[j] for fields in some], pa.string()) for j in columns]
