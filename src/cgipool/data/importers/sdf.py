"""Molecules from an SDF: molfiles, each followed by its data items, of which one is the class."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cgipool.data.importers.given import COLUMN, side_of, strange_side
from cgipool.data.importers.imported import Imported
from cgipool.data.importers.labels import NO_CLASSES, WITHOUT, choose_label, classes_of
from cgipool.data.importers.molecular import Entry, gather_molecules
from cgipool.data.importers.smiles import IDS
from cgipool.data.importers.table import few, plain
from cgipool.data.importers.text import MAX_LINE, Text
from cgipool.data.importers.wishes import Wishes
from cgipool.data.spill import Work
from cgipool.errors import UserError, excerpt
from cgipool.words import in_bytes

END, RECORD_END = "M  END", "$$$$"

LONGEST = 10 * MAX_LINE
"""Characters of the longest record."""


class Record(NamedTuple):
    """One molecule of an SDF."""

    title: str
    block: str
    """The molfile."""
    data: dict[str, str]
    """The data items by name."""


def read_sdf(path: Path, name: str, wishes: Wishes, work: Work) -> Iterator[Imported]:
    """The set of an SDF; its text is read several times (names, classes, molecules) so that nothing of it is held."""
    text = Text(path, wishes.max_size)
    names = item_names(text)
    if wishes.id is not None and wishes.id not in names:
        raise UserError(f"{path} has no data item {excerpt(wishes.id)!r}; it has: {few(list(names))}")
    side = next((item for item in names if plain(item) == COLUMN and item != wishes.label), None)
    strange = None if side is None else strange_side(path, _fields(text, side))
    side = side if strange is None else None
    label, classes = "", NO_CLASSES
    if not wishes.unlabelled:
        others = [item for item in names if item not in (wishes.id, side)]
        if not others:
            raise UserError(f"{path} holds no molecule with data items; a class is needed for each; {WITHOUT}")
        label = choose_label(path, others, wishes.label)
        classes = classes_of(path, label, _fields(text, label), wishes)
    entries = (
        Entry(
            row,
            id_of(record, wishes.id),
            record.block,
            record.data.get(label, ""),
            None if side is None else side_of(record.data.get(side, "")),
        )
        for row, record in enumerate(records(text), start=1)
    )
    notes = () if strange is None else (strange,)
    return gather_molecules(path, name, entries, classes, wishes, molfiles=True, notes=lambda: notes)


def item_names(text: Text) -> dict[str, None]:
    """The names of all data items, in the order in which they appear."""
    names: dict[str, None] = {}
    for record in records(text):
        names.update(dict.fromkeys(record.data))
    return names


def id_of(record: Record, asked: str | None) -> str:
    """What a molecule is called: the data item asked for, else the record's title, else an item of a usual name."""
    if asked is not None:
        return record.data.get(asked, "")
    if record.title:
        return record.title
    items = {plain(name): value for name, value in record.data.items()}
    return next((items[name] for name in IDS if name in items), "")


def _fields(text: Text, item: str) -> Iterator[str]:
    return (record.data.get(item, "") for record in records(text))


def records(text: Text) -> Iterator[Record]:
    """The records of a file one after another."""
    lines: list[str] = []
    size = 0
    for line in text.lines():
        if line.startswith(RECORD_END):
            yield _record(lines)
            lines, size = [], 0
            continue
        lines.append(line)
        size += len(line) + 1
        if size > LONGEST:
            raise UserError(f"{text.path} has a record of more than {in_bytes(LONGEST)}")
    if any(line.strip() for line in lines):
        yield _record(lines)


def _record(lines: list[str]) -> Record:
    end = next((i for i, line in enumerate(lines) if line.startswith(END)), len(lines) - 1) + 1
    data: dict[str, list[str]] = {}
    key: str | None = None
    for line in lines[end:]:
        if line.startswith(">") and "<" in line:
            key = line[line.index("<") + 1 :].partition(">")[0]
            data[key] = []
        elif not line.strip():
            key = None
        elif key is not None:
            data[key].append(line.strip())
    items = {name: " ".join(parts) for name, parts in data.items()}
    return Record(lines[0].strip() if lines else "", "\n".join(lines[:end]) + "\n", items)
