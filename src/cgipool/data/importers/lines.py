"""What of an input is text, one line per graph: ids, molecules, and columns that are passed through to predictions."""

import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cgipool.data.importers.imported import IDS
from cgipool.data.importers.molecular import USUAL
from cgipool.data.importers.options import MAX_ATOMS
from cgipool.data.importers.table import few, open_table, plain, rows_from
from cgipool.data.importers.text import BLOCK, GZIP, MAX_SIZE, Text
from cgipool.data.names import printable
from cgipool.errors import UserError, excerpt, in_bytes
from cgipool.files import parsing

TABLES = (".csv", ".tsv", ".smi", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".smi.gz")
"""Names of files with a column of SMILES end so."""

SDF = (".sdf", ".sd", ".sdf.gz", ".sd.gz")
"""Names of files of molfiles end so."""

ALL = "all"
"""Asks to keep every column."""


class Asked(NamedTuple):
    """How an input is to be read."""

    smiles: str | None = None
    """The column of SMILES; by default the one called so."""
    id: str | None = None
    """The column of ids; by default one of a usual name."""
    keep: tuple[str, ...] = ()
    """Columns that are passed through to the predictions."""
    max_atoms: int = MAX_ATOMS
    max_size: int | None = None


class Line(NamedTuple):
    """What of one graph is text."""

    id: str
    text: str = ""
    """A SMILES or a molfile; empty for a graph of a set."""
    kept: tuple[str, ...] = ()
    """The fields of the columns that are passed through."""


def lines_of(path: str | Path, asked: Asked | None = None, start: int = 0, stop: int | None = None) -> Iterator[Line]:
    """What of an input is text, graph by graph: ids, molecules and columns that are passed through; nothing where a set
    holds all of it. From `start` up to `stop` alone, if these are given: positions, from 0.

    Such text must be read from its beginning, so whoever divides an input does it once and deals the lines out.
    """
    asked = asked or Asked()
    for number, line in enumerate(_as_given(Path(path), asked, start, stop), start=start):
        yield line if line.id else line._replace(id=str(number))


def given_ids(path: str | Path, asked: Asked | None = None) -> Iterator[str]:
    """The ids that the text of an input gives, in order, empty for a graph without one; nothing if there are none."""
    place, asked = Path(path), asked or Asked()
    if is_sdf(place):
        return (line.id for line in _sdf_lines(place, asked))
    if is_table(place):
        return iter(()) if unnamed(place, asked) else (line.id for line in _table_lines(place, asked, 0))
    has_ids = (place / IDS).is_file() and "id" in open_table(place / IDS).columns
    return (line.id for line in _saved_lines(place, (), 0)) if has_ids else iter(())


def _as_given(place: Path, asked: Asked, start: int, stop: int | None) -> Iterator[Line]:
    """The same, where a graph without an id has an empty one."""
    count = None if stop is None else stop - start
    if is_sdf(place):
        return itertools.islice(_sdf_lines(place, asked), start, stop)
    if is_table(place):
        return itertools.islice(_table_lines(place, asked, start), count)
    if not has_lines(place, asked):
        return iter(())
    return itertools.islice(_saved_lines(place, asked.keep, start), count)


def kept_columns(path: str | Path, keep: Sequence[str]) -> tuple[str, ...]:
    """The columns of an input that are to be kept, all of them where that is asked; one that is missing is an error."""
    if not keep:
        return ()
    place = Path(path)
    known = _columns(place)
    if not known:
        raise UserError(f"{path} has no columns that could be kept")
    wanted = known if ALL in keep and ALL not in known else tuple(dict.fromkeys(keep))
    if missing := [name for name in wanted if name not in known]:
        raise UserError(f"{path} has no column {excerpt(missing[0])!r} to keep; its columns: {few(known)}")
    return wanted


def unnamed(path: str | Path, asked: Asked) -> str | None:
    """What is to be said of a table in which no column of ids was found."""
    place = Path(path)
    if is_sdf(place) or not is_table(place):
        return None
    from cgipool.data.importers.molecular import id_column, no_ids

    table = open_table(place, asked.max_size)
    return no_ids(table) if id_column(table, asked.id) is None else None


def is_table(path: Path) -> bool:
    """Whether a path is that of a file of molecules: a table of SMILES or an SDF."""
    return path.name.lower().endswith((*TABLES, *SDF)) and path.is_file()


def is_sdf(path: Path) -> bool:
    """Whether a path is that of an SDF."""
    return path.name.lower().endswith(SDF) and path.is_file()


def has_lines(place: Path, asked: Asked) -> bool:
    """Whether ids or fields of a set's graphs must be read from the table that an import left beside it. Imports of
    earlier versions kept the ids there alone."""
    return (place / IDS).is_file() and (bool(asked.keep) or not (place / "graph_ids.npy").is_file())


def _columns(place: Path) -> tuple[str, ...]:
    """The columns of an input that have names."""
    if is_sdf(place):
        from cgipool.data.importers.molecular import item_names

        return tuple(item_names(Text(place)))
    if not is_table(place) and not (place / IDS).is_file():
        return ()
    return open_table(place if is_table(place) else place / IDS).columns


def _table_lines(path: Path, asked: Asked, start: int) -> Iterator[Line]:
    from cgipool.data.importers.molecular import id_column, smiles_column

    table = open_table(path, asked.max_size)
    smiles, identity = smiles_column(table, asked.smiles), id_column(table, asked.id)
    wanted = [smiles, smiles if identity is None else identity, *map(table.column, asked.keep)]
    for _, (text, name, *kept) in table.rows(*wanted, start=start):
        yield Line("" if identity is None else printable(name), text, tuple(kept))


def _sdf_lines(path: Path, asked: Asked) -> Iterator[Line]:
    from cgipool.data.importers.molecular import id_of, records

    for record in records(Text(path, asked.max_size)):
        kept = tuple(record.data.get(name, "") for name in asked.keep)
        yield Line(printable(id_of(record, asked.id)), record.block, kept)


def _saved_lines(folder: Path, keep: Sequence[str], start: int) -> Iterator[Line]:
    """The ids that an import kept beside a saved set, from graph `start` on, and these columns."""
    table = open_table(folder / IDS)
    has_id = "id" in table.columns
    wanted = [table.column("id" if has_id else "row"), *map(table.column, keep)]
    for name, *kept in rows_from(table.as_written(*wanted), start):
        yield Line(printable(name) if has_id else "", "", tuple(kept))


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
