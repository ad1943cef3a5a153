"""A TU data set, from an archive or a folder."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cgipool.data.importers.imported import Imported
from cgipool.data.importers.labels import WITHOUT
from cgipool.data.importers.options import ImportOptions
from cgipool.data.spill import Work
from cgipool.data.tu import has_classes, tu_parts
from cgipool.errors import UserError


def read_tu_set(path: Path, name: str, wishes: ImportOptions, work: Work) -> Iterator[Imported]:
    """The set under the given name; a graph's row is its number, from 1."""
    if not wishes.unlabelled and not has_classes(path, wishes.max_size):
        raise UserError(f"{path} has no NAME_graph_labels.txt; {WITHOUT}")
    row = 1
    for part in tu_parts(path, work, wishes.unlabelled, wishes.max_size):
        yield Imported(replace(part, name=name, checked=True), {"row": range(row, row + part.n_graphs)})
        row += part.n_graphs
