"""Predictions for many graphs, a chunk at a time, so that memory does not grow with their number.

A graph that is broken is told with its number and its reason, and the rest goes on. Shapes: C classes.
"""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import IDS
from cgipool.data.sources import load_dataset
from cgipool.data.store import is_saved
from cgipool.errors import UserError
from cgipool.fitted import FittedModel
from cgipool.words import csv_cell

TABLES = (".csv", ".tsv", ".smi", ".txt", ".csv.gz", ".tsv.gz")
"""Names of files with a column of SMILES end so."""

CHUNK = 4096
"""Graphs that are held at a time."""


class Row(NamedTuple):
    """What is said of one graph."""

    id: str
    probabilities: NDArray[np.float64] | None
    """[C]; None for a graph that cannot be read."""
    reason: str = ""
    """Why it cannot."""


@dataclass(frozen=True)
class Chunk:
    """Some of the graphs to predict: those that can be read, and why the others cannot."""

    ids: Sequence[str]
    graphs: GraphSet | None
    """The readable ones, in order."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By place among the ids."""


def graph_chunks(graphs: GraphSet, size: int = CHUNK, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
    """The graphs of a set, whose arrays may lie on disk, or those from `start` up to `stop` alone."""
    end = graphs.n_graphs if stop is None else stop
    for first in range(start, end, size):
        last = min(first + size, end)
        ids = list(map(str, range(first, last)))
        try:
            yield Chunk(ids, _checked(graphs, first, last))
        except UserError:
            yield _one_by_one(graphs, first, last, ids)


def known_to(model: FittedModel, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same chunks, where graphs with labels or degrees that the model has no input for cannot be read."""
    for chunk in chunks:
        strange = {} if chunk.graphs is None else model.encoder.strange(chunk.graphs)
        if chunk.graphs is None or not strange:
            yield chunk
            continue
        places = [place for place in range(len(chunk.ids)) if place not in chunk.reasons]
        left = [number for number in range(chunk.graphs.n_graphs) if number not in strange]
        reasons = chunk.reasons | {places[number]: reason for number, reason in strange.items()}
        yield Chunk(chunk.ids, chunk.graphs.subset(left) if left else None, reasons)


def named(chunks: Iterable[Chunk], ids: Iterable[str]) -> Iterator[Chunk]:
    """The same chunks with ids of their own, of which there must be enough."""
    names = iter(ids)
    for chunk in chunks:
        own = list(itertools.islice(names, len(chunk.ids)))
        if len(own) < len(chunk.ids):
            raise UserError(f"{IDS} has fewer rows than the set has graphs: import it anew, or remove that file")
        yield replace(chunk, ids=own)


def ids_of(folder: Path, start: int = 0) -> Iterator[str]:
    """The ids that an import kept beside a saved set, from graph `start` on: its "id" where there is one, else its
    "row"."""
    from cgipool.data.importers.table import Table, rows_from

    table = Table(folder / IDS)
    columns = [table.column(name) for name in ("id", "row") if name in table.columns]
    for row in rows_from(table.as_written(*columns), start):
        yield row[0] or row[-1]


def molecule_chunks(rows: Iterable[tuple[str, str]], featurizer: dict[str, Any], size: int = CHUNK) -> Iterator[Chunk]:
    """The molecules of rows that have an id and a SMILES each."""
    from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_smiles

    made, left = MoleculeFeaturizer.from_json(featurizer), iter(rows)
    while some := list(itertools.islice(left, size)):
        gather, reasons = made.gather(), {}
        for place, (_, text) in enumerate(some):
            try:
                made.add(gather, made.trim(parse_smiles(text)))
            except NotAMoleculeError as error:
                reasons[place] = str(error)
        count = len(some) - len(reasons)
        graphs = gather.graph_set("molecules", [-1] * count, ()) if count else None
        yield Chunk([name for name, _ in some], graphs, reasons)


def lines_of(path: str | Path, column: str | None = None, start: int = 0, stop: int | None = None) -> Iterator[Any]:
    """What of an input is text, graph by graph: id and SMILES of the rows of a table, or the ids of a saved import;
    nothing of others. From `start` up to `stop` alone, if these are given: row or graph numbers, from 0.

    Such text must be read from its beginning, so whoever divides an input does it once and deals the lines out.
    """
    place = Path(path)
    if is_table(place):
        from cgipool.data.importers.smiles import molecule_rows

        return molecule_rows(place, column, start, stop)
    if not (place / IDS).is_file():
        return iter(())
    return itertools.islice(ids_of(place, start), None if stop is None else stop - start)


def chunks_from(
    lines: Iterable[Any], path: str | Path, model: FittedModel, start: int = 0, stop: int | None = None
) -> Iterator[Chunk]:
    """What there is to predict at a path from `start` up to `stop`, of which `lines_of` gives these lines."""
    place = Path(path)
    if is_table(place):
        if model.featurizer is None:
            raise UserError(f"{path} is a table, but the model was not trained on molecules: it cannot read SMILES")
        return known_to(model, molecule_chunks(lines, model.featurizer))
    chunks = known_to(model, graph_chunks(open_graphs(path), start=start, stop=stop))
    return named(chunks, lines) if (place / IDS).is_file() else chunks


def chunks_of(
    path: str | Path, model: FittedModel, column: str | None = None, start: int = 0, stop: int | None = None
) -> Iterator[Chunk]:
    """What there is to predict at a path: a table of SMILES, or graphs. From `start` up to `stop` alone, if these are
    given: row numbers of the table or graph numbers, from 0."""
    return chunks_from(lines_of(path, column, start, stop), path, model, start, stop)


def count_of(path: str | Path) -> int:
    """How many graphs, or rows of a table of SMILES, there are to predict at a path."""
    if not is_table(Path(path)):
        return open_graphs(path).n_graphs
    from cgipool.data.importers.table import Table

    return sum(len(rows) for (rows,) in Table(Path(path)).batches(0))


def shard_of(count: int, number: int, shards: int) -> tuple[int, int]:
    """Start and stop of one of several consecutive shares of so many graphs; shares are numbered from 1.

    Where each can have a whole chunk they begin where the chunks of the whole do: the networks then see the very same
    batches, and give the very same numbers.
    """
    unit = CHUNK if count >= shards * CHUNK else 1
    chunks = -(-count // unit)
    start, stop = (min(count, unit * (chunks * n // shards)) for n in (number - 1, number))
    return start, stop


def is_table(path: Path) -> bool:
    """Whether a path is that of a table of SMILES."""
    return path.name.lower().endswith(TABLES) and path.is_file()


def _one_by_one(graphs: GraphSet, start: int, stop: int, ids: Sequence[str]) -> Chunk:
    """A chunk with a broken graph in it: which ones, and the rest."""
    sound, reasons = [], {}
    for number in range(start, stop):
        try:
            sound.append(_checked(graphs, number, number + 1))
        except UserError as error:
            reasons[number - start] = str(error)
    return Chunk(ids, GraphSet.join(sound) if sound else None, reasons)


def _checked(graphs: GraphSet, start: int, stop: int) -> GraphSet:
    """Some graphs, or an error that says what is wrong with them."""
    try:
        return replace(graphs.subset(np.arange(start, stop)), checked=False)
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise UserError(f"{graphs.name}: the arrays do not fit together ({error})") from None


def predictions(model: FittedModel, chunks: Iterable[Chunk], strict: bool = False) -> Iterator[Row]:
    """A row for every graph, in order. With `strict` the first graph that cannot be read is an error."""
    for chunk in chunks:
        if strict and chunk.reasons:
            place, reason = min(chunk.reasons.items())
            raise UserError(f"graph {chunk.ids[place]}: {reason}")
        given = iter(() if chunk.graphs is None else model.predict_proba(chunk.graphs))
        for place, name in enumerate(chunk.ids):
            bad = chunk.reasons.get(place)
            yield Row(name, next(given)) if bad is None else Row(name, None, bad)


class Rows(NamedTuple):
    """Rows as they are written, some thousands together."""

    text: str
    """Without a header."""
    graphs: int
    bad: int
    """How many have no prediction."""
    nodes: int = 0
    """Of those that have one."""
    unseen: int = 0
    """Nodes with a label or degree that the model was not trained on."""
    hollow: int = 0
    """Graphs without nodes, which all have the same prediction."""


def written(model: FittedModel, chunks: Iterable[Chunk], as_json: bool, strict: bool = False) -> Iterator[Rows]:
    """The rows of every chunk, in order."""
    for chunk in chunks:
        out, bad = io.StringIO(), 0
        writer = Writer(out, model.class_names, as_json, headed=False)
        for row in predictions(model, [chunk], strict):
            writer.write(row)
            bad += row.probabilities is None
        read = chunk.graphs
        seen = (0, 0, 0)
        if read is not None:
            seen = read.n_nodes, model.encoder.unseen(read), int(np.count_nonzero(read.sizes == 0))
        yield Rows(out.getvalue(), len(chunk.ids), bad, *seen)


def open_graphs(path: str | Path) -> GraphSet:
    """The set at a path or of a name, with classes or without; a saved one stays on disk."""
    return GraphSet.load(path, mmap=True) if is_saved(Path(path)) else load_dataset(path, unlabelled=True)


class Writer:
    """Rows as CSV or as lines of JSON: id, prediction, a probability for each class, and why there is none.

    `headed` says whether a CSV begins with the names of its columns.
    """

    def __init__(self, out: TextIO, class_names: Sequence[str], as_json: bool, headed: bool = True) -> None:
        self.out, self.names, self.as_json = out, class_names, as_json
        self.table = csv.writer(out, lineterminator="\n")
        if headed and not as_json:
            names = ["id", "prediction", *(f"p({name})" for name in class_names), "reason"]
            self.table.writerow(map(csv_cell, names))

    def write(self, row: Row) -> None:
        """One line."""
        p = row.probabilities
        best = None if p is None else self.names[int(p.argmax())]
        if self.as_json:
            told = None if p is None else {n: round(float(v), 6) for n, v in zip(self.names, p, strict=True)}
            plain = {"id": row.id, "prediction": best, "probabilities": told} | (
                {"reason": row.reason} if row.reason else {}
            )
            self.out.write(json.dumps(plain) + "\n")
        else:
            numbers = ["" for _ in self.names] if p is None else [f"{v:.6f}" for v in p]
            self.table.writerow([csv_cell(row.id), csv_cell(best or ""), *numbers, csv_cell(row.reason)])
