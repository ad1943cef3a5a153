"""Molecules from an SDF: molfiles, each followed by its data items, of which one is the class."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from cgipool.data.importers.imported import Imported
from cgipool.data.importers.labels import NO_CLASSES, WITHOUT, Classes, choose_label, classes_of
from cgipool.data.importers.molecular import Entry, gather_molecules
from cgipool.data.importers.wishes import Wishes
from cgipool.data.spill import Work
from cgipool.errors import UserError

END, RECORD_END = "M  END", "$$$$"


class Record(NamedTuple):
    """One molecule of an SDF."""

    title: str
    block: str
    """The molfile."""
    data: dict[str, str]
    """The data items by name."""


def read_sdf(path: Path, name: str, wishes: Wishes, work: Work) -> Iterator[Imported]:
    """The set of an SDF; its text is read three times (names, classes, molecules) so that nothing of it is held."""
    label, classes = ("", NO_CLASSES) if wishes.unlabelled else _classes(path, wishes)
    entries = (
        Entry(row, record.title, record.block, record.data.get(label, ""))
        for row, record in enumerate(records(path), start=1)
    )
    return gather_molecules(path, name, entries, classes, wishes, molfiles=True)


def _classes(path: Path, wishes: Wishes) -> tuple[str, Classes]:
    """The name of the data item with the classes, and the classes."""
    names: dict[str, None] = {}
    for record in records(path):
        names.update(dict.fromkeys(record.data))
    if not names:
        raise UserError(f"{path} holds no molecule with data items; a class is needed for each; {WITHOUT}")
    label = choose_label(path, list(names), wishes.label)
    return label, classes_of(path, label, (record.data.get(label, "") for record in records(path)), wishes)


def records(path: Path) -> Iterator[Record]:
    """The records of a file, plain or compressed with gzip, one after another."""
    lines: list[str] = []
    try:
        with _open(path) as stream:
            for line in stream:
                if line.startswith(RECORD_END):
                    yield _record(lines)
                    lines = []
                else:
                    lines.append(line.rstrip("\r\n"))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if any(line.strip() for line in lines):
        yield _record(lines)


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace")
    return path.open(encoding="utf-8-sig", errors="replace")


def _record(lines: list[str]) -> Record:
    end = next((i for i, line in enumerate(lines) if line.startswith(END)), len(lines) - 1) + 1
    data: dict[str, str] = {}
    key: str | None = None
    for line in lines[end:]:
        if line.startswith(">") and "<" in line:
            key = line[line.index("<") + 1 :].partition(">")[0]
            data[key] = ""
        elif not line.strip():
            key = None
        elif key is not None:
            data[key] = f"{data[key]} {line.strip()}".strip()
    return Record(lines[0].strip() if lines else "", "\n".join(lines[:end]) + "\n", data)
