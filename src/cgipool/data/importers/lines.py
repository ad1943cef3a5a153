"""Read the text of an input, one line per graph: ids, molecules, and columns to copy to the predictions."""

import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cgipool.data.further import few, names_of
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import IDS, MAX_ATOMS
from cgipool.data.importers.molecular import USUAL
from cgipool.data.importers.table import open_table, plain, rows_from
from cgipool.data.importers.text import BLOCK, GZIP, MAX_SIZE, TextFile
from cgipool.data.names import printable
from cgipool.data.store import is_saved
from cgipool.errors import UserError, excerpt, in_bytes
from cgipool.files import parsing

TABLES = (".csv", ".tsv", ".smi", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".smi.gz")
"""Name endings of files with a column of SMILES."""

SDF = (".sdf", ".sd", ".sdf.gz", ".sd.gz")
"""Name endings of SDF files."""

ALL = "all"
"""Keeps every column."""


class Asked(NamedTuple):
    """Options for reading an input."""

    smiles: str | None = None
    """The column of SMILES; by default the one with a usual name."""
    id: str | None = None
    """The column of ids; by default the one with a usual name."""
    keep: tuple[str, ...] = ()
    """Columns to copy to the predictions."""
    max_atoms: int = MAX_ATOMS
    max_size: int | None = None
    read: tuple[str, ...] = ()
    """Columns of numbers that the model reads in addition to the graph."""


class Line(NamedTuple):
    """The text of one graph."""

    id: str
    text: str = ""
    """A SMILES or a molfile; empty for a graph of a set."""
    kept: tuple[str, ...] = ()
    """The fields of the columns to copy."""
    read: tuple[str, ...] = ()
    """The fields of the columns that the model reads."""


def lines_of(path: str | Path, asked: Asked | None = None, start: int = 0, stop: int | None = None) -> Iterator[Line]:
    """Yield the text of the graphs from position `start` up to `stop`; nothing for a saved set that contains it.

    Text is always read from the beginning of the file, so read an input once, not once per part.
    """
    asked = asked or Asked()
    for number, line in enumerate(_as_given(Path(path), asked, start, stop), start=start):
        yield line if line.id else line._replace(id=str(number))


def given_ids(path: str | Path, asked: Asked | None = None) -> Iterator[str]:
    """Yield the ids in the text of an input, in order, empty for a graph without one; nothing if there are no ids."""
    place, asked = Path(path), asked or Asked()
    if is_sdf(place):
        return (line.id for line in _sdf_lines(place, asked))
    if is_table(place):
        return iter(()) if unnamed(place, asked) else (line.id for line in _table_lines(place, asked, 0))
    has_ids = (place / IDS).is_file() and "id" in open_table(place / IDS).columns
    return (line.id for line in _saved_lines(place, (), 0)) if has_ids else iter(())


def _as_given(place: Path, asked: Asked, start: int, stop: int | None) -> Iterator[Line]:
    """The same as `lines_of`, with an empty id for a graph without one."""
    count = None if stop is None else stop - start
    if is_sdf(place):
        return itertools.islice(_sdf_lines(place, asked), start, stop)
    if is_table(place):
        return itertools.islice(_table_lines(place, asked, start), count)
    if not has_lines(place, asked):
        return iter(())
    return itertools.islice(_saved_lines(place, asked.keep, start), count)


def kept_columns(path: str | Path, keep: Sequence[str], role: str = "to keep") -> tuple[str, ...]:
    """The columns of an input to keep, or all of them for "all". Raise UserError if one is missing; `role` says in the
    message what it is for."""
    if not keep:
        return ()
    place = Path(path)
    known = columns_of(place)
    if not known:
        raise UserError(f"{path} has no columns {role}")
    wanted = known if ALL in keep and ALL not in known else tuple(dict.fromkeys(keep))
    if missing := [name for name in wanted if name not in known]:
        raise UserError(f"{path} has no column {excerpt(missing[0])!r} {role}; its columns: {few(known)}")
    return wanted


