"""The data sets of a study: those known by name, and those of the user's own that a file's table [data] names."""

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cgipool.data.catalogue import CATALOGUE, family_of
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import check_labelled
from cgipool.errors import UserError, unknown
from cgipool.files import names_a_file
from cgipool.study.cell import Cell
from cgipool.training.run import content_of


@dataclass(frozen=True)
class OwnSet:
    """A data set of the user's own."""

    path: Path
    content: str
    """The hash of all that a training reads of it."""
    family: str


Sets = Mapping[str, OwnSet]
"""Those of a file, by the names that it gives them."""


def own_sets(
    given: Mapping[str, Any], folder: Path, wanted: Iterable[str], needed: Container[str] | None = None
) -> dict[str, OwnSet]:
    """What the table [data] of a file says, NAME = "path", of the sets that the file uses. Paths start in the file's
    folder. An error unless every wanted set is known; only those that are needed (by default all) are read."""
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
            found[name] = _own_set(name, Path(os.path.normpath(folder / given[name])))
        elif name in given or name in CATALOGUE:
            continue
        elif (folder / name).exists():
            raise UserError(f'data set {name!r} is a path: give it a name in [data], as in mine = "{name}"')
        else:
            raise unknown("data set", name, (*given, *CATALOGUE))
    return found


def _own_set(name: str, path: Path) -> OwnSet:
    graphs = load_dataset(path)
    check_labelled(graphs)
    return OwnSet(path, content_of(graphs), family_of(name, labelled=graphs.category is not None))


def family_in(sets: Sets, name: str) -> str:
    """The family of a data set of a file."""
    return sets[name].family if name in sets else family_of(name)


def origin_of(sets: Sets, name: str) -> dict[str, Any]:
    """What a cell has to know of a data set beside its name."""
    return {"path": sets[name].path, "content": sets[name].content} if name in sets else {}


def graphs_of(cell: Cell) -> GraphSet:
    """The graphs of a cell, under the name that it has for them."""
    if cell.path is None:
        return load_dataset(cell.dataset)
    graphs = load_dataset(cell.path)
    if cell.content is not None and content_of(graphs) != cell.content:
        raise UserError(f"{cell.path} is not what it was when the study was read")
    return replace(graphs, name=cell.dataset, checked=True)
