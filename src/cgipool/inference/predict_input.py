"""Read the input of `predict` and `explain` a chunk at a time: sets of graphs, and molecules in tables or SDF.

Graphs are identified by their ids, or without an id by their position, counted from 0.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.data.descriptors import check_columns
from cgipool.data.further import TableBuilder
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import IDS, MAX_ATOMS
from cgipool.data.importers.lines import Asked, Line, columns_of, given_ids, has_lines, is_sdf, is_table, lines_of
from cgipool.data.importers.table import open_table
from cgipool.data.importers.text import TextFile
from cgipool.data.names import Names
from cgipool.data.sources import load_dataset
from cgipool.data.store import is_saved
from cgipool.errors import UserError, excerpt
from cgipool.files import check_regular
from cgipool.inference.fitted import FittedModel

CHUNK = 4096
"""Number of graphs in memory at a time."""


@dataclass(frozen=True)
class Chunk:
    """Some of the graphs to predict: those that can be read, and the reasons why the others cannot."""

    ids: Sequence[str]
    graphs: GraphSet | None
    """The graphs that can be read, in order."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By index in `ids`, why a graph cannot be read."""
    kept: Sequence[tuple[str, ...]] = ()
    """For each id the fields to copy; empty if there are none."""


def graph_chunks(graphs: GraphSet, size: int = CHUNK, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
    """Yield the graphs of a set, or only those from `start` up to `stop`; its arrays may be memory-mapped."""
    end = graphs.n_graphs if stop is None else stop
    for first in range(start, end, size):
        last = min(first + size, end)
        given = [""] * (last - first) if graphs.graph_ids is None else graphs.graph_ids[first:last]
        ids = [name or str(number) for number, name in enumerate(given, start=first)]
        try:
            yield Chunk(ids, _checked(graphs, first, last))
        except UserError:
            yield _one_by_one(graphs, first, last, ids)


def known_to(model: FittedModel, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the same chunks, but graphs with labels or degrees without an input column count as not readable."""
    for chunk in chunks:
        found = {} if chunk.graphs is None else model.encoder.unencodable(chunk.graphs)
        if chunk.graphs is None or not found:
            yield chunk
            continue
        places = [place for place in range(len(chunk.ids)) if place not in chunk.reasons]
        left = [number for number in range(chunk.graphs.n_graphs) if number not in found]
        reasons = chunk.reasons | {places[number]: reason for number, reason in found.items()}
        yield replace(chunk, graphs=chunk.graphs.subset(left) if left else None, reasons=reasons)


def named(chunks: Iterable[Chunk], lines: Iterable[Line]) -> Iterator[Chunk]:
    """Yield the same chunks with the ids and fields of `lines`, of which there must be enough."""
    left = iter(lines)
    for chunk in chunks:
        own = list(itertools.islice(left, len(chunk.ids)))
        if len(own) < len(chunk.ids):
            raise UserError(f"{IDS} has fewer rows than the set has graphs: import it again, or remove that file")
        yield replace(chunk, ids=[line.id for line in own], kept=[line.kept for line in own])


def molecule_chunks(
    lines: Iterable[Line],
    featurizer: dict[str, Any],
    size: int = CHUNK,
    *,
    molfiles: bool = False,
    max_atoms: int = MAX_ATOMS,
    columns: Names = (),
) -> Iterator[Chunk]:
    """Yield the molecules of lines, each with a SMILES or a molfile. `columns` are further columns that the model
    reads."""
    from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles

    made, left = MoleculeFeaturizer.from_json(featurizer), iter(lines)
    parse = parse_block if molfiles else parse_smiles
    while some := list(itertools.islice(left, size)):
        gather, table, reasons = made.builder(), TableBuilder(columns), {}
        for place, line in enumerate(some):
            try:
                made.add(gather, made.trim(parse(line.text, max_atoms)))
                table.add(line.read)
            except NotAMoleculeError as error:
                reasons[place] = str(error)
        count = len(some) - len(reasons)
        graphs = table.of(made.graph_set(gather, "molecules", [-1] * count, ())) if count else None
        yield Chunk([line.id for line in some], graphs, reasons, [line.kept for line in some])


def chunks_from(
    lines: Iterable[Line],
    path: str | Path,
    model: FittedModel,
    start: int = 0,
    stop: int | None = None,
    asked: Asked | None = None,
) -> Iterator[Chunk]:
    """Yield the graphs or molecules at a path from `start` up to `stop`; `lines` are those of `lines_of`."""
    place, asked = Path(path), asked or Asked()
    if is_table(place):
        if model.featurizer is None:
            what = "an SDF" if is_sdf(place) else "a table"
            raise UserError(f"{path} is {what}, but the model was not trained on molecules: it cannot read SMILES")
        how: dict[str, Any] = {"molfiles": is_sdf(place), "max_atoms": asked.max_atoms, "columns": asked.read}
        found = molecule_chunks(lines, model.featurizer, **how)
        return known_to(model, found)
    graphs = open_graphs(path)
    check_featurizer(model, graphs, path)
    chunks = known_to(model, graph_chunks(graphs, start=start, stop=stop))
    return named(chunks, lines) if has_lines(place, asked) else chunks


def chunks_of(
    path: str | Path, model: FittedModel, asked: Asked | None = None, start: int = 0, stop: int | None = None
) -> Iterator[Chunk]:
    """Yield the molecules or graphs at a path, or only those at the positions (from 0) `start` up to `stop`."""
    asked = reading(path, model, asked)
    return chunks_from(lines_of(path, asked, start, stop), path, model, start, stop, asked)


def reading(path: str | Path, model: FittedModel, asked: Asked | None = None) -> Asked:
    """The same options with the columns of a table that the model reads. Raise UserError if the table lacks some."""
    asked = asked or Asked()
    if not is_table(Path(path)) or model.featurizer is None or not (names := model.descriptor_columns):
        return asked
    check_columns(path, names, columns_of(Path(path)))
    return asked._replace(read=names)


def count_of(path: str | Path, asked: Asked | None = None) -> int:
    """The number of graphs, or molecules of a table or an SDF, at a path."""
    place, max_size = Path(path), None if asked is None else asked.max_size
    if is_sdf(place):
        from cgipool.data.importers.molecular import records

        return sum(1 for _ in records(TextFile(place, max_size)))
    return open_table(place, max_size).count() if is_table(place) else open_graphs(path).n_graphs


def position_of(path: str | Path, given: str, asked: Asked | None = None) -> int:
    """The position, from 0, of the graph that `--graph` names by its id or, if no graph has this id, by its position.
    Raise UserError if several graphs have the id. It is not checked whether the position exists."""
    place = Path(path)
    graphs = None if is_table(place) else open_graphs(path)
    if graphs is not None and graphs.graph_ids is not None:
        found = graphs.graph_ids.find(given)
    else:
        ids = enumerate(given_ids(path, asked))
        found = list(itertools.islice((number for number, name in ids if name == given), 2))
    if len(found) > 1 and given:
        raise UserError(
            f"several graphs of {path} have the id {excerpt(given)!r}, among them {found[0]} and {found[1]}"
        )
    if found and given:
        return found[0]
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise UserError(f"no graph of {path} has the id {excerpt(given)!r}, and it is not a position, counted from 0")
    return int(given)


def check_featurizer(model: FittedModel, graphs: GraphSet, path: str | Path) -> None:
    """Raise UserError if the molecules of a saved set were converted to graphs with other options than in training."""
    if model.featurizer is None or graphs.featurizer is None:
        return
    for option in model.featurizer.keys() | graphs.featurizer.keys():
        trained, found = model.featurizer.get(option), graphs.featurizer.get(option)
        if trained == found or option == "rdkit":  # the version is for information only
            continue
        if option in ("atoms", "bonds") and all(column in (found or ()) for column in trained or ()):
            continue  # the set has further columns, which the model does not read
        if option == "own":
            raise UserError(f"{path} was imported with another --featurizer than the model's training set")
        way = f"--{option.replace('_', '-')}"
        if option != "largest_fragment":
            raise UserError(f"{path} was imported with a different {option} than the model's training set")
        how = ("without", "with") if trained else ("with", "without")
        again = f"import it again {how[1]} {way}"
        raise UserError(f"{path} was imported {how[0]} {way}, the model's training set {how[1]} it: {again}")


def open_graphs(path: str | Path) -> GraphSet:
    """Load the set at a path or by name, with or without classes; saved sets are memory-mapped."""
    check_regular(Path(path))
    return GraphSet.load(path, mmap=True) if is_saved(Path(path)) else load_dataset(path, unlabelled=True)


def _one_by_one(graphs: GraphSet, start: int, stop: int, ids: Sequence[str]) -> Chunk:
    """A chunk that contains invalid graphs: the valid ones, and the reasons for the others."""
    sound, reasons = [], {}
    for number in range(start, stop):
        try:
            sound.append(_checked(graphs, number, number + 1))
        except UserError as error:
            reasons[number - start] = str(error)
    return Chunk(ids, GraphSet.join(sound) if sound else None, reasons)


def _checked(graphs: GraphSet, start: int, stop: int) -> GraphSet:
    """Some graphs of a set. Raise UserError if they are not valid."""
    try:
        return replace(graphs.subset(np.arange(start, stop)), checked=False)
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise UserError(f"{graphs.name}: the arrays do not match ({error})") from None
