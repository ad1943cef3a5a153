"""A TU data set, from an archive or a folder."""

from dataclasses import replace
from pathlib import Path

from cgipool.data.importers.imported import Imported
from cgipool.data.importers.wishes import Wishes
from cgipool.data.tu import read_tu


def read_tu_set(path: Path, name: str, wishes: Wishes) -> Imported:
    """The set under the given name; a graph's row is its line in NAME_graph_labels.txt."""
    graphs = replace(read_tu(path), name=name)
    return Imported(graphs, {"row": range(1, graphs.n_graphs + 1)})