def unnamed(path: str | Path, asked: Asked) -> str | None:
    """A note on a table without a column of ids; None if it has one."""
    place = Path(path)
    if is_sdf(place) or not is_table(place):
        return None
    from cgipool.data.importers.molecular import id_column, no_ids

    table = open_table(place, asked.max_size)
    return no_ids(table) if id_column(table, asked.id) is None else None


def is_table(path: Path) -> bool:
    """Whether the path is a file of molecules: a table of SMILES or an SDF."""
    return path.name.lower().endswith((*TABLES, *SDF)) and path.is_file()


def is_sdf(path: Path) -> bool:
    """Whether the path is an SDF file."""
    return path.name.lower().endswith(SDF) and path.is_file()


def has_lines(place: Path, asked: Asked) -> bool:
    """Whether ids or fields of a saved set must be read from its ids.csv, which is the only place where imports of
    earlier versions wrote ids."""
    if asked.keep:
        return is_saved(place)
    return (place / IDS).is_file() and not (place / "graph_ids.npy").is_file()


def columns_of(place: Path) -> tuple[str, ...]:
    """The names of the columns of an input."""
    if is_sdf(place):
        from cgipool.data.importers.molecular import item_names

        return tuple(item_names(TextFile(place)))
    if is_table(place):
        return open_table(place).columns
    in_ids = open_table(place / IDS).columns if (place / IDS).is_file() else ()
    return (*in_ids, *(name for name in _further(place) if name not in in_ids))


def _further(place: Path) -> tuple[str, ...]:
    """The further columns of a saved set."""
    return names_of(GraphSet.load(place, mmap=True)) if is_saved(place) else ()


def _table_lines(path: Path, asked: Asked, start: int) -> Iterator[Line]:
    from cgipool.data.importers.molecular import id_column, smiles_column

    table = open_table(path, asked.max_size)
    smiles, identity = smiles_column(table, asked.smiles), id_column(table, asked.id)
    wanted = [smiles, smiles if identity is None else identity, *map(table.column, (*asked.keep, *asked.read))]
    count = len(asked.keep)
    for _, (text, name, *more) in table.rows(*wanted, start=start):
        yield Line("" if identity is None else printable(name), text, tuple(more[:count]), tuple(more[count:]))


def _sdf_lines(path: Path, asked: Asked) -> Iterator[Line]:
    from cgipool.data.importers.molecular import id_of, records

    for record in records(TextFile(path, asked.max_size)):
        kept, read = (tuple(record.data.get(name, "") for name in names) for names in (asked.keep, asked.read))
        yield Line(printable(id_of(record, asked.id)), record.block, kept, read)


def _saved_lines(folder: Path, keep: Sequence[str], start: int) -> Iterator[Line]:
    """The ids and the columns `keep` of an imported set, from graph `start` on."""
    table = open_table(folder / IDS) if (folder / IDS).is_file() else None
    listed = () if table is None else table.columns
    columns: dict[str, Iterable[str]] = {}
    if further := [name for name in keep if name not in listed]:
        graphs = GraphSet.load(folder, mmap=True)
        columns = {name: graphs.column(name)[start:] for name in further}
    if table is None:
        for kept in zip(*(columns[name] for name in keep), strict=True):
            yield Line("", "", kept)
        return
    has_id, in_table = "id" in listed, [name for name in keep if name in listed]
    wanted = [table.column("id" if has_id else "row"), *map(table.column, in_table)]
    rows, places = rows_from(table.as_written(*wanted), start), [keep.index(name) for name in (*in_table, *further)]
    for (name, *kept), *others in zip(rows, *columns.values(), strict=True):
        fields = dict(zip(places, (*kept, *others), strict=True))
        yield Line(printable(name) if has_id else "", "", tuple(fields[place] for place in range(len(keep))))


STDIN = "-"
"""The path that means standard input."""


@contextmanager
def from_stdin(data: str, asked: Asked) -> Iterator[str]:
    """Yield the path of an input; for standard input, the path of a temporary copy."""
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
    """The file name ending that fits this content."""
    with path.open("rb") as file:
        start = file.read(BLOCK)
    packed = start.startswith(GZIP)
    if start.startswith(b"PAR1"):
        return ".parquet"
    first: list[str] = []
    for line in TextFile(path, asked.max_size).lines():
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
