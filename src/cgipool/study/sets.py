"""The data sets of a study: those of the catalogue, and the user's own in the table [data] of a file."""

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cgipool.data.catalogue import CATALOGUE, family_of
from cgipool.data.digests import content_read
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import check_labelled
from cgipool.errors import UserError, unknown
from cgipool.files import names_a_file
from cgipool.study.cell import Cell
from cgipool.training.recipe import Recipe


@dataclass(frozen=True)
class OwnSet:
    """A data set of the user."""

    path: Path
    content: str
    """The hash of everything that training reads, except edge features."""
    content_with_edges: str
    """The hash including edge features."""
    family: str
    task: str = "classification"
    columns: dict[str, str] = field(default_factory=dict)
    """The hashes of columns: those that the protocol names, and those of descriptors on request."""

    def digest(self, column: str) -> str:
        """The hash of a column."""
        if column not in self.columns:
            self.columns[column] = _digest(load_dataset(self.path), column)
        return self.columns[column]


Sets = Mapping[str, OwnSet]
"""The data sets of a file, by name."""


def own_sets(
    given: Mapping[str, Any],
    folder: Path,
    wanted: Iterable[str],
    needed: Container[str] | None = None,
    columns: Sequence[str] = (),
) -> dict[str, OwnSet]:
    """Read the table [data] of a file, NAME = "path", for the sets that the file uses. Paths are relative to the file's
    folder. Raise UserError unless every wanted set is known; only the needed ones (by default all) are read. `columns`
    are the columns that the protocol names."""
    for name, path in given.items():
        if name in CATALOGUE:
            raise UserError(f"[data] has {name}, which is a name of `cgipool data list`: choose another")
        if not names_a_file(name):
            raise UserError(f"the name {name!r} in [data] must be letters, digits, '.', '_' and '-'")
        if not isinstance(path, str):
            raise UserError(f'{name} of [data] must be a path, as in {name} = "sets/{name}"')
    found = {}
    for name in wanted:
        if name in given and (needed is None or name in needed):
            found[name] = _own_set(name, Path(os.path.normpath(folder / given[name])), columns)
        elif name in given or name in CATALOGUE:
            continue
        elif (folder / name).exists():
            raise UserError(f'data set {name!r} is a path: give it a name in [data], as in mine = "{name}"')
        else:
            raise unknown("data set", name, (*given, *CATALOGUE))
    return found


def _own_set(name: str, path: Path, columns: Sequence[str]) -> OwnSet:
    graphs = load_dataset(path)
    check_labelled(graphs)
    contents = content_read(graphs), content_read(graphs, edges=True)
    family = family_of(name, labelled=graphs.category is not None)
    return OwnSet(path, *contents, family, graphs.task, {column: _digest(graphs, column) for column in columns})


def family_in(sets: Sets, name: str) -> str:
    """The family of a data set."""
    return sets[name].family if name in sets else family_of(name)


def edges_in(sets: Sets, name: str) -> bool:
    """Whether the edges of a data set have labels or attributes."""
    return sets[name].content != sets[name].content_with_edges if name in sets else CATALOGUE[name].edges


def origin_of(sets: Sets, name: str, recipe: Recipe, columns: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a cell that identify its data set, besides the name."""
    if name not in sets:
        return {}
    found = sets[name]
    content = found.content_with_edges if recipe.reads_edges else found.content
    content = _combined(content, [found.digest(column) for column in (*columns, *recipe.descriptor_columns)])
    return {"path": found.path, "content": content, "task": found.task}


def content_for(graphs: GraphSet, recipe: Recipe, columns: Sequence[str]) -> str:
    """The hash of everything that training with this recipe reads of a data set, including descriptor columns, and of
    the columns that a protocol names."""
    read = (*columns, *recipe.descriptor_columns)
    return _combined(content_read(graphs, recipe.reads_edges), [_digest(graphs, column) for column in read])


def _digest(graphs: GraphSet, column: str) -> str:
    return hashlib.sha256(json.dumps(graphs.column(column)).encode()).hexdigest()


def _combined(content: str, digests: Sequence[str]) -> str:
    return hashlib.sha256("".join([content, *digests]).encode()).hexdigest() if digests else content


def task_in(sets: Sets, name: str) -> str:
    """The task of a data set; those of the catalogue have classes."""
    return sets[name].task if name in sets else "classification"


def graphs_of(cell: Cell) -> GraphSet:
    """Load the graphs of a cell, named as the cell names them."""
    if cell.path is None:
        return load_dataset(cell.dataset)
    graphs = load_dataset(cell.path)
    if cell.content is not None and content_for(graphs, cell.recipe, cell.protocol.columns) != cell.content:
        raise UserError(f"{cell.path} has changed since the study was read")
    return replace(graphs, name=cell.dataset, checked=True)
